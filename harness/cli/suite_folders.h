/* The rows of a suite, and those that two folders make. */
#ifndef CPEQ_HARNESS_CLI_SUITE_FOLDERS_H
#define CPEQ_HARNESS_CLI_SUITE_FOLDERS_H

#include "harness/cli/suite.h"

cp_status cp_suite_add(cp_suite *suite, const cp_suite_row *row);

/* `path` from `folder` on unless it is absolute, without "./", "//" and a slash at its end. */
cp_status cp_suite_path(cp_suite *suite, const char **out, const char *folder, const char *path);

typedef struct cp_suite_folder {
    const char *fixtures, *dumps;
    const char *prefix;  /* of all names */
    cp_suite_row common; /* what their rows have in common */
} cp_suite_folder;

/* Adds a row for each fixture, but for those whose dump is among the first `before` rows already. */
cp_status cp_suite_add_pairs(cp_suite *suite, const cp_suite_folder *folders, size_t before);

/* Adds a row for each dump that no row has: when all others are there. */
cp_status cp_suite_add_extras(cp_suite *suite, const cp_suite_folder *folders);

#endif

/* The golden fixtures, for tests that go through all of them. */
#ifndef CPEQ_TESTS_RUN_GOLDEN_H
#define CPEQ_TESTS_RUN_GOLDEN_H

#include "harness/run/trial.h"
#include "tests/support/support.h"

typedef struct golden_list {
    size_t count;
    char **paths; /* sorted */
} golden_list;

/* Sanitizers make each run ten times as long, and look for other things: there not every file is needed, where a test says
 * so. */
enum { GOLDEN_STEP = CPEQ_GOLDEN_STEP };

/* Every *.h5 below the directory that the test was given. */
golden_list golden_all(void);
void golden_close(golden_list list);

/* "llama/full7" of a path; the result points into it, without the ending it is printed with %.*s. */
const char *golden_name(const char *path);

typedef struct golden_model {
    cp_fixture *fixture;
    cp_model *model;
} golden_model;

golden_model golden_open(const char *path);
void golden_release(golden_model golden);

/* Judges one run of a fixture against its expectations; prints what differs. Returns whether it is the same, and raises
 * *worst to the worst error in units of its limit. */
bool golden_same(const golden_model *golden, const cp_run_options *options, double *worst, char *worst_name,
                 size_t bytes);

#endif

/* What a command writes besides its result on standard output. */
#ifndef CPEQ_HARNESS_CLI_OUTPUT_H
#define CPEQ_HARNESS_CLI_OUTPUT_H

#include "base/json.h"

/* Writes a report: beside `path` and renamed when complete; in place where `path` is a device or a pipe. CP_INTERNAL
 * with a sentence when it cannot be written. */
cp_status cp_write_report(const char *path, const char *text);

/* Refuses a target of -o that is not a regular file, in a folder that does not exist, or the very file `input` that the
 * command reads, before anything is computed: a file is written beside it and renamed, which would replace it. */
cp_status cp_target_check(const char *path, const char *input);

/* Makes a folder, with those above it; one that exists is fine. */
cp_status cp_make_folder(const char *path);

/* Prints a JSON document on standard output, and frees it. */
void cp_print_json(cp_json *document);

/* Everything that was printed has arrived; CP_INTERNAL otherwise. */
cp_status cp_standard_output_check(void);

#endif

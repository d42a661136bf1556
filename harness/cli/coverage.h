/* cpeq faults --coverage: which wrong values a suite of fixtures can show. */
#ifndef CPEQ_HARNESS_CLI_COVERAGE_H
#define CPEQ_HARNESS_CLI_COVERAGE_H

#include "harness/cli/command.h"
#include "harness/run/shown.h"

/* "loss, logits, gradients of all but head", or "structure", or "nothing", into `text`; returns it. */
enum { CP_SHOWN_TEXT = 160 };
const char *cp_shown_text(char text[CP_SHOWN_TEXT], const cp_shown *shown);

/* The same as members of `object`. */
void cp_shown_json(cp_json *object, const cp_shown *shown);

/* Runs every wrong value on the fixtures below `path`, prints what shows where, and what nowhere; the table goes to
 * `table` too, where it is not NULL, as shown.def has it. Returns the exit status. */
int cp_faults_coverage(const cp_session *session, const char *path, const char *table);

#endif

/* What `verify` and `diff` share: limits from the command line, and reports of what was found. */
#ifndef CPEQ_HARNESS_CLI_JUDGING_H
#define CPEQ_HARNESS_CLI_JUDGING_H

#include "harness/cli/command.h"
#include "harness/judge/diff.h"
#include "harness/report/report.h"

/* --rtol and --atol. */
cp_status cp_read_limits(cp_diff_options *limits, const cp_arguments *arguments);

/* Prints a report and frees it. */
void cp_print_report(char *text);

/* Writes a report to the file of an option, where that is given, and frees it. */
cp_status cp_write_asked(const cp_arguments *arguments, const char *option, char *text);

#endif

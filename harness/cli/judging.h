/* What `verify`, `diff`, `gate` and `calibrate` share: limits from the command line, the two sides of a judgement as files, and
 * reports of what was found. */
#ifndef CPEQ_HARNESS_CLI_JUDGING_H
#define CPEQ_HARNESS_CLI_JUDGING_H

#include "harness/cli/command.h"
#include "harness/judge/diff.h"
#include "harness/report/report.h"

/* --rtol and --atol. */
cp_status cp_read_limits(cp_diff_options *limits, const cp_arguments *arguments);

bool cp_is_folder(const char *path);

/* Seconds since some moment. */
double cp_now(void);

/* What is to be judged: paths, borrowed. */
typedef struct cp_compared {
    const char *expected; /* a fixture, a dump, or a folder with those of all ranks */
    const char *fixture;  /* that two dumps were made from; NULL: none */
    const char *const *actual;
    size_t actual_count;
} cp_compared;

/* Both sides, open; begins zeroed, and is closed after a failure too. */
typedef struct cp_comparison {
    cp_fixture *fixture; /* NULL: none */
    cp_source *dump;     /* the expected side where it is no fixture */
    cp_source *actual;
} cp_comparison;

/* Opens the expected side alone. */
cp_status cp_open_expected(cp_comparison *sides, const cp_compared *files);
const cp_source *cp_expected_of(const cp_comparison *sides);

/* Opens both sides and judges them. Files that cannot be joined are a finding, "not comparable", so that every report
 * tells it; then `sides->actual` may be NULL. Failing statuses as cp_diff's, with nothing in `result` to close. */
cp_status cp_compare_files(cp_result *result, cp_comparison *sides, const cp_compared *files,
                           const cp_diff_options *options);
void cp_comparison_close(cp_comparison *sides);

/* Prints a report and frees it; or of a table its closing line alone. */
void cp_print_report(char *text);
void cp_print_last_line(char *text);

/* Writes a report to the file of an option, where that is given, and frees it. */
cp_status cp_write_asked(const cp_arguments *arguments, const char *option, char *text);

#endif

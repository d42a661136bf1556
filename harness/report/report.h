/* Everything that is said about a judgement: text, Markdown, JSON (docs/report.schema.json), JUnit XML and an HTML page,
 * all from one result, so that their verdicts are identical.
 *
 * A report is returned as text, freed by free(); writing it, and noticing a full disk, is the caller's. Names and
 * sentences come from files of strangers: control characters and broken UTF-8 appear as \xNN in every format. */
#ifndef CPEQ_HARNESS_REPORT_REPORT_H
#define CPEQ_HARNESS_REPORT_REPORT_H

#include "harness/judge/result.h"

typedef enum cp_report_format {
    CP_REPORT_TEXT,
    CP_REPORT_MARKDOWN,
    CP_REPORT_JSON,
    CP_REPORT_JUNIT,
    CP_REPORT_HTML,
    CP_REPORT_FORMATS
} cp_report_format;

typedef struct cp_report_style {
    bool all; /* text, Markdown: every tensor; else those that are not same, and text has at most 25 lines */
    bool color; /* text: the verdict in colour */
} cp_report_style;

/* One judgement, as `diff` shows it. JUnit: a case for each tensor; different is a failure, not comparable an error. HTML:
 * one page that needs nothing else and draws everything from the JSON report that it carries. */
char *cp_report_result(const cp_result *result, cp_report_format format, cp_report_style style);

/* A table of trials and a summary line, as `verify` shows them. JUnit: a case for each trial; different is a failure,
 * refused is skipped with its sentence, not comparable and error are errors. */
char *cp_report_trials(const cp_trial_row *rows, size_t count, cp_report_format format);

#endif

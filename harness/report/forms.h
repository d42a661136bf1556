/* The forms of a report; report.c chooses one. */
#ifndef CPEQ_HARNESS_REPORT_FORMS_H
#define CPEQ_HARNESS_REPORT_FORMS_H

#include "harness/report/gate.h"
#include "harness/report/report.h"

#include <stdio.h>

void cp_text_result(FILE *page, const cp_result *result, cp_report_style style);
void cp_text_trials(FILE *page, const cp_trial_row *rows, size_t count);

void cp_text_gate(FILE *page, const cp_gate_row *rows, size_t count);

void cp_markdown_result(FILE *page, const cp_result *result, cp_report_style style);
void cp_markdown_trials(FILE *page, const cp_trial_row *rows, size_t count);
void cp_markdown_gate(FILE *page, const cp_gate_row *rows, size_t count);

void cp_html_result(FILE *page, const cp_result *result);
void cp_html_trials(FILE *page, const cp_trial_row *rows, size_t count);
void cp_html_gate(FILE *page, const cp_gate_row *rows, size_t count);

/* These two have writers of their own. */
char *cp_json_result(const cp_result *result);
char *cp_json_trials(const cp_trial_row *rows, size_t count);
char *cp_json_gate(const cp_gate_row *rows, size_t count);

char *cp_junit_result(const cp_result *result);
char *cp_junit_trials(const cp_trial_row *rows, size_t count);
char *cp_junit_gate(const cp_gate_row *rows, size_t count);

#endif

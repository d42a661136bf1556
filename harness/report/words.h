/* The pieces that reports are put together from: clean words, short numbers, sentences, indices. */
#ifndef CPEQ_HARNESS_REPORT_WORDS_H
#define CPEQ_HARNESS_REPORT_WORDS_H

#include "harness/judge/result.h"
#include "harness/report/gate.h"

#include <stdio.h>

enum { CP_WORD = 1024 }; /* room for any name or sentence of a result, cleaned; longer ones are cut */

/* Copies what can be shown: printable UTF-8 that XML allows too. Every other byte becomes \xNN. Returns `out`. */
const char *cp_word_clean(char out[CP_WORD], const char *text);

/* Prints text that is clean already, with what Markdown or HTML would interpret escaped. */
void cp_word_markdown(FILE *page, const char *clean);

/* Columns on a terminal: characters, each taken as one column wide. */
size_t cp_word_width(const char *text);

/* "2.1e-15", "0", "inf"; "-" for NaN. Returns `out`. */
enum { CP_NUMBER = 32 };
const char *cp_word_number(char out[CP_NUMBER], double value);
const char *cp_word_value(char out[CP_NUMBER], double value); /* of an element: six digits, NaN as it is */

/* "[2,7,37]"; "scalar" without extents. And "(0,5,12)". Both return `out`. */
const char *cp_word_shape(char out[CP_WORD], int dims, const int64_t *extent);
const char *cp_word_index(char out[CP_WORD], int dims, const int64_t *index);

/* "grads/model.norm.weight" -> "model.norm.weight"; "" -> "-". */
const char *cp_word_parameter(const char *name);

/* The ranks of a trial, "2", and what it was split into besides: "2, dp 2, micro 3". Returns `out`. */
const char *cp_word_ranks(char out[CP_WORD], const cp_trial_row *row);

/* Whether a tensor's numbers say what is wrong; false: its reason does. */
bool cp_word_numbers_speak(const cp_tensor_result *tensor);

/* "27 tensors: 24 same, 3 different". Returns `out`. */
const char *cp_word_tally(char out[CP_WORD], const cp_result *result);

/* "uncalibrated limits", "calibrated limits (24 replicates)", "limits: 8 control runs". Returns `out`. */
const char *cp_word_limits(char out[CP_WORD], cp_limit_rule rule, int64_t runs);

/* "312 runs: 310 same, 0 different, 2 refused (why: 2)"; freed by free(). */
char *cp_word_summary(const cp_trial_row *rows, size_t count);

/* "5 dumps: 3 same, 2 different; 1 known failure, 0 of them not as expected"; freed by free(). */
char *cp_word_gate_summary(const cp_gate_row *rows, size_t count);

/* What was judged where it is not all, why a failure is known, and what was found. Returns `out`. */
const char *cp_word_gate_why(char out[CP_WORD], const cp_gate_row *row);

#endif

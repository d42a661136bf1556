/* Sentences that a result collects while it is made. */
#ifndef CPEQ_HARNESS_JUDGE_SENTENCES_H
#define CPEQ_HARNESS_JUDGE_SENTENCES_H

#include "harness/judge/result.h"

void cp_result_note(cp_result *result, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cp_result_fail(cp_result *result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies, where memory is a matter of course: the job stops without it. */
char *cp_sentence_copy(const char *text);

#endif

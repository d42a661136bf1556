/* Results and trials to report, made by hand; they own nothing that needs closing. */
#ifndef CPEQ_TESTS_REPORT_SAMPLE_H
#define CPEQ_TESTS_REPORT_SAMPLE_H

#include "harness/report/report.h"

enum { SAMPLE_TENSORS = 64, SAMPLE_TRIALS = 6 };

typedef struct sample {
    cp_result result;
    cp_tensor_result tensors[SAMPLE_TENSORS];
    char *notes[16], *failures[16];
    char texts[40][256];
    size_t text_count;
} sample;

/* A copy that lives as long as the sample. */
char *sample_text(sample *s, const char *text);

/* Three tensors, all same. */
void sample_same(sample *s);
/* One of each: same, over its limit, not finite, missing; a note. The verdict is not comparable. */
void sample_mixed(sample *s);
/* `count` gradients over their limits, `notes` and `failures` long sentences. */
void sample_many(sample *s, size_t count, size_t notes, size_t failures);
/* Names and sentences of somebody who means no good. */
void sample_hostile(sample *s);

/* One of each outcome, and a second refusal for the same reason. */
void sample_trials(cp_trial_row rows[SAMPLE_TRIALS]);

#endif

/* A trial: one fixture run in one way and judged in memory against the fixture's expectations. */
#ifndef CPEQ_HARNESS_RUN_TRIAL_H
#define CPEQ_HARNESS_RUN_TRIAL_H

#include "harness/judge/diff.h"
#include "harness/run/run.h"

typedef enum cp_trial_outcome {
    CP_TRIAL_JUDGED, /* `result` holds the verdict; close it */
    CP_TRIAL_REFUSED /* `sentence` says why this combination means nothing or is not known */
} cp_trial_outcome;

typedef struct cp_trial {
    cp_trial_outcome outcome;
    char sentence[CP_RESULT_SENTENCE];
    cp_result result;
} cp_trial;

/* Any failure but a refusal is the status. Collective under MPI; the trial is filled on process 0 alone (`outcome` on
 * all). */
cp_status cp_trial_run(cp_trial *trial, const cp_model *model, const cp_fixture *fixture,
                       const cp_run_options *options, const cp_diff_options *diff);
void cp_trial_close(cp_trial *trial);

#endif

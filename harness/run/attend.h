/* A trial of an attention function alone: an exchange on the inputs of a fixture of kind "attention". For this room. */
#ifndef CPEQ_HARNESS_RUN_ATTEND_H
#define CPEQ_HARNESS_RUN_ATTEND_H

#include "harness/judge/diff.h"
#include "harness/run/run.h"

/* As cp_trial_run. lse is not judged: exchanges keep it to themselves. */
cp_status cp_attend_trial(cp_result *result, const cp_fixture *fixture, const cp_run_options *options,
                          const cp_diff_options *diff);

#endif

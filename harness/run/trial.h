/* A trial: one fixture run in one way and judged in memory against the fixture's expectations. */
#ifndef CPEQ_HARNESS_RUN_TRIAL_H
#define CPEQ_HARNESS_RUN_TRIAL_H

#include "harness/judge/diff.h"
#include "harness/run/run.h"

/* CP_REFUSED: this combination means nothing or is not known, and cp_error() says why; any other failure is one of the
 * outside world. Else the verdict is in `result`; close it with cp_result_close (also after a failure). Collective
 * under MPI: the status is the same on every process, the result is filled on process 0 and zeroed elsewhere. */
/* A fixture of kind "attention" has no model (NULL): the exchange is run on its inputs. */
cp_status cp_trial_run(cp_result *result, const cp_model *model, const cp_fixture *fixture,
                       const cp_run_options *options, const cp_diff_options *diff);

#endif

#include "harness/run/trial.h"

#include "harness/run/attend.h"

cp_status cp_trial_run(cp_result *result, const cp_model *model, const cp_fixture *fixture,
                       const cp_run_options *options, const cp_diff_options *diff)
{
    *result = (cp_result){0};
    if (fixture->attention)
        return cp_attend_trial(result, fixture, options, diff);
    cp_source *actual;
    CP_TRY(cp_run_whole(&actual, model, options));
    cp_status status = CP_OK;
    if (actual)
        status = cp_diff(result, fixture->expected, actual, fixture, diff);
    cp_source_close(actual);
    return cp_run_agree(options->transport, status);
}

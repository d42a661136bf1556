#include "harness/run/trial.h"

#include <stdio.h>

static cp_status refused(cp_trial *trial)
{
    trial->outcome = CP_TRIAL_REFUSED;
    snprintf(trial->sentence, sizeof trial->sentence, "%s", cp_error());
    return CP_OK;
}

cp_status cp_trial_run(cp_trial *trial, const cp_model *model, const cp_fixture *fixture,
                       const cp_run_options *options, const cp_diff_options *diff)
{
    *trial = (cp_trial){.outcome = CP_TRIAL_JUDGED};
    cp_source *actual;
    cp_status status = cp_run_whole(&actual, model, options);
    if (status == CP_REFUSED)
        return refused(trial);
    CP_TRY(status);
    if (actual)
        status = cp_diff(&trial->result, fixture->expected, actual, fixture, diff);
    cp_source_close(actual);
    return cp_run_agree(options->transport, status);
}

void cp_trial_close(cp_trial *trial)
{
    if (trial->outcome == CP_TRIAL_JUDGED)
        cp_result_close(&trial->result);
}

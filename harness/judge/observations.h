/* Errors of right runs, gathered run by run into a calibration. */
#ifndef CPEQ_HARNESS_JUDGE_OBSERVATIONS_H
#define CPEQ_HARNESS_JUDGE_OBSERVATIONS_H

#include "harness/judge/diff.h"

/* A column for each tensor of the truth that is judged, a row for each run. */
typedef struct cp_observations {
    int64_t runs;
    size_t count;
    char **names;           /* [count] */
    double *truth;          /* [count]: norms over judged elements */
    double *norm, *element; /* [runs,count]: errors; NaN where a run was not measured */
} cp_observations;

void cp_observations_open(cp_observations *out, const cp_source *truth, int64_t runs);
void cp_observations_close(cp_observations *observations); /* a zeroed one is closed */

/* Judges a run that is taken to be right, and keeps its errors as row `run`. Rows may be added by several threads at
 * once. `fixture` as in cp_diff. CP_INCOMPARABLE: it is not the same step, or values are missing, not finite, or zero
 * where they must not be. */
cp_status cp_observations_add(cp_observations *observations, int64_t run, const cp_source *truth,
                              const cp_source *actual, const cp_fixture *fixture);

/* CP_INCOMPARABLE where two rows are the same numbers: a run that was counted twice. `labels` [runs] are for the
 * sentence. */
cp_status cp_observations_check_apart(const cp_observations *observations, const char *const *labels);

/* The noise of all columns that every run was measured in, names borrowed; freed by free(). CP_INCOMPARABLE where some
 * runs have a tensor and others do not, or, with `whole`, where none has. */
cp_status cp_observations_noise(cp_noise **out, size_t *count, const cp_observations *observations,
                                bool whole);

/* What limits made of this would not see, and the tensor with the largest error for its norm (NULL: none has a norm). */
typedef struct cp_sight {
    size_t judged, blind;
    const char *loudest;
    double loudest_error; /* over its norm */
} cp_sight;
cp_sight cp_observations_sight(const cp_observations *observations, cp_calibration_rule rule);

#endif

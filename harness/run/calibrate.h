/* How far right runs are from a fixture's truth: the reference itself, run many times with its rounding disturbed and its
 * sums permuted. */
#ifndef CPEQ_HARNESS_RUN_CALIBRATE_H
#define CPEQ_HARNESS_RUN_CALIBRATE_H

#include "harness/judge/observations.h"
#include "harness/run/run.h"

/* The run-th of the runs of a seed: rounding noise, ranks, data-parallel groups, micro-batches, exchange, layout, form of
 * attention and of products, drawn from both alone. The same for every version of a model. */
cp_run_options cp_calibration_run(const cp_model *model, cp_dtype dtype, uint64_t seed, int64_t run);

/* Runs them, on up to `workers` threads at a time, and judges each against the fixture's expectations. Close the
 * observations, also after a failure. */
cp_status cp_calibrate(cp_observations *out, const cp_model *model, const cp_fixture *fixture, cp_dtype dtype,
                       uint64_t seed, int64_t runs, int workers);

#endif

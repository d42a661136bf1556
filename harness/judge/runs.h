/* What was run on either side: whether it is the same thing at all, and by which limits it is judged. */
#ifndef CPEQ_HARNESS_JUDGE_RUNS_H
#define CPEQ_HARNESS_JUDGE_RUNS_H

#include "harness/judge/limits.h"
#include "harness/judge/pairs.h"

/* Fails the result, and returns false, where a side is of another fixture or is one rank of several. */
bool cp_runs_check(cp_result *result, const cp_sides *sides);

/* Sets the result's dtype and rule; notes what was assumed about the dtype, fails where there are no limits. */
cp_limits cp_runs_limits(cp_result *result, const cp_sides *sides, const cp_diff_options *options);

#endif

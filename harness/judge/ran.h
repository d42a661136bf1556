/* What was run: /ran of dumps against the fixture's batch and weights, or of two dumps against each other. */
#ifndef CPEQ_HARNESS_JUDGE_RAN_H
#define CPEQ_HARNESS_JUDGE_RAN_H

#include "harness/judge/pairs.h"
#include "harness/judge/places.h"

/* Appends to the result what differs ("ran/position_ids", "ran/weights") or is of another shape, and notes what agrees;
 * does nothing where no dump tells. Memory does not depend on the sizes but for a digest of each weight. */
cp_status cp_ran_judge(cp_result *result, const cp_sides *sides, const cp_places *places);

#endif

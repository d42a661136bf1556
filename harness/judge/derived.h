/* What the expected side would have said, where the actual one says something else about the same: of logits their
 * logsumexp and the target's own, which chunked losses keep instead. */
#ifndef CPEQ_HARNESS_JUDGE_DERIVED_H
#define CPEQ_HARNESS_JUDGE_DERIVED_H

#include "harness/files/fixture.h"

/* "logsumexp", "target_logit" */
bool cp_derived_name(const char *name);

/* A source with all that `expected` has, and with those of the two that `actual` has and it has not, computed from its
 * logits [B,T,V] as they are read; NULL where there is none. target_logit is 0 where nothing is predicted. `expected`
 * and `batch` outlive it. */
cp_source *cp_derived_open(const cp_source *expected, const cp_source *actual, const cp_batch *batch);

#endif

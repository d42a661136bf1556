/* Judges one source against another: structure first, then values at real positions, with absolute limits. */
#ifndef CPEQ_HARNESS_JUDGE_DIFF_H
#define CPEQ_HARNESS_JUDGE_DIFF_H

#include "harness/files/fixture.h"
#include "harness/judge/result.h"

typedef struct cp_diff_options {
    const char *only; /* judge only names that match this glob; NULL: all */
    bool user_limits; /* --rtol, --atol instead of the rule of the dtype */
    double rtol, atol;
    const cp_limits_file *limits; /* instead of the fixture's calibration; NULL: that, or the rule */
} cp_diff_options;

/* `expected` is a fixture's expectations or a whole dump, `actual` a whole source (join the ranks first). `fixture`
 * gives the batch and configuration (real positions, rows that must be zero, order); NULL: every position is judged
 * and a note says so. Failing statuses are the outside world's (a file that cannot be read, a non-finite expectation);
 * everything that is wrong with the actual side is in the result. Close with cp_result_close;
 * after a failing status there is nothing to close.
 *
 * Limits are the fixture's calibration for the dtype, where it has one; else the rule (limits.h). Those of a file must be
 * of the same step and dtype, and hold every judged tensor.
 *
 * What was run (/ran of joined dumps) is compared first, whatever `only` says: with the fixture, or without one where
 * both sides tell.
 *
 * Where both sides are dumps the narrower dtype of both is judged. A gradient may stand under any of its tied names;
 * where a dump has several, each is judged. Traces and token losses are judged where both sides have them (a note says
 * where not); loss, logits and gradients must be there unless `only` says otherwise. */
cp_status cp_diff(cp_result *result, const cp_source *expected, const cp_source *actual,
                  const cp_fixture *fixture, const cp_diff_options *options);

#endif

/* Limits are absolute: a Frobenius error of a tensor and a largest error of one element.
 *
 * The rule, until a fixture is calibrated: unit · scale, with unit 1e-12 (float64) or 1e-5 (float32) and scale
 *   loss         max(1, |loss|)
 *   gradients    max(‖g‖, share · ‖the largest gradient of its group‖); groups are `layers.<n>.` of the name, all other
 *                gradients form one. So a gradient that is zero by symmetry needs no rule of its own. The share is
 *                1e-3 in float64 and 5e-2 in float32: unit · share is 4 roundings in either, which is what a gradient
 *                that cancels (queries and keys under a window of 1) keeps of its neighbours.
 *   all others   their own norm over real positions
 * the same number for both. Clean float64 runs stay near 1e-15 of scale and bugs above 1e-6, so the constant does not
 * matter there. */
#ifndef CPEQ_HARNESS_JUDGE_LIMITS_H
#define CPEQ_HARNESS_JUDGE_LIMITS_H

#include "harness/judge/diff.h"

typedef struct cp_limits {
    cp_limit_rule rule;
    double unit;       /* of the rule above; NaN: this dtype has none */
    double share;      /* of the group's largest gradient */
    double noise;      /* the unit of what is surely noise: the rule's, or the coarsest where there is none */
    double atol, rtol; /* of the user; 0 by rule */
} cp_limits;

/* `islands`: float32 casts inside a float64 run. */
cp_limits cp_limits_choose(cp_dtype dtype, bool islands, const cp_diff_options *options);

/* Whether anything can be judged; false: neither a rule nor the user gives a limit. */
bool cp_limits_given(const cp_limits *limits);

/* The largest norm of each group of gradients; begins zeroed. */
typedef struct cp_group {
    int64_t layer; /* -1: all that belong to none */
    double norm;
} cp_group;

typedef struct cp_groups {
    size_t count;
    cp_group *items;
} cp_groups;

void cp_groups_raise(cp_groups *groups, int64_t layer, double norm);
const cp_group *cp_groups_find(const cp_groups *groups, int64_t layer); /* NULL: none */
void cp_groups_close(cp_groups *groups);

/* The scale above, from the tensor's own norm over judged elements and, for gradients, the largest of its group. */
double cp_limit_scale(const cp_limits *limits, cp_tensor_kind kind, double norm, double group_norm);

#endif

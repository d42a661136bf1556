/* Limits are absolute: a Frobenius error of a tensor and a largest error of one element.
 *
 * Where a fixture is calibrated for the dtype, or limits were made from control runs: a factor (cp_limit_factor)
 * times the largest error that was measured, of each of both. float64 has 16 · 2^-29 times the limit of float32: the
 * ratio of the unit roundoffs and a margin. A tensor whose measured error is 0 (a gradient that cancels exactly) has 4 roundings of its
 * own norm, or of the largest gradient of its group. The loss, one number alone, has what the limit of the token losses
 * leaves it besides: √targets / divisor times that; where the batch is not known, CP_LIMIT_FACTOR_OF_ONE. Both sides'
 * limits are added up where the expected side is no truth but a dump.
 *
 * The rule, until then: unit · scale, with unit 1e-12 (float64) or 1e-5 (float32) and scale
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

/* By how much a right run may exceed the largest of all measured errors: 1.5, found by counting (docs/gate.md).
 * Replicates are noisier than what they stand for. Control runs are not, and the largest of few is small:
 * 1.5 · (1 + 8 / runs). */
#define CP_LIMIT_FACTOR        1.5
#define CP_LIMIT_FACTOR_OF_ONE 4.0
double cp_limit_factor(cp_calibration_rule rule, int64_t runs);

/* A limit above this share of a tensor's norm sees nothing there. */
#define CP_BLIND_SHARE 0.2

/* What the limits of one side are multiples of. */
typedef struct cp_measured {
    const cp_calibration *calibration; /* NULL: this side is taken as exact */
    double scale;                      /* of its numbers: 1, or less for a finer dtype than was measured */
} cp_measured;

typedef struct cp_limits {
    cp_limit_rule rule;
    double unit;       /* of the rule above; NaN: this dtype has none */
    double share;      /* of the group's largest gradient */
    double noise;      /* the unit of what is surely noise: the rule's, or the coarsest where there is none */
    double atol, rtol; /* of the user; 0 by rule */
    /* of measured limits: */
    cp_measured side[2]; /* expected, actual */
    double rounding;     /* the unit roundoff of what is judged */
    double loss_share;   /* √targets / divisor; NaN: not known */
} cp_limits;

/* `islands`: float32 casts inside a float64 run. Neither calibrated nor the user's: the rule, or the user's. */
cp_limits cp_limits_choose(cp_dtype dtype, bool islands, const cp_diff_options *options);

/* The noise from which limits for `dtype` come; `calibration` is NULL where there is none. */
cp_measured cp_limits_measured(const cp_calibrations *calibrations, cp_dtype dtype, bool islands);

/* Whether anything can be judged; false: neither a rule nor the user gives a limit. */
bool cp_limits_given(const cp_limits *limits);
bool cp_limits_are_measured(const cp_limits *limits);

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

/* The measured limits of a tensor, which has noise under one of the names of `weight` (NULL: under `name` alone); false:
 * none of its names has. */
typedef struct cp_limit {
    double norm, element;
} cp_limit;
bool cp_limit_measured(cp_limit *out, const cp_limits *limits, const char *name, const cp_weight *weight,
                       cp_tensor_kind kind, double norm, double group_norm);

/* Whether a limit sees nothing of a tensor; one that is zero by symmetry has nothing to be seen. */
bool cp_limit_is_blind(double limit, double norm, double group_norm);

#endif

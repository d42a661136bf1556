#include "harness/judge/limits.h"

#include "harness/judge/names.h"

#include <math.h>
#include <stdlib.h>

static const double FLOAT64_UNIT = 1e-12;
static const double FLOAT32_UNIT = 1e-5;

/* 4 roundings of the group's largest gradient, which a gradient that cancels to zero still has. */
static const double FLOAT64_SHARE = 1e-3;
static const double FLOAT32_SHARE = 5e-2;

/* What is left of a gradient that cancels exactly: so many roundings of its largest neighbour. */
static const double ZERO_ROUNDINGS = 4;

/* A gradient of this share of its largest neighbour is zero by symmetry: that is as far as a truth in float64 goes. */
static const double SYMMETRY = 1e-9;

static double unit_of(cp_dtype dtype, bool islands)
{
    switch (dtype) {
    case CP_F64: return islands ? FLOAT32_UNIT : FLOAT64_UNIT;
    case CP_F32: return FLOAT32_UNIT;
    default: return NAN;
    }
}

cp_limits cp_limits_choose(cp_dtype dtype, bool islands, const cp_diff_options *options)
{
    double unit = unit_of(dtype, islands);
    cp_limits limits = {.unit = unit,
                        .share = unit == FLOAT64_UNIT ? FLOAT64_SHARE : FLOAT32_SHARE,
                        .noise = isnan(unit) ? FLOAT32_UNIT : unit,
                        .rounding = cp_dtype_epsilon(islands ? CP_F32 : dtype) / 2,
                        .loss_share = NAN};
    if (options->user_limits) {
        limits.rule = CP_LIMITS_USER;
        limits.atol = options->atol;
        limits.rtol = options->rtol;
    }
    return limits;
}

cp_measured cp_limits_measured(const cp_calibrations *calibrations, cp_dtype dtype, bool islands)
{
    if (dtype == CP_F64 && islands)
        dtype = CP_F32;
    cp_measured measured = {cp_calibration_of(calibrations, dtype), 1};
    if (!measured.calibration && dtype == CP_F64)
        measured = (cp_measured){cp_calibration_of(calibrations, CP_F32), 16 * ldexp(1, -29)};
    return measured;
}

bool cp_limits_are_measured(const cp_limits *limits)
{
    return limits->rule == CP_LIMITS_CALIBRATED || limits->rule == CP_LIMITS_CONTROLS;
}

bool cp_limits_given(const cp_limits *limits)
{
    return limits->rule != CP_LIMITS_UNCALIBRATED || !isnan(limits->unit);
}

const cp_group *cp_groups_find(const cp_groups *groups, int64_t layer)
{
    for (size_t i = 0; i < groups->count; i++) {
        if (groups->items[i].layer == layer)
            return &groups->items[i];
    }
    return NULL;
}

void cp_groups_raise(cp_groups *groups, int64_t layer, double norm)
{
    const cp_group *found = cp_groups_find(groups, layer);
    if (found) {
        cp_group *group = &groups->items[found - groups->items];
        group->norm = fmax(group->norm, norm);
        return;
    }
    cp_group *longer = realloc(groups->items, (groups->count + 1) * sizeof *longer);
    cp_check(longer, "no memory for %zu groups", groups->count);
    groups->items = longer;
    longer[groups->count++] = (cp_group){layer, norm};
}

void cp_groups_close(cp_groups *groups)
{
    free(groups->items);
    *groups = (cp_groups){0};
}

double cp_limit_scale(const cp_limits *limits, cp_tensor_kind kind, double norm, double group_norm)
{
    if (kind == CP_TENSOR_LOSS)
        return fmax(1, norm);
    if (kind == CP_TENSOR_GRADIENT)
        return fmax(norm, limits->share * group_norm);
    return norm;
}

/* ---- measured limits ---- */

double cp_limit_factor(cp_calibration_rule rule, int64_t runs)
{
    const double few = 8;
    return rule == CP_CALIBRATED_BY_CONTROLS ? CP_LIMIT_FACTOR * (1 + few / (double)runs) : CP_LIMIT_FACTOR;
}

/* Noise of this name, or of another one of the same weight. */
static const cp_noise *noise_of(const cp_calibration *calibration, const char *name, const cp_weight *weight)
{
    char other[CP_RESULT_NAME];
    const cp_noise *noise = NULL;
    for (int i = 0; !noise && cp_name_other(other, name, weight, i); i++)
        noise = cp_calibration_noise(calibration, other);
    return noise;
}

static double limit_of(double error, double factor, double floor)
{
    return error > 0 ? factor * error : floor;
}

/* One number has no other to be noisy with: what its parts, the token losses, may be off moves it too. */
static double limit_of_loss(const cp_limits *limits, const cp_calibration *calibration, double factor,
                            double error)
{
    const cp_noise *parts = cp_calibration_noise(calibration, "token_loss");
    if (!parts || isnan(limits->loss_share))
        return CP_LIMIT_FACTOR_OF_ONE * error;
    return factor * (error + limits->loss_share * parts->norm);
}

static bool add_side(cp_limit *out, const cp_limits *limits, const cp_measured *side, const char *name,
                     const cp_weight *weight, cp_tensor_kind kind, double floor)
{
    const cp_noise *noise = noise_of(side->calibration, name, weight);
    if (!noise)
        return false;
    double factor = cp_limit_factor(side->calibration->rule, side->calibration->runs);
    if (kind == CP_TENSOR_LOSS) {
        double limit = side->scale * limit_of_loss(limits, side->calibration, factor, noise->norm);
        out->norm += limit;
        out->element += limit;
        return true;
    }
    out->norm += side->scale * limit_of(noise->norm, factor, floor);
    out->element += side->scale * limit_of(noise->element, factor, floor);
    return true;
}

bool cp_limit_measured(cp_limit *out, const cp_limits *limits, const char *name, const cp_weight *weight,
                       cp_tensor_kind kind, double norm, double group_norm)
{
    *out = (cp_limit){0};
    bool found = true;
    for (int i = 0; i < 2; i++) {
        const cp_measured *side = &limits->side[i];
        double floor = ZERO_ROUNDINGS * limits->rounding / side->scale * fmax(norm, group_norm);
        if (side->calibration)
            found = found && add_side(out, limits, side, name, weight, kind, floor);
    }
    return found;
}

bool cp_limit_is_blind(double limit, double norm, double group_norm)
{
    return norm > SYMMETRY * group_norm && limit > CP_BLIND_SHARE * norm;
}

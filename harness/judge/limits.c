#include "harness/judge/limits.h"

#include <math.h>
#include <stdlib.h>

static const double FLOAT64_UNIT = 1e-12;
static const double FLOAT32_UNIT = 1e-5;

/* 4 roundings of the group's largest gradient, which a gradient that cancels to zero still has. */
static const double FLOAT64_SHARE = 1e-3;
static const double FLOAT32_SHARE = 5e-2;

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
                        .noise = isnan(unit) ? FLOAT32_UNIT : unit};
    if (options->user_limits) {
        limits.rule = CP_LIMITS_USER;
        limits.atol = options->atol;
        limits.rtol = options->rtol;
    }
    return limits;
}

bool cp_limits_given(const cp_limits *limits)
{
    return limits->rule == CP_LIMITS_USER || !isnan(limits->unit);
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

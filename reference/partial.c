/* What an exchange does with partial results of attention, row by row. */
#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

CP_CLONES static void mix(real *o, const real *o_part, real weight, real weight_part, cp_rounder rounder,
                          int64_t Dv)
{
    for (int64_t d = 0; d < Dv; d++)
        o[d] = stored(weight * o[d] + weight_part * o_part[d], d, &rounder);
}

/* What a row becomes: its log-sum-exp, and the shares of both parts in its output. */
typedef struct merged_row {
    real lse, share, share_part;
} merged_row;

typedef merged_row merge_rule(real lse, real part);

static real log_sum(real a, real b)
{
    real high = a > b ? a : b, low = a > b ? b : a;
    return high == -(real)INFINITY ? high : high + real_log1p(real_exp(low - high));
}

/* Shares come from the difference of the two: they add up to 1 also where log-sum-exps are so large that their rounding is
 * not small any more. An o of another scale would put the same factor on delta, and what is lost there is dq. */
static merged_row by_lse(real lse, real part)
{
    if (part == -(real)INFINITY)
        return (merged_row){lse, 1, 0};
    real low = real_exp(lse > part ? part - lse : lse - part);
    real share = (real)1 / ((real)1 + low), rest = low * share;
    return lse > part ? (merged_row){log_sum(lse, part), share, rest}
                      : (merged_row){log_sum(lse, part), rest, share};
}

static merged_row by_average(real lse, real part)
{
    return (merged_row){log_sum(lse, part), (real)0.5, (real)0.5};
}

static merged_row by_log2(real lse, real part)
{
    if (part == -(real)INFINITY)
        return (merged_row){lse, 1, 0};
    real high = part > lse ? part : lse, low = part > lse ? lse : part;
    real merged = high + real_log2((real)1 + real_exp2(low - high));
    return (merged_row){merged, real_exp2(lse - merged), real_exp2(part - merged)};
}

static real exp_in_float(real x)
{
    const real highest = (real)88.72;
    return x > highest ? (real)INFINITY : real_exp(x);
}

static merged_row without_maximum(real lse, real part)
{
    real a = exp_in_float(lse), b = exp_in_float(part);
    if (a + b == 0)
        return (merged_row){lse, 1, 0};
    return (merged_row){real_log(a + b), a / (a + b), b / (a + b)};
}

static merged_row infinite_where_empty(real lse, real part)
{
    bool empty = part == -(real)INFINITY || lse == -(real)INFINITY || lse == (real)INFINITY;
    return empty ? (merged_row){(real)INFINITY, 0, 0} : by_lse(lse, part);
}

/* Returns how many rows have a log-sum-exp of +∞. */
static int merge_rows(cp_tensor o, cp_tensor lse, cp_tensor o_part, cp_tensor lse_part,
                      cp_precision precision, merge_rule *rule)
{
    cp_check_real("merge o", o);
    cp_check_like("merge o_part", o_part, o);
    cp_check_shape("merge lse", lse, o.dims - 1, o.extent);
    cp_check_like("merge lse_part", lse_part, lse);
    cp_rounder rounder = cp_rounder_of(precision);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(o);
    int infinite = 0;
#pragma omp parallel for schedule(static) reduction(+ : infinite) if (cp_tensor_count(o) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        real *l = cp_scalar(lse, row);
        real part = *cp_scalar(lse_part, row);
        infinite += *l == (real)INFINITY || part == (real)INFINITY;
        merged_row merged = rule(*l, part);
        if (merged.share != 1 || merged.share_part != 0)
            mix(cp_row(o, row), cp_row(o_part, row), merged.share, merged.share_part, rounder, cp_width(o));
        *l = merged.lse;
    }
    return infinite;
}

static void merge(cp_tensor o, cp_tensor lse, cp_tensor o_part, cp_tensor lse_part, cp_precision precision)
{
    int infinite = merge_rows(o, lse, o_part, lse_part, precision, by_lse);
    cp_check(infinite == 0, "merge: %d rows have a log-sum-exp of infinity", infinite);
}

#define WRONG_MERGE(name, rule)                                                                              \
    static void name(cp_tensor o, cp_tensor lse, cp_tensor o_part, cp_tensor lse_part,                       \
                     cp_precision precision)                                                                 \
    {                                                                                                        \
        merge_rows(o, lse, o_part, lse_part, precision, rule);                                               \
    }

WRONG_MERGE(merge_average, by_average)
WRONG_MERGE(merge_log2, by_log2)
WRONG_MERGE(merge_no_maximum, without_maximum)
WRONG_MERGE(merge_infinite, infinite_where_empty)

/* ---- sink ---- */

static void check_sink(const char *name, cp_tensor sink, cp_tensor lse)
{
    cp_check_shape(name, sink, 1, &lse.extent[lse.dims - 1]);
}

CP_CLONES static void weaken(real *o, real weight, cp_rounder rounder, int64_t Dv)
{
    for (int64_t d = 0; d < Dv; d++)
        o[d] = stored(weight * o[d], d, &rounder);
}

static void sink(cp_tensor o, cp_tensor lse, cp_tensor scores, cp_precision precision)
{
    cp_check_real("sink o", o);
    cp_check_shape("sink lse", lse, o.dims - 1, o.extent);
    check_sink("sink", scores, lse);
    cp_rounder rounder = cp_rounder_of(precision);
    int64_t heads = cp_width(lse), rows = CP_SHAPE_ONLY ? 0 : cp_row_count(o);
#pragma omp parallel for schedule(static) if (cp_tensor_count(o) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        real *l = cp_scalar(lse, row);
        real score = *cp_scalar(scores, row % heads);
        real with = log_sum(score, *l);
        weaken(cp_row(o, row), real_exp(*l - with), rounder, cp_width(o));
        *l = with;
    }
}

static void sink_backward(cp_tensor dsink, cp_tensor lse, cp_tensor row_delta, cp_tensor scores)
{
    cp_check_real("sink lse", lse);
    cp_check_like("sink delta", row_delta, lse);
    check_sink("sink", scores, lse);
    check_sink("dsink", dsink, lse);
    int64_t heads = cp_width(lse), rows = CP_SHAPE_ONLY || heads == 0 ? 0 : cp_tensor_count(lse) / heads;
    for (int64_t h = 0; h < heads && rows > 0; h++) {
        real score = *cp_scalar(scores, h);
        double sum = 0;
        for (int64_t row = 0; row < rows; row++)
            sum += (double)real_exp(score - *cp_scalar(lse, row * heads + h)) *
                   (double)*cp_scalar(row_delta, row * heads + h);
        *cp_scalar(dsink, h) -= (real)sum;
    }
}

/* ---- delta ---- */

CP_CLONES static real dot(const real *a, const real *b, int64_t n)
{
    return dot_in_lanes(a, b, n);
}

static void delta(cp_tensor out, cp_tensor dout, cp_tensor o)
{
    cp_check_real("delta o", o);
    cp_check_like("delta dout", dout, o);
    cp_check_shape("delta", out, o.dims - 1, o.extent);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(o);
#pragma omp parallel for schedule(static) if (cp_tensor_count(o) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++)
        *cp_scalar(out, row) = dot(cp_row(dout, row), cp_row(o, row), cp_width(o));
}

/* ---- narrow ---- */

static void narrow(cp_tensor x)
{
    cp_check_real("narrow", x);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(x);
    for (int64_t row = 0; row < rows; row++) {
        real *at = cp_row(x, row);
        for (int64_t n = 0; n < cp_width(x); n++)
            at[n] = (real)cp_bf16_round((float)at[n]);
    }
}

const cp_partial_ops CP_WIDTH(cp_partial) = {.merge = {[CP_MERGE_BY_LSE] = merge,
                                                       [CP_MERGE_AVERAGE] = merge_average,
                                                       [CP_MERGE_LOG2_MIXED] = merge_log2,
                                                       [CP_MERGE_NO_MAXIMUM] = merge_no_maximum,
                                                       [CP_MERGE_INF_FROM_EMPTY] = merge_infinite},
                                             .sink = sink,
                                             .delta = delta,
                                             .sink_backward = sink_backward,
                                             .narrow = narrow};

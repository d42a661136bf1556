/* What an exchange does with partial results of attention, row by row. */
#include "reference/kernels.h"
#include "reference/rows.h"
#include "reference/vector_math.h"

CP_CLONES static void mix(real *o, const real *o_part, real weight, real weight_part, bool rounds, int64_t Dv)
{
    for (int64_t d = 0; d < Dv; d++) {
        real mixed = weight * o[d] + weight_part * o_part[d];
        o[d] = rounds ? rounded_to_bf16(mixed) : mixed;
    }
}

static void merge(cp_tensor o, cp_tensor lse, cp_tensor o_part, cp_tensor lse_part, cp_precision precision)
{
    cp_check_real("merge o", o);
    cp_check_like("merge o_part", o_part, o);
    cp_check_shape("merge lse", lse, o.dims - 1, o.extent);
    cp_check_like("merge lse_part", lse_part, lse);
    bool rounds = cp_rounds(precision);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(o);
    int infinite = 0;
#pragma omp parallel for schedule(static) reduction(+ : infinite) if (cp_tensor_count(o) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        real *l = cp_scalar(lse, row);
        real part = *cp_scalar(lse_part, row);
        infinite += *l == (real)INFINITY || part == (real)INFINITY;
        if (part == -(real)INFINITY)
            continue;
        real high = part > *l ? part : *l;
        real low = part > *l ? *l : part;
        real merged = high + real_log1p(real_exp(low - high));
        mix(cp_row(o, row), cp_row(o_part, row), real_exp(*l - merged), real_exp(part - merged), rounds,
            cp_width(o));
        *l = merged;
    }
    cp_check(infinite == 0, "merge: %d rows have a log-sum-exp of infinity", infinite);
}

/* ---- sink ---- */

static void check_sink(const char *name, cp_tensor sink, cp_tensor lse)
{
    cp_check_shape(name, sink, 1, &lse.extent[lse.dims - 1]);
}

CP_CLONES static void weaken(real *o, real weight, bool rounds, int64_t Dv)
{
    for (int64_t d = 0; d < Dv; d++)
        o[d] = rounds ? rounded_to_bf16(weight * o[d]) : weight * o[d];
}

static void sink(cp_tensor o, cp_tensor lse, cp_tensor scores, cp_precision precision)
{
    cp_check_real("sink o", o);
    cp_check_shape("sink lse", lse, o.dims - 1, o.extent);
    check_sink("sink", scores, lse);
    bool rounds = cp_rounds(precision);
    int64_t heads = cp_width(lse), rows = CP_SHAPE_ONLY ? 0 : cp_row_count(o);
#pragma omp parallel for schedule(static) if (cp_tensor_count(o) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        real *l = cp_scalar(lse, row);
        real score = *cp_scalar(scores, row % heads);
        real high = score > *l ? score : *l;
        real low = score > *l ? *l : score;
        real with = high + real_log1p(real_exp(low - high));
        weaken(cp_row(o, row), real_exp(*l - with), rounds, cp_width(o));
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
    real lane[LANES] = {0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] += a[j + i] * b[j + i];
    for (int i = 0; j + i < n; i++)
        lane[i] += a[j + i] * b[j + i];
    return sum_of_lanes(lane);
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

const cp_partial_ops CP_WIDTH(cp_partial) = {
    .merge = merge, .sink = sink, .delta = delta, .sink_backward = sink_backward};

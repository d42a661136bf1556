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

void CP_WIDTH(cp_merge)(cp_tensor o, cp_tensor lse, cp_tensor o_part, cp_tensor lse_part,
                        cp_precision precision)
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

void CP_WIDTH(cp_delta)(cp_tensor out, cp_tensor dout, cp_tensor o)
{
    cp_check_real("delta o", o);
    cp_check_like("delta dout", dout, o);
    cp_check_shape("delta", out, o.dims - 1, o.extent);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(o);
#pragma omp parallel for schedule(static) if (cp_tensor_count(o) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++)
        *cp_scalar(out, row) = dot(cp_row(dout, row), cp_row(o, row), cp_width(o));
}

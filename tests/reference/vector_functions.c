/* The inline functions of vector_math.h and rounding.h as functions on arrays; compiled as kernels are, for both widths. */
#include "tests/reference/vector_functions.h"

#include "reference/rounding.h"

CP_CLONES static void apply_exp(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = vec_exp(x[i]);
}

CP_CLONES static void apply_tanh(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = vec_tanh(x[i]);
}

CP_CLONES static void apply_sigmoid(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = vec_sigmoid(x[i]);
}

CP_CLONES static void apply_rounding(real *y, const real *x, int64_t n, cp_precision precision)
{
    cp_rounder rounder = cp_rounder_of(precision);
    for (int64_t i = 0; i < n; i++)
        y[i] = rounded(x[i], i, &rounder);
}

static void apply(vector_function function, void *y, const void *x, int64_t n)
{
    switch (function) {
    case VECTOR_EXP: apply_exp(y, x, n); return;
    case VECTOR_TANH: apply_tanh(y, x, n); return;
    case VECTOR_SIGMOID: apply_sigmoid(y, x, n); return;
    case VECTOR_BF16: apply_rounding(y, x, n, (cp_precision){.rounding = CP_ROUND_BF16}); return;
    case VECTOR_BF16_NOISE:
        apply_rounding(y, x, n, (cp_precision){.rounding = CP_ROUND_BF16, .noise = 5});
        return;
    case VECTOR_NOISE: apply_rounding(y, x, n, (cp_precision){.noise = 5}); return;
    }
}

vector_apply *const CP_WIDTH(vector_apply) = apply;

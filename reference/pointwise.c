#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

/* An element-wise operation: its operands, all of one shape, and a leaf that does a stretch of them. */
enum { MAX_OPERANDS = 5, STRETCH = 4096 };

typedef struct call {
    cp_tensor operand[MAX_OPERANDS]; /* the first is always given; CP_NONE reaches the leaf as NULL */
    real scalar;
    cp_activation activation;
    cp_rounder rounder;
} call;

typedef void leaf(const call *c, real *const at[MAX_OPERANDS], int64_t n);

static void run(const char *name, call c, leaf *work)
{
    cp_tensor *given[MAX_OPERANDS];
    int count = 0;
    for (int i = 0; i < MAX_OPERANDS; i++) {
        if (!cp_tensor_given(c.operand[i]))
            continue;
        cp_check_like(name, c.operand[i], c.operand[0]);
        given[count++] = &c.operand[i];
    }
    if (CP_SHAPE_ONLY || count == 0)
        return;
    cp_join_axes(given, count, 0);
    int64_t width = cp_width(c.operand[0]);
    int64_t stretches = (width + STRETCH - 1) / STRETCH;
    int64_t total = cp_row_count(c.operand[0]) * stretches;
#pragma omp parallel for schedule(static) if (cp_tensor_count(c.operand[0]) > CP_WORTH_A_THREAD)
    for (int64_t piece = 0; piece < total; piece++) {
        int64_t first = piece % stretches * STRETCH;
        real *at[MAX_OPERANDS] = {0};
        for (int i = 0; i < MAX_OPERANDS; i++)
            if (cp_tensor_given(c.operand[i]))
                at[i] = cp_row(c.operand[i], piece / stretches) + first;
        work(&c, at, cp_min(STRETCH, width - first));
    }
}

/* ---- add, accumulate, scale. `ivdep`: operands are the same memory or do not overlap ---- */

CP_CLONES static void add_leaf(const call *c, real *const at[], int64_t n)
{
    real *y = at[0];
    const real *a = at[1];
    const real *b = at[2];
    cp_rounder rounder = c->rounder;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = stored(a[i] + b[i], i, &rounder);
}

static void add(cp_tensor y, cp_tensor a, cp_tensor b, cp_precision precision)
{
    run("add", (call){.operand = {y, a, b}, .rounder = cp_rounder_of(precision)}, add_leaf);
}

CP_CLONES static void accumulate_leaf(const call *c, real *const at[], int64_t n)
{
    real *y = at[0];
    const real *x = at[1];
    (void)c;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void accumulate(cp_tensor y, cp_tensor x, cp_precision precision)
{
    (void)precision;
    run("accumulate", (call){.operand = {y, x}}, accumulate_leaf);
}

CP_CLONES static void scale_leaf(const call *c, real *const at[], int64_t n)
{
    real *y = at[0];
    const real *x = at[1];
    real factor = c->scalar;
    cp_rounder rounder = c->rounder;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = stored(factor * x[i], i, &rounder);
}

static void scale(cp_tensor y, cp_tensor x, double factor, cp_precision precision)
{
    run("scale", (call){.operand = {y, x}, .scalar = (real)factor, .rounder = cp_rounder_of(precision)},
        scale_leaf);
}

CP_CLONES static void add_scaled_leaf(const call *c, real *const at[], int64_t n)
{
    real *y = at[0];
    const real *x = at[1];
    real factor = c->scalar;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static void scale_backward(cp_tensor dx, cp_tensor dy, double factor, cp_precision precision)
{
    (void)precision;
    run("scale_backward", (call){.operand = {dx, dy}, .scalar = (real)factor}, add_scaled_leaf);
}

/* ---- scale_tokens: the same leaves, one token after another ---- */

static void each_token(const char *name, cp_tensor y, cp_tensor x, cp_tensor factor, cp_rounder rounder,
                       leaf *work)
{
    cp_check_real(name, y);
    cp_check_like(name, x, y);
    cp_check(y.dims >= 3 && factor.dtype == CP_F64 && cp_tensor_has_shape(factor, 2, y.extent),
             "%s: factor is not float64 [B,S]", name);
    if (CP_SHAPE_ONLY)
        return;
    int64_t rows = cp_row_count(y);
    int64_t rows_of_token = y.dims == 4 ? y.extent[2] : 1;
#pragma omp parallel for schedule(static) if (cp_tensor_count(y) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        const double *of_token = (const double *)factor.data + cp_offset(factor, 2, row / rows_of_token);
        call c = {.scalar = (real)*of_token, .rounder = rounder};
        work(&c, (real *[]){cp_row(y, row), cp_row(x, row)}, cp_width(y));
    }
}

static void scale_tokens(cp_tensor y, cp_tensor x, cp_tensor factor, cp_precision precision)
{
    each_token("scale_tokens", y, x, factor, cp_rounder_of(precision), scale_leaf);
}

static void scale_tokens_backward(cp_tensor dx, cp_tensor dy, cp_tensor factor, cp_precision precision)
{
    (void)precision;
    each_token("scale_tokens_backward", dx, dy, factor, (cp_rounder){0}, add_scaled_leaf);
}

/* ---- gate ---- */

#define SQRT_HALF      ((real)0.70710678118654752440)
#define SQRT_2_PER_PI  ((real)0.79788456080286535588)
#define SQRT_1_PER_2PI ((real)0.39894228040143267794)
#define CUBIC          ((real)0.044715)
#define HALF           ((real)0.5)
#define ONE            ((real)1)

CP_INLINE real value_of(cp_activation activation, real u)
{
    switch (activation) {
    case CP_ACT_SILU: return u * vec_sigmoid(u);
    case CP_ACT_GELU: return HALF * u * (ONE + real_erf(u * SQRT_HALF));
    case CP_ACT_GELU_TANH: return HALF * u * (ONE + vec_tanh(SQRT_2_PER_PI * (u + CUBIC * u * u * u)));
    case CP_ACT_RELU:
    case CP_ACTIVATIONS: break;
    }
    return u > 0 ? u : 0;
}

CP_INLINE real slope_of(cp_activation activation, real u)
{
    switch (activation) {
    case CP_ACT_SILU: {
        real s = vec_sigmoid(u);
        return s * (ONE + u * (ONE - s));
    }
    case CP_ACT_GELU:
        return HALF * (ONE + real_erf(u * SQRT_HALF)) + u * SQRT_1_PER_2PI * vec_exp(-HALF * u * u);
    case CP_ACT_GELU_TANH: {
        real t = vec_tanh(SQRT_2_PER_PI * (u + CUBIC * u * u * u));
        return HALF * (ONE + t) + HALF * u * (ONE - t * t) * SQRT_2_PER_PI * (ONE + 3 * CUBIC * u * u);
    }
    case CP_ACT_RELU:
    case CP_ACTIVATIONS: break;
    }
    return u > 0 ? ONE : 0;
}

/* Inlined with constants, so that each loop is straight. */
CP_INLINE void gate_loop(cp_activation activation, const cp_rounder *rounder, real *const at[], int64_t n)
{
    real *restrict y = at[0];
    const real *restrict gate = at[1];
    const real *restrict up = at[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = stored(stored(value_of(activation, gate[i]), i, rounder) * up[i], i, rounder);
}

CP_INLINE void gate_loops(cp_activation activation, cp_rounder rounder, real *const at[], int64_t n)
{
    const cp_rounder off = {0};
    if (rounder.on)
        gate_loop(activation, &rounder, at, n);
    else
        gate_loop(activation, &off, at, n);
}

CP_CLONES static void gate_leaf(const call *c, real *const at[], int64_t n)
{
    switch (c->activation) {
    case CP_ACT_SILU: gate_loops(CP_ACT_SILU, c->rounder, at, n); return;
    case CP_ACT_GELU: gate_loops(CP_ACT_GELU, c->rounder, at, n); return;
    case CP_ACT_GELU_TANH: gate_loops(CP_ACT_GELU_TANH, c->rounder, at, n); return;
    case CP_ACT_RELU: gate_loops(CP_ACT_RELU, c->rounder, at, n); return;
    case CP_ACTIVATIONS: break;
    }
}

static void gate(cp_tensor y, cp_tensor gate_input, cp_tensor up, cp_activation activation,
                 cp_precision precision)
{
    cp_check(activation >= 0 && activation < CP_ACTIVATIONS, "activation %d", (int)activation);
    run("gate",
        (call){.operand = {y, gate_input, up}, .activation = activation, .rounder = cp_rounder_of(precision)},
        gate_leaf);
}

CP_INLINE void gate_backward_loop(cp_activation activation, const cp_rounder *rounder, real *const at[],
                                  int64_t n)
{
    const real *restrict dy = at[0];
    const real *restrict gate = at[1];
    const real *restrict up = at[2];
    real *restrict dgate = at[3];
    real *restrict dup = at[4];
    if (dgate)
        for (int64_t i = 0; i < n; i++)
            dgate[i] += stored(dy[i] * up[i], i, rounder) * slope_of(activation, gate[i]);
    if (dup)
        for (int64_t i = 0; i < n; i++)
            dup[i] += dy[i] * stored(value_of(activation, gate[i]), i, rounder);
}

CP_INLINE void gate_backward_loops(cp_activation activation, cp_rounder rounder, real *const at[], int64_t n)
{
    const cp_rounder off = {0};
    if (rounder.on)
        gate_backward_loop(activation, &rounder, at, n);
    else
        gate_backward_loop(activation, &off, at, n);
}

CP_CLONES static void gate_backward_leaf(const call *c, real *const at[], int64_t n)
{
    switch (c->activation) {
    case CP_ACT_SILU: gate_backward_loops(CP_ACT_SILU, c->rounder, at, n); return;
    case CP_ACT_GELU: gate_backward_loops(CP_ACT_GELU, c->rounder, at, n); return;
    case CP_ACT_GELU_TANH: gate_backward_loops(CP_ACT_GELU_TANH, c->rounder, at, n); return;
    case CP_ACT_RELU: gate_backward_loops(CP_ACT_RELU, c->rounder, at, n); return;
    case CP_ACTIVATIONS: break;
    }
}

static void gate_backward(cp_tensor dgate, cp_tensor dup, cp_tensor dy, cp_tensor gate_input, cp_tensor up,
                          cp_activation activation, cp_precision precision)
{
    cp_check(activation >= 0 && activation < CP_ACTIVATIONS, "activation %d", (int)activation);
    run("gate_backward",
        (call){.operand = {dy, gate_input, up, dgate, dup},
               .activation = activation,
               .rounder = cp_rounder_of(precision)},
        gate_backward_leaf);
}

/* ---- softcap ---- */

CP_CLONES static void softcap_leaf(const call *c, real *const at[], int64_t n)
{
    real *y = at[0];
    const real *x = at[1];
    real cap = c->scalar;
    cp_rounder rounder = c->rounder;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = stored(cap * stored(vec_tanh(stored(x[i] / cap, i, &rounder)), i, &rounder), i, &rounder);
}

static void softcap(cp_tensor y, cp_tensor x, double cap, cp_precision precision)
{
    run("softcap", (call){.operand = {y, x}, .scalar = (real)cap, .rounder = cp_rounder_of(precision)},
        softcap_leaf);
}

/* dy (1 − t²) through the cap's product, tanh and quotient. */
CP_INLINE real rounded_slope(real dy, real t, real cap, int64_t place, const cp_rounder *rounder)
{
    real d = rounded(rounded(dy * cap, place, rounder) * (ONE - t * t), place, rounder);
    return rounded(d / cap, place, rounder);
}

CP_CLONES static void softcap_backward_leaf(const call *c, real *const at[], int64_t n)
{
    real *dx = at[0];
    const real *dy = at[1];
    const real *y = at[2];
    real cap = c->scalar, per_cap = ONE / cap;
    cp_rounder rounder = c->rounder;
    real keep = dx == dy ? (real)0 : ONE;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        real t = y[i] * per_cap;
        dx[i] =
            keep * dx[i] + (rounder.on ? rounded_slope(dy[i], t, cap, i, &rounder) : dy[i] * (ONE - t * t));
    }
}

static void softcap_backward(cp_tensor dx, cp_tensor dy, cp_tensor y, double cap, cp_precision precision)
{
    run("softcap_backward",
        (call){.operand = {dx, dy, y}, .scalar = (real)cap, .rounder = cp_rounder_of(precision)},
        softcap_backward_leaf);
}

/* ---- round ---- */

CP_CLONES static void round_leaf(const call *c, real *const at[], int64_t n)
{
    cp_rounder rounder = c->rounder;
    round_row(at[0], n, 0, &rounder);
}

static void round_tensor(cp_tensor x, cp_precision precision)
{
    cp_check_real("round", x);
    cp_rounder rounder = cp_rounder_of(precision);
    if (rounder.on)
        run("round", (call){.operand = {x}, .rounder = rounder}, round_leaf);
}

/* ---- convert ---- */

static void convert(cp_tensor y, cp_tensor x)
{
    enum { BUFFER = 512 };
    cp_check_real("convert y", y);
    cp_check(cp_dtype_is_float(x.dtype) && cp_tensor_same_shape(x, y) && x.stride[x.dims - 1] == 1,
             "convert: %s of another shape", cp_dtype_name(x.dtype));
    if (CP_SHAPE_ONLY)
        return;
    cp_join_axes((cp_tensor *[]){&y, &x}, 2, 0);
    int64_t width = cp_width(y);
    int64_t stretches = (width + BUFFER - 1) / BUFFER;
    int64_t total = cp_row_count(y) * stretches;
    int64_t bytes = (int64_t)cp_dtype_bytes(x.dtype);
#pragma omp parallel for schedule(static) if (total > CP_WORTH_A_THREAD / BUFFER)
    for (int64_t piece = 0; piece < total; piece++) {
        double buffer[BUFFER];
        int64_t row = piece / stretches;
        int64_t first = piece % stretches * BUFFER;
        int64_t count = cp_min(BUFFER, width - first);
        int64_t at = cp_offset(x, x.dims - 1, row) + first;
        cp_dtype_to_double(buffer, (const char *)x.data + at * bytes, x.dtype, (size_t)count);
        real *to = cp_row(y, row) + first;
        for (int64_t i = 0; i < count; i++)
            to[i] = (real)buffer[i];
    }
}

const cp_pointwise_ops CP_WIDTH(cp_pointwise) = {
    .add = add,
    .accumulate = accumulate,
    .scale = scale,
    .scale_backward = scale_backward,
    .scale_tokens = scale_tokens,
    .scale_tokens_backward = scale_tokens_backward,
    .gate = gate,
    .gate_backward = gate_backward,
    .softcap = softcap,
    .softcap_backward = softcap_backward,
    .round = round_tensor,
    .convert = convert,
};

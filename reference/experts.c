/* Gated feed-forward experts: the tokens of one expert are gathered into a matrix, and its rows are added back. One
 * expert after another, in order, so that a token's sum does not depend on who else is there. */
#include "reference/gemm.h"
#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

typedef struct job {
    cp_tensor x, weights;
    const cp_experts *experts;
    cp_experts_form form;
    int64_t tokens, E, C, F;
    cp_matmul matmul;
    cp_rounder rounder;
} job;

/* The tokens of one expert, in their order; as much room as if all asked it. */
typedef struct group {
    int64_t e, n;
    int64_t *token; /* [n]: which token each row is */
    real *x;        /* [n,C] */
    real *hidden;   /* [n,2F]: gate and up projections; in the backward their gradients in the end */
    real *gated;    /* [n,F] */
    real *y;        /* [n,C] */
} group;

static void check_parameters(const char *name, const cp_experts *p, const job *j)
{
    int64_t E = j->E, C = j->C, F = j->F;
    bool t = j->form.transposed;
    cp_check_optional(name, p->up, 3, t ? CP_EXTENTS(E, C, 2 * F) : CP_EXTENTS(E, 2 * F, C));
    cp_check_optional(name, p->up_bias, 2, CP_EXTENTS(E, 2 * F));
    cp_check_optional(name, p->down, 3, t ? CP_EXTENTS(E, F, C) : CP_EXTENTS(E, C, F));
    cp_check_optional(name, p->down_bias, 2, CP_EXTENTS(E, C));
}

static job check(cp_tensor y, cp_tensor x, cp_tensor weights, const cp_experts *experts, cp_experts_form form,
                 cp_precision precision)
{
    cp_check_real("experts x", x);
    cp_check_like("experts y", y, x);
    cp_check_real("experts weights", weights);
    cp_check(experts->down.dims == 3, "experts down: %d axes", experts->down.dims);
    job j = {.x = x,
             .weights = weights,
             .experts = experts,
             .form = form,
             .tokens = cp_row_count(x),
             .E = cp_width(weights),
             .C = cp_width(x),
             .F = experts->down.extent[form.transposed ? 1 : 2],
             .matmul = precision.matmul,
             .rounder = cp_rounder_of(precision)};
    cp_check(cp_row_count(weights) == j.tokens, "experts: weights of %lld tokens, expected %lld",
             (long long)cp_row_count(weights), (long long)j.tokens);
    check_parameters("experts", experts, &j);
    return j;
}

static real *take(cp_arena *scratch, const job *j, int64_t width)
{
    return CP_TAKE(scratch, j->x.dtype, j->tokens, width).data;
}

static group take_group(cp_arena *scratch, const job *j)
{
    return (group){.token = CP_TAKE(scratch, CP_I64, j->tokens).data,
                   .x = take(scratch, j, j->C),
                   .hidden = take(scratch, j, 2 * j->F),
                   .gated = take(scratch, j, j->F),
                   .y = take(scratch, j, j->C)};
}

/* ---- matrices and rows of one expert ---- */

static cp_matrix matrix_of(cp_tensor stack, int64_t e)
{
    return (cp_matrix){.data = (const real *)stack.data + e * stack.stride[0], .stride = stack.stride[1]};
}

/* As [in,out] whichever way it is stored, or the other way round. */
static cp_matrix forwards(cp_tensor stack, const group *g, const job *j)
{
    cp_matrix matrix = matrix_of(stack, g->e);
    matrix.transposed = !j->form.transposed;
    return matrix;
}

static cp_matrix backwards(cp_tensor stack, const group *g, const job *j)
{
    cp_matrix matrix = forwards(stack, g, j);
    matrix.transposed = !matrix.transposed;
    return matrix;
}

static cp_matrix rows_of(const real *data, int64_t width)
{
    return (cp_matrix){.data = data, .stride = width};
}

static cp_matrix columns_of(const real *data, int64_t width)
{
    return (cp_matrix){.data = data, .stride = width, .transposed = true};
}

CP_CLONES static void finish(real *y, const real *bias, int64_t width, cp_rounder rounder)
{
    if (rounder.on)
        round_row(y, width, 0, &rounder);
    for (int64_t i = 0; bias && i < width; i++)
        y[i] = stored(y[i] + bias[i], i, &rounder);
}

static void project(real *y, int64_t width, const real *x, int64_t x_width, cp_tensor stack, cp_tensor biases,
                    const group *g, const job *j)
{
    cp_gemm_tiled(g->n, width, x_width, 1, rows_of(x, x_width), forwards(stack, g, j), false, y, width,
                  j->matmul);
    const real *bias = cp_tensor_given(biases) ? cp_row(biases, g->e) : NULL;
#pragma omp parallel for schedule(static) if (g->n * width > CP_WORTH_A_THREAD)
    for (int64_t i = 0; i < g->n; i++)
        finish(y + i * width, bias, width, j->rounder);
}

/* Which tokens ask expert e. A weight that is 0 is one of an expert that was not chosen, or makes no difference. */
static void gather(group *g, int64_t e, const job *j)
{
    g->e = e;
    g->n = 0;
    for (int64_t token = 0; token < j->tokens; token++)
        if (cp_row(j->weights, token)[e] != 0)
            g->token[g->n++] = token;
    for (int64_t i = 0; i < g->n; i++)
        memcpy(g->x + i * j->C, cp_row(j->x, g->token[i]), (size_t)j->C * sizeof(real));
}

/* ---- the gate: y = (u + shift) · g · σ(alpha g) of clamped g and u ---- */

/* Where a row's gate and up projections begin, and how far apart their elements are. */
typedef struct halves {
    int64_t up, step;
} halves;

static halves halves_of(const job *j)
{
    return j->form.interleaved ? (halves){1, 2} : (halves){j->F, 1};
}

CP_INLINE real at_most(real value, real limit)
{
    return value > limit ? limit : value;
}

CP_CLONES static void gate_row(real *restrict gated, const real *restrict hidden, cp_experts_form form,
                               halves h, int64_t F, cp_rounder rounder)
{
    real limit = (real)form.limit, alpha = (real)form.alpha, shift = (real)form.shift;
    for (int64_t f = 0; f < F; f++) {
        real gate = at_most(hidden[f * h.step], limit);
        real up = -at_most(-at_most(hidden[h.up + f * h.step], limit), limit);
        real glu = stored(gate * vec_sigmoid(alpha * gate), f, &rounder);
        gated[f] = stored((up + shift) * glu, f, &rounder);
    }
}

/* Overwrites the projections with their gradients. A clamp passes gradient up to and at its limit. */
CP_CLONES static void gate_row_backward(real *restrict hidden, const real *restrict dgated,
                                        cp_experts_form form, halves h, int64_t F, cp_rounder rounder)
{
    real limit = (real)form.limit, alpha = (real)form.alpha, shift = (real)form.shift;
    for (int64_t f = 0; f < F; f++) {
        real raw_gate = hidden[f * h.step], raw_up = hidden[h.up + f * h.step];
        real gate = at_most(raw_gate, limit), up = -at_most(-at_most(raw_up, limit), limit);
        real s = vec_sigmoid(alpha * gate);
        real dglu = stored(dgated[f] * (up + shift), f, &rounder);
        real dgate = stored(dglu * (s + alpha * gate * s * ((real)1 - s)), f, &rounder);
        real dup = rounder.on ? rounded(dgated[f] * rounded(gate * s, f, &rounder), f, &rounder)
                              : dgated[f] * gate * s;
        hidden[f * h.step] = raw_gate <= limit ? dgate : 0;
        hidden[h.up + f * h.step] = raw_up <= limit && raw_up >= -limit ? dup : 0;
    }
}

/* ---- forward ---- */

/* Everything up to the expert's own output, unweighted. */
static void run_group(group *g, const job *j)
{
    project(g->hidden, 2 * j->F, g->x, j->C, j->experts->up, j->experts->up_bias, g, j);
    halves h = halves_of(j);
#pragma omp parallel for schedule(static) if (g->n * j->F > CP_WORTH_A_THREAD)
    for (int64_t i = 0; i < g->n; i++)
        gate_row(g->gated + i * j->F, g->hidden + i * 2 * j->F, j->form, h, j->F, j->rounder);
    project(g->y, j->C, g->gated, j->F, j->experts->down, j->experts->down_bias, g, j);
}

CP_CLONES static void add_weighted(real *restrict y, const real *restrict part, real weight, int64_t C,
                                   cp_rounder rounder)
{
    for (int64_t c = 0; c < C; c++)
        y[c] = stored(y[c] + stored(weight * part[c], c, &rounder), c, &rounder);
}

static void forward(cp_tensor y, cp_tensor x, cp_tensor weights, const cp_experts *experts,
                    cp_experts_form form, cp_arena *scratch, cp_precision precision)
{
    job j = check(y, x, weights, experts, form, precision);
    size_t mark = cp_arena_mark(scratch);
    group g = take_group(scratch, &j);
    int64_t rows = CP_SHAPE_ONLY ? 0 : j.tokens, E = CP_SHAPE_ONLY ? 0 : j.E;
    for (int64_t token = 0; token < rows; token++)
        memset(cp_row(y, token), 0, (size_t)j.C * sizeof(real));
    for (int64_t e = 0; e < E; e++) {
        gather(&g, e, &j);
        if (g.n == 0)
            continue;
        run_group(&g, &j);
#pragma omp parallel for schedule(static) if (g.n * j.C > CP_WORTH_A_THREAD)
        for (int64_t i = 0; i < g.n; i++)
            add_weighted(cp_row(y, g.token[i]), g.y + i * j.C, cp_row(weights, g.token[i])[e], j.C,
                         j.rounder);
    }
    cp_arena_release(scratch, mark);
}

/* ---- backward ---- */

CP_CLONES static real dot(const real *a, const real *b, int64_t n)
{
    return dot_in_lanes(a, b, n);
}

CP_CLONES static void scaled(real *restrict y, const real *restrict x, real factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}

CP_CLONES static void add(real *restrict y, const real *restrict x, int64_t n, cp_rounder rounder)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = stored(y[i] + x[i], i, &rounder);
}

CP_CLONES static void round_results(real *x, int64_t n, cp_rounder rounder)
{
    round_row(x, n, 0, &rounder);
}

/* dweights, and g->y turned from the expert's output into its gradient. */
static void weigh_backward(cp_tensor dweights, group *g, cp_tensor dout, const job *j)
{
#pragma omp parallel for schedule(static) if (g->n * j->C > CP_WORTH_A_THREAD)
    for (int64_t i = 0; i < g->n; i++) {
        const real *d = cp_row(dout, g->token[i]);
        real *y = g->y + i * j->C;
        if (cp_tensor_given(dweights))
            cp_row(dweights, g->token[i])[g->e] += dot(d, y, j->C);
        scaled(y, d, cp_row(j->weights, g->token[i])[g->e], j->C);
        if (j->rounder.on)
            round_results(y, j->C, j->rounder);
    }
}

/* Of y = x · stack + bias. */
static void add_parameters(cp_tensor dstack, cp_tensor dbiases, const real *dy, int64_t width, const real *x,
                           int64_t x_width, const group *g, const job *j)
{
    if (cp_tensor_given(dstack)) {
        cp_matrix out = matrix_of(dstack, g->e);
        bool t = j->form.transposed;
        cp_gemm_tiled(t ? x_width : width, t ? width : x_width, g->n, 1,
                      t ? columns_of(x, x_width) : columns_of(dy, width),
                      t ? rows_of(dy, width) : rows_of(x, x_width), true, (real *)(uintptr_t)out.data,
                      out.stride, j->matmul);
    }
    for (int64_t i = 0; cp_tensor_given(dbiases) && i < g->n; i++)
        add(cp_row(dbiases, g->e), dy + i * width, width, (cp_rounder){0});
}

static void backward_group(cp_tensor dx, cp_tensor dweights, const cp_experts *d, cp_tensor dout, group *g,
                           real *dgated, const job *j)
{
    int64_t C = j->C, F = j->F;
    run_group(g, j);
    weigh_backward(dweights, g, dout, j);
    add_parameters(d->down, d->down_bias, g->y, C, g->gated, F, g, j);
    cp_gemm_tiled(g->n, F, C, 1, rows_of(g->y, C), backwards(j->experts->down, g, j), false, dgated, F,
                  j->matmul);
    halves h = halves_of(j);
#pragma omp parallel for schedule(static) if (g->n * F > CP_WORTH_A_THREAD)
    for (int64_t i = 0; i < g->n; i++) {
        if (j->rounder.on)
            round_results(dgated + i * F, F, j->rounder);
        gate_row_backward(g->hidden + i * 2 * F, dgated + i * F, j->form, h, F, j->rounder);
    }
    add_parameters(d->up, d->up_bias, g->hidden, 2 * F, g->x, C, g, j);
    if (!cp_tensor_given(dx))
        return;
    cp_gemm_tiled(g->n, C, 2 * F, 1, rows_of(g->hidden, 2 * F), backwards(j->experts->up, g, j), false, g->y,
                  C, j->matmul);
#pragma omp parallel for schedule(static) if (g->n * C > CP_WORTH_A_THREAD)
    for (int64_t i = 0; i < g->n; i++) {
        if (j->rounder.on)
            round_results(g->y + i * C, C, j->rounder);
        add(cp_row(dx, g->token[i]), g->y + i * C, C, j->rounder);
    }
}

static void backward(cp_tensor dx, cp_tensor dweights, const cp_experts *gradients, cp_tensor dout,
                     cp_tensor x, cp_tensor weights, const cp_experts *experts, cp_experts_form form,
                     cp_arena *scratch, cp_precision precision)
{
    job j = check(dout, x, weights, experts, form, precision);
    cp_check_optional("experts dx", dx, x.dims, x.extent);
    cp_check_optional("experts dweights", dweights, weights.dims, weights.extent);
    check_parameters("experts gradient", gradients, &j);
    size_t mark = cp_arena_mark(scratch);
    group g = take_group(scratch, &j);
    real *dgated = take(scratch, &j, j.F);
    int64_t E = CP_SHAPE_ONLY ? 0 : j.E;
    for (int64_t e = 0; e < E; e++) {
        gather(&g, e, &j);
        if (g.n > 0)
            backward_group(dx, dweights, gradients, dout, &g, dgated, &j);
    }
    cp_arena_release(scratch, mark);
}

const cp_experts_ops CP_WIDTH(cp_experts) = {.forward = forward, .backward = backward};

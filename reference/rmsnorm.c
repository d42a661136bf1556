#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

static void check(cp_tensor y, cp_tensor inverse_rms, cp_tensor x, cp_tensor weight, cp_norm_weight kind)
{
    cp_check_real("rmsnorm x", x);
    cp_check_like("rmsnorm y", y, x);
    cp_check(x.dims >= 2 && cp_is_real(inverse_rms) && cp_tensor_has_shape(inverse_rms, x.dims - 1, x.extent),
             "rmsnorm: inverse_rms has not one number a row");
    cp_check(cp_tensor_given(weight) == (kind != CP_NORM_PLAIN), "rmsnorm: kind %d and %s weight", (int)kind,
             cp_tensor_given(weight) ? "a" : "no");
    cp_check_optional("rmsnorm weight", weight, 1, CP_EXTENTS(cp_width(x)));
}

CP_CLONES static real sum_of_squares(const real *x, int64_t N)
{
    real lane[LANES] = {0};
    int64_t n = 0;
    for (; n + LANES <= N; n += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] += x[n + i] * x[n + i];
    for (int i = 0; n + i < N; i++)
        lane[i] += x[n + i] * x[n + i];
    return sum_of_lanes(lane);
}

CP_CLONES static void normalise(real *restrict y, const real *restrict x, real r, const real *restrict weight,
                                real one, cp_rounder first, cp_rounder last, int64_t N)
{
    for (int64_t n = 0; n < N; n++) {
        real normal = stored(x[n] * r, n, &first);
        y[n] = stored(weight ? normal * (one + weight[n]) : normal, n, &last);
    }
}

static void forward(cp_tensor y, cp_tensor inverse_rms, cp_tensor x, cp_tensor weight, cp_norm_weight kind,
                    double epsilon, cp_precision precision)
{
    check(y, inverse_rms, x, weight, kind);
    cp_rounder last = cp_rounder_of(precision);
    cp_rounder first = kind == CP_NORM_WEIGHT ? last : (cp_rounder){0};
    if (CP_SHAPE_ONLY)
        return;
    int64_t rows = cp_row_count(x);
    int64_t N = cp_width(x);
    real one = kind == CP_NORM_ONE_PLUS ? (real)1 : (real)0;
#pragma omp parallel for schedule(static) if (rows * N > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        const real *from = cp_row(x, row);
        real r = (real)1 / real_sqrt(sum_of_squares(from, N) / (real)N + (real)epsilon);
        *cp_scalar(inverse_rms, row) = r;
        normalise(cp_row(y, row), from, r, weight.data, one, first, last, N);
    }
}

/* mean of g · x̂ */
CP_CLONES static real mean_product(const real *restrict dy, const real *restrict x, real r,
                                   const real *restrict weight, real one, int64_t N)
{
    real lane[LANES] = {0};
    int64_t n = 0;
    for (; n + LANES <= N; n += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] += dy[n + i] * (weight ? one + weight[n + i] : (real)1) * (x[n + i] * r);
    for (int i = 0; n + i < N; i++)
        lane[i] += dy[n + i] * (weight ? one + weight[n + i] : (real)1) * (x[n + i] * r);
    return sum_of_lanes(lane) / (real)N;
}

CP_CLONES static void add_dx(real *restrict dx, const real *restrict dy, const real *restrict x, real r,
                             real mean, const real *restrict weight, real one, int64_t N)
{
    for (int64_t n = 0; n < N; n++) {
        real g = weight ? dy[n] * (one + weight[n]) : dy[n];
        dx[n] += r * (g - x[n] * r * mean);
    }
}

CP_CLONES static void add_dweight(real *restrict dweight, const real *restrict dy, const real *restrict x,
                                  real r, int64_t N)
{
    for (int64_t n = 0; n < N; n++)
        dweight[n] += dy[n] * (x[n] * r);
}

static void add(real *restrict sum, const real *restrict term, int64_t N)
{
    for (int64_t n = 0; n < N; n++)
        sum[n] += term[n];
}

typedef struct gradients {
    cp_tensor dx, partial; /* partial [blocks,N]: each block of rows has a dweight of its own */
    cp_tensor dy, inverse_rms, x, weight;
    real one;
    cp_rounder rounder; /* of what x̂ · weight is made of */
    cp_tensor rows;     /* [blocks,N], where that is rounded: a row's gradient of x̂ */
} gradients;

/* dy · weight and dy · x̂ as results of their own. */
CP_CLONES static void round_products(real *restrict dnormal, real *restrict dweight, const real *restrict dy,
                                     const real *restrict x, real r, const real *restrict weight,
                                     cp_rounder rounder, int64_t N)
{
    for (int64_t n = 0; n < N; n++)
        dnormal[n] = rounded(dy[n] * weight[n], n, &rounder);
    for (int64_t n = 0; dweight && n < N; n++)
        dweight[n] += rounded(dy[n] * rounded(x[n] * r, n, &rounder), n, &rounder);
}

static void rounded_row(const gradients *g, int64_t block, int64_t row)
{
    int64_t N = cp_width(g->x);
    const real *x = cp_row(g->x, row);
    real r = *cp_scalar(g->inverse_rms, row);
    real *dnormal = cp_row(g->rows, block);
    round_products(dnormal, cp_tensor_given(g->partial) ? cp_row(g->partial, block) : NULL,
                   cp_row(g->dy, row), x, r, g->weight.data, g->rounder, N);
    if (cp_tensor_given(g->dx))
        add_dx(cp_row(g->dx, row), dnormal, x, r, mean_product(dnormal, x, r, NULL, 0, N), NULL, 0, N);
}

enum { BLOCK_ROWS = 64 };

static void backward_block(const gradients *g, int64_t block)
{
    int64_t N = cp_width(g->x);
    int64_t end = cp_min(cp_row_count(g->x), (block + 1) * BLOCK_ROWS);
    for (int64_t row = block * BLOCK_ROWS; row < end; row++) {
        if (g->rounder.on) {
            rounded_row(g, block, row);
            continue;
        }
        const real *x = cp_row(g->x, row);
        const real *dy = cp_row(g->dy, row);
        real r = *cp_scalar(g->inverse_rms, row);
        if (cp_tensor_given(g->dx)) {
            real mean = mean_product(dy, x, r, g->weight.data, g->one, N);
            add_dx(cp_row(g->dx, row), dy, x, r, mean, g->weight.data, g->one, N);
        }
        if (cp_tensor_given(g->partial))
            add_dweight(cp_row(g->partial, block), dy, x, r, N);
    }
}

static void backward(cp_tensor dx, cp_tensor dweight, cp_tensor dy, cp_tensor inverse_rms, cp_tensor x,
                     cp_tensor weight, cp_norm_weight kind, cp_arena *scratch, cp_precision precision)
{
    check(dy, inverse_rms, x, weight, kind);
    cp_check_optional("rmsnorm dx", dx, x.dims, x.extent);
    cp_check_optional("rmsnorm dweight", dweight, weight.dims, weight.extent);
    int64_t rows = cp_row_count(x);
    int64_t N = cp_width(x);
    int64_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    size_t mark = cp_arena_mark(scratch);
    gradients g = {.dx = dx,
                   .dy = dy,
                   .inverse_rms = inverse_rms,
                   .x = x,
                   .weight = weight,
                   .one = kind == CP_NORM_ONE_PLUS ? (real)1 : (real)0};
    if (kind == CP_NORM_WEIGHT)
        g.rounder = cp_rounder_of(precision);
    if (g.rounder.on)
        g.rows = CP_TAKE(scratch, x.dtype, blocks, N);
    if (cp_tensor_given(dweight))
        g.partial = CP_TAKE(scratch, x.dtype, blocks, N);
    if (!CP_SHAPE_ONLY) {
        cp_tensor_zero(g.partial);
#pragma omp parallel for schedule(static) if (rows * N > CP_WORTH_A_THREAD)
        for (int64_t block = 0; block < blocks; block++)
            backward_block(&g, block);
        for (int64_t block = 0; block < blocks && cp_tensor_given(dweight); block++)
            add(dweight.data, cp_row(g.partial, block), N);
    }
    cp_arena_release(scratch, mark);
}

const cp_rmsnorm_ops CP_WIDTH(cp_rmsnorm) = {.forward = forward, .backward = backward};

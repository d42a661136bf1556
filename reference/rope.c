#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

/* Angles are products in double, as accurate as their factors: transformers computes both in float32, so whoever
 * wants its table passes its frequencies. */
static void table(cp_tensor cosine, cp_tensor sine, cp_tensor position, const double *inverse_frequency,
                  double attention_scaling, cp_precision precision)
{
    cp_check_real("rope cosine", cosine);
    cp_check(cosine.dims == 3, "rope cosine: %d axes", cosine.dims);
    cp_check_like("rope sine", sine, cosine);
    cp_check_integers("rope position", position, 2, cosine.extent);
    cp_rounder rounder = cp_rounder_of(precision);
    if (CP_SHAPE_ONLY)
        return;
    int64_t rows = cp_row_count(cosine);
    int64_t half = cp_width(cosine);
#pragma omp parallel for schedule(static) if (rows * half > CP_WORTH_A_THREAD / 16)
    for (int64_t row = 0; row < rows; row++) {
        real *c = cp_row(cosine, row);
        real *s = cp_row(sine, row);
        double at = (double)cp_integer(position, row);
        for (int64_t j = 0; j < half; j++) {
            c[j] = stored((real)(cos(at * inverse_frequency[j]) * attention_scaling), j, &rounder);
            s[j] = stored((real)(sin(at * inverse_frequency[j]) * attention_scaling), j, &rounder);
        }
    }
}

static void check(cp_tensor y, cp_tensor x, cp_tensor cosine, cp_tensor sine)
{
    cp_check_real("rope x", x);
    cp_check(x.dims == 4, "rope x: %d axes", x.dims);
    cp_check_like("rope y", y, x);
    cp_check_real("rope cosine", cosine);
    cp_check(cosine.dims == 3 && 2 * cp_width(cosine) <= cp_width(x),
             "rope: %lld frequencies for heads of %lld", (long long)cp_width(cosine), (long long)cp_width(x));
    cp_check_shape("rope cosine", cosine, 3, CP_EXTENTS(x.extent[0], x.extent[1], cp_width(cosine)));
    cp_check_like("rope sine", sine, cosine);
}

/* Each product and their sum are results of their own, as in transformers; its interleaved form turns in float32. */
typedef struct turning {
    cp_rounder product, sum;
} turning;

static turning turning_of(cp_rope_layout layout, cp_precision precision)
{
    turning t = {.sum = cp_rounder_of(precision)};
    if (layout == CP_ROPE_HALVED)
        t.product = t.sum;
    return t;
}

CP_INLINE real rotated(real a, real c, real b, real s, int64_t place, const turning *t)
{
    return stored(stored(a * c, place, &t->product) + stored(b * s, place, &t->product), place, &t->sum);
}

/* The pairs stand `apart` from each other and `step` from the next. Inlined with constants. */
CP_INLINE void rotate_pairs(real *restrict y, const real *restrict x, const real *restrict c,
                            const real *restrict s, int64_t half, int64_t step, int64_t apart,
                            const turning *t)
{
    for (int64_t j = 0; j < half; j++) {
        int64_t a = step * j, b = a + apart;
        y[a] = rotated(x[a], c[j], -x[b], s[j], a, t);
        y[b] = rotated(x[b], c[j], x[a], s[j], b, t);
    }
}

CP_CLONES static void rotate(real *restrict y, const real *restrict x, const real *restrict c,
                             const real *restrict s, int64_t half, cp_rope_layout layout, turning t)
{
    const turning off = {0};
    if (layout == CP_ROPE_HALVED && t.sum.on)
        rotate_pairs(y, x, c, s, half, 1, half, &t);
    else if (layout == CP_ROPE_HALVED)
        rotate_pairs(y, x, c, s, half, 1, half, &off);
    else if (t.sum.on)
        rotate_pairs(y, x, c, s, half, 2, 1, &t);
    else
        rotate_pairs(y, x, c, s, half, 2, 1, &off);
}

static void forward(cp_tensor y, cp_tensor x, cp_tensor cosine, cp_tensor sine, cp_rope_layout layout,
                    cp_precision precision)
{
    check(y, x, cosine, sine);
    turning t = turning_of(layout, precision);
    if (CP_SHAPE_ONLY)
        return;
    int64_t tokens = x.extent[0] * x.extent[1];
    int64_t H = x.extent[2];
    int64_t D = x.extent[3];
    int64_t half = cp_width(cosine);
#pragma omp parallel for schedule(static) if (tokens * H * D > CP_WORTH_A_THREAD)
    for (int64_t token = 0; token < tokens; token++) {
        for (int64_t h = 0; h < H; h++) {
            real *to = cp_row(y, token * H + h);
            const real *from = cp_row(x, token * H + h);
            rotate(to, from, cp_row(cosine, token), cp_row(sine, token), half, layout, t);
            memcpy(to + 2 * half, from + 2 * half, (size_t)(D - 2 * half) * sizeof *to);
        }
    }
}

CP_INLINE void add_pairs(real *restrict dx, const real *restrict dy, const real *restrict c,
                         const real *restrict s, int64_t half, int64_t step, int64_t apart, const turning *t)
{
    for (int64_t j = 0; j < half; j++) {
        int64_t a = step * j, b = a + apart;
        dx[a] += rotated(dy[a], c[j], dy[b], s[j], a, t);
        dx[b] += rotated(dy[b], c[j], -dy[a], s[j], b, t);
    }
}

CP_CLONES static void add_rotated_back(real *restrict dx, const real *restrict dy, const real *restrict c,
                                       const real *restrict s, int64_t half, cp_rope_layout layout, turning t)
{
    const turning off = {0};
    if (layout == CP_ROPE_HALVED && t.sum.on)
        add_pairs(dx, dy, c, s, half, 1, half, &t);
    else if (layout == CP_ROPE_HALVED)
        add_pairs(dx, dy, c, s, half, 1, half, &off);
    else if (t.sum.on)
        add_pairs(dx, dy, c, s, half, 2, 1, &t);
    else
        add_pairs(dx, dy, c, s, half, 2, 1, &off);
}

static void backward(cp_tensor dx, cp_tensor dy, cp_tensor cosine, cp_tensor sine, cp_rope_layout layout,
                     cp_precision precision)
{
    check(dx, dy, cosine, sine);
    turning t = turning_of(layout, precision);
    if (CP_SHAPE_ONLY)
        return;
    int64_t tokens = dy.extent[0] * dy.extent[1];
    int64_t H = dy.extent[2];
    int64_t D = dy.extent[3];
    int64_t half = cp_width(cosine);
#pragma omp parallel for schedule(static) if (tokens * H * D > CP_WORTH_A_THREAD)
    for (int64_t token = 0; token < tokens; token++) {
        for (int64_t h = 0; h < H; h++) {
            real *to = cp_row(dx, token * H + h);
            const real *from = cp_row(dy, token * H + h);
            add_rotated_back(to, from, cp_row(cosine, token), cp_row(sine, token), half, layout, t);
            for (int64_t j = 2 * half; j < D; j++)
                to[j] += from[j];
        }
    }
}

const cp_rope_ops CP_WIDTH(cp_rope) = {.table = table, .forward = forward, .backward = backward};

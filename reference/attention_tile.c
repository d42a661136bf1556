#include "reference/attention_tile.h"

#include <inttypes.h>

enum { STACK_HEADS = 4 };

/* ---- the mask by visibility ---- */

static const int64_t *places(cp_tensor index, int64_t b, int64_t first)
{
    return (const int64_t *)index.data + b * index.stride[0] + first;
}

static cp_cover visibility_cover(const void *source, int64_t b, cp_range queries, cp_range keys)
{
    const cp_attention *a = source;
    return cp_visibility_cover(a->visibility, b, places(a->query_index, b, queries.first), queries.count,
                               places(a->key_index, b, keys.first), keys.count);
}

static void visibility_row(uint8_t *visible, const void *source, int64_t b, int64_t query, cp_range keys)
{
    const cp_attention *a = source;
    cp_visible_row(visible, a->visibility, b, *places(a->query_index, b, query),
                   places(a->key_index, b, keys.first), keys.count);
}

cp_tile_mask cp_mask_of_visibility(const cp_attention *attention)
{
    return (cp_tile_mask){.source = attention, .cover = visibility_cover, .row = visibility_row};
}

/* ---- the problem ---- */

static void check(const cp_problem *p)
{
    const cp_attention *a = p->attention;
    cp_check_shape("attention q", p->q, 4, CP_EXTENTS(p->B, p->Sq, p->H, p->D));
    cp_check_shape("attention k", p->k, 4, CP_EXTENTS(p->B, p->Sk, p->k.extent[2], p->D));
    cp_check_shape("attention v", p->v, 4, CP_EXTENTS(p->B, p->Sk, p->v.extent[2], p->Dv));
    cp_check_integers("attention query_index", a->query_index, 2, CP_EXTENTS(p->B, p->Sq));
    cp_check_integers("attention key_index", a->key_index, 2, CP_EXTENTS(p->B, p->Sk));
    for (int64_t h = 0; h < p->H; h++)
        cp_check(a->key_head[h] >= 0 && a->key_head[h] < p->k.extent[2] && a->value_head[h] >= 0 &&
                     a->value_head[h] < p->v.extent[2],
                 "query head %" PRId64 " reads heads %d and %d of %" PRId64 " and %" PRId64, h,
                 a->key_head[h], a->value_head[h], p->k.extent[2], p->v.extent[2]);
    cp_check(CP_SHAPE_ONLY || (a->query_index.stride[1] == 1 && a->key_index.stride[1] == 1),
             "attention: strided indices");
    cp_check(a->softcap >= 0, "attention: softcap %g", a->softcap);
}

cp_problem cp_problem_state(cp_tensor q, cp_tensor k, cp_tensor v, const cp_attention *attention,
                            cp_tile_mask mask, cp_arena *scratch, cp_precision precision)
{
    cp_problem p = {.q = q,
                    .k = k,
                    .v = v,
                    .attention = attention,
                    .mask = mask,
                    .precision = precision,
                    .rounder = cp_rounder_of(precision),
                    .B = q.extent[0],
                    .Sq = q.extent[1],
                    .Sk = k.extent[1],
                    .H = q.extent[2],
                    .D = q.extent[3],
                    .Dv = v.extent[3]};
    check(&p);
    p.shows_hidden = !CP_SHAPE_ONLY && attention->softcap > 0 && attention->visibility->masked_before_cap;
    p.hidden = p.shows_hidden ? -(real)attention->softcap : -(real)INFINITY;
    int64_t heads = cp_largest_stack(attention->key_head, attention->value_head, p.H, STACK_HEADS);
    p.tile = cp_min(heads == 1 ? 128 : 64, p.Sq);
    p.tiles = p.tile ? (p.Sq + p.tile - 1) / p.tile : 0;
    p.rows = p.tile * heads;
    p.groups = cp_head_groups_plan(attention->key_head, attention->value_head, p.H, STACK_HEADS, scratch);
    return p;
}

int cp_problem_threads(const cp_problem *p)
{
    return p->B * p->H * p->Sq * p->Sk * p->D > 8 * CP_WORTH_A_THREAD ? cp_thread_limit() : 1;
}

void cp_gradients_check(const cp_attention_gradients *g, const cp_problem *p)
{
    cp_check_optional("attention dq", g->dq, 4, p->q.extent);
    cp_check_optional("attention dk", g->dk, 4, p->k.extent);
    cp_check_optional("attention dv", g->dv, 4, p->v.extent);
    cp_check_shape("attention dout", g->dout, 4, CP_EXTENTS(p->B, p->Sq, p->H, p->Dv));
    cp_check_shape("attention lse", g->lse, 3, CP_EXTENTS(p->B, p->Sq, p->H));
    cp_check_shape("attention delta", g->delta, 3, CP_EXTENTS(p->B, p->Sq, p->H));
}

/* ---- a tile ---- */

cp_tile cp_tile_of(const cp_problem *p, int64_t b, int64_t stack, int64_t number)
{
    int32_t begin = stack ? p->groups.stack_end[stack - 1] : 0;
    int64_t first = number * p->tile;
    return (cp_tile){.b = b,
                     .queries = {first, cp_min(p->tile, p->Sq - first)},
                     .heads = p->groups.heads + begin,
                     .stacked = p->groups.stack_end[stack] - begin};
}

void cp_tile_gather(real *out, const cp_problem *p, const cp_tile *t, cp_tensor from)
{
    int64_t width = cp_width(from);
    for (int64_t row = 0; row < tile_rows(t); row++)
        memcpy(out + row * width, cp_row(from, token_head(p, t, row)), (size_t)width * sizeof *out);
}

CP_CLONES static void cap_row(real *z, int64_t n, real softcap)
{
    for (int64_t j = 0; j < n; j++)
        z[j] = softcap * vec_tanh(z[j] / softcap);
}

/* The product, its scaling and each step of the cap are results of their own. z is the bare product. */
CP_CLONES static void round_scores(real *z, int64_t n, int64_t first, real scale, real softcap,
                                   cp_rounder rounder)
{
    for (int64_t j = 0; j < n; j++)
        z[j] = rounded(rounded(z[j], first + j, &rounder) * scale, first + j, &rounder);
    if (softcap > 0)
        for (int64_t j = 0; j < n; j++) {
            real t = vec_tanh(rounded(z[j] / softcap, first + j, &rounder));
            z[j] = rounded(rounded(t, first + j, &rounder) * softcap, first + j, &rounder);
        }
}

void cp_tile_scores(real *z, int64_t stride, const real *q, const cp_problem *p, const cp_tile *t,
                    cp_range keys)
{
    int64_t rows = tile_rows(t);
    real scale = (real)p->attention->scale, softcap = (real)p->attention->softcap;
    cp_matrix k = keys_matrix(p->k, t->b, keys.first, key_head_of(p, t));
    cp_gemm(rows, keys.count, p->D, p->rounder.on ? (real)1 : scale, plain(q, p->D), transpose(k), false, z,
            stride, p->precision.matmul);
    for (int64_t row = 0; row < rows && p->rounder.on; row++)
        round_scores(z + row * stride, keys.count, keys.first, scale, softcap, p->rounder);
    for (int64_t row = 0; row < rows && softcap > 0 && !p->rounder.on; row++)
        cap_row(z + row * stride, keys.count, softcap);
}

CP_CLONES static void hide_row(real *row, const uint8_t *visible, real value, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        row[j] = visible[j] ? row[j] : value;
}

void cp_tile_hide(real *a, real *b, int64_t stride, const cp_problem *p, const cp_tile *t, int64_t key,
                  real value)
{
    uint8_t visible[KEY_TILE];
    cp_range keys = key_tile(p, key);
    for (int64_t i = 0; i < t->queries.count; i++) {
        p->mask.row(visible, p->mask.source, t->b, t->queries.first + i, keys);
        for (int32_t h = 0; h < t->stacked; h++) {
            int64_t row = h * t->queries.count + i;
            hide_row(a + row * stride, visible, value, keys.count);
            if (b)
                hide_row(b + row * stride, visible, value, keys.count);
        }
    }
}

CP_CLONES static void row_gradient(real *restrict p, real *restrict ds, real lse, real delta, real softcap,
                                   int64_t n)
{
    real per_cap = softcap > 0 ? (real)1 / softcap : (real)0;
    for (int64_t j = 0; j < n; j++) {
        real t = p[j] * per_cap;
        p[j] = vec_exp(p[j] - lse);
        ds[j] = p[j] * (ds[j] - delta) * ((real)1 - t * t);
    }
}

/* The same and the scaling, each a result of its own. */
CP_CLONES static void rounded_gradient(real *restrict p, real *restrict ds, real lse, real delta, real scale,
                                       real softcap, cp_range keys, cp_rounder rounder)
{
    real per_cap = softcap > 0 ? (real)1 / softcap : (real)0;
    for (int64_t j = 0; j < keys.count; j++) {
        int64_t place = keys.first + j;
        real t = p[j] * per_cap;
        p[j] = vec_exp(p[j] - lse);
        real d = rounded(p[j] * (rounded(ds[j], place, &rounder) - delta), place, &rounder);
        if (softcap > 0) {
            d = rounded(rounded(d * softcap, place, &rounder) * ((real)1 - t * t), place, &rounder);
            d = rounded(d / softcap, place, &rounder);
        }
        ds[j] = rounded(d * scale, place, &rounder);
    }
}

void cp_tile_row_gradient(real *p, real *ds, real lse, real delta, const cp_problem *problem, cp_range keys)
{
    real softcap = (real)problem->attention->softcap;
    if (problem->rounder.on)
        rounded_gradient(p, ds, lse, delta, (real)problem->attention->scale, softcap, keys, problem->rounder);
    else
        row_gradient(p, ds, lse, delta, softcap, keys.count);
}

CP_CLONES static void row_scale(real *x, int64_t n, real factor)
{
    for (int64_t j = 0; j < n; j++)
        x[j] *= factor;
}

void cp_tile_row_scale(real *x, int64_t n, real factor)
{
    row_scale(x, n, factor);
}

CP_CLONES static void row_round(real *x, int64_t n, int64_t first, cp_rounder rounder)
{
    round_row(x, n, first, &rounder);
}

void cp_tile_row_round(real *x, int64_t n, int64_t first, cp_rounder rounder)
{
    row_round(x, n, first, rounder);
}

#include "reference/attention_stream.h"

enum { BLOCK_TILES = 4, KEY_BLOCK = KEY_TILE * BLOCK_TILES };
/* A stride that is no power of two spreads the rows over the cache. */
enum { STRIDE = KEY_BLOCK + LANES };
/* Units of work that keep a few threads busy; where batch rows and heads give fewer, units are cut into slices. */
enum { WANTED = 4 };

static int64_t pieces(int64_t whole, int64_t piece)
{
    return piece ? (whole + piece - 1) / piece : 0;
}

/* ---- what a tile of queries sees ---- */

/* covers [tiles of keys] */
static void cover_tiles(uint8_t *covers, const cp_problem *p, const cp_tile *t)
{
    for (int64_t key = 0; key < p->Sk; key += KEY_TILE)
        covers[key / KEY_TILE] = (uint8_t)cover_of(p, t, key);
}

/* The keys of the block that begins at `first`, from the first tile that is seen to the last. */
static cp_range seen_of_block(const uint8_t *covers, const cp_problem *p, int64_t first)
{
    int64_t begin = first / KEY_TILE, end = pieces(cp_min(first + KEY_BLOCK, p->Sk), KEY_TILE);
    while (begin < end && covers[begin] == CP_COVER_NONE)
        begin++;
    while (begin < end && covers[end - 1] == CP_COVER_NONE)
        end--;
    return (cp_range){begin * KEY_TILE, cp_min(end * KEY_TILE, p->Sk) - begin * KEY_TILE};
}

/* In one matrix or two, [rows,keys.count]. */
static void hide(real *a, real *b, const uint8_t *covers, const cp_problem *p, const cp_tile *t,
                 cp_range keys, real value)
{
    for (int64_t at = 0; at < keys.count; at += KEY_TILE)
        if (covers[(keys.first + at) / KEY_TILE] != CP_COVER_ALL)
            cp_tile_hide(a + at, b ? b + at : NULL, STRIDE, p, t, keys.first + at, value);
}

/* ---- forward ---- */

typedef struct forward_space {
    real *q, *z, *o;       /* [rows,D] [rows,STRIDE] [rows,Dv] */
    real *highest, *total; /* [rows]: m and l */
    uint8_t *covers;
} forward_space;

static forward_space forward_scratch(cp_arena *scratch, const cp_problem *p, cp_dtype dtype)
{
    size_t rows = (size_t)p->rows * cp_dtype_bytes(dtype);
    return (forward_space){.q = cp_arena_take(scratch, rows * (size_t)p->D),
                           .z = cp_arena_take(scratch, rows * STRIDE),
                           .o = cp_arena_take(scratch, rows * (size_t)p->Dv),
                           .highest = cp_arena_take(scratch, rows),
                           .total = cp_arena_take(scratch, rows),
                           .covers = cp_arena_take(scratch, (size_t)pieces(p->Sk, KEY_TILE))};
}

/* z becomes exp(z − m) with the new m, which *highest and *total are brought to. Returns what sums under the old m are
 * to be multiplied by. Lanes count keys from the block's beginning, whichever of its tiles are given. */
CP_CLONES static real absorb_row(real *z, int64_t n, real *highest, real *total)
{
    real lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = *highest;
    greatest_in_lanes(lane, z, n);
    real m = greatest_of_lanes(lane);
    real shift = m == -(real)INFINITY ? (real)0 : m; /* nothing is seen yet: exp of −∞ is 0 */
    for (int i = 0; i < LANES; i++)
        lane[i] = 0;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++) {
            z[j + i] = vec_exp(z[j + i] - shift);
            lane[i] += z[j + i];
        }
    for (int i = 0; j + i < n; i++) {
        z[j + i] = vec_exp(z[j + i] - shift);
        lane[i] += z[j + i];
    }
    real keep = vec_exp(*highest - shift);
    *total = *total * keep + sum_of_lanes(lane);
    *highest = m;
    return keep;
}

/* z becomes exp(z − m) / l, rounded; `first`: the key of z[0]. */
CP_CLONES static void final_row(real *z, int64_t n, int64_t first, real highest, real total,
                                cp_rounder rounder)
{
    real shift = total > 0 ? highest : (real)0;
    real factor = total > 0 ? (real)1 / total : (real)0;
    for (int64_t j = 0; j < n; j++)
        z[j] = rounded(vec_exp(z[j] - shift) * factor, first + j, &rounder);
}

static void hidden_scores(const forward_space *s, const cp_problem *p, const cp_tile *t, cp_range keys)
{
    cp_tile_scores(s->z, STRIDE, s->q, p, t, keys);
    hide(s->z, NULL, s->covers, p, t, keys, p->hidden);
}

static void add_values(const forward_space *s, const cp_problem *p, const cp_tile *t, cp_range keys)
{
    cp_gemm(tile_rows(t), p->Dv, keys.count, 1, plain(s->z, STRIDE),
            keys_matrix(p->v, t->b, keys.first, value_head_of(p, t)), true, s->o, p->Dv, p->precision.matmul);
}

static void start(const forward_space *s, const cp_problem *p, const cp_tile *t)
{
    int64_t rows = tile_rows(t);
    cp_tile_gather(s->q, p, t, p->q);
    cover_tiles(s->covers, p, t);
    memset(s->o, 0, (size_t)(rows * p->Dv) * sizeof *s->o);
    memset(s->total, 0, (size_t)rows * sizeof *s->total);
    for (int64_t row = 0; row < rows; row++)
        s->highest[row] = -(real)INFINITY;
}

/* Keys go by once: statistics, and o under the statistics so far. */
static void absorb_block(const forward_space *s, const cp_problem *p, const cp_tile *t, cp_range keys)
{
    hidden_scores(s, p, t, keys);
    for (int64_t row = 0; row < tile_rows(t); row++) {
        real keep = absorb_row(s->z + row * STRIDE, keys.count, &s->highest[row], &s->total[row]);
        if (keep != 1 && !p->rounder.on)
            cp_tile_row_scale(s->o + row * p->Dv, p->Dv, keep);
    }
    if (!p->rounder.on)
        add_values(s, p, t, keys);
}

/* Keys go by again, with final statistics. */
static void apply_block(const forward_space *s, const cp_problem *p, const cp_tile *t, cp_range keys)
{
    hidden_scores(s, p, t, keys);
    for (int64_t row = 0; row < tile_rows(t); row++)
        final_row(s->z + row * STRIDE, keys.count, keys.first, s->highest[row], s->total[row], p->rounder);
    add_values(s, p, t, keys);
}

typedef void block_step(const forward_space *s, const cp_problem *p, const cp_tile *t, cp_range keys);

static void each_block(block_step *step, const forward_space *s, const cp_problem *p, const cp_tile *t)
{
    for (int64_t first = 0; first < p->Sk; first += KEY_BLOCK) {
        cp_range keys = seen_of_block(s->covers, p, first);
        if (keys.count > 0)
            step(s, p, t, keys);
    }
}

static void store(cp_tensor o, cp_tensor lse, const forward_space *s, const cp_problem *p, const cp_tile *t)
{
    for (int64_t row = 0; row < tile_rows(t); row++) {
        real *from = s->o + row * p->Dv;
        real total = s->total[row];
        if (p->rounder.on)
            cp_tile_row_round(from, p->Dv, 0, p->rounder);
        else
            cp_tile_row_scale(from, p->Dv, total == 0 ? (real)1 : (real)1 / total);
        memcpy(cp_row(o, token_head(p, t, row)), from, (size_t)p->Dv * sizeof *from);
        *cp_scalar(lse, token_head(p, t, row)) =
            s->highest[row] + real_log(total); /* −∞ where nothing is seen */
    }
}

static void forward_tile(cp_tensor o, cp_tensor lse, const forward_space *s, const cp_problem *p,
                         const cp_tile *t)
{
    start(s, p, t);
    each_block(absorb_block, s, p, t);
    if (p->rounder.on)
        each_block(apply_block, s, p, t);
    store(o, lse, s, p, t);
}

void cp_stream_forward(cp_tensor o, cp_tensor lse, cp_tensor q, cp_tensor k, cp_tensor v,
                       const cp_attention *attention, cp_tile_mask mask, cp_arena *scratch,
                       cp_precision precision)
{
    size_t mark = cp_arena_mark(scratch);
    cp_problem p = cp_problem_state(q, k, v, attention, mask, scratch, precision);
    cp_check_shape("attention o", o, 4, CP_EXTENTS(p.B, p.Sq, p.H, p.Dv));
    cp_check_shape("attention lse", lse, 3, CP_EXTENTS(p.B, p.Sq, p.H));
    int threads = cp_problem_threads(&p);
    forward_space *space = cp_arena_take(scratch, (size_t)threads * sizeof *space);
    for (int thread = 0; thread < threads; thread++) {
        forward_space s = forward_scratch(scratch, &p, q.dtype);
        if (!CP_SHAPE_ONLY)
            space[thread] = s;
    }
    int64_t each = p.B * p.groups.stacks;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t n = 0; n < (CP_SHAPE_ONLY ? 0 : each * p.tiles); n++) {
        /* late tiles see the most: they go first */
        cp_tile t = cp_tile_of(&p, n % each / p.groups.stacks, n % p.groups.stacks, p.tiles - 1 - n / each);
        forward_tile(o, lse, &space[cp_thread()], &p, &t);
    }
    cp_arena_release(scratch, mark);
}

/* ---- backward ---- */

typedef struct backward_space {
    real *q, *dout, *dq; /* [rows,D] [rows,Dv] [rows,D] */
    real *p, *ds;        /* [rows,STRIDE] */
    uint8_t *covers;
} backward_space;

static backward_space backward_scratch(cp_arena *scratch, const cp_problem *p, cp_dtype dtype)
{
    size_t rows = (size_t)p->rows * cp_dtype_bytes(dtype);
    return (backward_space){.q = cp_arena_take(scratch, rows * (size_t)p->D),
                            .dout = cp_arena_take(scratch, rows * (size_t)p->Dv),
                            .dq = cp_arena_take(scratch, rows * (size_t)p->D),
                            .p = cp_arena_take(scratch, rows * STRIDE),
                            .ds = cp_arena_take(scratch, rows * STRIDE),
                            .covers = cp_arena_take(scratch, (size_t)pieces(p->Sk, KEY_TILE))};
}

/* p and ds [rows,keys.count] */
static void block_gradient(const cp_attention_gradients *g, const backward_space *s, const cp_problem *p,
                           const cp_tile *t, cp_range keys)
{
    int64_t rows = tile_rows(t);
    cp_tile_scores(s->p, STRIDE, s->q, p, t, keys);
    cp_gemm(rows, keys.count, p->Dv, 1, plain(s->dout, p->Dv),
            transpose(keys_matrix(p->v, t->b, keys.first, value_head_of(p, t))), false, s->ds, STRIDE,
            p->precision.matmul);
    if (p->shows_hidden)
        hide(s->p, NULL, s->covers, p, t, keys, p->hidden);
    for (int64_t row = 0; row < rows; row++) {
        real lse = *cp_scalar(g->lse, token_head(p, t, row));
        real delta = *cp_scalar(g->delta, token_head(p, t, row));
        cp_tile_row_gradient(s->p + row * STRIDE, s->ds + row * STRIDE, lse, delta, p, keys);
    }
    if (!p->shows_hidden)
        hide(s->p, s->ds, s->covers, p, t, keys, 0);
    for (int64_t row = 0; row < rows && p->rounder.on; row++)
        cp_tile_row_round(s->p + row * STRIDE, keys.count, keys.first, p->rounder);
}

static void backward_block(const cp_attention_gradients *g, const backward_space *s, const cp_problem *p,
                           const cp_tile *t, cp_range keys)
{
    cp_matmul form = p->precision.matmul;
    int64_t rows = tile_rows(t);
    real scale = cp_tile_gradient_factor(p);
    block_gradient(g, s, p, t, keys);
    if (cp_tensor_given(g->dq))
        cp_gemm(rows, p->D, keys.count, scale, plain(s->ds, STRIDE),
                keys_matrix(p->k, t->b, keys.first, key_head_of(p, t)), true, s->dq, p->D, form);
    if (cp_tensor_given(g->dk)) {
        cp_matrix dk = keys_matrix(g->dk, t->b, keys.first, key_head_of(p, t));
        cp_gemm(keys.count, p->D, rows, scale, transpose(plain(s->ds, STRIDE)), plain(s->q, p->D), true,
                (real *)dk.data, dk.stride, form);
    }
    if (cp_tensor_given(g->dv)) {
        cp_matrix dv = keys_matrix(g->dv, t->b, keys.first, value_head_of(p, t));
        cp_gemm(keys.count, p->Dv, rows, 1, transpose(plain(s->p, STRIDE)), plain(s->dout, p->Dv), true,
                (real *)dv.data, dv.stride, form);
    }
}

CP_CLONES static void add_row(real *restrict sum, const real *restrict term, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += term[i];
}

static void backward_tile(const cp_attention_gradients *g, const backward_space *s, const cp_problem *p,
                          const cp_tile *t)
{
    int64_t rows = tile_rows(t);
    cp_tile_gather(s->q, p, t, p->q);
    cp_tile_gather(s->dout, p, t, g->dout);
    cover_tiles(s->covers, p, t);
    memset(s->dq, 0, (size_t)(rows * p->D) * sizeof *s->dq);
    for (int64_t first = 0; first < p->Sk; first += KEY_BLOCK) {
        cp_range keys = seen_of_block(s->covers, p, first);
        if (keys.count > 0)
            backward_block(g, s, p, t, keys);
    }
    for (int64_t row = 0; row < rows && cp_tensor_given(g->dq); row++)
        add_row(cp_row(g->dq, token_head(p, t, row)), s->dq + row * p->D, p->D);
}

/* ---- slices ---- */

typedef struct slices {
    int64_t count;
    cp_tensor dk, dv; /* [count - 1,B,Sk,…]: accumulators of all but the first */
} slices;

static cp_tensor take_accumulators(cp_arena *scratch, int64_t count, cp_tensor like)
{
    if (!cp_tensor_given(like) || count == 0)
        return CP_NONE;
    cp_tensor sums =
        CP_TAKE(scratch, like.dtype, count * like.extent[0], like.extent[1], like.extent[2], like.extent[3]);
    cp_tensor_zero(sums);
    return sums;
}

/* Ordered sums are not cut: they run in index order. */
static slices cut(const cp_attention_gradients *g, const cp_problem *p, cp_arena *scratch)
{
    slices s = {.count = 1};
    int64_t whole = p->B * cp_min(p->k.extent[2], p->v.extent[2]);
    if (p->precision.matmul != CP_MATMUL_ORDERED && whole > 0 && p->tiles > 0)
        s.count = cp_min(pieces(WANTED, whole), p->tiles);
    s.dk = take_accumulators(scratch, s.count - 1, g->dk);
    s.dv = take_accumulators(scratch, s.count - 1, g->dv);
    return s;
}

static cp_tensor slice_of(cp_tensor sums, cp_tensor first, int64_t slice)
{
    if (slice == 0 || !cp_tensor_given(first))
        return first;
    return cp_tensor_slice(sums, 0, (slice - 1) * first.extent[0], first.extent[0]);
}

static void add_slices(cp_tensor total, cp_tensor sums, int64_t count)
{
    int64_t rows = cp_tensor_given(sums) ? cp_row_count(total) : 0;
#pragma omp parallel for schedule(static) if (cp_tensor_count(sums) > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t slice = 1; slice < count; slice++)
            add_row(cp_row(total, row), cp_row(slice_of(sums, total, slice), row), cp_width(total));
}

/* Every `count`-th tile: all slices of a causal row are equally long. */
static void backward_slice(const cp_attention_gradients *g, const backward_space *s, const cp_problem *p,
                           int64_t b, int64_t unit, int64_t slice, int64_t count)
{
    for (int64_t stack = unit ? p->groups.unit_end[unit - 1] : 0; stack < p->groups.unit_end[unit]; stack++)
        for (int64_t number = slice; number < p->tiles; number += count) {
            cp_tile t = cp_tile_of(p, b, stack, number);
            backward_tile(g, s, p, &t);
        }
}

void cp_stream_backward(const cp_attention_gradients *g, cp_tensor q, cp_tensor k, cp_tensor v,
                        const cp_attention *attention, cp_tile_mask mask, cp_arena *scratch,
                        cp_precision precision)
{
    size_t mark = cp_arena_mark(scratch);
    cp_problem p = cp_problem_state(q, k, v, attention, mask, scratch, precision);
    cp_gradients_check(g, &p);
    slices cuts = cut(g, &p, scratch);
    int threads = cp_problem_threads(&p);
    backward_space *space = cp_arena_take(scratch, (size_t)threads * sizeof *space);
    for (int thread = 0; thread < threads; thread++) {
        backward_space s = backward_scratch(scratch, &p, q.dtype);
        if (!CP_SHAPE_ONLY)
            space[thread] = s;
    }
    int64_t each = p.groups.units * cuts.count;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t n = 0; n < (CP_SHAPE_ONLY ? 0 : p.B * each); n++) {
        int64_t slice = n % cuts.count;
        cp_attention_gradients part = *g;
        part.dk = slice_of(cuts.dk, g->dk, slice);
        part.dv = slice_of(cuts.dv, g->dv, slice);
        backward_slice(&part, &space[cp_thread()], &p, n / each, n % each / cuts.count, slice, cuts.count);
    }
    if (!CP_SHAPE_ONLY) {
        add_slices(g->dk, cuts.dk, cuts.count);
        add_slices(g->dv, cuts.dv, cuts.count);
    }
    cp_arena_release(scratch, mark);
}

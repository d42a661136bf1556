#include "reference/gemm.h"
#include "reference/head_groups.h"
#include "reference/kernels.h"
#include "reference/rows.h"
#include "reference/vector_math.h"

#include <inttypes.h>

/* Queries go in tiles. Query heads that read the same head of k and the same head of v are stacked below each other in
 * one matrix of q, so that the products are large. Keys go in tiles too, but only to be left out where a tile of
 * queries sees none of them; tiles that are seen are done together, in runs.
 *
 * The forward holds the scores of a tile of queries against every key; the backward, which knows lse already, needs
 * a block of keys at a time. An element of o and dq belongs to one tile of queries; one of dk and dv to one unit: the
 * query heads that are joined by reading a head of k or of v together. */
enum { KEY_TILE = 64, BLOCK_TILES = 4, KEY_BLOCK = KEY_TILE * BLOCK_TILES, STACK_HEADS = 4 };

typedef struct problem {
    cp_tensor q, k, v;
    const cp_attention *attention;
    cp_precision precision;
    bool rounds;
    int64_t B, Sq, Sk, H, D, Dv;
    int64_t tile; /* queries */
    int64_t rows; /* of the largest stack: queries x heads */
    cp_head_groups groups;
} problem;

/* ---- the problem ---- */

static void check(const problem *p)
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

/* Takes the tables of heads from `scratch`. */
static problem state(cp_tensor q, cp_tensor k, cp_tensor v, const cp_attention *attention, cp_arena *scratch,
                     cp_precision precision)
{
    problem p = {.q = q,
                 .k = k,
                 .v = v,
                 .attention = attention,
                 .precision = precision,
                 .rounds = cp_rounds(precision),
                 .B = q.extent[0],
                 .Sq = q.extent[1],
                 .Sk = k.extent[1],
                 .H = q.extent[2],
                 .D = q.extent[3],
                 .Dv = v.extent[3]};
    check(&p);
    int64_t heads = cp_largest_stack(attention->key_head, attention->value_head, p.H, STACK_HEADS);
    p.tile = cp_min(heads == 1 ? 128 : 64, p.Sq);
    p.rows = p.tile * heads;
    p.groups = cp_head_groups_plan(attention->key_head, attention->value_head, p.H, STACK_HEADS, scratch);
    return p;
}

/* ---- a tile of queries: all heads of one stack ---- */

typedef struct tile {
    int64_t b, first, count; /* queries of batch row b */
    const int32_t *heads;    /* the stack */
    int32_t stacked;
} tile;

static int64_t tile_rows(const tile *t)
{
    return t->stacked * t->count;
}

/* The row of a [B,Sq,H,…] tensor that stands at `row` of the stack. */
static int64_t token_head(const problem *p, const tile *t, int64_t row)
{
    return (t->b * p->Sq + t->first + row % t->count) * p->H + t->heads[row / t->count];
}

static void gather(real *out, const problem *p, const tile *t, cp_tensor from)
{
    int64_t width = cp_width(from);
    for (int64_t row = 0; row < tile_rows(t); row++)
        memcpy(out + row * width, cp_row(from, token_head(p, t, row)), (size_t)width * sizeof *out);
}

static const int64_t *queries_of(const problem *p, const tile *t)
{
    cp_tensor index = p->attention->query_index;
    return (const int64_t *)index.data + t->b * index.stride[0] + t->first;
}

static const int64_t *keys_of(const problem *p, const tile *t, int64_t first)
{
    cp_tensor index = p->attention->key_index;
    return (const int64_t *)index.data + t->b * index.stride[0] + first;
}

static cp_cover cover_of(const problem *p, const tile *t, int64_t key)
{
    return cp_visibility_cover(p->attention->visibility, t->b, queries_of(p, t), t->count, keys_of(p, t, key),
                               cp_min(KEY_TILE, p->Sk - key));
}

/* The keys [key, …) of one head of k or v, as a matrix. */
static cp_matrix keys_matrix(cp_tensor tensor, const tile *t, int64_t key, int32_t head)
{
    return (cp_matrix){.data = (const real *)tensor.data + t->b * tensor.stride[0] + key * tensor.stride[1] +
                               head * tensor.stride[2],
                       .stride = tensor.stride[1] < cp_width(tensor) ? cp_width(tensor) : tensor.stride[1]};
}

static cp_matrix plain(const real *data, int64_t stride)
{
    return (cp_matrix){.data = data, .stride = stride};
}

static cp_matrix transpose(cp_matrix matrix)
{
    matrix.transposed = true;
    return matrix;
}

/* `hidden` [queries, KEY_TILE] of one tile of keys, then `value` where it says so, in every head's rows. */
static void hide(real *scores, int64_t stride, uint8_t *visible, const problem *p, const tile *t, int64_t key,
                 real value)
{
    int64_t count = cp_min(KEY_TILE, p->Sk - key);
    for (int64_t i = 0; i < t->count; i++) {
        cp_visible_row(visible, p->attention->visibility, t->b, queries_of(p, t)[i], keys_of(p, t, key),
                       count);
        for (int32_t h = 0; h < t->stacked; h++) {
            real *row = scores + (h * t->count + i) * stride;
            for (int64_t j = 0; j < count; j++)
                row[j] = visible[j] ? row[j] : value;
        }
    }
}

CP_CLONES static void cap_row(real *z, int64_t n, real softcap, bool rounds)
{
    if (rounds)
        for (int64_t j = 0; j < n; j++)
            z[j] = rounded_to_bf16(z[j]);
    if (softcap > 0)
        for (int64_t j = 0; j < n; j++) {
            real capped = softcap * vec_tanh(z[j] / softcap);
            z[j] = rounds ? rounded_to_bf16(capped) : capped;
        }
}

/* z [rows, count] of the stack against the keys [key, key + count) */
static void scores(real *z, int64_t stride, const real *q, const problem *p, const tile *t, int64_t key,
                   int64_t count)
{
    int64_t rows = tile_rows(t);
    real softcap = (real)p->attention->softcap;
    cp_matrix k = keys_matrix(p->k, t, key, p->attention->key_head[t->heads[0]]);
    cp_gemm(rows, count, p->D, (real)p->attention->scale, plain(q, p->D), transpose(k), false, z, stride,
            p->precision.matmul);
    for (int64_t row = 0; row < rows && (softcap > 0 || p->rounds); row++)
        cap_row(z + row * stride, count, softcap, p->rounds);
}

/* ---- forward ---- */

typedef struct run {
    int64_t begin, end; /* keys */
} run;

typedef struct forward_space {
    real *q, *z, *o;  /* [rows,D] [rows,stride] [rows,Dv] */
    run *runs;        /* at most one for every second tile of keys */
    uint8_t *visible; /* [KEY_TILE] */
    int64_t stride;
} forward_space;

/* In every thread's part. A stride that is no power of two spreads the rows over the cache. */
static forward_space forward_scratch(cp_arena *scratch, const problem *p, cp_dtype dtype)
{
    size_t element = cp_dtype_bytes(dtype);
    forward_space s = {.stride = (p->Sk + LANES - 1) / LANES * LANES + LANES};
    s.q = cp_arena_take(scratch, (size_t)(p->rows * p->D) * element);
    s.z = cp_arena_take(scratch, (size_t)(p->rows * s.stride) * element);
    s.o = cp_arena_take(scratch, (size_t)(p->rows * p->Dv) * element);
    s.runs = cp_arena_take(scratch, (size_t)(p->Sk / (2 * KEY_TILE) + 1) * sizeof(run));
    s.visible = cp_arena_take(scratch, KEY_TILE);
    return s;
}

CP_CLONES static void exp_in_lanes(real *z, int64_t n, real highest, real lane[LANES])
{
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++) {
            z[j + i] = vec_exp(z[j + i] - highest);
            lane[i] += z[j + i];
        }
    for (int i = 0; j + i < n; i++) {
        z[j + i] = vec_exp(z[j + i] - highest);
        lane[i] += z[j + i];
    }
}

CP_CLONES static void greatest_of_row(const real *z, int64_t n, real lane[LANES])
{
    greatest_in_lanes(lane, z, n);
}

CP_CLONES static void normalise(real *p, int64_t n, real factor, bool rounds)
{
    for (int64_t j = 0; j < n; j++) {
        real value = p[j] * factor;
        p[j] = rounds ? rounded_to_bf16(value) : value;
    }
}

/* z becomes p; returns lse. Lanes count keys from 0, whichever runs there are: a row does not depend on the others of
 * its tile. */
static real softmax(real *z, const run *runs, int count, bool rounds)
{
    real lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = -(real)INFINITY;
    for (int n = 0; n < count; n++)
        greatest_of_row(z + runs[n].begin, runs[n].end - runs[n].begin, lane);
    real highest = greatest_of_lanes(lane);
    bool sees = !(highest == -(real)INFINITY);
    for (int i = 0; i < LANES; i++)
        lane[i] = 0;
    for (int n = 0; n < count; n++)
        exp_in_lanes(z + runs[n].begin, runs[n].end - runs[n].begin, sees ? highest : (real)0, lane);
    real total = sum_of_lanes(lane);
    for (int n = 0; n < count && sees; n++)
        normalise(z + runs[n].begin, runs[n].end - runs[n].begin, (real)1 / total, rounds);
    return highest + real_log(total); /* −∞ where nothing is seen */
}

/* Scores of the tile, hidden where a key is; returns the number of runs. */
static int visible_scores(const forward_space *s, const problem *p, const tile *t)
{
    int runs = 0;
    for (int64_t key = 0; key < p->Sk; key += KEY_TILE) {
        if (cover_of(p, t, key) == CP_COVER_NONE)
            continue;
        if (runs == 0 || s->runs[runs - 1].end != key)
            s->runs[runs++].begin = key;
        s->runs[runs - 1].end = cp_min(key + KEY_TILE, p->Sk);
    }
    for (int n = 0; n < runs; n++) {
        run r = s->runs[n];
        scores(s->z + r.begin, s->stride, s->q, p, t, r.begin, r.end - r.begin);
        for (int64_t key = r.begin; key < r.end; key += KEY_TILE)
            if (cover_of(p, t, key) != CP_COVER_ALL)
                hide(s->z + key, s->stride, s->visible, p, t, key, -(real)INFINITY);
    }
    return runs;
}

static void forward_tile(cp_tensor o, cp_tensor lse, const forward_space *s, const problem *p, const tile *t)
{
    int64_t rows = tile_rows(t);
    gather(s->q, p, t, p->q);
    int runs = visible_scores(s, p, t);
    for (int64_t row = 0; row < rows; row++)
        *cp_scalar(lse, token_head(p, t, row)) = softmax(s->z + row * s->stride, s->runs, runs, p->rounds);
    if (runs == 0)
        memset(s->o, 0, (size_t)(rows * p->Dv) * sizeof *s->o);
    for (int n = 0; n < runs; n++) {
        run r = s->runs[n];
        cp_matrix v = keys_matrix(p->v, t, r.begin, p->attention->value_head[t->heads[0]]);
        cp_gemm(rows, p->Dv, r.end - r.begin, 1, plain(s->z + r.begin, s->stride), v, n > 0, s->o, p->Dv,
                p->precision.matmul);
    }
    for (int64_t row = 0; row < rows; row++) {
        real *to = cp_row(o, token_head(p, t, row));
        for (int64_t d = 0; d < p->Dv; d++)
            to[d] = p->rounds ? rounded_to_bf16(s->o[row * p->Dv + d]) : s->o[row * p->Dv + d];
    }
}

static tile tile_of(const problem *p, int64_t b, int64_t stack, int64_t number)
{
    int32_t begin = stack ? p->groups.stack_end[stack - 1] : 0;
    int64_t first = number * p->tile;
    return (tile){.b = b,
                  .first = first,
                  .count = cp_min(p->tile, p->Sq - first),
                  .heads = p->groups.heads + begin,
                  .stacked = p->groups.stack_end[stack] - begin};
}

static int threads_for(const problem *p)
{
    return p->B * p->H * p->Sq * p->Sk * p->D > 8 * CP_WORTH_A_THREAD ? cp_thread_limit() : 1;
}

static void forward(cp_tensor o, cp_tensor lse, cp_tensor q, cp_tensor k, cp_tensor v,
                    const cp_attention *attention, cp_arena *scratch, cp_precision precision)
{
    size_t mark = cp_arena_mark(scratch);
    problem p = state(q, k, v, attention, scratch, precision);
    cp_check_shape("attention o", o, 4, CP_EXTENTS(p.B, p.Sq, p.H, p.Dv));
    cp_check_shape("attention lse", lse, 3, CP_EXTENTS(p.B, p.Sq, p.H));
    int threads = threads_for(&p);
    forward_space *space = cp_arena_take(scratch, (size_t)threads * sizeof *space);
    for (int thread = 0; thread < threads; thread++) {
        forward_space s = forward_scratch(scratch, &p, q.dtype);
        if (!CP_SHAPE_ONLY)
            space[thread] = s;
    }
    int64_t tiles = p.tile ? (p.Sq + p.tile - 1) / p.tile : 0;
    int64_t work = CP_SHAPE_ONLY ? 0 : p.B * p.groups.stacks * tiles;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t n = 0; n < work; n++) {
        /* late tiles see the most: they go first */
        tile t = tile_of(&p, n % (p.B * p.groups.stacks) / p.groups.stacks, n % p.groups.stacks,
                         tiles - 1 - n / (p.B * p.groups.stacks));
        forward_tile(o, lse, &space[cp_thread()], &p, &t);
    }
    cp_arena_release(scratch, mark);
}

/* ---- backward ---- */

typedef struct gradients {
    cp_tensor dq, dk, dv, dout, lse, delta;
} gradients;

typedef struct backward_space {
    real *q, *dout, *dq; /* [rows,D] [rows,Dv] [rows,D] */
    real *p, *ds;        /* [rows,KEY_BLOCK] */
    uint8_t *visible;    /* [KEY_TILE] */
} backward_space;

static backward_space backward_scratch(cp_arena *scratch, const problem *p, cp_dtype dtype)
{
    size_t rows = (size_t)p->rows * cp_dtype_bytes(dtype);
    return (backward_space){.q = cp_arena_take(scratch, rows * (size_t)p->D),
                            .dout = cp_arena_take(scratch, rows * (size_t)p->Dv),
                            .dq = cp_arena_take(scratch, rows * (size_t)p->D),
                            .p = cp_arena_take(scratch, rows * KEY_BLOCK),
                            .ds = cp_arena_take(scratch, rows * KEY_BLOCK),
                            .visible = cp_arena_take(scratch, KEY_TILE)};
}

/* p: z on entry. ds: do · v on entry; on return the gradient of the scaled product before the cap. */
CP_CLONES static void row_gradient(real *restrict p, real *restrict ds, real lse, real of_row, real softcap,
                                   int64_t n)
{
    real per_cap = softcap > 0 ? (real)1 / softcap : (real)0;
    for (int64_t j = 0; j < n; j++) {
        real t = p[j] * per_cap;
        p[j] = vec_exp(p[j] - lse);
        ds[j] = p[j] * (ds[j] - of_row) * ((real)1 - t * t);
    }
}

/* The share of the keys [key, key + count), a run of tiles that this tile of queries sees something of. */
static void backward_block(const gradients *g, const backward_space *s, const problem *p, const tile *t,
                           int64_t key, int64_t count)
{
    const cp_attention *a = p->attention;
    cp_matmul form = p->precision.matmul;
    int64_t rows = tile_rows(t);
    int32_t key_head = a->key_head[t->heads[0]];
    int32_t value_head = a->value_head[t->heads[0]];
    scores(s->p, KEY_BLOCK, s->q, p, t, key, count);
    cp_gemm(rows, count, p->Dv, 1, plain(s->dout, p->Dv), transpose(keys_matrix(p->v, t, key, value_head)),
            false, s->ds, KEY_BLOCK, form);
    for (int64_t row = 0; row < rows; row++) {
        real lse = *cp_scalar(g->lse, token_head(p, t, row));
        real delta_i = *cp_scalar(g->delta, token_head(p, t, row));
        row_gradient(s->p + row * KEY_BLOCK, s->ds + row * KEY_BLOCK, lse, delta_i, (real)a->softcap, count);
    }
    for (int64_t at = key; at < key + count; at += KEY_TILE) {
        if (cover_of(p, t, at) == CP_COVER_ALL)
            continue;
        hide(s->p + at - key, KEY_BLOCK, s->visible, p, t, at, 0);
        hide(s->ds + at - key, KEY_BLOCK, s->visible, p, t, at, 0);
    }
    for (int64_t row = 0; row < rows && p->rounds; row++)
        normalise(s->p + row * KEY_BLOCK, count, 1, true);
    real scale = (real)a->scale;
    if (cp_tensor_given(g->dq))
        cp_gemm(rows, p->D, count, scale, plain(s->ds, KEY_BLOCK), keys_matrix(p->k, t, key, key_head), true,
                s->dq, p->D, form);
    if (cp_tensor_given(g->dk)) {
        cp_matrix dk = keys_matrix(g->dk, t, key, key_head);
        cp_gemm(count, p->D, rows, scale, transpose(plain(s->ds, KEY_BLOCK)), plain(s->q, p->D), true,
                (real *)dk.data, dk.stride, form);
    }
    if (cp_tensor_given(g->dv)) {
        cp_matrix dv = keys_matrix(g->dv, t, key, value_head);
        cp_gemm(count, p->Dv, rows, 1, transpose(plain(s->p, KEY_BLOCK)), plain(s->dout, p->Dv), true,
                (real *)dv.data, dv.stride, form);
    }
}

static void backward_tile(const gradients *g, const backward_space *s, const problem *p, const tile *t)
{
    int64_t rows = tile_rows(t);
    gather(s->q, p, t, p->q);
    gather(s->dout, p, t, g->dout);
    memset(s->dq, 0, (size_t)(rows * p->D) * sizeof *s->dq);
    int64_t begin = 0;
    for (int64_t key = 0; key < p->Sk; key += KEY_TILE) {
        int64_t end = cp_min(key + KEY_TILE, p->Sk);
        bool seen = cover_of(p, t, key) != CP_COVER_NONE;
        if (!seen && begin < key)
            backward_block(g, s, p, t, begin, key - begin);
        if (!seen || end - begin == KEY_BLOCK || end == p->Sk) {
            if (seen)
                backward_block(g, s, p, t, begin, end - begin);
            begin = end;
        }
    }
    for (int64_t row = 0; row < rows && cp_tensor_given(g->dq); row++) {
        real *to = cp_row(g->dq, token_head(p, t, row));
        for (int64_t d = 0; d < p->D; d++)
            to[d] += s->dq[row * p->D + d];
    }
}

static void check_gradients(const gradients *g, const problem *p)
{
    cp_check_optional("attention dq", g->dq, 4, p->q.extent);
    cp_check_optional("attention dk", g->dk, 4, p->k.extent);
    cp_check_optional("attention dv", g->dv, 4, p->v.extent);
    cp_check_shape("attention dout", g->dout, 4, CP_EXTENTS(p->B, p->Sq, p->H, p->Dv));
    cp_check_shape("attention lse", g->lse, 3, CP_EXTENTS(p->B, p->Sq, p->H));
    cp_check_shape("attention delta", g->delta, 3, CP_EXTENTS(p->B, p->Sq, p->H));
}

static void backward(cp_tensor dq, cp_tensor dk, cp_tensor dv, cp_tensor dout, cp_tensor lse,
                     cp_tensor row_delta, cp_tensor q, cp_tensor k, cp_tensor v,
                     const cp_attention *attention, cp_arena *scratch, cp_precision precision)
{
    size_t mark = cp_arena_mark(scratch);
    problem p = state(q, k, v, attention, scratch, precision);
    gradients g = {dq, dk, dv, dout, lse, row_delta};
    check_gradients(&g, &p);
    int threads = threads_for(&p);
    backward_space *space = cp_arena_take(scratch, (size_t)threads * sizeof *space);
    for (int thread = 0; thread < threads; thread++) {
        backward_space s = backward_scratch(scratch, &p, q.dtype);
        if (!CP_SHAPE_ONLY)
            space[thread] = s;
    }
    int64_t tiles = p.tile ? (p.Sq + p.tile - 1) / p.tile : 0;
    int64_t work = CP_SHAPE_ONLY ? 0 : p.B * p.groups.units;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t n = 0; n < work; n++) {
        int64_t unit = n % p.groups.units;
        for (int64_t stack = unit ? p.groups.unit_end[unit - 1] : 0; stack < p.groups.unit_end[unit]; stack++)
            for (int64_t number = 0; number < tiles; number++) {
                tile t = tile_of(&p, n / p.groups.units, stack, number);
                backward_tile(&g, &space[cp_thread()], &p, &t);
            }
    }
    cp_arena_release(scratch, mark);
}

const cp_attention_ops CP_WIDTH(cp_attention_dense) = {.forward = forward, .backward = backward};

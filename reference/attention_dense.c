/* The dense form: its forward holds the scores of a tile of queries against every key, in runs of tiles that are seen.
 * Its backward is that of every form: once lse is known, a block of keys at a time is enough. */
#include "reference/attention_stream.h"
#include "reference/kernels.h"

typedef struct run {
    int64_t begin, end; /* keys */
} run;

typedef struct forward_space {
    real *q, *z, *o; /* [rows,D] [rows,stride] [rows,Dv] */
    run *runs;       /* at most one for every second tile of keys */
    int64_t stride;
} forward_space;

/* In every thread's part. A stride that is no power of two spreads the rows over the cache. */
static forward_space forward_scratch(cp_arena *scratch, const cp_problem *p, cp_dtype dtype)
{
    size_t element = cp_dtype_bytes(dtype);
    forward_space s = {.stride = (p->Sk + LANES - 1) / LANES * LANES + LANES};
    s.q = cp_arena_take(scratch, (size_t)(p->rows * p->D) * element);
    s.z = cp_arena_take(scratch, (size_t)(p->rows * s.stride) * element);
    s.o = cp_arena_take(scratch, (size_t)(p->rows * p->Dv) * element);
    s.runs = cp_arena_take(scratch, (size_t)(p->Sk / (2 * KEY_TILE) + 1) * sizeof(run));
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

/* z becomes p; returns lse. Lanes count keys from 0, whichever runs there are: a row does not depend on the others of
 * its tile. */
static real softmax(real *z, const run *runs, int count, cp_rounder rounder)
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
    for (int n = 0; n < count && sees; n++) {
        int64_t first = runs[n].begin, keys = runs[n].end - first;
        cp_tile_row_scale(z + first, keys, (real)1 / total);
        if (rounder.on)
            cp_tile_row_round(z + first, keys, first, rounder);
    }
    return highest + real_log(total); /* −∞ where nothing is seen */
}

/* Scores of the tile, hidden where a key is; returns the number of runs. */
static int visible_scores(const forward_space *s, const cp_problem *p, const cp_tile *t)
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
        cp_tile_scores(s->z + r.begin, s->stride, s->q, p, t, (cp_range){r.begin, r.end - r.begin});
        for (int64_t key = r.begin; key < r.end; key += KEY_TILE)
            if (cover_of(p, t, key) != CP_COVER_ALL)
                cp_tile_hide(s->z + key, NULL, s->stride, p, t, key, p->hidden);
    }
    return runs;
}

static void forward_tile(cp_tensor o, cp_tensor lse, const forward_space *s, const cp_problem *p,
                         const cp_tile *t)
{
    int64_t rows = tile_rows(t);
    cp_tile_gather(s->q, p, t, p->q);
    int runs = visible_scores(s, p, t);
    for (int64_t row = 0; row < rows; row++)
        *cp_scalar(lse, token_head(p, t, row)) = softmax(s->z + row * s->stride, s->runs, runs, p->rounder);
    if (runs == 0)
        memset(s->o, 0, (size_t)(rows * p->Dv) * sizeof *s->o);
    for (int n = 0; n < runs; n++) {
        run r = s->runs[n];
        cp_matrix v = keys_matrix(p->v, t->b, r.begin, value_head_of(p, t));
        cp_gemm(rows, p->Dv, r.end - r.begin, 1, plain(s->z + r.begin, s->stride), v, n > 0, s->o, p->Dv,
                p->precision.matmul);
    }
    for (int64_t row = 0; row < rows; row++) {
        real *from = s->o + row * p->Dv;
        if (p->rounder.on)
            cp_tile_row_round(from, p->Dv, 0, p->rounder);
        memcpy(cp_row(o, token_head(p, t, row)), from, (size_t)p->Dv * sizeof *from);
    }
}

static void forward(cp_tensor o, cp_tensor lse, cp_tensor q, cp_tensor k, cp_tensor v,
                    const cp_attention *attention, cp_arena *scratch, cp_precision precision)
{
    size_t mark = cp_arena_mark(scratch);
    cp_problem p = cp_problem_state(q, k, v, attention, cp_mask_of_visibility(attention), scratch, precision);
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

static void backward(cp_tensor dq, cp_tensor dk, cp_tensor dv, cp_tensor dout, cp_tensor lse, cp_tensor delta,
                     cp_tensor q, cp_tensor k, cp_tensor v, const cp_attention *attention, cp_arena *scratch,
                     cp_precision precision)
{
    cp_attention_gradients gradients = {dq, dk, dv, dout, lse, delta};
    cp_stream_backward(&gradients, q, k, v, attention, cp_mask_of_visibility(attention), scratch, precision);
}

const cp_attention_ops CP_WIDTH(cp_attention_dense) = {.forward = forward, .backward = backward};

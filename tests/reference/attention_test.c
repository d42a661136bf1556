/* Every form against a triple loop over an explicit mask, and partial results merged against the whole. */
#include "tests/reference/drive.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scene {
    const char *name;
    int64_t T, H, K, Kv, D, Dv;
    int64_t window, chunk; /* 0: none */
    int64_t document;      /* length of a document; 0: the row is one */
    int64_t left, right;   /* padding of batch row 1 */
    bool bidirectional;    /* no order */
    bool hides_rows;       /* row 0 of batch row 0 and some others see nothing */
    enum { HEADS_GROUPED, HEADS_INTERLEAVED, HEADS_CROSSED } heads;
    double softcap;
} scene;

enum { BATCH = 2, MAX_T = 600 };

static const scene scenes[] = {
    {"one token", .T = 1, .H = 1, .K = 1, .Kv = 1, .D = 4, .Dv = 4},
    {"causal", .T = 150, .H = 2, .K = 2, .Kv = 2, .D = 8, .Dv = 8},
    {"everything", .T = 140, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .bidirectional = true},
    {"grouped heads", .T = 200, .H = 6, .K = 2, .Kv = 2, .D = 16, .Dv = 16},
    {"one key head for ten", .T = 70, .H = 10, .K = 1, .Kv = 1, .D = 8, .Dv = 8},
    {"interleaved heads", .T = 130, .H = 4, .K = 2, .Kv = 2, .D = 8, .Dv = 8, .heads = HEADS_INTERLEAVED},
    {"keys and values of other heads", .T = 130, .H = 6, .K = 3, .Kv = 2, .D = 8, .Dv = 5,
     .heads = HEADS_CROSSED},
    {"window of one", .T = 100, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .window = 1},
    {"window", .T = 300, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .window = 70},
    {"chunks", .T = 300, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .chunk = 90},
    {"documents", .T = 300, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .document = 37},
    {"left padding", .T = 200, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .left = 80},
    {"right padding", .T = 200, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .right = 71},
    {"softcap", .T = 150, .H = 4, .K = 2, .Kv = 2, .D = 8, .Dv = 8, .softcap = 0.8},
    {"softcap, window, documents, padding", .T = 300, .H = 4, .K = 2, .Kv = 2, .D = 8, .Dv = 12,
     .softcap = 1.5, .window = 50, .document = 120, .right = 30, .left = 10},
    {"three blocks of keys", .T = 600, .H = 2, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .bidirectional = true},
    {"a window longer than a block", .T = 600, .H = 3, .K = 3, .Kv = 3, .D = 4, .Dv = 4, .window = 290},
    {"rows that see nothing", .T = 200, .H = 3, .K = 1, .Kv = 1, .D = 8, .Dv = 8, .hides_rows = true},
};

static const double SCALE = 0.7;

/* Everything [BATCH,T,…], contiguous, in an arena. */
typedef struct stage {
    const scene *scene;
    cp_arena arena;
    cp_visibility visibility;
    int32_t key_head[16], value_head[16];
    cp_tensor index, q, k, v, dout;
    cp_tensor o, lse, dq, dk, dv; /* of the triple loop, float64 */
} stage;

static int64_t *new_places(stage *s)
{
    size_t bytes = BATCH * (size_t)s->scene->T * sizeof(int64_t);
    return memset(cp_arena_take(&s->arena, bytes), 0, bytes);
}

static void set_visibility(stage *s)
{
    const scene *n = s->scene;
    uint8_t *real = cp_arena_take(&s->arena, BATCH * (size_t)n->T);
    int64_t *document = new_places(s), *scope = new_places(s), *order = new_places(s),
            *distance = new_places(s);
    int64_t *chunk = new_places(s), *index = new_places(s);
    for (int64_t at = 0; at < BATCH * n->T; at++) {
        int64_t i = at % n->T;
        index[at] = i;
        real[at] = at < n->T || (i >= n->left && i < n->T - n->right);
        document[at] = n->document ? i / n->document : 0;
        chunk[at] = n->chunk ? i / n->chunk : 0;
        order[at] = n->bidirectional ? 0 : i;
        distance[at] = i;
        if (n->hides_rows && i % 3 == 0)
            real[at] = 0;
        if (n->hides_rows)
            scope[at] = i % 5;
    }
    s->visibility =
        (cp_visibility){BATCH, n->T, real, document, scope, order, distance, chunk, NULL, n->window, false};
    s->index = CP_VIEW(index, CP_I64, BATCH, n->T);
}

static void set_heads(stage *s)
{
    const scene *n = s->scene;
    for (int32_t h = 0; h < n->H; h++) {
        s->key_head[h] = (int32_t)(n->heads == HEADS_GROUPED ? h * n->K / n->H : h % n->K);
        s->value_head[h] = (int32_t)(n->heads == HEADS_INTERLEAVED ? h % n->Kv : h * n->Kv / n->H);
    }
}

static cp_tensor new_random(stage *s, cp_dtype dtype, int64_t heads, int64_t width, uint64_t seed,
                            const char *name)
{
    cp_tensor tensor = CP_TAKE(&s->arena, dtype, BATCH, s->scene->T, heads, width);
    tensor_fill_random(tensor, seed, name);
    return tensor;
}

static cp_tensor new_zeros(stage *s, cp_dtype dtype, int64_t S, int64_t heads, int64_t width)
{
    cp_tensor tensor = width ? CP_TAKE(&s->arena, dtype, BATCH, S, heads, width)
                             : CP_TAKE(&s->arena, dtype, BATCH, S, heads);
    cp_tensor_zero(tensor);
    return tensor;
}

static double *at(cp_tensor tensor, int64_t b, int64_t i, int64_t h)
{
    return (double *)tensor.data + b * tensor.stride[0] + i * tensor.stride[1] + h * tensor.stride[2];
}

static double product(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t n = 0; n < count; n++)
        sum += a[n] * b[n];
    return sum;
}

static void add_scaled(double *y, double factor, const double *x, int64_t count)
{
    for (int64_t n = 0; n < count; n++)
        y[n] += factor * x[n];
}

/* The triple loop: one query head of one query against every key, forward and backward. */
static void one_query(stage *s, int64_t b, int64_t i, int64_t h)
{
    const scene *n = s->scene;
    int32_t kh = s->key_head[h], vh = s->value_head[h];
    double z[MAX_T], p[MAX_T], total = 0, highest = -INFINITY, delta = 0;
    for (int64_t j = 0; j < n->T; j++) {
        double t = SCALE * product(at(s->q, b, i, h), at(s->k, b, j, kh), n->D);
        z[j] = n->softcap > 0 ? n->softcap * tanh(t / n->softcap) : t;
        if (cp_visible(&s->visibility, b, i, j))
            highest = fmax(highest, z[j]);
    }
    for (int64_t j = 0; j < n->T; j++)
        total += p[j] = cp_visible(&s->visibility, b, i, j) ? exp(z[j] - highest) : 0;
    *at(s->lse, b, i, h) = highest + log(total);
    for (int64_t j = 0; j < n->T && total > 0; j++)
        add_scaled(at(s->o, b, i, h), p[j] /= total, at(s->v, b, j, vh), n->Dv);
    delta = product(at(s->o, b, i, h), at(s->dout, b, i, h), n->Dv);
    for (int64_t j = 0; j < n->T && total > 0; j++) {
        double ds = p[j] * (product(at(s->dout, b, i, h), at(s->v, b, j, vh), n->Dv) - delta);
        double dt = n->softcap > 0 ? ds * (1 - pow(z[j] / n->softcap, 2)) : ds;
        add_scaled(at(s->dv, b, j, vh), p[j], at(s->dout, b, i, h), n->Dv);
        add_scaled(at(s->dq, b, i, h), SCALE * dt, at(s->k, b, j, kh), n->D);
        add_scaled(at(s->dk, b, j, kh), SCALE * dt, at(s->q, b, i, h), n->D);
    }
}

static void stage_open(stage *s, const scene *n, uint64_t seed)
{
    enum { PLENTY = 64 << 20 };
    *s = (stage){.scene = n};
    assert_ok(cp_arena_open(&s->arena, PLENTY));
    set_visibility(s);
    set_heads(s);
    s->q = new_random(s, CP_F64, n->H, n->D, seed, "q");
    s->k = new_random(s, CP_F64, n->K, n->D, seed, "k");
    s->v = new_random(s, CP_F64, n->Kv, n->Dv, seed, "v");
    s->dout = new_random(s, CP_F64, n->H, n->Dv, seed, "dout");
    s->o = new_zeros(s, CP_F64, n->T, n->H, n->Dv);
    s->lse = new_zeros(s, CP_F64, n->T, n->H, 0);
    s->dq = new_zeros(s, CP_F64, n->T, n->H, n->D);
    s->dk = new_zeros(s, CP_F64, n->T, n->K, n->D);
    s->dv = new_zeros(s, CP_F64, n->T, n->Kv, n->Dv);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < n->H; h++)
            for (int64_t i = 0; i < n->T; i++)
                one_query(s, b, i, h);
}

/* ---- what is compared ---- */

typedef struct results {
    cp_tensor o, lse, dq, dk, dv;
} results;

static void require(test_verdict verdict, const stage *s, const char *how, const char *what)
{
    if (!verdict.fails)
        return;
    print_error("%s, %s: %s\n", s->scene->name, how, what);
    assert_verdict(verdict);
}

/* −∞ where and only where it must be; then it is taken for 0. */
static test_verdict compare_lse(cp_tensor lse, cp_tensor expected, double limit)
{
    int64_t count = cp_tensor_count(lse);
    double *found = test_doubles(lse);
    double *truth = test_doubles(expected);
    test_verdict verdict = {0};
    for (int64_t n = 0; n < count; n++) {
        if ((found[n] == -INFINITY) != (truth[n] == -INFINITY))
            verdict = test_failure("[%ld]: %g, expected %g", (long)n, found[n], truth[n]);
        if (truth[n] == -INFINITY)
            found[n] = truth[n] = 0;
    }
    if (!verdict.fails)
        verdict = test_compare(found, truth, count, limit, limit);
    free(found);
    free(truth);
    return verdict;
}

static void compare(const stage *s, const results *r, double limit, const char *how)
{
    require(compare_lse(r->lse, s->lse, limit), s, how, "lse");
    require(test_compare_tensors(r->o, s->o, limit, limit), s, how, "o");
    require(test_compare_tensors(r->dq, s->dq, limit, limit), s, how, "dq");
    require(test_compare_tensors(r->dk, s->dk, limit, limit), s, how, "dk");
    require(test_compare_tensors(r->dv, s->dv, limit, limit), s, how, "dv");
}

static cp_attention attention_of(const stage *s, cp_tensor key_index)
{
    return (cp_attention){.visibility = &s->visibility,
                          .query_index = s->index,
                          .key_index = key_index,
                          .key_head = s->key_head,
                          .value_head = s->value_head,
                          .scale = SCALE,
                          .softcap = s->scene->softcap};
}

static cp_tensor converted(stage *s, cp_tensor from, cp_dtype dtype)
{
    cp_tensor to = cp_tensor_take(&s->arena, dtype, from.dims, from.extent);
    cp_ops_of(dtype)->pointwise->convert(to, from);
    return to;
}

static results new_results(stage *s, cp_dtype dtype)
{
    const scene *n = s->scene;
    return (results){.o = new_zeros(s, dtype, n->T, n->H, n->Dv),
                     .lse = new_zeros(s, dtype, n->T, n->H, 0),
                     .dq = new_zeros(s, dtype, n->T, n->H, n->D),
                     .dk = new_zeros(s, dtype, n->T, n->K, n->D),
                     .dv = new_zeros(s, dtype, n->T, n->Kv, n->Dv)};
}

/* ---- a form against the triple loop ---- */

static void try_whole(stage *s, cp_attention_form form, cp_dtype dtype, cp_matmul matmul, double limit,
                      const char *how)
{
    const cp_attention_ops *ops = cp_ops_of(dtype)->attention[form];
    const cp_partial_ops *partial = cp_ops_of(dtype)->partial;
    cp_precision precision = {.matmul = matmul};
    cp_attention attention = attention_of(s, s->index);
    size_t mark = cp_arena_mark(&s->arena);
    cp_tensor q = converted(s, s->q, dtype), k = converted(s, s->k, dtype), v = converted(s, s->v, dtype);
    cp_tensor dout = converted(s, s->dout, dtype);
    results r = new_results(s, dtype);
    cp_tensor delta = new_zeros(s, dtype, s->scene->T, s->scene->H, 0);
    ops->forward(r.o, r.lse, q, k, v, &attention, &s->arena, precision);
    partial->delta(delta, dout, r.o);
    ops->backward(r.dq, r.dk, r.dv, dout, r.lse, delta, q, k, v, &attention, &s->arena, precision);
    compare(s, &r, limit, how);
    cp_arena_release(&s->arena, mark);
}

typedef void property(stage *s, cp_attention_form form, uint64_t seed);

static void every_scene_in_every_form(property *check)
{
    uint64_t seed = test_seed();
    for (size_t n = 0; n < sizeof scenes / sizeof *scenes; n++) {
        stage s;
        stage_open(&s, &scenes[n], seed);
        for (int form = 0; form < CP_ATTENTION_FORMS; form++)
            check(&s, (cp_attention_form)form, seed);
        cp_arena_close(&s.arena);
    }
}

static void whole(stage *s, cp_attention_form form, uint64_t seed)
{
    (void)seed;
    try_whole(s, form, CP_F64, CP_MATMUL_BLAS, 1e-13, "float64, BLAS");
    try_whole(s, form, CP_F64, CP_MATMUL_ORDERED, 1e-13, "float64, ordered");
    try_whole(s, form, CP_F32, CP_MATMUL_BLAS, 1e-5, "float32, BLAS");
    try_whole(s, form, CP_F32, CP_MATMUL_ORDERED, 1e-5, "float32, ordered");
}

static void forms_are_the_triple_loop(void **state)
{
    (void)state;
    every_scene_in_every_form(whole);
}

/* ---- parts merged against the whole ---- */

enum { PARTS = 3 };

/* Which part holds key j: uneven, interleaved; or runs of which the last is in nobody's past but its own. */
static int interleaved_part(int64_t j, int64_t T)
{
    static const int part[7] = {0, 2, 0, 1, 0, 1, 0};
    (void)T;
    return part[j % 7];
}

static int contiguous_part(int64_t j, int64_t T)
{
    return j < T / 5 ? 2 : j < T / 2 ? 0 : 1;
}

typedef int partition(int64_t j, int64_t T);

/* Keys of one part, copied out of or added back into [BATCH,T,heads,width]. */
static cp_tensor part_of(stage *s, cp_tensor whole, cp_tensor index, bool back, cp_tensor part)
{
    int64_t count = index.extent[1];
    if (!back)
        part = new_zeros(s, CP_F64, count, whole.extent[2], whole.extent[3]);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t n = 0; n < count; n++)
            for (int64_t h = 0; h < whole.extent[2]; h++) {
                int64_t j = ((const int64_t *)index.data)[b * count + n];
                if (back)
                    add_scaled(at(whole, b, j, h), 1, at(part, b, n, h), whole.extent[3]);
                else
                    memcpy(at(part, b, n, h), at(whole, b, j, h), (size_t)whole.extent[3] * sizeof(double));
            }
    return part;
}

static cp_tensor part_index(stage *s, partition *which, int part)
{
    int64_t T = s->scene->T;
    int64_t count = 0;
    for (int64_t j = 0; j < T; j++)
        count += which(j, T) == part;
    cp_tensor index = CP_TAKE(&s->arena, CP_I64, BATCH, count);
    for (int64_t b = 0, n = 0; b < BATCH; b++)
        for (int64_t j = 0; j < T; j++)
            if (which(j, T) == part)
                ((int64_t *)index.data)[n++] = j;
    return index;
}

typedef struct key_part {
    cp_attention attention;
    cp_tensor index, k, v;
} key_part;

static void try_parts(stage *s, cp_attention_form form, partition *which, cp_matmul matmul, const char *how)
{
    const cp_attention_ops *ops = cp_ops_of(CP_F64)->attention[form];
    const cp_partial_ops *partial = cp_ops_of(CP_F64)->partial;
    cp_precision precision = {.matmul = matmul};
    size_t mark = cp_arena_mark(&s->arena);
    results r = new_results(s, CP_F64), part = new_results(s, CP_F64);
    tensor_fill(r.lse, -INFINITY);
    key_part parts[PARTS];
    for (int n = 0; n < PARTS; n++) {
        cp_tensor index = part_index(s, which, n);
        parts[n] = (key_part){attention_of(s, index), index, part_of(s, s->k, index, false, CP_NONE),
                              part_of(s, s->v, index, false, CP_NONE)};
        ops->forward(part.o, part.lse, s->q, parts[n].k, parts[n].v, &parts[n].attention, &s->arena,
                     precision);
        partial->merge[CP_MERGE_BY_LSE](r.o, r.lse, part.o, part.lse, precision);
    }
    cp_tensor delta = new_zeros(s, CP_F64, s->scene->T, s->scene->H, 0);
    partial->delta(delta, s->dout, r.o);
    for (int n = 0; n < PARTS; n++) {
        int64_t count = parts[n].index.extent[1];
        cp_tensor dk = new_zeros(s, CP_F64, count, s->scene->K, s->scene->D);
        cp_tensor dv = new_zeros(s, CP_F64, count, s->scene->Kv, s->scene->Dv);
        ops->backward(r.dq, dk, dv, s->dout, r.lse, delta, s->q, parts[n].k, parts[n].v, &parts[n].attention,
                      &s->arena, precision);
        part_of(s, r.dk, parts[n].index, true, dk);
        part_of(s, r.dv, parts[n].index, true, dv);
    }
    compare(s, &r, 1e-13, how);
    cp_arena_release(&s->arena, mark);
}

static void parts(stage *s, cp_attention_form form, uint64_t seed)
{
    (void)seed;
    try_parts(s, form, interleaved_part, CP_MATMUL_BLAS, "interleaved parts");
    try_parts(s, form, contiguous_part, CP_MATMUL_BLAS, "contiguous parts");
    try_parts(s, form, interleaved_part, CP_MATMUL_ORDERED, "interleaved parts, ordered");
}

static void merged_parts_are_the_whole(void **state)
{
    (void)state;
    every_scene_in_every_form(parts);
}

/* ---- order ---- */

static void rows_alone(stage *s, cp_attention_form form, uint64_t seed)
{
    const cp_attention_ops *ops = cp_ops_of(CP_F32)->attention[form];
    size_t mark = cp_arena_mark(&s->arena);
    cp_precision precision = {.matmul = CP_MATMUL_ORDERED};
    cp_attention attention = attention_of(s, s->index);
    cp_tensor q = converted(s, s->q, CP_F32), k = converted(s, s->k, CP_F32), v = converted(s, s->v, CP_F32);
    cp_tensor dout = converted(s, s->dout, CP_F32);
    cp_tensor delta = converted(s, s->lse, CP_F32);
    tensor_fill_random(delta, seed, "delta");
    results whole = new_results(s, CP_F32), cut = new_results(s, CP_F32);
    ops->forward(whole.o, whole.lse, q, k, v, &attention, &s->arena, precision);
    ops->backward(whole.dq, CP_NONE, CP_NONE, dout, whole.lse, delta, q, k, v, &attention, &s->arena,
                  precision);
    for (int64_t first = 0, count; first < s->scene->T; first += count) {
        count = first % 2 ? 1 : s->scene->T - first < 45 ? s->scene->T - first : 45;
#define CUT(tensor) cp_tensor_slice(tensor, 1, first, count)
        attention.query_index = CUT(s->index);
        ops->forward(CUT(cut.o), CUT(cut.lse), CUT(q), k, v, &attention, &s->arena, precision);
        ops->backward(CUT(cut.dq), CP_NONE, CP_NONE, CUT(dout), CUT(cut.lse), CUT(delta), CUT(q), k, v,
                      &attention, &s->arena, precision);
#undef CUT
    }
    require(test_compare_bitwise(cut.o, whole.o), s, "cut rows", "o");
    require(test_compare_bitwise(cut.lse, whole.lse), s, "cut rows", "lse");
    require(test_compare_bitwise(cut.dq, whole.dq), s, "cut rows", "dq");
    cp_arena_release(&s->arena, mark);
}

/* With ordered products, a query's row is bitwise what it is alone, whichever others are in the call. */
static void rows_are_independent_when_ordered(void **state)
{
    (void)state;
    every_scene_in_every_form(rows_alone);
}

/* ---- corners ---- */

/* Ranks may be empty: no queries, or no keys, of which nothing is seen. */
static void nobody(stage *s, cp_attention_form form, uint64_t seed)
{
    (void)seed;
    const cp_attention_ops *ops = cp_ops_of(CP_F64)->attention[form];
    cp_attention attention = attention_of(s, s->index);
    size_t mark = cp_arena_mark(&s->arena);
    results r = new_results(s, CP_F64);
    tensor_fill(r.o, 7);
#define NONE_OF(tensor) cp_tensor_slice(tensor, 1, 0, 0)
    attention.key_index = NONE_OF(s->index);
    ops->forward(r.o, r.lse, s->q, NONE_OF(s->k), NONE_OF(s->v), &attention, &s->arena, (cp_precision){0});
    ops->backward(r.dq, NONE_OF(r.dk), NONE_OF(r.dv), s->dout, r.lse, r.lse, s->q, NONE_OF(s->k),
                  NONE_OF(s->v), &attention, &s->arena, (cp_precision){0});
    attention = attention_of(s, s->index);
    attention.query_index = NONE_OF(s->index);
    ops->forward(NONE_OF(r.o), NONE_OF(r.lse), NONE_OF(s->q), s->k, s->v, &attention, &s->arena,
                 (cp_precision){0});
    ops->backward(NONE_OF(r.dq), r.dk, r.dv, NONE_OF(s->dout), NONE_OF(r.lse), NONE_OF(r.lse), NONE_OF(s->q),
                  s->k, s->v, &attention, &s->arena, (cp_precision){0});
#undef NONE_OF
    const cp_tensor zero[] = {r.o, r.dq, r.dk, r.dv};
    for (size_t n = 0; n < sizeof zero / sizeof *zero; n++)
        for (int64_t e = 0; e < cp_tensor_count(zero[n]); e++)
            assert_true(element_get(zero[n], e) == 0);
    for (int64_t e = 0; e < cp_tensor_count(r.lse); e++)
        assert_true(element_get(r.lse, e) == -INFINITY);
    cp_arena_release(&s->arena, mark);
}

static void no_queries_or_no_keys(void **state)
{
    (void)state;
    every_scene_in_every_form(nobody);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_the_triple_loop),
        cmocka_unit_test(merged_parts_are_the_whole),
        cmocka_unit_test(rows_are_independent_when_ordered),
        cmocka_unit_test(no_queries_or_no_keys),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}

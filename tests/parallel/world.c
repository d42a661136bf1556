#include "tests/parallel/world.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 4, DV = 3 };

/* ---- layout and predicate ---------------------------------------------------------------------------------------- */

static int64_t sum(const int64_t *values, int count)
{
    int64_t total = 0;
    for (int i = 0; i < count; i++)
        total += values[i];
    return total;
}

void world_layout(cp_layout *layout, int P, int64_t B, const int64_t *tokens, cp_arena *arena)
{
    int64_t T = sum(tokens, P);
    *layout = (cp_layout){.P = P, .B = B, .T = T};
    layout->tokens = cp_arena_take(arena, (size_t)P * sizeof *layout->tokens);
    layout->index = cp_arena_take(arena, (size_t)P * sizeof *layout->index);
    layout->owner = cp_arena_take(arena, (size_t)(B * T) * sizeof *layout->owner);
    layout->slot = cp_arena_take(arena, (size_t)(B * T) * sizeof *layout->slot);
    for (int rank = 0; rank < P; rank++) {
        int64_t S = tokens[rank], first = sum(tokens, rank);
        layout->tokens[rank] = S;
        layout->index[rank] = cp_arena_take(arena, (size_t)(B * S) * sizeof(int64_t));
        for (int64_t n = 0; n < B * S; n++) {
            int64_t place = n / S * T + first + n % S;
            layout->index[rank][n] = first + n % S;
            layout->owner[place] = rank;
            layout->slot[place] = n % S;
        }
    }
}

/* Tokens change places in each row by themselves: what is at one index comes to another, owner, slot and all. */
void world_layout_shuffled(cp_layout *layout, int P, int64_t B, const int64_t *tokens, uint64_t seed,
                           cp_arena *arena)
{
    world_layout(layout, P, B, tokens, arena);
    cp_rng rng = cp_rng_named(seed, "layout");
    for (int64_t n = 0; n < B * layout->T; n++) {
        int64_t row = n / layout->T * layout->T;
        int64_t other = row + cp_rng_below(rng, (uint64_t)n, (uint64_t)(n - row + 1));
        int32_t owner = layout->owner[n];
        int64_t slot = layout->slot[n];
        layout->owner[n] = layout->owner[other];
        layout->slot[n] = layout->slot[other];
        layout->owner[other] = owner;
        layout->slot[other] = slot;
    }
    for (int64_t n = 0; n < B * layout->T; n++) {
        int rank = layout->owner[n];
        layout->index[rank][n / layout->T * tokens[rank] + layout->slot[n]] = n % layout->T;
    }
}

static void open_visibility(world *w)
{
    int64_t B = w->layout.B, T = w->layout.T;
    size_t places = (size_t)(B * T);
    int64_t *zero = cp_arena_take(&w->arena, places * sizeof *zero);
    int64_t *index = cp_arena_take(&w->arena, places * sizeof *index);
    uint8_t *real = cp_arena_take(&w->arena, places);
    for (int64_t n = 0; n < B * T; n++) {
        zero[n] = 0;
        index[n] = n % T;
        real[n] = n / T < B - 1 || n % T >= w->shape.leading;
    }
    w->visibility = (cp_visibility){.B = B,
                                    .T = T,
                                    .real = real,
                                    .document = zero,
                                    .scope = zero,
                                    .order = index,
                                    .distance = index,
                                    .chunk = zero,
                                    .window = w->shape.window};
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static cp_tensor drawn(world *w, int64_t heads, int64_t size, bool integers, cp_rng rng)
{
    enum { LARGEST = 8 };
    cp_tensor tensor = CP_TAKE(&w->arena, w->kind.dtype, w->layout.B, w->layout.T, heads, size);
    char *out = tensor.data;
    for (int64_t n = 0; n < cp_tensor_count(tensor); n++) {
        double value = integers ? (double)(cp_rng_below(rng, (uint64_t)n, 2 * LARGEST + 1) - LARGEST)
                                : cp_rng_normal(rng, (uint64_t)n);
        cp_dtype_from_double(out + (size_t)n * cp_dtype_bytes(w->kind.dtype), w->kind.dtype, &value, 1);
    }
    return tensor;
}

static cp_tensor drawn_numbers(world *w, int64_t count, cp_rng rng)
{
    cp_tensor tensor = CP_TAKE(&w->arena, w->kind.dtype, count);
    for (int64_t n = 0; n < count; n++) {
        double value = cp_rng_normal(rng, (uint64_t)n);
        cp_dtype_from_double((char *)tensor.data + (size_t)n * cp_dtype_bytes(w->kind.dtype), w->kind.dtype,
                             &value, 1);
    }
    return tensor;
}

static cp_tensor zeros(world *w, cp_tensor like)
{
    cp_tensor tensor = cp_tensor_take(&w->arena, like.dtype, like.dims, like.extent);
    cp_tensor_zero(tensor);
    return tensor;
}

static void take_results(world *w, world_tensors *t)
{
    t->o = zeros(w, t->dout);
    t->dq = zeros(w, t->q);
    t->dk = zeros(w, t->k);
    t->dv = zeros(w, t->v);
    t->dsink = cp_tensor_given(w->attend.sink) ? zeros(w, w->attend.sink) : CP_NONE;
}

cp_tensor world_cut(const world *w, cp_tensor whole, int rank, cp_arena *arena)
{
    int64_t B = w->layout.B, S = w->layout.tokens[rank];
    cp_tensor part = CP_TAKE(arena, whole.dtype, B, S, whole.extent[2], whole.extent[3]);
    size_t row = (size_t)(whole.extent[2] * whole.extent[3]) * cp_dtype_bytes(whole.dtype);
    for (int64_t n = 0; part.data && n < B * S; n++)
        memcpy((char *)part.data + (size_t)n * row,
               (const char *)whole.data + (size_t)(n / S * w->layout.T + w->layout.index[rank][n]) * row,
               row);
    return part;
}

void world_put(const world *w, cp_tensor whole, cp_tensor part, int rank)
{
    int64_t S = w->layout.tokens[rank];
    size_t row = (size_t)(whole.extent[2] * whole.extent[3]) * cp_dtype_bytes(whole.dtype);
    for (int64_t n = 0; n < w->layout.B * S; n++)
        memcpy((char *)whole.data + (size_t)(n / S * w->layout.T + w->layout.index[rank][n]) * row,
               (const char *)part.data + (size_t)n * row, row);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void there_and_back(const cp_mixer *mixer, world_tensors *t, const cp_attend *attend, cp_arena *arena)
{
    cp_saved saved = {0};
    mixer->attend(mixer, t->o, &saved, t->q, t->k, t->v, attend, arena, CP_EXACT);
    mixer->attend_backward(mixer, t->dq, t->dk, t->dv, t->dsink, t->dout, &saved, t->o, t->q, t->k, t->v,
                           attend, arena, CP_EXACT);
}

/* This rank's part of everything; results are zeros. */
static world_tensors cut_all(const world *w, int rank, cp_arena *arena)
{
    const world_tensors *whole = &w->unsharded;
    world_tensors t = {.q = world_cut(w, whole->q, rank, arena),
                       .k = world_cut(w, whole->k, rank, arena),
                       .v = world_cut(w, whole->v, rank, arena),
                       .dout = world_cut(w, whole->dout, rank, arena)};
    t.o = cp_tensor_take(arena, t.dout.dtype, 4, t.dout.extent);
    t.dq = cp_tensor_take(arena, t.q.dtype, 4, t.q.extent);
    t.dk = cp_tensor_take(arena, t.k.dtype, 4, t.k.extent);
    t.dv = cp_tensor_take(arena, t.v.dtype, 4, t.v.extent);
    t.dsink = w->kind.sinks ? CP_TAKE(arena, w->kind.dtype, w->shape.H) : CP_NONE;
    cp_tensor_zero(t.dq);
    cp_tensor_zero(t.dk);
    cp_tensor_zero(t.dv);
    if (cp_tensor_given(t.dsink))
        cp_tensor_zero(t.dsink);
    return t;
}

static const cp_mixer *open_exchange(const world *w, cp_mesh *mesh, cp_comm *comm, const cp_ops *ops,
                                     cp_arena *plans)
{
    cp_exchange_spec spec = cp_exchange_settled(&w->exchange, w->shape.P, w->shape.H);
    cp_mesh_open(mesh, comm, w->shape.P, &spec);
    const cp_exchange_setup setup = {comm, ops, w->form, &w->layout, &w->rules, plans, mesh};
    return cp_exchange_open(&spec, &setup);
}

static size_t measure(const world *w, int rank)
{
    cp_arena plans = cp_arena_growing(), arena = cp_arena_measuring();
    cp_comm *comm = cp_comm_measuring(rank, w->shape.P);
    cp_mesh mesh;
    const cp_mixer *mixer = open_exchange(w, &mesh, comm, cp_ops_shape(), &plans);
    cp_attend attend = w->attend;
    attend.visibility = NULL;
    world_tensors t = cut_all(w, rank, &arena);
    there_and_back(mixer, &t, &attend, &arena);
    cp_mesh_close(&mesh);
    cp_comm_close(comm);
    cp_arena_close(&plans);
    return arena.peak;
}

void world_body(cp_comm *comm, void *context)
{
    world *w = context;
    int rank = cp_comm_rank(comm);
    cp_arena *plans = &w->plans[rank], *arena = &w->step[rank];
    *plans = cp_arena_growing();
    cp_check(cp_arena_open(arena, measure(w, rank)) == CP_OK, "%s", cp_error());
    cp_mesh mesh;
    const cp_mixer *mixer = open_exchange(w, &mesh, comm, cp_ops_of(w->kind.dtype), plans);
    world_tensors t = cut_all(w, rank, arena);
    there_and_back(mixer, &t, &w->attend, arena);
    world_put(w, w->sharded.o, t.o, rank);
    world_put(w, w->sharded.dq, t.dq, rank);
    world_put(w, w->sharded.dk, t.dk, rank);
    world_put(w, w->sharded.dv, t.dv, rank);
    if (cp_tensor_given(t.dsink))
        memcpy(cp_tensor_slice(w->shares, 0, rank, 1).data, t.dsink.data, cp_tensor_bytes(t.dsink));
    cp_mesh_close(&mesh);
}

void world_free_ranks(world *w)
{
    for (int rank = 0; rank < w->shape.P; rank++) {
        cp_arena_close(&w->plans[rank]);
        cp_arena_close(&w->step[rank]);
        w->plans[rank] = w->step[rank] = (cp_arena){0};
    }
}

static void sum_shares(world *w)
{
    for (int64_t rank = 0; w->kind.sinks && rank < w->shape.P; rank++) {
        cp_tensor share = cp_tensor_slice(w->shares, 0, rank, 1);
        cp_ops_of(w->kind.dtype)
            ->pointwise->accumulate(CP_VIEW(w->sharded.dsink.data, w->kind.dtype, 1, w->shape.H), share,
                                    CP_EXACT);
    }
}

cp_status world_try_threads(world *w, cp_rank_body *body, void *context)
{
    take_results(w, &w->sharded);
    cp_status status = cp_threads_run(w->shape.P, body, context);
    world_free_ranks(w);
    if (status == CP_OK)
        sum_shares(w);
    return status;
}

void world_run_threads(world *w, const cp_exchange_rules *rules)
{
    w->rules = *rules;
    assert_ok(world_try_threads(w, world_body, w));
}

static void run_unsharded(world *w)
{
    int64_t T = w->layout.T;
    enum { ENOUGH = 1 << 24 };
    cp_arena arena;
    assert_ok(cp_arena_open(&arena, ENOUGH));
    world_layout(&w->whole_layout, 1, w->shape.B, &T, &w->arena);
    cp_mixer mixer = cp_mixer_local(cp_ops_of(w->kind.dtype), CP_ATTENTION_DENSE,
                                    CP_VIEW(w->whole_layout.index[0], CP_I64, w->shape.B, T));
    there_and_back(&mixer, &w->unsharded, &w->attend, &arena);
    cp_arena_close(&arena);
}

static int32_t *heads_read(world *w, int64_t heads)
{
    int32_t *table = cp_arena_take(&w->arena, (size_t)w->shape.H * sizeof *table);
    for (int64_t h = 0; h < w->shape.H; h++)
        table[h] = (int32_t)(h * heads / w->shape.H);
    return table;
}

void world_open_kind(world *w, const world_shape *shape, const world_kind *kind, uint64_t seed)
{
    *w = (world){.shape = *shape, .kind = *kind, .arena = cp_arena_growing()};
    w->exchange.kind = CP_EXCHANGE_ULYSSES;
    w->form = CP_ATTENTION_DENSE;
    if (kind->shuffled)
        world_layout_shuffled(&w->layout, shape->P, shape->B, shape->tokens, seed, &w->arena);
    else
        world_layout(&w->layout, shape->P, shape->B, shape->tokens, &w->arena);
    open_visibility(w);
    w->attend = (cp_attend){.visibility = &w->visibility,
                            .H = shape->H,
                            .K = shape->K,
                            .key_head = heads_read(w, shape->K),
                            .value_head = heads_read(w, shape->V),
                            .scale = 0.5,
                            .softcap = kind->integers ? 0 : 2};
    if (kind->sinks) {
        w->attend.sink = drawn_numbers(w, shape->H, cp_rng_named(seed, "sink"));
        w->shares = CP_TAKE(&w->arena, kind->dtype, shape->P, shape->H);
    }
    w->unsharded.q = drawn(w, shape->H, D, kind->integers, cp_rng_named(seed, "q"));
    w->unsharded.k = drawn(w, shape->K, D, kind->integers, cp_rng_named(seed, "k"));
    w->unsharded.v = drawn(w, shape->V, DV, kind->integers, cp_rng_named(seed, "v"));
    w->unsharded.dout = drawn(w, shape->H, DV, kind->integers, cp_rng_named(seed, "dout"));
    take_results(w, &w->unsharded);
    run_unsharded(w);
    w->sharded = w->unsharded;
    take_results(w, &w->sharded);
}

void world_open(world *w, const world_shape *shape, cp_dtype dtype, bool integers, uint64_t seed)
{
    const world_kind kind = {.dtype = dtype, .integers = integers};
    world_open_kind(w, shape, &kind, seed);
}

void world_close(world *w)
{
    cp_arena_close(&w->arena);
}

double world_difference(cp_tensor a, cp_tensor b)
{
    const double *x = a.data, *y = b.data;
    double largest = 0;
    for (int64_t n = 0; n < cp_tensor_count(a); n++)
        largest = fmax(largest, isfinite(x[n]) ? fabs(x[n] - y[n]) : INFINITY);
    return largest;
}

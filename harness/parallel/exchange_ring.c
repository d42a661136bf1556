/* Ring: keys and values travel from rank to rank, every rank attends to each block that arrives, and the partial
 * results are merged by their log-sum-exps. In the backward they travel again, with the gradients of the block beside
 * them. What travels when, and what is left out, is ring_plan.h. Kept for the backward: lse over all keys. */
#include "harness/parallel/exchange_kinds.h"
#include "harness/parallel/group_mixer.h"

#include <string.h>

enum { SAVED_LSE };

/* One for each predicate that a layer has asked for. */
typedef struct schedule {
    const cp_visibility *visibility;
    cp_ring_plan plan;
    struct schedule *next;
} schedule;

typedef struct ring_state {
    const cp_exchange_rules *rules;
    cp_sink_plan sinks;
    cp_arena *arena; /* for plans */
    int64_t longest; /* tokens of the largest shard */
    schedule *schedules;
} ring_state;

typedef struct ring_mixer {
    cp_group_mixer group;
    ring_state *state;
} ring_mixer;

/* ---- plans ------------------------------------------------------------------------------------------------------ */

/* Every rank tells what it sees: predicates may differ, schedules may not. When memory is measured there is no
 * predicate, and everybody sees everything. */
static void gather_sees(uint8_t *sees, const ring_mixer *m, const cp_visibility *visibility, cp_arena *arena)
{
    const cp_layout *layout = m->group.layout;
    int rank = cp_comm_rank(m->group.comm), P = layout->P;
    if (cp_comm_measures(m->group.comm)) {
        memset(sees, 1, (size_t)P * (size_t)P);
        return;
    }
    uint8_t *own = cp_arena_take(arena, (size_t)P);
    size_t *bytes = cp_arena_take(arena, (size_t)P * sizeof *bytes);
    for (int peer = 0; peer < P; peer++)
        bytes[peer] = (size_t)P;
    cp_ring_sees(own, visibility, layout, rank);
    cp_comm_allgather(m->group.comm, sees, bytes, own, (size_t)P);
}

static const cp_ring_plan *plan_for(const ring_mixer *m, const cp_visibility *visibility)
{
    ring_state *s = m->state;
    for (const schedule *known = s->schedules; known; known = known->next)
        if (known->visibility == visibility)
            return &known->plan;
    int P = m->group.layout->P;
    schedule *made = cp_arena_take(s->arena, sizeof *made);
    *made = (schedule){.visibility = visibility, .next = s->schedules};
    uint8_t *sees = cp_arena_take(s->arena, (size_t)P * (size_t)P);
    gather_sees(sees, m, visibility, s->arena);
    cp_ring_rules rules = s->rules->ring;
    if (cp_comm_measures(m->group.comm)) /* no pairing takes more than blocks with their own keys */
        rules.backward_kv = CP_RING_BACKWARD_KV_STEP;
    cp_ring_plan_make(&made->plan, &rules, sees, P, cp_comm_rank(m->group.comm), s->arena);
    s->schedules = made;
    return &made->plan;
}

/* ---- moving ----------------------------------------------------------------------------------------------------- */

/* What travels: two tensors of one block, k behind v on the wire as in memory. */
typedef struct pair {
    int block;
    unsigned char *data;
    size_t bytes;
    cp_tensor k, v;
} pair;

static cp_tensor of_length(cp_tensor like, int64_t S, unsigned char *data)
{
    return CP_VIEW(data, like.dtype, like.extent[0], S, like.extent[2], like.extent[3]);
}

static pair pair_at(const ring_mixer *m, unsigned char *data, int block, const pair *like)
{
    int64_t S = m->group.layout->tokens[block];
    pair p = {.block = block, .data = data, .k = of_length(like->k, S, data)};
    size_t first = cp_tensor_bytes(p.k);
    p.v = of_length(like->v, S, data ? data + first : NULL);
    p.bytes = first + cp_tensor_bytes(p.v);
    return p;
}

/* Room for any block; it is this rank's until another arrives. */
static pair take_pair(const ring_mixer *m, cp_tensor k, cp_tensor v, cp_arena *arena)
{
    pair like = {.k = k, .v = v};
    int64_t longest = m->state->longest;
    size_t bytes =
        cp_tensor_bytes(of_length(k, longest, NULL)) + cp_tensor_bytes(of_length(v, longest, NULL));
    return pair_at(m, cp_arena_take(arena, bytes), cp_comm_rank(m->group.comm), &like);
}

static pair packed(const ring_mixer *m, cp_tensor k, cp_tensor v, cp_arena *arena)
{
    pair p = take_pair(m, k, v, arena);
    if (p.data) {
        memcpy(p.k.data, k.data, cp_tensor_bytes(k));
        memcpy(p.v.data, v.data, cp_tensor_bytes(v));
    }
    return p;
}

/* What arrives comes into `spare`, which changes places with what was held. */
static void travel(const ring_mixer *m, pair *held, pair *spare, const cp_ring_hop *hop)
{
    pair next = hop->from >= 0 ? pair_at(m, spare->data, hop->block, held) : *spare;
    cp_comm_shift(m->group.comm, hop->to, held->data, held->bytes, hop->from, next.data, next.bytes);
    if (hop->from < 0)
        return;
    *spare = *held;
    *held = next;
}

static cp_tensor first_tokens(cp_tensor tensor, int64_t count)
{
    return cp_tensor_slice(tensor, 1, 0, count);
}

static int64_t shorter(cp_tensor a, cp_tensor b)
{
    return a.extent[1] < b.extent[1] ? a.extent[1] : b.extent[1];
}

static void add(const ring_mixer *m, cp_tensor sum, cp_tensor term)
{
    int64_t count = shorter(sum, term); /* the same, where gradients come to the right rank */
    m->group.mixer.ops->pointwise->accumulate(first_tokens(sum, count), first_tokens(term, count), CP_EXACT);
}

static void bring_home(const ring_mixer *m, cp_tensor dk, cp_tensor dv, const pair *held, const pair *room,
                       const cp_ring_hop *hop)
{
    bool stays = hop->to == cp_comm_rank(m->group.comm);
    pair arrived = stays || hop->from < 0 ? *held : pair_at(m, room->data, hop->block, held);
    cp_comm_shift(m->group.comm, stays ? -1 : hop->to, held->data, held->bytes, stays ? -1 : hop->from,
                  arrived.data, arrived.bytes);
    if (hop->from < 0)
        return;
    add(m, dk, arrived.k);
    add(m, dv, arrived.v);
}

/* ---- a block ---------------------------------------------------------------------------------------------------- */

static cp_attention attention_to(const ring_mixer *m, const cp_attend *attend, int block, int64_t count)
{
    const cp_layout *layout = m->group.layout;
    cp_tensor index = CP_VIEW(layout->index[block], CP_I64, layout->B, layout->tokens[block]);
    return cp_group_attention(&m->group, attend, first_tokens(index, count));
}

/* Partial results, or those of all keys. */
typedef struct outcome {
    cp_tensor o, lse;
} outcome;

static outcome take_outcome(cp_tensor o, cp_tensor lse, cp_arena *arena)
{
    return (outcome){cp_tensor_take(arena, o.dtype, o.dims, o.extent),
                     cp_tensor_take(arena, lse.dtype, lse.dims, lse.extent)};
}

/* What the backward reads about a step's queries. */
typedef struct statistics {
    cp_tensor lse, delta;
} statistics;

/* ---- attend ----------------------------------------------------------------------------------------------------- */

static bool has_sink(const ring_mixer *m, const cp_attend *attend)
{
    return m->state->sinks.given && cp_tensor_given(attend->sink);
}

static void accumulated(const ring_mixer *m, const cp_ring_plan *plan, cp_tensor tensor)
{
    if (plan->narrow)
        m->group.mixer.ops->partial->narrow(tensor);
}

/* The first block's results are the beginning, the others are merged into them. */
static void attend_blocks(const ring_mixer *m, outcome all, cp_tensor q, cp_tensor k, cp_tensor v,
                          const cp_attend *attend, cp_arena *scratch, cp_precision precision)
{
    const cp_mixer *mixer = &m->group.mixer;
    const cp_partial_ops *partial = mixer->ops->partial;
    const cp_ring_plan *plan = plan_for(m, attend->visibility);
    bool sinks = m->state->sinks.every_block && has_sink(m, attend);
    outcome part = take_outcome(all.o, all.lse, scratch);
    pair held = packed(m, k, v, scratch), spare = take_pair(m, k, v, scratch);
    for (int t = 0; t < plan->steps; t++) {
        const cp_ring_step *step = &plan->forward[t];
        travel(m, &held, &spare, &step->keys);
        if (!step->sees)
            continue;
        outcome now = t == 0 ? all : part;
        cp_attention attention = attention_to(m, attend, step->block, held.k.extent[1]);
        mixer->ops->attention[mixer->form]->forward(now.o, now.lse, q, held.k, held.v, &attention, scratch,
                                                    precision);
        if (sinks)
            partial->sink(now.o, now.lse, attend->sink, CP_EXACT);
        if (t == 0)
            continue;
        partial->merge[m->state->rules->merge](all.o, all.lse, now.o, now.lse, CP_EXACT);
        accumulated(m, plan, all.o);
    }
}

static void ring_attend(const cp_mixer *mixer, cp_tensor o, cp_saved *saved, cp_tensor q, cp_tensor k,
                        cp_tensor v, const cp_attend *attend, cp_arena *arena, cp_precision precision)
{
    const ring_mixer *m = (const ring_mixer *)mixer;
    cp_check(arena != m->state->arena, "the arena of the plans");
    cp_group_check(&m->group, attend, q, k, v);
    cp_tensor lse = CP_TAKE(arena, q.dtype, q.extent[0], q.extent[1], q.extent[2]);
    size_t mark = cp_arena_mark(arena);
    attend_blocks(m, (outcome){o, lse}, q, k, v, attend, arena, precision);
    cp_arena_release(arena, mark);
    if (has_sink(m, attend) && !m->state->sinks.every_block)
        mixer->ops->partial->sink(o, lse, attend->sink, CP_EXACT);
    mixer->ops->pointwise->round(o, precision); /* the merged one, as the form rounds its own */
    saved->tensor[SAVED_LSE] = lse;
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* A block's own results, for rules that do not take the merged ones. */
typedef struct block_results {
    outcome of_block;
    cp_tensor delta;
} block_results;

typedef struct backward_call {
    cp_tensor q, dq, dout;
    const cp_attend *attend;
    cp_arena *scratch;
    cp_precision precision;
    statistics merged;
    block_results room; /* not taken where statistics are the merged ones */
} backward_call;

static statistics merged_statistics(const ring_mixer *m, const backward_call *c, const pair *held,
                                    const cp_attention *attention)
{
    (void)m;
    (void)held;
    (void)attention;
    return c->merged;
}

static void attend_again(const ring_mixer *m, const backward_call *c, const pair *held,
                         const cp_attention *attention)
{
    const cp_mixer *mixer = &m->group.mixer;
    mixer->ops->attention[mixer->form]->forward(c->room.of_block.o, c->room.of_block.lse, c->q, held->k,
                                                held->v, attention, c->scratch, c->precision);
    mixer->ops->partial->delta(c->room.delta, c->dout, c->room.of_block.o);
}

static statistics with_block_lse(const ring_mixer *m, const backward_call *c, const pair *held,
                                 const cp_attention *attention)
{
    attend_again(m, c, held, attention);
    return (statistics){.lse = c->room.of_block.lse, .delta = c->merged.delta};
}

static statistics with_block_delta(const ring_mixer *m, const backward_call *c, const pair *held,
                                   const cp_attention *attention)
{
    attend_again(m, c, held, attention);
    return (statistics){.lse = c->merged.lse, .delta = c->room.delta};
}

static void backward_step(const ring_mixer *m, const backward_call *c, const cp_ring_plan *plan,
                          pair *gradients, const pair *held, const cp_ring_step *step)
{
    typedef statistics choose(const ring_mixer *m, const backward_call *c, const pair *held,
                              const cp_attention *attention);
    static choose *const chosen[CP_RING_BACKWARD_STATISTICS] = {
        [CP_RING_BACKWARD_STATS_MERGED] = merged_statistics,
        [CP_RING_BACKWARD_STATS_BLOCK_LSE] = with_block_lse,
        [CP_RING_BACKWARD_STATS_BLOCK_DELTA] = with_block_delta};
    const cp_mixer *mixer = &m->group.mixer;
    if (step->fresh) {
        *gradients = pair_at(m, gradients->data, step->block, gradients);
        cp_tensor_zero(gradients->k);
        cp_tensor_zero(gradients->v);
    }
    /* the same length, where the held block is that of the step */
    int64_t count = shorter(gradients->k, held->k);
    pair keys = {.k = first_tokens(held->k, count), .v = first_tokens(held->v, count)};
    cp_attention attention = attention_to(m, c->attend, step->block, count);
    statistics s = chosen[m->state->rules->ring.backward_stats](m, c, &keys, &attention);
    mixer->ops->attention[mixer->form]->backward(c->dq, first_tokens(gradients->k, count),
                                                 first_tokens(gradients->v, count), c->dout, s.lse, s.delta,
                                                 c->q, keys.k, keys.v, &attention, c->scratch, c->precision);
    accumulated(m, plan, gradients->k);
    accumulated(m, plan, gradients->v);
}

static void backward_blocks(const ring_mixer *m, const backward_call *c, const cp_ring_plan *plan,
                            cp_tensor dk, cp_tensor dv, cp_tensor k, cp_tensor v)
{
    pair held = packed(m, k, v, c->scratch), spare = take_pair(m, k, v, c->scratch);
    pair gradients = take_pair(m, k, v, c->scratch), spare_gradients = take_pair(m, k, v, c->scratch);
    pair room = take_pair(m, k, v, c->scratch);
    for (int t = 0; t < plan->steps; t++) {
        const cp_ring_step *step = &plan->backward[t];
        travel(m, &held, &spare, &step->keys);
        if (step->sees)
            backward_step(m, c, plan, &gradients, &held, step);
        bring_home(m, dk, dv, &gradients, &room, &step->home);
        travel(m, &gradients, &spare_gradients, &step->gradients);
    }
}

static void sink_backward(const ring_mixer *m, const cp_ring_plan *plan, cp_tensor dsink, const statistics *s,
                          const cp_attend *attend)
{
    if (!has_sink(m, attend))
        return;
    for (int t = 0; t < (m->state->sinks.every_block ? plan->steps : 1); t++)
        if (plan->forward[t].sees)
            m->group.mixer.ops->partial->sink_backward(dsink, s->lse, s->delta, attend->sink);
}

static void ring_attend_backward(const cp_mixer *mixer, cp_tensor dq, cp_tensor dk, cp_tensor dv,
                                 cp_tensor dsink, cp_tensor dout, const cp_saved *saved, cp_tensor o,
                                 cp_tensor q, cp_tensor k, cp_tensor v, const cp_attend *attend,
                                 cp_arena *scratch, cp_precision precision)
{
    const ring_mixer *m = (const ring_mixer *)mixer;
    cp_group_check(&m->group, attend, q, k, v);
    size_t mark = cp_arena_mark(scratch);
    const cp_ring_plan *plan = plan_for(m, attend->visibility);
    cp_tensor lse = saved->tensor[SAVED_LSE];
    backward_call c = {
        .q = q, .dq = dq, .dout = dout, .attend = attend, .scratch = scratch, .precision = precision};
    c.merged = (statistics){lse, cp_tensor_take(scratch, lse.dtype, lse.dims, lse.extent)};
    if (plan->own_statistics)
        c.room = (block_results){take_outcome(o, lse, scratch),
                                 cp_tensor_take(scratch, lse.dtype, lse.dims, lse.extent)};
    mixer->ops->partial->delta(c.merged.delta, dout, o);
    sink_backward(m, plan, dsink, &c.merged, attend);
    backward_blocks(m, &c, plan, dk, dv, k, v);
    cp_arena_release(scratch, mark);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

cp_mixer *cp_exchange_ring(const cp_exchange_setup *setup)
{
    ring_state *state = cp_arena_take(setup->arena, sizeof *state);
    *state = (ring_state){.rules = setup->rules,
                          .sinks = cp_sink_plan_make(&setup->rules->sinks, 1, 0, 0),
                          .arena = setup->arena};
    for (int rank = 0; rank < setup->layout->P; rank++)
        if (setup->layout->tokens[rank] > state->longest)
            state->longest = setup->layout->tokens[rank];
    ring_mixer *m = cp_arena_take(setup->arena, sizeof *m);
    m->state = state;
    cp_group_mixer_open(&m->group, setup);
    m->group.mixer.attend = ring_attend;
    m->group.mixer.attend_backward = ring_attend_backward;
    return &m->group.mixer;
}

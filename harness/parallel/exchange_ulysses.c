/* Ulysses: an all-to-all turns sequence shards with all heads into head shards with the whole sequence, an inner mixer
 * attends there, and an all-to-all brings the result back. The backward is the same with both turned round. The inner
 * mixer is the local one where the group is all ranks; where it is a part of them, it exchanges with the others. */
#include "harness/parallel/exchange_kinds.h"
#include "harness/parallel/group_mixer.h"

#include <string.h>

/* What the forward keeps: q, k, v, o of this rank's heads and all tokens, behind what the inner mixer keeps. */
enum { SAVED_Q = CP_INNER_SAVED, SAVED_K, SAVED_V, SAVED_O };

enum { Q, K, V, INPUTS };

/* Everything that depends on the heads of a layer; made when the first such layer attends. */
typedef struct head_exchange {
    int64_t H, heads_of_k, heads_of_v;
    int32_t *key_head, *value_head; /* [H]: the model's */
    cp_head_plan key, value;
    cp_alltoall_plan input[INPUTS], output;
    cp_sink_plan sink;
    struct head_exchange *next;
} head_exchange;

typedef struct ulysses_state {
    cp_comm *comm;           /* of the ranks that share the heads */
    const cp_layout *layout; /* over them */
    const cp_exchange_rules *rules;
    cp_arena *arena;       /* for plans */
    const cp_mixer *inner; /* over all their tokens */
    head_exchange *exchanges;
} ulysses_state;

typedef struct ulysses_mixer {
    cp_group_mixer group;
    ulysses_state *state;
} ulysses_mixer;

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static int32_t *copied(const int32_t *table, int64_t count, cp_arena *arena)
{
    int32_t *out = cp_arena_take(arena, (size_t)count * sizeof *out);
    memcpy(out, table, (size_t)count * sizeof *out);
    return out;
}

static head_exchange *make_exchange(ulysses_state *s, const cp_attend *attend, int64_t heads_of_k,
                                    int64_t heads_of_v)
{
    int P = s->layout->P, rank = cp_comm_rank(s->comm);
    cp_alltoall_rule rule = s->rules->alltoall_layout;
    head_exchange *e = cp_arena_take(s->arena, sizeof *e);
    *e = (head_exchange){.H = attend->H,
                         .heads_of_k = heads_of_k,
                         .heads_of_v = heads_of_v,
                         .key_head = copied(attend->key_head, attend->H, s->arena),
                         .value_head = copied(attend->value_head, attend->H, s->arena),
                         .sink = cp_sink_plan_make(&s->rules->sinks, P, rank, attend->H)};
    cp_head_plan query;
    cp_head_plan_own(&query, P, e->H, s->arena);
    cp_head_plan_make(&e->key, &s->rules->heads, P, e->H, heads_of_k, e->key_head, s->arena);
    cp_head_plan_make(&e->value, &s->rules->heads, P, e->H, heads_of_v, e->value_head, s->arena);
    const cp_head_plan *heads[INPUTS] = {&query, &e->key, &e->value};
    for (int i = 0; i < INPUTS; i++)
        cp_alltoall_plan_make(&e->input[i], rule, CP_ALLTOALL_INPUT, s->layout, rank, heads[i], s->arena);
    cp_alltoall_plan_make(&e->output, rule, CP_ALLTOALL_OUTPUT, s->layout, rank, &query, s->arena);
    e->next = s->exchanges;
    s->exchanges = e;
    return e;
}

static const head_exchange *exchange_for(ulysses_state *s, const cp_attend *attend, cp_tensor k, cp_tensor v)
{
    size_t table = (size_t)attend->H * sizeof(int32_t);
    for (const head_exchange *e = s->exchanges; e; e = e->next)
        if (e->H == attend->H && e->heads_of_k == k.extent[2] && e->heads_of_v == v.extent[2] &&
            memcmp(e->key_head, attend->key_head, table) == 0 &&
            memcmp(e->value_head, attend->value_head, table) == 0)
            return e;
    return make_exchange(s, attend, k.extent[2], v.extent[2]);
}

/* The sinks, or their gradients, of this rank's query heads: of a tensor [H]; CP_NONE without. */
static cp_tensor own_sinks(const head_exchange *e, cp_tensor heads)
{
    return cp_tensor_given(heads) && e->sink.given ? cp_tensor_slice(heads, 0, e->sink.first, e->sink.count)
                                                   : CP_NONE;
}

/* The attention of this rank's own query heads. */
static cp_attend inner_attend(const ulysses_state *s, const head_exchange *e, const cp_attend *attend)
{
    int rank = cp_comm_rank(s->comm);
    cp_attend inner = *attend;
    inner.H = e->H / s->layout->P;
    inner.K = e->key.received[rank];
    inner.key_head = e->key.local[rank];
    inner.value_head = e->value.local[rank];
    inner.sink = own_sinks(e, attend->sink);
    return inner;
}

/* ---- moving ----------------------------------------------------------------------------------------------------- */

/* One tensor of a message and how its units lie on the wire. */
typedef struct part {
    cp_tensor tensor; /* [B,·,heads,D], contiguous */
    const cp_wire_side *side;
} part;

/* All parts of a message: what is shared with one peer lies together, part after part. */
typedef struct message {
    int parts;
    part part[INPUTS];
    unsigned char *buffer;
    size_t *bytes; /* [P] */
    size_t *begin; /* [parts,P]: of a part's piece in the buffer */
} message;

static size_t unit_bytes(cp_tensor tensor)
{
    return (size_t)tensor.extent[3] * cp_dtype_bytes(tensor.dtype);
}

static void take_message(message *m, int P, cp_arena *arena)
{
    m->bytes = cp_arena_take(arena, (size_t)P * sizeof *m->bytes);
    m->begin = cp_arena_take(arena, (size_t)(P * m->parts) * sizeof *m->begin);
    size_t total = 0;
    for (int peer = 0; peer < P; peer++) {
        size_t before = total;
        for (int i = 0; i < m->parts; i++) {
            if (!arena->measuring)
                m->begin[i * P + peer] = total;
            total += (size_t)m->part[i].side->piece[peer] * unit_bytes(m->part[i].tensor);
        }
        if (!arena->measuring)
            m->bytes[peer] = total - before;
    }
    m->buffer = cp_arena_take(arena, total);
}

static unsigned char *wire_of(const message *m, int i, const cp_block *block, int P)
{
    return m->buffer + m->begin[i * P + block->peer] + (size_t)block->wire * unit_bytes(m->part[i].tensor);
}

static unsigned char *local_of(const message *m, int i, const cp_block *block)
{
    return (unsigned char *)m->part[i].tensor.data + (size_t)block->local * unit_bytes(m->part[i].tensor);
}

static void copy_rows(unsigned char *to, int64_t to_step, const unsigned char *from, int64_t from_step,
                      const cp_block *block, size_t unit)
{
    for (int64_t n = 0; n < block->count; n++)
        memcpy(to + (size_t)(n * to_step) * unit, from + (size_t)(n * from_step) * unit,
               (size_t)block->length * unit);
}

typedef void block_action(const ulysses_mixer *u, const message *m, int i, const cp_block *block);

static void pack(const ulysses_mixer *u, const message *m, int i, const cp_block *block)
{
    copy_rows(wire_of(m, i, block, u->state->layout->P), block->wire_step, local_of(m, i, block),
              block->local_step, block, unit_bytes(m->part[i].tensor));
}

static void unpack(const ulysses_mixer *u, const message *m, int i, const cp_block *block)
{
    copy_rows(local_of(m, i, block), block->local_step, wire_of(m, i, block, u->state->layout->P),
              block->wire_step, block, unit_bytes(m->part[i].tensor));
}

static cp_tensor rows(unsigned char *data, cp_dtype dtype, const cp_block *block, int64_t step, int64_t D)
{
    cp_tensor tensor = CP_VIEW(data, dtype, block->count, block->length * D);
    tensor.stride[0] = step * D;
    return tensor;
}

static void add(const ulysses_mixer *u, const message *m, int i, const cp_block *block)
{
    const cp_pointwise_ops *ops = u->group.mixer.ops->pointwise;
    cp_tensor tensor = m->part[i].tensor;
    unsigned char *from = wire_of(m, i, block, u->state->layout->P);
    cp_tensor wire = rows(from, tensor.dtype, block, block->wire_step, tensor.extent[3]);
    cp_tensor local = rows(local_of(m, i, block), tensor.dtype, block, block->local_step, tensor.extent[3]);
    if (block->weight == 0)
        return;
    if (block->weight != 1)
        ops->scale(wire, wire, block->weight, CP_EXACT);
    ops->accumulate(local, wire, CP_EXACT);
}

static void for_each_block(const ulysses_mixer *u, const message *m, block_action *act)
{
    for (int i = 0; i < m->parts; i++)
        for (int64_t n = 0; n < m->part[i].side->count; n++)
            act(u, m, i, &m->part[i].side->block[n]);
}

/* Sends the parts of `from` as one message a peer; `arrive` puts what comes into the parts of `into`. */
static void move(const ulysses_mixer *u, message into, message from, block_action *arrive, cp_arena *scratch)
{
    size_t mark = cp_arena_mark(scratch);
    int P = u->state->layout->P;
    take_message(&from, P, scratch);
    take_message(&into, P, scratch);
    if (!scratch->measuring) {
        for_each_block(u, &from, pack);
        cp_comm_alltoall(u->state->comm, into.buffer, into.bytes, from.buffer, from.bytes);
        for_each_block(u, &into, arrive);
    }
    cp_arena_release(scratch, mark);
}

static message tokens_message(const head_exchange *e, cp_tensor q, cp_tensor k, cp_tensor v)
{
    return (message){.parts = INPUTS,
                     .part = {{q, &e->input[Q].tokens}, {k, &e->input[K].tokens}, {v, &e->input[V].tokens}}};
}

static message heads_message(const head_exchange *e, cp_tensor q, cp_tensor k, cp_tensor v)
{
    return (message){.parts = INPUTS,
                     .part = {{q, &e->input[Q].heads}, {k, &e->input[K].heads}, {v, &e->input[V].heads}}};
}

static message one_tensor(cp_tensor tensor, const cp_wire_side *side)
{
    return (message){.parts = 1, .part = {{tensor, side}}};
}

/* ---- attend ----------------------------------------------------------------------------------------------------- */

/* [B,T,heads,D]: all tokens of the heads that this rank receives. */
static cp_tensor take_heads(const ulysses_state *s, int64_t heads, cp_tensor like, cp_arena *arena)
{
    return CP_TAKE(arena, like.dtype, s->layout->B, s->layout->T, heads, like.extent[3]);
}

static void ulysses_attend(const cp_mixer *mixer, cp_tensor o, cp_saved *saved, cp_tensor q, cp_tensor k,
                           cp_tensor v, const cp_attend *attend, cp_arena *arena, cp_precision precision)
{
    const ulysses_mixer *u = (const ulysses_mixer *)mixer;
    ulysses_state *s = u->state;
    cp_check(arena != s->arena, "the arena of the plans");
    cp_group_check(&u->group, attend, q, k, v);
    const head_exchange *e = exchange_for(s, attend, k, v);
    cp_attend inner = inner_attend(s, e, attend);
    int rank = cp_comm_rank(s->comm);

    cp_tensor all_q = take_heads(s, inner.H, q, arena);
    cp_tensor all_k = take_heads(s, e->key.received[rank], k, arena);
    cp_tensor all_v = take_heads(s, e->value.received[rank], v, arena);
    cp_tensor all_o = take_heads(s, inner.H, v, arena);
    move(u, heads_message(e, all_q, all_k, all_v), tokens_message(e, q, k, v), unpack, arena);
    s->inner->attend(s->inner, all_o, saved, all_q, all_k, all_v, &inner, arena, precision);
    move(u, one_tensor(o, &e->output.tokens), one_tensor(all_o, &e->output.heads), unpack, arena);

    saved->tensor[SAVED_Q] = all_q;
    saved->tensor[SAVED_K] = all_k;
    saved->tensor[SAVED_V] = all_v;
    saved->tensor[SAVED_O] = all_o;
}

/* Zeros like the sinks; CP_NONE without. */
static cp_tensor take_sinks(cp_tensor sinks, cp_arena *arena)
{
    if (!cp_tensor_given(sinks))
        return CP_NONE;
    cp_tensor taken = CP_TAKE(arena, sinks.dtype, sinks.extent[0]);
    cp_tensor_zero(taken);
    return taken;
}

static void add_sinks(const ulysses_mixer *u, cp_tensor dsink, cp_tensor share, double weight)
{
    const cp_pointwise_ops *ops = u->group.mixer.ops->pointwise;
    if (!cp_tensor_given(share))
        return;
    ops->scale(share, share, weight, CP_EXACT);
    ops->accumulate(dsink, share, CP_EXACT);
}

static void ulysses_attend_backward(const cp_mixer *mixer, cp_tensor dq, cp_tensor dk, cp_tensor dv,
                                    cp_tensor dsink, cp_tensor dout, const cp_saved *saved, cp_tensor o,
                                    cp_tensor q, cp_tensor k, cp_tensor v, const cp_attend *attend,
                                    cp_arena *scratch, cp_precision precision)
{
    (void)o;
    const ulysses_mixer *u = (const ulysses_mixer *)mixer;
    ulysses_state *s = u->state;
    cp_group_check(&u->group, attend, q, k, v);
    const head_exchange *e = exchange_for(s, attend, k, v);
    cp_attend inner = inner_attend(s, e, attend);
    cp_tensor all_q = saved->tensor[SAVED_Q], all_k = saved->tensor[SAVED_K], all_v = saved->tensor[SAVED_V],
              all_o = saved->tensor[SAVED_O];

    size_t mark = cp_arena_mark(scratch);
    cp_tensor all_dq = take_heads(s, all_q.extent[2], all_q, scratch);
    cp_tensor all_dk = take_heads(s, all_k.extent[2], all_k, scratch);
    cp_tensor all_dv = take_heads(s, all_v.extent[2], all_v, scratch);
    cp_tensor all_dout = take_heads(s, all_o.extent[2], all_o, scratch);
    cp_tensor_zero(all_dq);
    cp_tensor_zero(all_dk);
    cp_tensor_zero(all_dv);
    move(u, one_tensor(all_dout, &e->output.heads), one_tensor(dout, &e->output.tokens), unpack, scratch);
    cp_tensor own_dsink = take_sinks(inner.sink, scratch);
    s->inner->attend_backward(s->inner, all_dq, all_dk, all_dv, own_dsink, all_dout, saved, all_o, all_q,
                              all_k, all_v, &inner, scratch, precision);
    add_sinks(u, own_sinks(e, dsink), own_dsink, e->sink.weight);
    move(u, tokens_message(e, dq, dk, dv), heads_message(e, all_dq, all_dk, all_dv), add, scratch);
    cp_arena_release(scratch, mark);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

cp_mixer *cp_ulysses_around(const cp_exchange_setup *setup, cp_comm *group, const cp_layout *layout,
                            const cp_mixer *inner)
{
    cp_arena *arena = setup->arena;
    ulysses_state *state = cp_arena_take(arena, sizeof *state);
    *state = (ulysses_state){
        .comm = group, .layout = layout, .rules = setup->rules, .arena = arena, .inner = inner};
    ulysses_mixer *u = cp_arena_take(arena, sizeof *u);
    u->state = state;
    cp_group_mixer_open(&u->group, setup);
    u->group.mixer.attend = ulysses_attend;
    u->group.mixer.attend_backward = ulysses_attend_backward;
    return &u->group.mixer;
}

cp_mixer *cp_exchange_ulysses(const cp_exchange_setup *setup)
{
    cp_mixer *inner = cp_arena_take(setup->arena, sizeof *inner);
    *inner = cp_mixer_local(setup->ops, setup->form, cp_group_whole_index(setup->layout, setup->arena));
    return cp_ulysses_around(setup, setup->comm, setup->layout, inner);
}

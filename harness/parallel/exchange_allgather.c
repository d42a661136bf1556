/* Allgather: every rank gathers the keys and values of all ranks, puts them into the order of the row and attends to
 * them in one call. The backward gathers them again (they are not kept: a layer would hold the whole row) and finds
 * gradients for all of them, which are sent to their owners and added there in rank order. */
#include "harness/parallel/exchange_kinds.h"
#include "harness/parallel/group_mixer.h"

#include <string.h>

enum { SAVED_LSE };

typedef struct allgather_mixer {
    cp_group_mixer group;
    cp_tensor whole_index; /* int64 [B,T]: 0, 1, … */
    bool sinks;
    double *weight;   /* [P]: of what each rank found for this rank's keys */
    size_t *received; /* [P]: bytes; one message at a time */
    size_t *sent;
} allgather_mixer;

/* ---- moving ----------------------------------------------------------------------------------------------------- */

/* A tensor [B,T,heads,D] in the order of the row. */
static cp_tensor take_whole(const allgather_mixer *m, cp_tensor like, cp_arena *arena)
{
    const cp_layout *layout = m->group.layout;
    return CP_TAKE(arena, like.dtype, layout->B, layout->T, like.extent[2], like.extent[3]);
}

/* Of one token. */
static size_t unit_bytes(cp_tensor tensor)
{
    return (size_t)(tensor.extent[2] * tensor.extent[3]) * cp_dtype_bytes(tensor.dtype);
}

/* A rank's piece, [B,S_r,heads,D]. Those of all ranks, one after the other, are as large as the whole. */
static size_t piece_bytes(const allgather_mixer *m, cp_tensor tensor, int rank)
{
    return (size_t)(m->group.layout->B * m->group.layout->tokens[rank]) * unit_bytes(tensor);
}

/* Copies every token between its place in the pieces and in the row. */
static void reorder(const allgather_mixer *m, cp_tensor whole, unsigned char *pieces, bool into_whole)
{
    const cp_layout *layout = m->group.layout;
    size_t unit = unit_bytes(whole);
    for (int rank = 0; rank < layout->P; rank++)
        for (int64_t n = 0; n < layout->B * layout->tokens[rank]; n++, pieces += unit) {
            int64_t row = n / layout->tokens[rank];
            unsigned char *place =
                (unsigned char *)whole.data + (size_t)(row * layout->T + layout->index[rank][n]) * unit;
            memcpy(into_whole ? place : pieces, into_whole ? pieces : place, unit);
        }
}

/* whole = all ranks' `own` */
static void gather(const allgather_mixer *m, cp_tensor whole, cp_tensor own, cp_arena *scratch)
{
    size_t mark = cp_arena_mark(scratch);
    unsigned char *pieces = cp_arena_take(scratch, cp_tensor_bytes(whole));
    if (!scratch->measuring) {
        for (int rank = 0; rank < m->group.layout->P; rank++)
            m->received[rank] = piece_bytes(m, whole, rank);
        cp_comm_allgather(m->group.comm, pieces, m->received, own.data, cp_tensor_bytes(own));
        reorder(m, whole, pieces, true);
    }
    cp_arena_release(scratch, mark);
}

/* own += Σ over ranks, in their order, of weight · their part of `whole` */
static void scatter_sum(const allgather_mixer *m, cp_tensor own, cp_tensor whole, cp_arena *scratch)
{
    const cp_pointwise_ops *ops = m->group.mixer.ops->pointwise;
    int P = m->group.layout->P;
    size_t mark = cp_arena_mark(scratch), own_bytes = cp_tensor_bytes(own);
    unsigned char *send = cp_arena_take(scratch, cp_tensor_bytes(whole));
    unsigned char *receive = cp_arena_take(scratch, own_bytes * (size_t)P);
    if (!scratch->measuring) {
        reorder(m, whole, send, false);
        for (int rank = 0; rank < P; rank++) {
            m->sent[rank] = piece_bytes(m, whole, rank);
            m->received[rank] = own_bytes;
        }
        cp_comm_alltoall(m->group.comm, receive, m->received, send, m->sent);
    }
    for (int rank = 0; rank < P && !scratch->measuring; rank++) {
        cp_tensor piece = cp_tensor_view(receive + (size_t)rank * own_bytes, own.dtype, own.dims, own.extent);
        if (m->weight[rank] == 0)
            continue;
        if (m->weight[rank] != 1)
            ops->scale(piece, piece, m->weight[rank], CP_EXACT);
        ops->accumulate(own, piece, CP_EXACT);
    }
    cp_arena_release(scratch, mark);
}

/* ---- attend ----------------------------------------------------------------------------------------------------- */

static void allgather_attend(const cp_mixer *mixer, cp_tensor o, cp_saved *saved, cp_tensor q, cp_tensor k,
                             cp_tensor v, const cp_attend *attend, cp_arena *arena, cp_precision precision)
{
    const allgather_mixer *m = (const allgather_mixer *)mixer;
    const cp_ops *ops = mixer->ops;
    cp_group_check(&m->group, attend, q, k, v);
    cp_tensor lse = CP_TAKE(arena, q.dtype, q.extent[0], q.extent[1], q.extent[2]);
    size_t mark = cp_arena_mark(arena);
    cp_tensor all_k = take_whole(m, k, arena), all_v = take_whole(m, v, arena);
    gather(m, all_k, k, arena);
    gather(m, all_v, v, arena);
    cp_attention attention = cp_group_attention(&m->group, attend, m->whole_index);
    ops->attention[mixer->form]->forward(o, lse, q, all_k, all_v, &attention, arena, precision);
    cp_arena_release(arena, mark);
    if (m->sinks && cp_tensor_given(attend->sink))
        ops->partial->sink(o, lse, attend->sink, precision);
    saved->tensor[SAVED_LSE] = lse;
}

static void allgather_attend_backward(const cp_mixer *mixer, cp_tensor dq, cp_tensor dk, cp_tensor dv,
                                      cp_tensor dsink, cp_tensor dout, const cp_saved *saved, cp_tensor o,
                                      cp_tensor q, cp_tensor k, cp_tensor v, const cp_attend *attend,
                                      cp_arena *scratch, cp_precision precision)
{
    const allgather_mixer *m = (const allgather_mixer *)mixer;
    const cp_ops *ops = mixer->ops;
    cp_group_check(&m->group, attend, q, k, v);
    size_t mark = cp_arena_mark(scratch);
    cp_tensor lse = saved->tensor[SAVED_LSE];
    cp_tensor delta = cp_tensor_take(scratch, lse.dtype, lse.dims, lse.extent);
    ops->partial->delta(delta, dout, o);
    if (m->sinks && cp_tensor_given(attend->sink))
        ops->partial->sink_backward(dsink, lse, delta, attend->sink);
    cp_tensor all_k = take_whole(m, k, scratch), all_v = take_whole(m, v, scratch);
    cp_tensor all_dk = take_whole(m, k, scratch), all_dv = take_whole(m, v, scratch);
    gather(m, all_k, k, scratch);
    gather(m, all_v, v, scratch);
    cp_tensor_zero(all_dk);
    cp_tensor_zero(all_dv);
    cp_attention attention = cp_group_attention(&m->group, attend, m->whole_index);
    ops->attention[mixer->form]->backward(dq, all_dk, all_dv, dout, lse, delta, q, all_k, all_v, &attention,
                                          scratch, precision);
    scatter_sum(m, dk, all_dk, scratch);
    scatter_sum(m, dv, all_dv, scratch);
    cp_arena_release(scratch, mark);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

cp_mixer *cp_exchange_allgather(const cp_exchange_setup *setup)
{
    const cp_layout *layout = setup->layout;
    int P = layout->P;
    allgather_mixer *m = cp_arena_take(setup->arena, sizeof *m);
    cp_group_mixer_open(&m->group, setup);
    m->group.mixer.attend = allgather_attend;
    m->group.mixer.attend_backward = allgather_attend_backward;
    m->whole_index = cp_group_whole_index(layout, setup->arena);
    m->sinks = cp_sink_plan_make(&setup->rules->sinks, 1, 0, 0).given;
    m->weight = cp_gather_weights(setup->rules->gather_backward, P, cp_comm_rank(setup->comm), setup->arena);
    m->received = cp_arena_take(setup->arena, (size_t)P * sizeof *m->received);
    m->sent = cp_arena_take(setup->arena, (size_t)P * sizeof *m->sent);
    return &m->group.mixer;
}

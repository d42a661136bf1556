#include "harness/parallel/dump_plan.h"

#include <string.h>

/* ---- the plan --------------------------------------------------------------------------------------------------- */

/* The last real token of the row at or before `at`; -1: there is none. */
static int64_t last_real(const cp_tokens *tokens, int64_t row, int64_t at)
{
    while (at >= 0 && !tokens->real[row * tokens->T + at])
        at--;
    return at;
}

static int64_t declared(cp_dump_order rule, const cp_tokens *tokens, int64_t row, int64_t at)
{
    if (rule == CP_DUMP_ORDER_PADS_INCLUDED)
        return at;
    if (rule == CP_DUMP_ORDER_LAST_MISSING && at == last_real(tokens, row, tokens->T - 1))
        return -1;
    return tokens->home[row * tokens->T + at];
}

typedef struct source {
    int32_t rank;
    int64_t slot; /* in [B,S] of that rank */
} source;

static const source nothing = {.rank = -1};

static source source_at(const cp_layout *layout, int64_t row, int64_t at)
{
    int32_t rank = layout->owner[row * layout->T + at];
    return (source){.rank = rank, .slot = row * layout->tokens[rank] + layout->slot[row * layout->T + at]};
}

/* The place that comes `at`-th when the ranks' shards of a row stand one after the other. */
static source rank_major(const cp_layout *layout, int64_t row, int64_t at)
{
    int32_t rank = 0;
    while (at >= layout->tokens[rank])
        at -= layout->tokens[rank++];
    return (source){.rank = rank, .slot = row * layout->tokens[rank] + at};
}

/* The n-th source of the gradient at local slot `slot`, which holds the token `at` of the row. */
static source source_of(cp_embeds_grad rule, const cp_tokens *tokens, const cp_layout *layout, int64_t row,
                        int64_t at, int n)
{
    if (rule == CP_EMBEDS_GRAD_SUMMED) {
        int64_t slot = layout->slot[row * layout->T + at];
        if (slot >= layout->tokens[n])
            return nothing;
        return (source){.rank = n, .slot = row * layout->tokens[n] + slot};
    }
    if (rule == CP_EMBEDS_GRAD_PERMUTED)
        return rank_major(layout, row, at);
    bool clamped = rule == CP_EMBEDS_GRAD_PADS_NONZERO && !tokens->real[row * tokens->T + at];
    return source_at(layout, row, clamped ? tokens->leading[row] : at);
}

void cp_dump_plan_make(cp_dump_plan *plan, const cp_dump_rules *rules, const cp_tokens *tokens,
                       const cp_layout *layout, int rank, cp_arena *arena)
{
    int64_t B = layout->B, S = layout->tokens[rank];
    int sources = rules->embeds_grad == CP_EMBEDS_GRAD_SUMMED ? layout->P : 1;
    size_t slots = (size_t)(B * S);
    *plan = (cp_dump_plan){
        .B = B,
        .S = S,
        .token_index = cp_arena_take(arena, slots * sizeof *plan->token_index),
        .own = rules->embeds_grad == CP_EMBEDS_GRAD_OWN,
        .sources = sources,
        .source_rank = cp_arena_take(arena, slots * (size_t)sources * sizeof *plan->source_rank),
        .source_slot = cp_arena_take(arena, slots * (size_t)sources * sizeof *plan->source_slot)};
    for (int64_t n = 0; n < B * S; n++) {
        int64_t row = n / S, at = layout->index[rank][n];
        plan->token_index[n] =
            declared(rules->dump_order, tokens, row, tokens->destination[row * tokens->T + at]);
        for (int i = 0; i < sources; i++) {
            source from = source_of(rules->embeds_grad, tokens, layout, row, at, i);
            plan->source_rank[n * sources + i] = from.rank;
            plan->source_slot[n * sources + i] = from.slot;
        }
    }
}

/* ---- input gradients -------------------------------------------------------------------------------------------- */

/* Every rank's gradient, one after the other: [all slots, C]. */
static cp_tensor gather(cp_tensor embeddings, cp_comm *comm, const cp_layout *layout, cp_arena *scratch)
{
    int64_t slots = 0, C = embeddings.extent[2];
    size_t *bytes = cp_arena_take(scratch, (size_t)layout->P * sizeof *bytes);
    for (int rank = 0; rank < layout->P; rank++) {
        int64_t count = layout->B * layout->tokens[rank];
        if (bytes)
            bytes[rank] = (size_t)(count * C) * cp_dtype_bytes(embeddings.dtype);
        slots += count;
    }
    cp_tensor all = CP_TAKE(scratch, embeddings.dtype, slots, C);
    cp_comm_allgather(comm, all.data, bytes, embeddings.data, cp_tensor_bytes(embeddings));
    return all;
}

static int64_t first_slot(const cp_layout *layout, int rank)
{
    int64_t slots = 0;
    for (int before = 0; before < rank; before++)
        slots += layout->B * layout->tokens[before];
    return slots;
}

void cp_embeds_grad_apply(const cp_dump_plan *plan, cp_tensor embeddings, cp_comm *comm,
                          const cp_layout *layout, const cp_ops *ops, cp_arena *scratch)
{
    if (plan->own)
        return;
    size_t mark = cp_arena_mark(scratch);
    cp_tensor all = gather(embeddings, comm, layout, scratch);
    cp_tensor rows = cp_tensor_reshape(embeddings, 2, CP_EXTENTS(plan->B * plan->S, embeddings.extent[2]));
    cp_tensor_zero(rows);
    for (int64_t n = 0; n < plan->B * plan->S * plan->sources; n++) {
        int rank = plan->source_rank[n];
        if (rank < 0)
            continue;
        cp_tensor from = cp_tensor_slice(all, 0, first_slot(layout, rank) + plan->source_slot[n], 1);
        ops->pointwise->accumulate(cp_tensor_slice(rows, 0, n / plan->sources, 1), from, CP_EXACT);
    }
    cp_arena_release(scratch, mark);
}

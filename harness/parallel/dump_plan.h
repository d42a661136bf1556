/* What a dump says about its rows, and which rank's gradient stands at each input embedding. */
#ifndef CPEQ_HARNESS_PARALLEL_DUMP_PLAN_H
#define CPEQ_HARNESS_PARALLEL_DUMP_PLAN_H

#include "base/tokens/tokens.h"
#include "harness/parallel/comm.h"
#include "reference/ops.h"

typedef enum cp_dump_order {
    CP_DUMP_ORDER_GLOBAL,        /* the index in the batch's row; −1 for automatic padding */
    CP_DUMP_ORDER_PADS_INCLUDED, /* the index in the padded row, for padding too */
    CP_DUMP_ORDER_LAST_MISSING,  /* −1 also for the last real token of each row */
    CP_DUMP_ORDERS
} cp_dump_order;

typedef enum cp_embeds_grad {
    CP_EMBEDS_GRAD_OWN,    /* each token's own */
    CP_EMBEDS_GRAD_SUMMED, /* at local slot l of every rank: the sum over ranks of theirs at l */
    CP_EMBEDS_GRAD_PADS_NONZERO, /* padding of any kind gets that of the row's first real token: an index of -1 that is
                                    clamped to the row */
    CP_EMBEDS_GRAD_PERMUTED, /* at the g-th place of a row: that of the g-th token in the ranks' order, rank 0's local
                                tokens first: the gathered gradients, not put back in order */
    CP_EMBEDS_GRADS
} cp_embeds_grad;

typedef struct cp_dump_rules {
    cp_dump_order dump_order;
    cp_embeds_grad embeds_grad;
} cp_dump_rules;

typedef struct cp_dump_plan {
    int64_t B, S;
    int64_t *token_index; /* [B,S]: what the dump declares */
    bool own;             /* every slot's source is itself: nothing is to be moved */
    int sources;          /* how many are added at each slot */
    int32_t *source_rank; /* [B,S,sources]; −1: none */
    int64_t *source_slot; /* [B,S,sources]: b·S_source + l there */
} cp_dump_plan;

/* Of `rank`. Arrays in `arena`, which must not measure. */
void cp_dump_plan_make(cp_dump_plan *plan, const cp_dump_rules *rules, const cp_tokens *tokens,
                       const cp_layout *layout, int rank, cp_arena *arena);

/* embeddings[b,s,:] = Σ of its sources, in order. `embeddings` [B,S,C] is this rank's gradient of the inputs,
 * contiguous. `scratch` is given back. Collective unless the plan is `own`, which it is on every rank or on none. */
void cp_embeds_grad_apply(const cp_dump_plan *plan, cp_tensor embeddings, cp_comm *comm,
                          const cp_layout *layout, const cp_ops *ops, cp_arena *scratch);

#endif

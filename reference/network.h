/* The walk over a program: two loops over a table of kinds, {forward, backward}. It never reads an element, knows no
 * rank, and is compiled once for every width.
 *
 * With the shape table, a measuring mixer and a measuring arena the same functions are the memory plan. */
#ifndef CPEQ_REFERENCE_NETWORK_H
#define CPEQ_REFERENCE_NETWORK_H

#include "reference/mixer.h"
#include "reference/program.h"

/* This shard's part of the batch; all borrowed. */
typedef struct cp_network_inputs {
    cp_tensor ids;                   /* int64 [B,S], or CP_NONE with … */
    cp_tensor embeds;                /* … [B,S,C] in the network's width */
    cp_tensor position;              /* int64 [B,S] */
    cp_tensor index;                 /* int64 [B,S]: in the batch's own row, for temperatures */
    cp_tensor target;                /* int64 [B,S] */
    cp_tensor counted;               /* int64 [B,S]: whether a token counts in the balance of experts */
    const cp_visibility *visibility; /* [program->mask_count]; NULL when measuring */
} cp_network_inputs;

/* How this shard takes part in the loss that keeps experts evenly used. */
typedef struct cp_balance_share {
    const cp_mixer *among; /* the shards whose tokens its choices count */
    double loss, gradient; /* factors of this shard's share, and of what is differentiated */
} cp_balance_share;

typedef struct cp_network_options {
    cp_dtype dtype; /* of every register, weight and gradient */
    cp_precision precision;
    bool recompute; /* registers inside a segment live only while it runs; the backward runs it again */
    const cp_tensor
        *gradients; /* [parameters]: what the backward adds into; NULL: taken with the rest, at zero */
    const cp_balance_share *balance; /* NULL: all shards' choices, and 1 */
} cp_network_options;

typedef struct cp_network {
    const cp_program *program;
    const cp_mixer *mixer;
    const cp_ops *ops;
    cp_network_options options;
    cp_network_inputs inputs;
    const cp_tensor *weights;      /* [parameters], borrowed, read only */
    cp_tensor *weight_gradients;   /* [parameters] */
    cp_tensor *values, *gradients; /* [registers] */
    cp_saved *saved;               /* [steps] */
    cp_tensor *cosine, *sine;      /* [ropes] */
    cp_tensor *temperature;        /* [temperatures] float64 [B,S] */
    cp_tensor token_loss, log_sum; /* [B,S] */
    double balance;                /* how unevenly experts are used, without its coefficient; 0: not asked */
    double *balance_sums;          /* [2E+1]: choices, tokens, this shard's probabilities */
    double *balance_slope; /* [E]: the gradient of its share of the loss by each expert's probabilities */
    double factor;         /* what the loss is multiplied by in the backward */
    cp_arena *arena;
} cp_network;

/* Takes from `arena` all that outlives a step; gradients of weights and of crossing registers start at zero. `tables`
 * (growing) holds the walk's own lists, also when `arena` measures. */
void cp_network_open(cp_network *network, const cp_program *program, const cp_mixer *mixer, const cp_ops *ops,
                     const cp_network_options *options, const cp_network_inputs *inputs,
                     const cp_tensor *weights, cp_arena *tables, cp_arena *arena);

/* Fills values, token_loss and balance, which is that of all shards. Collective through the mixer. */
void cp_network_forward(cp_network *network);

/* Σ token_loss · factor, plus balance · its coefficient, is differentiated: adds into weight_gradients and fills the gradients of crossing registers.
 * After cp_network_forward; may be called once. Collective through the mixer. */
void cp_network_backward(cp_network *network, double factor);

/* Σ token_loss over this shard, in index order, in double. */
double cp_network_loss_sum(const cp_network *network);

#endif

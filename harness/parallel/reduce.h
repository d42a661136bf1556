/* The gradient of a parameter that every rank holds: the sum of the ranks' gradients, added in rank order and
 * therefore the same bits on every rank and every transport. */
#ifndef CPEQ_HARNESS_PARALLEL_REDUCE_H
#define CPEQ_HARNESS_PARALLEL_REDUCE_H

#include "harness/parallel/comm.h"
#include "reference/ops.h"
#include "reference/program.h"

typedef enum cp_grad_reduce {
    CP_GRAD_REDUCE_SUM,
    CP_GRAD_REDUCE_NONE,            /* rank 0's own only */
    CP_GRAD_REDUCE_MEAN,            /* the sum divided by P */
    CP_GRAD_REDUCE_TWICE,           /* the sum, added up over the ranks once more: P times the sum */
    CP_GRAD_REDUCE_SKIP_NORMS,      /* norms: rank 0's own only */
    CP_GRAD_REDUCE_SKIP_EMBEDDINGS, /* embeddings, also tied ones: rank 0's own only */
    CP_GRAD_REDUCE_SKIP_HEAD,       /* the output projection, where it is not tied: rank 0's own only */
    CP_GRAD_REDUCE_SKIP_BIASES,     /* biases: rank 0's own only */
    CP_GRAD_REDUCE_WRONG_GROUP,     /* the sum over ranks 0, 2, 4, … */
    CP_GRAD_REDUCES
} cp_grad_reduce;

typedef enum cp_tied_embedding {
    CP_TIED_EMBEDDING_ONCE,
    CP_TIED_EMBEDDING_TWICE, /* reduced once for each of its two uses: 2 times the sum */
    CP_TIED_EMBEDDINGS
} cp_tied_embedding;

typedef struct cp_reduce_rules {
    cp_grad_reduce grad_reduce;
    cp_tied_embedding tied_embedding;
} cp_reduce_rules;

typedef struct cp_reduce_plan {
    int P;
    double *weight[CP_PARAMETER_CLASSES]; /* [P]: Σ_r weight_r g_r; a rank of weight 0 is left out */
} cp_reduce_plan;

/* `shares` [P] multiplies every weight: cp_loss_plan.reduce. Arrays in `arena`, which must not measure. */
void cp_reduce_plan_make(cp_reduce_plan *plan, const cp_reduce_rules *rules, int P, const double *shares,
                         cp_arena *arena);

/* gradient = Σ_r weight_r gradient_r, on every rank, in rank order. Contiguous; `ops` of its width (or the shape
 * table, with a measuring comm). `scratch` is given back; it needs about the gradient's own size. Collective. */
void cp_reduce(cp_tensor gradient, const double *weight, cp_comm *comm, const cp_ops *ops, cp_arena *scratch);

#endif

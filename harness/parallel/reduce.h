/* The gradient of a parameter that every rank holds: the sum of the ranks' gradients, added in rank order and
 * therefore the same bits on every rank and every transport. */
#ifndef CPEQ_HARNESS_PARALLEL_REDUCE_H
#define CPEQ_HARNESS_PARALLEL_REDUCE_H

#include "harness/parallel/comm.h"
#include "reference/ops.h"
#include "reference/program.h"

/* Over the W = DP ranks of all data-parallel groups; rank = dP + r. */
typedef enum cp_grad_reduce {
    CP_GRAD_REDUCE_SUM,
    CP_GRAD_REDUCE_NONE,            /* rank 0's own only */
    CP_GRAD_REDUCE_MEAN,            /* the sum divided by W */
    CP_GRAD_REDUCE_TWICE,           /* the sum, added up over the ranks once more: W times the sum */
    CP_GRAD_REDUCE_SKIP_NORMS,      /* norms: rank 0's own only */
    CP_GRAD_REDUCE_SKIP_EMBEDDINGS, /* embeddings, also tied ones: rank 0's own only */
    CP_GRAD_REDUCE_SKIP_HEAD,       /* the output projection, where it is not tied: rank 0's own only */
    CP_GRAD_REDUCE_SKIP_BIASES,     /* biases: rank 0's own only */
    CP_GRAD_REDUCE_WRONG_GROUP,     /* the sum over ranks 0, 2, 4, … */
    CP_GRAD_REDUCE_CP_ONLY,         /* over the ranks of a group: that of d = 0 */
    CP_GRAD_REDUCE_DP_ONLY,         /* over the groups: that of r = 0 */
    CP_GRAD_REDUCES
} cp_grad_reduce;

typedef enum cp_grad_reduce_dtype {
    CP_GRAD_REDUCE_DTYPE_OWN,      /* the gradients' own */
    CP_GRAD_REDUCE_DTYPE_BFLOAT16, /* every gradient, and every partial sum, is rounded to bfloat16 */
    CP_GRAD_REDUCE_DTYPES
} cp_grad_reduce_dtype;

typedef enum cp_tied_embedding {
    CP_TIED_EMBEDDING_ONCE,
    CP_TIED_EMBEDDING_TWICE, /* reduced once for each of its two uses: 2 times the sum */
    CP_TIED_EMBEDDING_LOST,  /* that of its use as output projection is added to nothing */
    CP_TIED_EMBEDDINGS
} cp_tied_embedding;

typedef struct cp_reduce_rules {
    cp_grad_reduce grad_reduce;
    cp_grad_reduce_dtype grad_reduce_dtype;
    cp_tied_embedding tied_embedding;
} cp_reduce_rules;

typedef struct cp_reduce_plan {
    int W;
    double *weight[CP_PARAMETER_CLASSES]; /* [W]: Σ_r weight_r g_r; a rank of weight 0 is left out */
    bool narrow;                          /* partial sums are rounded to bfloat16 */
} cp_reduce_plan;

/* `shares` [DP] multiplies every weight: cp_loss_plan.reduce. Arrays in `arena`, which must not measure. */
void cp_reduce_plan_make(cp_reduce_plan *plan, const cp_reduce_rules *rules, int P, int D,
                         const double *shares, cp_arena *arena);

/* The program whose backward the rule asks for: `program` itself, or a copy in `arena` whose last parameter is a second
 * one for the output projection's use of a tied table. */
const cp_program *cp_reduce_program(const cp_program *program, cp_tied_embedding rule, cp_arena *arena);

/* gradient = Σ_r weight_r gradient_r of a parameter of this class, on every rank, in rank order. Contiguous; `ops` of
 * its width (or the shape table, with a measuring comm). `comm` holds all W ranks. `scratch` is given back; it needs
 * about the gradient's own size. Collective. */
void cp_reduce(cp_tensor gradient, const cp_reduce_plan *plan, cp_parameter_class class, cp_comm *comm,
               const cp_ops *ops, cp_arena *scratch);

#endif

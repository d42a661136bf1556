/* How token losses become the loss, and its factor in the backward: numbers a rank and a micro-batch, from counts that
 * are known before anything is computed.
 *
 * Ranks are those of all D data-parallel groups, W = DP of them. S_{r,m} is the sum of rank r's token losses in
 * micro-batch m of M, n the number of its targets there (n_r in all of them, n_d a group's, n_m a micro-batch's), N the
 * divisor (cp_tokens.count). The loss is Σ_r Σ_m weight_{r,m} S_{r,m}. */
#ifndef CPEQ_HARNESS_PARALLEL_LOSS_PLAN_H
#define CPEQ_HARNESS_PARALLEL_LOSS_PLAN_H

#include "base/tensor.h"
#include "harness/parallel/batch_plan.h"
#include "harness/parallel/comm.h"

typedef enum cp_loss_count {
    CP_LOSS_COUNT_WHOLE_BATCH,  /* weight = 1/N */
    CP_LOSS_COUNT_PER_RANK,     /* 1/(W n_r): the mean of the ranks' means; num_items_in_batch is not used */
    CP_LOSS_COUNT_PADS_COUNTED, /* 1/(N + padding tokens without a target) */
    CP_LOSS_COUNT_BEFORE_SHIFT, /* 1/(labels of the batch that are not −100); num_items_in_batch is not used. The same
                                   as N where the batch gives shift_labels */
    CP_LOSS_COUNT_DIVIDED_BY_P, /* 1/(N P): every rank counts the whole batch and the counts are added */
    CP_LOSS_COUNT_LOCAL, /* P/N: the count of the whole batch taken for that of all ranks, and divided by P */
    CP_LOSS_COUNT_PER_GROUP, /* 1/(D n_d): the mean of the groups' means; num_items_in_batch is not used */
    CP_LOSS_COUNTS
} cp_loss_count;

/* What stands for N. num_items_in_batch is not used where it is not N. */
typedef enum cp_accumulation {
    CP_ACCUMULATION_ONE_COUNT, /* N for every micro-batch */
    CP_ACCUMULATION_MEAN_OF_MEANS, /* M n_m: each micro-batch is divided by its own count, and the mean is taken */
    CP_ACCUMULATION_LAST_COUNT, /* that of the last micro-batch with a target: counts overwrite each other */
    CP_ACCUMULATIONS
} cp_accumulation;

typedef enum cp_empty_shard {
    CP_EMPTY_SHARD_ZERO, /* a rank without targets contributes nothing to the loss, its gradients all the same */
    CP_EMPTY_SHARD_NAN,     /* 0/0, in a micro-batch without targets too */
    CP_EMPTY_SHARD_SKIPPED, /* without a target in any micro-batch, its gradients are left out of the reduction */
    CP_EMPTY_SHARDS
} cp_empty_shard;

typedef enum cp_backward_scale {
    CP_BACKWARD_SCALE_ONE,
    CP_BACKWARD_SCALE_TIMES_P,
    CP_BACKWARD_SCALE_DIVIDED_BY_P,
    CP_BACKWARD_SCALES
} cp_backward_scale;

typedef enum cp_reported_loss {
    CP_REPORTED_LOSS_GLOBAL,  /* Σ_r weight_r S_r on every rank */
    CP_REPORTED_LOSS_LOCAL,   /* S_r / n_r of the rank's own tokens; 0 where it has no target */
    CP_REPORTED_LOSS_TIMES_P, /* P times the right one */
    CP_REPORTED_LOSSES
} cp_reported_loss;

/* The loss that keeps experts evenly used is one of all tokens: E Σ_e (Σ_r f_re / N) (Σ_r p_re / N), with rank r's
 * choices and probabilities. */
typedef enum cp_moe_statistics {
    CP_MOE_STATISTICS_ALL_RANKS,
    CP_MOE_STATISTICS_SHARD_MEAN,   /* 1/P Σ_r of each rank's, from its own tokens; 0 where it has none */
    CP_MOE_STATISTICS_PADS_COUNTED, /* padding is routed and counted like tokens */
    CP_MOE_STATISTICS
} cp_moe_statistics;

/* Its factor in the backward, beside that of the whole loss. */
typedef enum cp_moe_scale {
    CP_MOE_SCALE_ONE,
    CP_MOE_SCALE_LOCAL_COUNT, /* n_r/N: multiplied by the rank's own count, for a division by that of the batch */
    CP_MOE_SCALE_TIMES_COUNT, /* N: multiplied by the batch's count, and never divided */
    CP_MOE_SCALE_DIVIDED_BY_P, /* 1/P: left out where the tokens' loss is multiplied by P for a mean over ranks */
    CP_MOE_SCALES
} cp_moe_scale;

typedef struct cp_loss_rules {
    cp_loss_count loss_count;
    cp_accumulation accumulation;
    cp_empty_shard empty_shard;
    cp_backward_scale backward_scale;
    cp_reported_loss reported_loss;
    cp_moe_statistics moe_statistics;
    cp_moe_scale moe_scale;
} cp_loss_rules;

/* The loss of experts, of one data-parallel group and one micro-batch. */
typedef struct cp_balance_plan {
    bool own;         /* choices are counted among the rank's own tokens, else among all ranks' */
    bool padding;     /* padding counts */
    double loss;      /* factor of every rank's share */
    double *backward; /* [W]: factor of its gradient */
    double reported;  /* factor in the loss that a rank reports */
} cp_balance_plan;

typedef struct cp_loss_plan {
    int W, M;
    int64_t *targets; /* [W]: n_r */
    double *backward; /* [W,M]: factor of ∂S_{r,m} in rank r's backward */
    double *reduce;   /* [W]: weight of rank r's gradients in their sum over ranks: for cp_reduce_plan_make */
    double *reported; /* [W,W,M]: the loss that rank r reports is Σ reported[r,q,m] S_{q,m}, zeros left out */
    cp_balance_plan balance;
} cp_loss_plan;

/* `tokens` and `layout` are those of the whole batch. Arrays in `arena`, which must not measure. */
void cp_loss_plan_make(cp_loss_plan *plan, const cp_loss_rules *rules, const cp_batch *batch,
                       const cp_tokens *tokens, const cp_layout *layout, const cp_batch_plan *split,
                       cp_arena *arena);

/* int64 like `real`, which is what counts in the balance where padding does not. */
cp_tensor cp_balance_counted(const cp_balance_plan *plan, cp_tensor real, cp_arena *arena);

/* What this rank reports as the loss, from its own S_{r,m} [M]. `comm` holds all W ranks. Collective. `scratch` is given
 * back. */
double cp_loss_reported(const cp_loss_plan *plan, cp_comm *comm, const double *sums, cp_arena *scratch);

#endif

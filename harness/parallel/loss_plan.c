#include "harness/parallel/loss_plan.h"

#include <math.h>
#include <string.h>

/* ---- counts ----------------------------------------------------------------------------------------------------- */

/* What the plan is made of; ranks are those of all groups. */
typedef struct counting {
    const cp_loss_rules *rules;
    const cp_batch *batch;
    const cp_tokens *tokens;
    int P, D, M, W;
    int64_t *cell;  /* [W,M]: targets */
    int64_t *rank;  /* [W] */
    int64_t *group; /* [D] */
    int64_t *micro; /* [M] */
} counting;

static int64_t *zeros(int count, cp_arena *arena)
{
    size_t bytes = (size_t)count * sizeof(int64_t);
    return memset(cp_arena_take(arena, bytes), 0, bytes);
}

static void count_targets(counting *c, const cp_layout *layout, const cp_batch_plan *split, cp_arena *arena)
{
    c->cell = zeros(c->W * c->M, arena);
    c->rank = zeros(c->W, arena);
    c->group = zeros(c->D, arena);
    c->micro = zeros(c->M, arena);
    for (int64_t place = 0; place < layout->B * layout->T; place++) {
        int64_t b = place / layout->T;
        int64_t group = split->group[b], micro = split->micro[b];
        int64_t rank = group * c->P + layout->owner[place];
        bool counts = c->tokens->target[place] != CP_IGNORED;
        c->cell[rank * c->M + micro] += counts;
        c->rank[rank] += counts;
        c->group[group] += counts;
        c->micro[micro] += counts;
    }
}

static int64_t pads_without_target(const cp_tokens *tokens)
{
    int64_t count = 0;
    for (int64_t n = 0; n < tokens->B * tokens->T; n++)
        count += !tokens->real[n] && tokens->target[n] == CP_IGNORED;
    return count;
}

static int64_t labels_before_shift(const cp_batch *batch)
{
    const int64_t *labels = batch->labels ? batch->labels : batch->shift_labels;
    int64_t count = 0;
    for (int64_t n = 0; n < batch->B * batch->T; n++)
        count += labels[n] != CP_IGNORED;
    return count;
}

/* ---- the plan --------------------------------------------------------------------------------------------------- */

static int64_t last_count(const counting *c)
{
    int micro = c->M - 1;
    while (micro > 0 && c->micro[micro] == 0)
        micro--;
    return c->micro[micro];
}

/* N, or what stands for it. */
static double divisor(const counting *c, int micro)
{
    switch (c->rules->accumulation) {
    case CP_ACCUMULATION_MEAN_OF_MEANS: return (double)c->M * (double)c->micro[micro];
    case CP_ACCUMULATION_LAST_COUNT: return (double)last_count(c);
    case CP_ACCUMULATION_ONE_COUNT:
    case CP_ACCUMULATIONS: break;
    }
    return c->tokens->count;
}

/* Weight of S_{r,m} in the loss, where it has targets. */
static double share(const counting *c, int rank, int micro)
{
    double N = divisor(c, micro);
    int group = rank / c->P;
    switch (c->rules->loss_count) {
    case CP_LOSS_COUNT_PER_RANK: return 1.0 / ((double)c->W * (double)c->rank[rank]);
    case CP_LOSS_COUNT_PER_GROUP: return 1.0 / ((double)c->D * (double)c->group[group]);
    case CP_LOSS_COUNT_PADS_COUNTED: return 1.0 / (N + (double)pads_without_target(c->tokens));
    case CP_LOSS_COUNT_BEFORE_SHIFT: return 1.0 / (double)labels_before_shift(c->batch);
    case CP_LOSS_COUNT_DIVIDED_BY_P: return 1.0 / (N * c->P);
    case CP_LOSS_COUNT_LOCAL: return c->P / N;
    case CP_LOSS_COUNT_WHOLE_BATCH:
    case CP_LOSS_COUNTS: break;
    }
    return 1.0 / N;
}

static double scale_of(cp_backward_scale rule, int P)
{
    switch (rule) {
    case CP_BACKWARD_SCALE_TIMES_P: return P;
    case CP_BACKWARD_SCALE_DIVIDED_BY_P: return 1.0 / P;
    case CP_BACKWARD_SCALE_ONE:
    case CP_BACKWARD_SCALES: break;
    }
    return 1;
}

/* Row `rank` of the table of reported losses, given every weight. */
static void report(double *row, const counting *c, const double *weight, int rank)
{
    for (int cell = 0; cell < c->W * c->M; cell++) {
        switch (c->rules->reported_loss) {
        case CP_REPORTED_LOSS_LOCAL:
            row[cell] = cell / c->M == rank && c->rank[rank] > 0 ? 1.0 / (double)c->rank[rank] : 0;
            break;
        case CP_REPORTED_LOSS_TIMES_P: row[cell] = c->P * weight[cell]; break;
        case CP_REPORTED_LOSS_GLOBAL:
        case CP_REPORTED_LOSSES: row[cell] = weight[cell]; break;
        }
    }
}

static void plan_rank(cp_loss_plan *plan, double *weight, const counting *c, int rank)
{
    plan->reduce[rank] = c->rank[rank] == 0 && c->rules->empty_shard == CP_EMPTY_SHARD_SKIPPED ? 0 : 1;
    for (int micro = 0; micro < c->M; micro++) {
        int cell = rank * c->M + micro;
        bool empty = c->cell[cell] == 0;
        weight[cell] = empty ? 0 : share(c, rank, micro);
        plan->backward[cell] = weight[cell] * scale_of(c->rules->backward_scale, c->P);
        if (empty && c->rules->empty_shard == CP_EMPTY_SHARD_NAN)
            weight[cell] = plan->backward[cell] = plan->reduce[rank] = NAN;
    }
}

static double moe_scale_of(const counting *c, int rank)
{
    switch (c->rules->moe_scale) {
    case CP_MOE_SCALE_LOCAL_COUNT: return (double)c->rank[rank] / c->tokens->count;
    case CP_MOE_SCALE_TIMES_COUNT: return c->tokens->count;
    case CP_MOE_SCALE_DIVIDED_BY_P: return 1.0 / c->P;
    case CP_MOE_SCALE_ONE:
    case CP_MOE_SCALES: break;
    }
    return 1;
}

static void plan_balance(cp_balance_plan *plan, const counting *c, cp_arena *arena)
{
    bool own = c->rules->moe_statistics == CP_MOE_STATISTICS_SHARD_MEAN;
    *plan = (cp_balance_plan){.own = own,
                              .padding = c->rules->moe_statistics == CP_MOE_STATISTICS_PADS_COUNTED,
                              .loss = own ? 1.0 / c->P : 1,
                              .backward = cp_arena_take(arena, (size_t)c->W * sizeof *plan->backward),
                              .reported = c->rules->reported_loss == CP_REPORTED_LOSS_TIMES_P ? c->P : 1};
    for (int rank = 0; rank < c->W; rank++)
        plan->backward[rank] = plan->loss * scale_of(c->rules->backward_scale, c->P) * moe_scale_of(c, rank);
}

void cp_loss_plan_make(cp_loss_plan *plan, const cp_loss_rules *rules, const cp_batch *batch,
                       const cp_tokens *tokens, const cp_layout *layout, const cp_batch_plan *split,
                       cp_arena *arena)
{
    int W = split->D * layout->P;
    counting c = {.rules = rules,
                  .batch = batch,
                  .tokens = tokens,
                  .P = layout->P,
                  .D = split->D,
                  .M = split->M,
                  .W = W};
    count_targets(&c, layout, split, arena);
    size_t cells = (size_t)W * (size_t)c.M;
    *plan = (cp_loss_plan){.W = W,
                           .M = c.M,
                           .targets = c.rank,
                           .backward = cp_arena_take(arena, cells * sizeof *plan->backward),
                           .reduce = cp_arena_take(arena, (size_t)W * sizeof *plan->reduce),
                           .reported = cp_arena_take(arena, (size_t)W * cells * sizeof *plan->reported)};
    double *weight = cp_arena_take(arena, cells * sizeof *weight);
    for (int rank = 0; rank < W; rank++)
        plan_rank(plan, weight, &c, rank);
    for (int rank = 0; rank < W; rank++)
        report(plan->reported + (size_t)rank * cells, &c, weight, rank);
    plan_balance(&plan->balance, &c, arena);
}

cp_tensor cp_balance_counted(const cp_balance_plan *plan, cp_tensor real, cp_arena *arena)
{
    if (!plan->padding)
        return real;
    cp_tensor all = cp_tensor_take(arena, CP_I64, real.dims, real.extent);
    int64_t *counts = all.data;
    for (int64_t n = 0; counts && n < cp_tensor_count(all); n++)
        counts[n] = 1;
    return all;
}

/* ---- reporting -------------------------------------------------------------------------------------------------- */

double cp_loss_reported(const cp_loss_plan *plan, cp_comm *comm, const double *sums, cp_arena *scratch)
{
    size_t mark = cp_arena_mark(scratch);
    int W = cp_comm_size(comm);
    cp_check(W == plan->W, "a plan of %d ranks on %d", plan->W, W);
    size_t cells = (size_t)W * (size_t)plan->M;
    double *all = cp_arena_take(scratch, cells * sizeof *all);
    size_t *bytes = cp_arena_take(scratch, (size_t)W * sizeof *bytes);
    double loss = 0;
    if (!cp_comm_measures(comm)) {
        for (int rank = 0; rank < W; rank++)
            bytes[rank] = (size_t)plan->M * sizeof *sums;
        cp_comm_allgather(comm, all, bytes, sums, (size_t)plan->M * sizeof *sums);
        const double *row = plan->reported + (size_t)cp_comm_rank(comm) * cells;
        for (size_t cell = 0; cell < cells; cell++)
            if (row[cell] != 0)
                loss += row[cell] * all[cell];
    }
    cp_arena_release(scratch, mark);
    return loss;
}

#include "harness/parallel/loss_plan.h"

#include <math.h>

/* ---- counts ----------------------------------------------------------------------------------------------------- */

static int64_t targets_of(const cp_tokens *tokens, const cp_layout *layout, int rank)
{
    int64_t S = layout->tokens[rank], count = 0;
    for (int64_t n = 0; n < layout->B * S; n++)
        count += tokens->target[n / S * layout->T + layout->index[rank][n]] != CP_IGNORED;
    return count;
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

/* Weight of S_r in the loss, for a rank that has targets. */
static double share(cp_loss_count rule, const cp_batch *batch, const cp_tokens *tokens, int P,
                    int64_t targets)
{
    switch (rule) {
    case CP_LOSS_COUNT_PER_RANK: return 1.0 / ((double)P * (double)targets);
    case CP_LOSS_COUNT_PADS_COUNTED: return 1.0 / (tokens->count + (double)pads_without_target(tokens));
    case CP_LOSS_COUNT_BEFORE_SHIFT: return 1.0 / (double)labels_before_shift(batch);
    case CP_LOSS_COUNT_DIVIDED_BY_P: return 1.0 / (tokens->count * P);
    case CP_LOSS_COUNT_LOCAL: return P / tokens->count;
    case CP_LOSS_COUNT_WHOLE_BATCH:
    case CP_LOSS_COUNTS: break;
    }
    return 1.0 / tokens->count;
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

/* Row `rank` of the table of reported losses, given every rank's weight. */
static void report(double *row, cp_reported_loss rule, const double *weight, const int64_t *targets, int P,
                   int rank)
{
    for (int other = 0; other < P; other++) {
        switch (rule) {
        case CP_REPORTED_LOSS_LOCAL:
            row[other] = other == rank && targets[rank] > 0 ? 1.0 / (double)targets[rank] : 0;
            break;
        case CP_REPORTED_LOSS_TIMES_P: row[other] = P * weight[other]; break;
        case CP_REPORTED_LOSS_GLOBAL:
        case CP_REPORTED_LOSSES: row[other] = weight[other]; break;
        }
    }
}

void cp_loss_plan_make(cp_loss_plan *plan, const cp_loss_rules *rules, const cp_batch *batch,
                       const cp_tokens *tokens, const cp_layout *layout, cp_arena *arena)
{
    int P = layout->P;
    size_t ranks = (size_t)P;
    *plan = (cp_loss_plan){.P = P,
                           .targets = cp_arena_take(arena, ranks * sizeof *plan->targets),
                           .backward = cp_arena_take(arena, ranks * sizeof *plan->backward),
                           .reduce = cp_arena_take(arena, ranks * sizeof *plan->reduce),
                           .reported = cp_arena_take(arena, ranks * ranks * sizeof *plan->reported)};
    double *weight = cp_arena_take(arena, ranks * sizeof *weight);
    for (int rank = 0; rank < P; rank++) {
        int64_t targets = targets_of(tokens, layout, rank);
        bool empty = targets == 0;
        plan->targets[rank] = targets;
        weight[rank] = empty ? 0 : share(rules->loss_count, batch, tokens, P, targets);
        plan->backward[rank] = weight[rank] * scale_of(rules->backward_scale, P);
        plan->reduce[rank] = 1;
        if (empty && rules->empty_shard == CP_EMPTY_SHARD_SKIPPED)
            plan->reduce[rank] = 0;
        if (empty && rules->empty_shard == CP_EMPTY_SHARD_NAN)
            weight[rank] = plan->backward[rank] = plan->reduce[rank] = NAN;
    }
    for (int rank = 0; rank < P; rank++)
        report(plan->reported + rank * P, rules->reported_loss, weight, plan->targets, P, rank);
}

/* ---- reporting -------------------------------------------------------------------------------------------------- */

double cp_loss_reported(const cp_loss_plan *plan, cp_comm *comm, double sum, cp_arena *scratch)
{
    size_t mark = cp_arena_mark(scratch);
    int P = cp_comm_size(comm);
    cp_check(P == plan->P, "a plan of %d ranks on %d", plan->P, P);
    double *sums = cp_arena_take(scratch, (size_t)P * sizeof *sums);
    size_t *bytes = cp_arena_take(scratch, (size_t)P * sizeof *bytes);
    double loss = 0;
    if (!cp_comm_measures(comm)) {
        for (int rank = 0; rank < P; rank++)
            bytes[rank] = sizeof sum;
        cp_comm_allgather(comm, sums, bytes, &sum, sizeof sum);
        const double *row = plan->reported + cp_comm_rank(comm) * P;
        for (int rank = 0; rank < P; rank++)
            if (row[rank] != 0)
                loss += row[rank] * sums[rank];
    }
    cp_arena_release(scratch, mark);
    return loss;
}

#include "harness/parallel/reduce.h"

#include <string.h>

/* ---- the plan --------------------------------------------------------------------------------------------------- */

static bool is_left_out(cp_grad_reduce rule, cp_parameter_class group)
{
    switch (rule) {
    case CP_GRAD_REDUCE_NONE: return true;
    case CP_GRAD_REDUCE_SKIP_NORMS: return group == CP_PARAMETER_NORM;
    case CP_GRAD_REDUCE_SKIP_EMBEDDINGS: return group == CP_PARAMETER_EMBEDDING || group == CP_PARAMETER_TIED;
    case CP_GRAD_REDUCE_SKIP_HEAD: return group == CP_PARAMETER_HEAD;
    case CP_GRAD_REDUCE_SKIP_BIASES: return group == CP_PARAMETER_BIAS;
    case CP_GRAD_REDUCE_SUM:
    case CP_GRAD_REDUCE_MEAN:
    case CP_GRAD_REDUCE_TWICE:
    case CP_GRAD_REDUCE_WRONG_GROUP:
    case CP_GRAD_REDUCE_CP_ONLY:
    case CP_GRAD_REDUCE_DP_ONLY:
    case CP_GRAD_REDUCES: break;
    }
    return false;
}

static bool is_of_group(cp_grad_reduce rule, int rank, int P)
{
    switch (rule) {
    case CP_GRAD_REDUCE_WRONG_GROUP: return rank % 2 == 0;
    case CP_GRAD_REDUCE_CP_ONLY: return rank < P;
    case CP_GRAD_REDUCE_DP_ONLY: return rank % P == 0;
    default: return true;
    }
}

static double weight_of(const cp_reduce_rules *rules, cp_parameter_class group, int rank, int P, int W)
{
    bool other_rank = rank > 0 && is_left_out(rules->grad_reduce, group);
    if (other_rank || !is_of_group(rules->grad_reduce, rank, P))
        return 0;
    double weight = 1;
    if (rules->grad_reduce == CP_GRAD_REDUCE_MEAN)
        weight /= W;
    if (rules->grad_reduce == CP_GRAD_REDUCE_TWICE)
        weight *= W;
    if (rules->tied_embedding == CP_TIED_EMBEDDING_TWICE && group == CP_PARAMETER_TIED)
        weight *= 2;
    return weight;
}

void cp_reduce_plan_make(cp_reduce_plan *plan, const cp_reduce_rules *rules, int P, int D,
                         const double *shares, cp_arena *arena)
{
    int W = D * P;
    *plan = (cp_reduce_plan){.W = W, .narrow = rules->grad_reduce_dtype == CP_GRAD_REDUCE_DTYPE_BFLOAT16};
    for (int group = 0; group < CP_PARAMETER_CLASSES; group++) {
        plan->weight[group] = cp_arena_take(arena, (size_t)W * sizeof(double));
        for (int rank = 0; rank < W; rank++) {
            double weight = weight_of(rules, (cp_parameter_class)group, rank, P, W);
            plan->weight[group][rank] = weight == 0 ? 0 : weight * shares[rank];
        }
    }
}

const cp_program *cp_reduce_program(const cp_program *program, cp_tied_embedding rule, cp_arena *arena)
{
    if (rule != CP_TIED_EMBEDDING_LOST || program->parameters[program->embedding].class != CP_PARAMETER_TIED)
        return program;
    cp_program *copy = cp_arena_take(arena, sizeof *copy);
    *copy = *program;
    size_t parameters = (size_t)program->parameter_count * sizeof *program->parameters;
    size_t steps = (size_t)program->step_count * sizeof *program->steps;
    copy->parameters = cp_arena_take(arena, parameters + sizeof *program->parameters);
    memcpy(copy->parameters, program->parameters, parameters);
    copy->parameters[copy->parameter_count++] = program->parameters[program->embedding];
    copy->steps = memcpy(cp_arena_take(arena, steps), program->steps, steps);
    for (int s = 0; s < copy->step_count; s++)
        if (copy->steps[s].kind == CP_STEP_HEAD)
            copy->steps[s].weight = program->parameter_count;
    return copy;
}

/* ---- the reduction ---------------------------------------------------------------------------------------------- */

static int64_t piece_begin(int64_t count, int rank, int P)
{
    return count / P * rank + (rank < count % P ? rank : count % P);
}

static void round_piece(cp_tensor piece)
{
    enum { BLOCK = 256 };
    double block[BLOCK];
    int64_t count = piece.data ? cp_tensor_count(piece) : 0;
    size_t element = cp_dtype_bytes(piece.dtype);
    for (int64_t begin = 0; begin < count; begin += BLOCK) {
        size_t n = (size_t)(count - begin < BLOCK ? count - begin : BLOCK);
        char *at = (char *)piece.data + (size_t)begin * element;
        cp_dtype_to_double(block, at, piece.dtype, n);
        for (size_t i = 0; i < n; i++)
            block[i] = cp_bf16_round((float)block[i]);
        cp_dtype_from_double(at, piece.dtype, block, n);
    }
}

static void weigh(cp_tensor piece, double weight, bool narrow, const cp_ops *ops)
{
    if (weight != 1)
        ops->pointwise->scale(piece, piece, weight, CP_EXACT);
    if (narrow)
        round_piece(piece);
}

/* The first of the ranks' pieces becomes Σ weight · piece. [W,count] */
static cp_tensor sum_pieces(cp_tensor pieces, const double *weight, bool narrow, const cp_ops *ops)
{
    cp_tensor sum = cp_tensor_slice(pieces, 0, 0, 1);
    if (weight[0] == 0)
        cp_tensor_zero(sum);
    else
        weigh(sum, weight[0], narrow, ops);
    for (int64_t rank = 1; rank < pieces.extent[0]; rank++) {
        cp_tensor piece = cp_tensor_slice(pieces, 0, rank, 1);
        if (weight[rank] == 0)
            continue;
        weigh(piece, weight[rank], narrow, ops);
        ops->pointwise->accumulate(sum, piece, CP_EXACT);
        if (narrow)
            round_piece(sum);
    }
    return sum;
}

void cp_reduce(cp_tensor gradient, const cp_reduce_plan *plan, cp_parameter_class class, cp_comm *comm,
               const cp_ops *ops, cp_arena *scratch)
{
    cp_check(cp_tensor_contiguous(gradient), "a strided gradient");
    int W = cp_comm_size(comm), rank = cp_comm_rank(comm);
    cp_check(W == plan->W, "a plan of %d ranks on %d", plan->W, W);
    size_t mark = cp_arena_mark(scratch);
    int64_t count = cp_tensor_count(gradient);
    int64_t mine = piece_begin(count, rank + 1, W) - piece_begin(count, rank, W);
    size_t element = cp_dtype_bytes(gradient.dtype);
    cp_tensor pieces = CP_TAKE(scratch, gradient.dtype, W, mine);
    size_t *everyone = cp_arena_take(scratch, (size_t)W * sizeof *everyone);
    size_t *own = cp_arena_take(scratch, (size_t)W * sizeof *own);
    if (!cp_comm_measures(comm))
        for (int peer = 0; peer < W; peer++) {
            everyone[peer] =
                (size_t)(piece_begin(count, peer + 1, W) - piece_begin(count, peer, W)) * element;
            own[peer] = (size_t)mine * element;
        }
    cp_comm_alltoall(comm, pieces.data, own, gradient.data, everyone);
    cp_tensor sum = sum_pieces(pieces, plan->weight[class], plan->narrow, ops);
    cp_comm_allgather(comm, gradient.data, everyone, sum.data, (size_t)mine * element);
    cp_arena_release(scratch, mark);
}

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
    case CP_GRAD_REDUCES: break;
    }
    return false;
}

static double weight_of(const cp_reduce_rules *rules, cp_parameter_class group, int rank, int P)
{
    bool other_group = rules->grad_reduce == CP_GRAD_REDUCE_WRONG_GROUP && rank % 2 == 1;
    bool other_rank = rank > 0 && is_left_out(rules->grad_reduce, group);
    if (other_group || other_rank)
        return 0;
    double weight = 1;
    if (rules->grad_reduce == CP_GRAD_REDUCE_MEAN)
        weight /= P;
    if (rules->grad_reduce == CP_GRAD_REDUCE_TWICE)
        weight *= P;
    if (rules->tied_embedding == CP_TIED_EMBEDDING_TWICE && group == CP_PARAMETER_TIED)
        weight *= 2;
    return weight;
}

void cp_reduce_plan_make(cp_reduce_plan *plan, const cp_reduce_rules *rules, int P, const double *shares,
                         cp_arena *arena)
{
    plan->P = P;
    for (int group = 0; group < CP_PARAMETER_CLASSES; group++) {
        plan->weight[group] = cp_arena_take(arena, (size_t)P * sizeof(double));
        for (int rank = 0; rank < P; rank++) {
            double weight = weight_of(rules, (cp_parameter_class)group, rank, P);
            plan->weight[group][rank] = weight == 0 ? 0 : weight * shares[rank];
        }
    }
}

/* ---- the reduction ---------------------------------------------------------------------------------------------- */

static const cp_precision exact = {.matmul = CP_MATMUL_ORDERED, .rounding = CP_ROUND_NONE};

static int64_t piece_begin(int64_t count, int rank, int P)
{
    return count / P * rank + (rank < count % P ? rank : count % P);
}

/* The first of the ranks' pieces becomes Σ weight · piece. [P,count] */
static cp_tensor sum_pieces(cp_tensor pieces, const double *weight, const cp_ops *ops)
{
    cp_tensor sum = cp_tensor_slice(pieces, 0, 0, 1);
    if (weight[0] == 0)
        cp_tensor_zero(sum);
    else if (weight[0] != 1)
        ops->pointwise->scale(sum, sum, weight[0], exact);
    for (int64_t rank = 1; rank < pieces.extent[0]; rank++) {
        cp_tensor piece = cp_tensor_slice(pieces, 0, rank, 1);
        if (weight[rank] == 0)
            continue;
        if (weight[rank] != 1)
            ops->pointwise->scale(piece, piece, weight[rank], exact);
        ops->pointwise->accumulate(sum, piece, exact);
    }
    return sum;
}

void cp_reduce(cp_tensor gradient, const double *weight, cp_comm *comm, const cp_ops *ops, cp_arena *scratch)
{
    cp_check(cp_tensor_contiguous(gradient), "a strided gradient");
    int P = cp_comm_size(comm), rank = cp_comm_rank(comm);
    size_t mark = cp_arena_mark(scratch);
    int64_t count = cp_tensor_count(gradient);
    int64_t mine = piece_begin(count, rank + 1, P) - piece_begin(count, rank, P);
    size_t element = cp_dtype_bytes(gradient.dtype);
    cp_tensor pieces = CP_TAKE(scratch, gradient.dtype, P, mine);
    size_t *everyone = cp_arena_take(scratch, (size_t)P * sizeof *everyone);
    size_t *own = cp_arena_take(scratch, (size_t)P * sizeof *own);
    if (!cp_comm_measures(comm))
        for (int peer = 0; peer < P; peer++) {
            everyone[peer] =
                (size_t)(piece_begin(count, peer + 1, P) - piece_begin(count, peer, P)) * element;
            own[peer] = (size_t)mine * element;
        }
    cp_comm_alltoall(comm, pieces.data, own, gradient.data, everyone);
    cp_tensor sum = sum_pieces(pieces, weight, ops);
    cp_comm_allgather(comm, gradient.data, everyone, sum.data, (size_t)mine * element);
    cp_arena_release(scratch, mark);
}

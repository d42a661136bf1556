#include "harness/parallel/heads.h"

#include <inttypes.h>

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : greatest_common_divisor(b, a % b);
}

static int32_t read_by(cp_gqa_map rule, int64_t h, int64_t H, int64_t K, int P, const int32_t *reads)
{
    int64_t replicas = K / greatest_common_divisor(K, P) * P;
    switch (rule) {
    case CP_GQA_MAP_MODULO: return (int32_t)(h % K);
    case CP_GQA_MAP_REPLICA_ORDER: return (int32_t)(h * replicas / H % K);
    case CP_GQA_MAP_FLOOR:
    case CP_GQA_MAPS: break;
    }
    return reads[h];
}

static void take(cp_head_plan *plan, int P, int64_t H, int64_t K, cp_arena *arena)
{
    cp_check(P >= 1 && H >= P && H % P == 0 && K >= 1, "%" PRId64 " query heads, %" PRId64 " heads, %d ranks",
             H, K, P);
    size_t ranks = (size_t)P, most = (size_t)(H / P);
    *plan = (cp_head_plan){.P = P, .H = H, .K = K};
    plan->received = cp_arena_take(arena, ranks * sizeof *plan->received);
    plan->head = cp_arena_take(arena, ranks * sizeof *plan->head);
    plan->weight = cp_arena_take(arena, ranks * sizeof *plan->weight);
    plan->local = cp_arena_take(arena, ranks * sizeof *plan->local);
    for (int rank = 0; rank < P; rank++) {
        plan->received[rank] = 0;
        plan->head[rank] = cp_arena_take(arena, most * sizeof **plan->head);
        plan->weight[rank] = cp_arena_take(arena, most * sizeof **plan->weight);
        plan->local[rank] = cp_arena_take(arena, most * sizeof **plan->local);
    }
}

/* Where `head` stands among those that the rank receives; −1: it does not. */
static int32_t found(const cp_head_plan *plan, int rank, int32_t head)
{
    for (int64_t n = 0; n < plan->received[rank]; n++)
        if (plan->head[rank][n] == head)
            return (int32_t)n;
    return -1;
}

static void receive(cp_head_plan *plan, int rank, int32_t head)
{
    int64_t n = plan->received[rank]++;
    for (; n > 0 && plan->head[rank][n - 1] > head; n--)
        plan->head[rank][n] = plan->head[rank][n - 1];
    plan->head[rank][n] = head;
}

static double weight_of(cp_gqa_grad rule, const cp_head_plan *plan, int rank, int32_t head)
{
    int before = 0, replicas = 0;
    for (int other = 0; other < plan->P; other++) {
        bool receives = found(plan, other, head) >= 0;
        replicas += receives;
        before += receives && other < rank;
    }
    switch (rule) {
    case CP_GQA_GRAD_ONE: return before == 0;
    case CP_GQA_GRAD_MEAN: return 1.0 / replicas;
    case CP_GQA_GRAD_SUM:
    case CP_GQA_GRADS: break;
    }
    return 1;
}

void cp_head_plan_make(cp_head_plan *plan, const cp_head_rules *rules, int P, int64_t H, int64_t K,
                       const int32_t *reads, cp_arena *arena)
{
    take(plan, P, H, K, arena);
    int64_t own = H / P;
    for (int64_t h = 0; h < H; h++) {
        int32_t head = read_by(rules->gqa_map, h, H, K, P, reads);
        cp_check(head >= 0 && head < K, "query head %" PRId64 " reads head %d of %" PRId64, h, head, K);
        if (found(plan, (int)(h / own), head) < 0)
            receive(plan, (int)(h / own), head);
    }
    for (int64_t h = 0; h < H; h++)
        plan->local[h / own][h % own] =
            found(plan, (int)(h / own), read_by(rules->gqa_map, h, H, K, P, reads));
    for (int rank = 0; rank < P; rank++)
        for (int64_t n = 0; n < plan->received[rank]; n++)
            plan->weight[rank][n] = weight_of(rules->gqa_grad, plan, rank, plan->head[rank][n]);
}

void cp_head_plan_own(cp_head_plan *plan, int P, int64_t H, cp_arena *arena)
{
    take(plan, P, H, H, arena);
    int64_t own = H / P;
    for (int rank = 0; rank < P; rank++) {
        plan->received[rank] = own;
        for (int64_t n = 0; n < own; n++) {
            plan->head[rank][n] = (int32_t)(rank * own + n);
            plan->weight[rank][n] = 1;
            plan->local[rank][n] = (int32_t)n;
        }
    }
}

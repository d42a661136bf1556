#include "harness/parallel/sink_plan.h"

static double weight_of(cp_sink_grad rule, int P, int rank)
{
    switch (rule) {
    case CP_SINK_GRAD_OWN_ONLY: return rank == 0;
    case CP_SINK_GRAD_SUMMED_AGAIN: return P;
    case CP_SINK_GRAD_OWNERS:
    case CP_SINK_GRADS: break;
    }
    return 1;
}

cp_sink_plan cp_sink_plan_make(const cp_sink_rules *rules, int P, int rank, int64_t H)
{
    int64_t count = H / P;
    return (cp_sink_plan){.given = rules->sink != CP_SINK_DROPPED,
                          .every_block = rules->sink == CP_SINK_ONCE_PER_BLOCK,
                          .first = rules->sink == CP_SINK_RANK0_SLICE ? 0 : rank * count,
                          .count = count,
                          .weight = weight_of(rules->sink_grad, P, rank)};
}

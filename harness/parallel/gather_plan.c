#include "harness/parallel/gather_plan.h"

double *cp_gather_weights(cp_gather_backward rule, int P, int rank, cp_arena *arena)
{
    double *weight = cp_arena_take(arena, (size_t)P * sizeof *weight);
    for (int r = 0; r < P; r++)
        switch (rule) {
        case CP_GATHER_BACKWARD_SLICE: weight[r] = r == rank; break;
        case CP_GATHER_BACKWARD_DOUBLED: weight[r] = 2; break;
        case CP_GATHER_BACKWARD_NONE: weight[r] = 0; break;
        case CP_GATHER_BACKWARD_SUM:
        case CP_GATHER_BACKWARDS: weight[r] = 1;
        }
    return weight;
}

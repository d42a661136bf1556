/* Which sinks a rank's scores have, and what becomes of their gradients. A sink σ_h belongs to a query head: where heads
 * are spread over ranks, sinks are. */
#ifndef CPEQ_HARNESS_PARALLEL_SINK_PLAN_H
#define CPEQ_HARNESS_PARALLEL_SINK_PLAN_H

#include <stdbool.h>
#include <stdint.h>

typedef enum cp_sink_rule {
    CP_SINK_ONCE,           /* every row's scores get its head's sink once */
    CP_SINK_DROPPED,        /* none */
    CP_SINK_ONCE_PER_BLOCK, /* ring: in every block that a rank meets, before it is merged */
    CP_SINK_RANK0_SLICE,    /* heads [pH/P, (p+1)H/P) get the sinks of [0, H/P) */
    CP_SINK_RULES
} cp_sink_rule;

typedef enum cp_sink_grad {
    CP_SINK_GRAD_OWNERS,   /* every rank's share of its own heads is added */
    CP_SINK_GRAD_OWN_ONLY, /* only the heads of rank 0 get one: the others' shares are not brought there */
    CP_SINK_GRAD_SUMMED_AGAIN, /* what is whole already is added over the ranks once more: times the
                                  ranks that share the heads */
    CP_SINK_GRADS
} cp_sink_grad;

typedef struct cp_sink_rules {
    cp_sink_rule sink;
    cp_sink_grad sink_grad;
} cp_sink_rules;

typedef struct cp_sink_plan {
    bool given;
    bool every_block;     /* not once, after all keys, but in each block that is met */
    int64_t first, count; /* the sinks that the rank's query heads read, and whose gradients it adds to */
    double weight;        /* factor of its share of the gradient */
} cp_sink_plan;

/* Of `rank`, where P ranks share H query heads evenly; P = 1: every rank has all heads, and their sinks. */
cp_sink_plan cp_sink_plan_make(const cp_sink_rules *rules, int P, int rank, int64_t H);

#endif

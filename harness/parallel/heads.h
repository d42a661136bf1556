/* Which key/value heads each rank receives when query heads are spread over ranks. Rank p owns the query heads
 * [pH/P, (p+1)H/P) and receives exactly the heads that these read, in ascending order; a head that several ranks read
 * goes to each of them (a replica), and what comes back for its replicas is added in rank order. */
#ifndef CPEQ_HARNESS_PARALLEL_HEADS_H
#define CPEQ_HARNESS_PARALLEL_HEADS_H

#include "base/arena.h"

#include <stdint.h>

typedef enum cp_gqa_map {
    CP_GQA_MAP_FLOOR,  /* query head h reads the head that the model says: ⌊hK/H⌋ */
    CP_GQA_MAP_MODULO, /* h mod K */
    CP_GQA_MAP_REPLICA_ORDER, /* the K' = lcm(K,P) replicas lie interleaved, read as if consecutive: ⌊hK'/H⌋ mod K */
    CP_GQA_MAPS
} cp_gqa_map;

typedef enum cp_gqa_grad {
    CP_GQA_GRAD_SUM,  /* replicas are added */
    CP_GQA_GRAD_ONE,  /* the replica of the lowest rank is kept */
    CP_GQA_GRAD_MEAN, /* the sum divided by the number of replicas */
    CP_GQA_GRADS
} cp_gqa_grad;

typedef struct cp_head_rules {
    cp_gqa_map gqa_map;
    cp_gqa_grad gqa_grad;
} cp_head_rules;

typedef struct cp_head_plan {
    int P;
    int64_t H, K;
    int64_t *received; /* [P]: how many heads a rank receives */
    int32_t **head;    /* [P] -> [received]: which */
    double **weight;   /* [P] -> [received]: factor of that replica's gradient */
    int32_t **local;   /* [P] -> [H/P]: which received head each of the rank's own query heads reads */
} cp_head_plan;

/* `reads` [H] is the model's table: the head, below K, that each query head reads. P divides H. Arrays in `arena`. */
void cp_head_plan_make(cp_head_plan *plan, const cp_head_rules *rules, int P, int64_t H, int64_t K,
                       const int32_t *reads, cp_arena *arena);

/* The plan of the query heads themselves: each goes to its owner alone. */
void cp_head_plan_own(cp_head_plan *plan, int P, int64_t H, cp_arena *arena);

#endif

/* When which block of keys is where, on a ring. Block s is the keys and values of rank s; at step t rank r meets block
 * (r − t) mod P, so blocks travel from r to r+1. The schedule knows nothing of masks but who sees whom:
 *
 *   arithmetic   is left out where no query of a rank sees a key of the block (its own block is always met)
 *   a block      travels as far as the last rank that sees it, and no further
 *   gradients    of a block's keys and values travel with it in the backward, each rank that sees the block adds its
 *                share, and the last one sends them home, where they are added
 *
 * Who sees whom is a matrix that all ranks know, so sender and receiver agree whatever the mask is, also where the
 * ranks' predicates are not the same. */
#ifndef CPEQ_HARNESS_PARALLEL_RING_PLAN_H
#define CPEQ_HARNESS_PARALLEL_RING_PLAN_H

#include "base/tokens/layout.h"
#include "base/tokens/visibility.h"

typedef enum cp_ring_backward_kv {
    CP_RING_BACKWARD_KV_STEP,          /* step t takes block (r − t) mod P */
    CP_RING_BACKWARD_KV_FIRST,         /* block r at every step */
    CP_RING_BACKWARD_KV_FORWARD_ORDER, /* of n steps, step t takes the block of step n − 1 − t */
    CP_RING_BACKWARD_KVS
} cp_ring_backward_kv;

typedef enum cp_ring_backward_stats {
    CP_RING_BACKWARD_STATS_MERGED,      /* lse over all keys, delta of the merged o */
    CP_RING_BACKWARD_STATS_BLOCK_LSE,   /* lse over the keys of the step's block */
    CP_RING_BACKWARD_STATS_BLOCK_DELTA, /* delta of the o over the keys of the step's block */
    CP_RING_BACKWARD_STATISTICS
} cp_ring_backward_stats;

typedef enum cp_dkv_return {
    CP_DKV_RETURN_ADDED,
    CP_DKV_RETURN_DROPPED,     /* what other ranks' queries ask is lost */
    CP_DKV_RETURN_OVERWRITTEN, /* each rank that sees a block puts its share in the place of what arrived */
    CP_DKV_RETURN_WRONG_RANK,  /* added on rank s + 1 */
    CP_DKV_RETURNS
} cp_dkv_return;

typedef enum cp_accumulate_dtype {
    CP_ACCUMULATE_WIDE,     /* the storage type of the run */
    CP_ACCUMULATE_BFLOAT16, /* o after every merge, dk and dv after every step are rounded to bfloat16 */
    CP_ACCUMULATE_DTYPES
} cp_accumulate_dtype;

typedef struct cp_ring_rules {
    cp_ring_backward_kv backward_kv;
    cp_ring_backward_stats backward_stats;
    cp_dkv_return dkv_return;
    cp_accumulate_dtype accumulate_dtype;
} cp_ring_rules;

/* Sends what is held to a rank and receives from another what belongs to a block; −1: nobody. Both are this rank
 * itself or neither. */
typedef struct cp_ring_hop {
    int to, from;
    int block; /* that arrives */
} cp_ring_hop;

typedef struct cp_ring_step {
    int block;             /* that the queries meet: its mask, its gradients */
    bool sees;             /* false: nothing to compute */
    bool fresh;            /* gradients begin with zeros here, whatever has arrived */
    int held;              /* whose keys and values are used: `block` where the rule is right */
    cp_ring_hop keys;      /* before the step */
    cp_ring_hop gradients; /* after the step: to the next holder */
    cp_ring_hop home;      /* after the step: complete ones, to where they are added */
} cp_ring_step;

/* As many steps on every rank. The forward reads block, sees, held and keys alone. */
typedef struct cp_ring_plan {
    int steps;
    bool narrow;         /* what is accumulated is rounded to bfloat16 */
    bool own_statistics; /* the backward needs the results over each block alone */
    cp_ring_step *forward, *backward;
} cp_ring_plan;

/* sees[s] = whether any query of `rank` sees a key of rank s, by the predicate of `rank`. [P] */
void cp_ring_sees(uint8_t *sees, const cp_visibility *visibility, const cp_layout *layout, int rank);

/* sees [P,P]: row r is that of rank r. Arrays in `arena`. */
void cp_ring_plan_make(cp_ring_plan *plan, const cp_ring_rules *rules, const uint8_t *sees, int P, int rank,
                       cp_arena *arena);

#endif

/* What goes where when sequence shards with all heads become head shards with the whole sequence, and back.
 *
 * Units are head vectors. A rank's tokens tensor is [B,S,K]; its heads tensor is [B,T,N], the N heads it receives of
 * every token, in global order. On the wire a piece from rank a to rank b is [B,S_a,N_b]. Both sides of a wire are
 * lists of strided blocks, which serve in both directions: copied out to send, copied in (or added) to receive. */
#ifndef CPEQ_HARNESS_PARALLEL_ALLTOALL_H
#define CPEQ_HARNESS_PARALLEL_ALLTOALL_H

#include "base/tokens/layout.h"
#include "harness/parallel/heads.h"

typedef enum cp_alltoall_rule {
    CP_ALLTOALL_HEADS_SEQUENCE, /* [B,S,(P,h)] <-> [P,B,S,h] <-> [B,(P,S),h] */
    CP_ALLTOALL_BATCH_SEQUENCE, /* q, k, v: what arrives, [P,B,S], is read as [B,(P,S)] */
    CP_ALLTOALL_RANK_HEAD, /* o: what returns from rank p for its head j becomes head jP + p, not ph + j */
    CP_ALLTOALL_STRIDES_IGNORED, /* q, k, v: the pieces to send, [P,B,S,h], are filled in the order of the memory
                                    behind them, [B,S,(P,h)] */
    CP_ALLTOALL_RULES
} cp_alltoall_rule;

typedef enum cp_alltoall_tensor {
    CP_ALLTOALL_INPUT /* q, k, v */,
    CP_ALLTOALL_OUTPUT /* o */
} cp_alltoall_tensor;

/* For n < count: `length` units at local + n·local_step <-> at wire + n·wire_step of the piece shared with `peer`. */
typedef struct cp_block {
    int peer;
    int64_t local, local_step;
    int64_t wire, wire_step;
    int64_t length, count;
    double weight; /* factor of what is added into local; 1 where it is copied */
} cp_block;

typedef struct cp_wire_side {
    int64_t units;  /* of the local tensor */
    int64_t *piece; /* [P]: units of the piece shared with each peer */
    int64_t count;
    cp_block *block; /* by ascending peer where the rule is right */
} cp_wire_side;

typedef struct cp_alltoall_plan {
    cp_wire_side tokens, heads;
} cp_alltoall_plan;

/* Of `rank`, for one tensor whose heads go where `heads` says. Arrays in `arena`, which must not measure. */
void cp_alltoall_plan_make(cp_alltoall_plan *plan, cp_alltoall_rule rule, cp_alltoall_tensor tensor,
                           const cp_layout *layout, int rank, const cp_head_plan *heads, cp_arena *arena);

#endif

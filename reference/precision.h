/* How an operation rounds and in which order it sums: an argument of every operation, never a global. */
#ifndef CPEQ_REFERENCE_PRECISION_H
#define CPEQ_REFERENCE_PRECISION_H

#include <stdint.h>

typedef enum cp_matmul {
    CP_MATMUL_BLAS,   /* OpenBLAS on fixed tiles */
    CP_MATMUL_ORDERED /* every sum in index order: a row is bitwise the same in a shard and in the whole */
} cp_matmul;

typedef enum cp_rounding {
    CP_ROUND_NONE, /* what the storage type gives */
    CP_ROUND_BF16  /* float storage, rounded to bfloat16 at the points named in ops.h */
} cp_rounding;

typedef struct cp_precision {
    cp_matmul matmul;
    cp_rounding rounding;
    uint64_t
        noise; /* not 0: a seed. Every named point is disturbed by as much as it rounds, see rounding.h */
} cp_precision;

/* Of what is moved, added or merged outside the model: in the order in which it is written, and as wide as it is. */
#define CP_EXACT ((cp_precision){.matmul = CP_MATMUL_ORDERED, .rounding = CP_ROUND_NONE})

#endif

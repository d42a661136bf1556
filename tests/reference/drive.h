/* One run of one operation: memory with sentinels around it, random contents by name, forward and backward. */
#ifndef CPEQ_TESTS_REFERENCE_DRIVE_H
#define CPEQ_TESTS_REFERENCE_DRIVE_H

#include "tests/reference/operations.h"
#include "tests/support/support.h"

/* A tensor inside a larger block: `strided` widens every axis, so that nothing is contiguous but the last. */
typedef struct block {
    cp_tensor view;
    char *memory, *copy; /* `copy`: as it was at block_remember */
    size_t bytes;
} block;

block block_make(cp_tensor shape, cp_dtype dtype, bool strided);
void block_free(block *b);
void block_remember(block *b);
test_verdict block_unchanged(const block *b, const char *what); /* every byte since block_remember */
test_verdict block_sentinels_intact(const block *b,
                                    const char *what); /* every byte that is not in the view */

double element_get(cp_tensor tensor, int64_t n); /* n-th in index order */
void element_set(cp_tensor tensor, int64_t n, double value);
void tensor_fill(cp_tensor tensor, double value);
void tensor_fill_random(cp_tensor tensor, uint64_t seed, const char *name);
void tensor_round_to_bf16(cp_tensor tensor);

/* Thread counts are a matter of OpenMP; without it there is one. */
void set_threads(int count);

typedef struct trial {
    const operation *operation;
    const sizes *sizes;
    int variant;
    cp_dtype dtype;
    cp_precision precision;
    bool strided;
    bool bf16_inputs; /* random numbers are those of bfloat16 */
    uint64_t seed;
} trial;

/* Where the block of each tensor of operands stands; a block without memory: there is no such tensor. */
enum {
    BLOCK_OUT,
    BLOCK_DOUT,
    BLOCK_SAVED,
    BLOCK_IN = BLOCK_SAVED + MAX_SAVED,
    BLOCK_DIN = BLOCK_IN + MAX_INPUTS,
    BLOCK_INTEGERS = BLOCK_DIN + MAX_INPUTS,
    BLOCK_FACTOR = BLOCK_INTEGERS + MAX_INTEGERS,
    BLOCKS
};

typedef struct drive {
    trial trial;
    operands o;
    block blocks[BLOCKS];
    cp_arena scratch; /* as large as the shape kernels say */
    cp_arena tables;  /* of the visibility */
} drive;

/* Makes the memory and fills inputs with the same values at every width (they are float32 numbers), gradients with
 * zeros. */
void drive_open(drive *d, const trial *t);
void drive_close(drive *d);
void drive_forward(drive *d);
void drive_backward(drive *d);
void drive_zero_gradients(drive *d);

#endif

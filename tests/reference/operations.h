/* Every operation with a backward, behind one signature: shapes from sizes, a forward, a backward. Drivers walk this
 * table; what a driver learns to check is checked for all. */
#ifndef CPEQ_TESTS_REFERENCE_OPERATIONS_H
#define CPEQ_TESTS_REFERENCE_OPERATIONS_H

#include "reference/ops.h"

typedef struct sizes {
    const char *name;
    int64_t B, S, C, O, H, K, D, V;
} sizes;

enum { MAX_INPUTS = 6, MAX_SAVED = 3, MAX_INTEGERS = 2, MAX_HEADS = 16 };

typedef enum filling {
    FILL_RANDOM, /* in [0, bound) */
    FILL_TARGET, /* the same, but every fourth is CP_IGNORED */
    FILL_INDEX   /* 0, 1, … along the last axis */
} filling;

/* What one call works on. Before the memory is made, tensors without data. */
typedef struct operands {
    cp_tensor out, dout;
    cp_tensor saved[MAX_SAVED];
    cp_tensor in[MAX_INPUTS], din[MAX_INPUTS];
    cp_tensor integers[MAX_INTEGERS];
    filling filling[MAX_INTEGERS];
    int64_t bound[MAX_INTEGERS];
    cp_tensor factor; /* float64 at every width */
    cp_visibility visibility;
    int32_t key_head[MAX_HEADS], value_head[MAX_HEADS];
} operands;

typedef struct call {
    const cp_ops *ops;
    int variant;
    cp_arena *scratch;
    cp_precision precision;
} call;

typedef struct operation {
    const char *name;
    int variants;
    bool overwrites;  /* the backward overwrites its gradient; dout is a constant factor */
    bool mixes;       /* tokens see other tokens */
    int token_inputs; /* in[0 … token_inputs) are [B,S,…]; the others are weights */
    double single;    /* how far float32 may be from float64, relative to the largest element */
    void (*shape)(operands *o, const sizes *n, int variant);
    void (*forward)(const operands *o, const call *c);
    void (*backward)(const operands *o, const call *c);
} operation;

extern const operation operations[];
extern const int operation_count;

/* The sizes that every operation is tried at: all ones, odd ones, and more than one tile or block of anything. */
extern const sizes operation_sizes[];
extern const int operation_size_count;

#endif

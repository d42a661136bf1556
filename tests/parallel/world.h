/* A layout of any shard lengths, a predicate, and one attention with its inputs and results, whole. */
#ifndef CPEQ_TESTS_PARALLEL_WORLD_H
#define CPEQ_TESTS_PARALLEL_WORLD_H

#include "harness/parallel/exchange.h"
#include "tests/support/support.h"

enum { WORLD_RANKS = 12 };

typedef struct world_shape {
    int P;
    int64_t H, K, V; /* query, key and value heads */
    int64_t B;
    int64_t tokens[WORLD_RANKS]; /* of each rank */
    int64_t window;              /* 0: none */
    int64_t leading;             /* hidden tokens at the beginning of the last row */
} world_shape;

/* What goes in, what comes out. */
typedef struct world_tensors {
    cp_tensor q, k, v, dout;
    cp_tensor o, dq, dk, dv;
} world_tensors;

typedef struct world {
    world_shape shape;
    cp_dtype dtype;
    cp_arena arena; /* grows */
    cp_layout layout, whole_layout;
    cp_visibility visibility;
    cp_attend attend;
    world_tensors unsharded, sharded; /* inputs are the same; results of the local mixer, and of the ranks */
    cp_exchange_rules rules;
} world;

/* Integers in [-8,8], or normal numbers. Computes the unsharded results. */
void world_open(world *w, const world_shape *shape, cp_dtype dtype, bool integers, uint64_t seed);
void world_close(world *w);

/* Contiguous, of the given shard lengths (cp_layout_plan knows equal ones alone). */
void world_layout(cp_layout *layout, int P, int64_t B, const int64_t *tokens, cp_arena *arena);

/* A rank's rows of a whole tensor [B,T,·,·], and back. */
cp_tensor world_cut(const world *w, cp_tensor whole, int rank, cp_arena *arena);
void world_put(const world *w, cp_tensor whole, cp_tensor part, int rank);

/* The rank body: attends and goes back through Ulysses with exactly the memory that the measuring run asks for; its
 * rows of `sharded` are written. context is the world. */
void world_body(cp_comm *comm, void *context);
void world_run_threads(world *w, const cp_exchange_rules *rules);

#endif

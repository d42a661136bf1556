/* A layout of any shards, a predicate, and one attention with its inputs and results, whole. */
#ifndef CPEQ_TESTS_PARALLEL_WORLD_H
#define CPEQ_TESTS_PARALLEL_WORLD_H

#include "harness/parallel/mesh.h"
#include "tests/support/support.h"

enum { WORLD_RANKS = 64 };

typedef struct world_shape {
    int P;
    int64_t H, K, V; /* query, key and value heads */
    int64_t B;
    int64_t tokens[WORLD_RANKS]; /* of each rank */
    int64_t window;              /* 0: none */
    int64_t leading;             /* hidden tokens at the beginning of the last row */
} world_shape;

typedef struct world_kind {
    cp_dtype dtype;
    bool integers; /* in [-8,8]; else normal numbers */
    bool sinks;
    bool shuffled; /* any rank may hold any token, in any order, in each row others; else contiguous */
} world_kind;

/* What goes in, what comes out. */
typedef struct world_tensors {
    cp_tensor q, k, v, dout;
    cp_tensor o, dq, dk, dv, dsink;
} world_tensors;

typedef struct world {
    world_shape shape;
    world_kind kind;
    cp_arena arena; /* grows */
    cp_layout layout, whole_layout;
    cp_visibility visibility;
    cp_attend attend;
    world_tensors unsharded, sharded; /* inputs are the same; results of the local mixer, and of the ranks */
    cp_tensor shares;                 /* [P,H]: every rank's dsink, whose sum is `sharded`'s */
    cp_exchange_spec exchange;        /* ulysses, until another is put here */
    cp_attention_form form;           /* of the sharded run; the other is dense */
    cp_exchange_rules rules;
    cp_arena plans[WORLD_RANKS], step[WORLD_RANKS]; /* of a run's ranks, which may leave early */
} world;

/* Computes the unsharded results. */
void world_open_kind(world *w, const world_shape *shape, const world_kind *kind, uint64_t seed);
/* Contiguous, without sinks. */
void world_open(world *w, const world_shape *shape, cp_dtype dtype, bool integers, uint64_t seed);
void world_close(world *w);

/* Contiguous, of the given shard lengths. */
void world_layout(cp_layout *layout, int P, int64_t B, const int64_t *tokens, cp_arena *arena);
/* The same lengths, drawn. */
void world_layout_shuffled(cp_layout *layout, int P, int64_t B, const int64_t *tokens, uint64_t seed,
                           cp_arena *arena);

/* A rank's rows of a whole tensor [B,T,·,·], and back. */
cp_tensor world_cut(const world *w, cp_tensor whole, int rank, cp_arena *arena);
void world_put(const world *w, cp_tensor whole, cp_tensor part, int rank);

/* The rank body: attends and goes back through the exchange with exactly the memory that the measuring run asks for; its
 * rows of `sharded` and its share of dsink are written. context is the world. */
void world_body(cp_comm *comm, void *context);
/* Runs a body that leads to world_body on every rank, with results of its own. */
cp_status world_try_threads(world *w, cp_rank_body *body, void *context);
/* All at once: it must work. */
void world_run_threads(world *w, const cp_exchange_rules *rules);
/* Frees what the ranks of the last run held. */
void world_free_ranks(world *w);

/* The largest difference of two float64 tensors, contiguous; infinite where an element of a is not finite. */
double world_difference(cp_tensor a, cp_tensor b);

#endif

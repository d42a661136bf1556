/* What the forms of attention have in common. Private to the kernels.
 *
 * Queries go in tiles. Query heads that read the same head of k and the same head of v are stacked below each other in
 * one matrix of q, so that the products are large. Keys go in tiles too, so that those which a tile of queries sees
 * nothing of are left out and those it sees all of need no predicate. */
#ifndef CPEQ_REFERENCE_ATTENTION_TILE_H
#define CPEQ_REFERENCE_ATTENTION_TILE_H

#include "reference/gemm.h"
#include "reference/head_groups.h"
#include "reference/ops.h"
#include "reference/rounding.h"
#include "reference/rows.h"

/* A multiple of LANES, so that a key is in the same lane wherever a run of tiles begins. */
enum { KEY_TILE = 64 };

/* Tokens by their places in the tensors that are passed, not by their global indices. */
typedef struct cp_range {
    int64_t first, count;
} cp_range;

/* Who sees whom: where tiles get it from. In batch row b, of q and k as they are passed:
 *   cover   as cp_visibility_cover
 *   row     visible[n] = whether `query` sees key keys.first + n */
typedef struct cp_tile_mask {
    const void *source;
    cp_cover (*cover)(const void *source, int64_t b, cp_range queries, cp_range keys);
    void (*row)(uint8_t *visible, const void *source, int64_t b, int64_t query, cp_range keys);
} cp_tile_mask;

/* By attention->visibility and the two global indices. `attention` is borrowed. */
cp_tile_mask CP_WIDTH(cp_mask_of_visibility)(const cp_attention *attention);

/* One call of attention, as every thread sees it. */
typedef struct cp_problem {
    cp_tensor q, k, v;
    const cp_attention *attention;
    cp_tile_mask mask;
    cp_precision precision;
    cp_rounder rounder;
    int64_t B, Sq, Sk, H, D, Dv;
    int64_t tile, tiles; /* queries in a tile, tiles in a batch row */
    int64_t rows;        /* of the largest stack: queries x heads */
    bool shows_hidden;   /* a hidden key has a finite score: nothing is left out */
    real hidden;         /* the score of a hidden key */
    cp_head_groups groups;
} cp_problem;

/* Checks the arguments that forward and backward share; takes the tables of heads from `scratch`. */
cp_problem CP_WIDTH(cp_problem_state)(cp_tensor q, cp_tensor k, cp_tensor v, const cp_attention *attention,
                                      cp_tile_mask mask, cp_arena *scratch, cp_precision precision);

/* How many threads the work deserves, and so how many need scratch. */
int CP_WIDTH(cp_problem_threads)(const cp_problem *problem);

/* What the backward is given. */
typedef struct cp_attention_gradients {
    cp_tensor dq, dk, dv; /* or CP_NONE */
    cp_tensor dout, lse, delta;
} cp_attention_gradients;

void CP_WIDTH(cp_gradients_check)(const cp_attention_gradients *gradients, const cp_problem *problem);

/* ---- a tile of queries: all heads of one stack ---- */

typedef struct cp_tile {
    int64_t b;
    cp_range queries;
    const int32_t *heads; /* the stack */
    int32_t stacked;
} cp_tile;

cp_tile CP_WIDTH(cp_tile_of)(const cp_problem *problem, int64_t b, int64_t stack, int64_t number);

static inline int64_t tile_rows(const cp_tile *t)
{
    return t->stacked * t->queries.count;
}

/* The row of a [B,Sq,H,…] tensor that stands at `row` of the stack. */
static inline int64_t token_head(const cp_problem *p, const cp_tile *t, int64_t row)
{
    int64_t query = t->queries.first + row % t->queries.count;
    return (t->b * p->Sq + query) * p->H + t->heads[row / t->queries.count];
}

static inline int32_t key_head_of(const cp_problem *p, const cp_tile *t)
{
    return p->attention->key_head[t->heads[0]];
}

static inline int32_t value_head_of(const cp_problem *p, const cp_tile *t)
{
    return p->attention->value_head[t->heads[0]];
}

static inline cp_range key_tile(const cp_problem *p, int64_t first)
{
    return (cp_range){first, cp_min(KEY_TILE, p->Sk - first)};
}

static inline cp_cover cover_of(const cp_problem *p, const cp_tile *t, int64_t key)
{
    cp_cover cover = p->mask.cover(p->mask.source, t->b, t->queries, key_tile(p, key));
    return cover == CP_COVER_NONE && p->shows_hidden ? CP_COVER_SOME : cover;
}

/* out [rows,width] = the tile's rows of `from` [B,Sq,H,width]. */
void CP_WIDTH(cp_tile_gather)(real *out, const cp_problem *problem, const cp_tile *tile, cp_tensor from);

/* z [rows,keys] of the stack, whose q was gathered: scaled, capped, rounded. */
void CP_WIDTH(cp_tile_scores)(real *z, int64_t stride, const real *q, const cp_problem *problem,
                              const cp_tile *tile, cp_range keys);

/* `value` in every head's rows, where one tile of keys is hidden, of one matrix or two: a and b [rows,KEY_TILE], b or
 * NULL. */
void CP_WIDTH(cp_tile_hide)(real *a, real *b, int64_t stride, const cp_problem *problem, const cp_tile *tile,
                            int64_t key, real value);

/* One row of scores against keys and what belongs to it, in the backward:
 *   p: z on entry, exp(z − lse) on return, not yet hidden nor rounded
 *   ds: do · v on entry; on return the gradient of the scaled product before the cap, or, where results are rounded,
 *       of the bare product: see cp_tile_gradient_factor */
void CP_WIDTH(cp_tile_row_gradient)(real *p, real *ds, real lse, real delta, const cp_problem *problem,
                                    cp_range keys);

/* What ds is still to be multiplied by. */
static inline real cp_tile_gradient_factor(const cp_problem *p)
{
    return p->rounder.on ? (real)1 : (real)p->attention->scale;
}

/* x[j] = factor · x[j]. */
void CP_WIDTH(cp_tile_row_scale)(real *x, int64_t n, real factor);

/* A row whose x[0] stands at `first`, as at any named point. */
void CP_WIDTH(cp_tile_row_round)(real *x, int64_t n, int64_t first, cp_rounder rounder);

/* ---- matrices ---- */

static inline cp_matrix plain(const real *data, int64_t stride)
{
    return (cp_matrix){.data = data, .stride = stride};
}

static inline cp_matrix transpose(cp_matrix matrix)
{
    matrix.transposed = true;
    return matrix;
}

/* The keys [key, …) of one head of k or v, or of their gradients. The stride of a single row means nothing, but BLAS
 * checks it. */
static inline cp_matrix keys_matrix(cp_tensor tensor, int64_t b, int64_t key, int32_t head)
{
    int64_t width = cp_width(tensor);
    return (cp_matrix){.data = (const real *)tensor.data + b * tensor.stride[0] + key * tensor.stride[1] +
                               head * tensor.stride[2],
                       .stride = tensor.stride[1] < width ? width : tensor.stride[1]};
}

#define cp_mask_of_visibility CP_WIDTH(cp_mask_of_visibility)
#define cp_problem_state      CP_WIDTH(cp_problem_state)
#define cp_problem_threads    CP_WIDTH(cp_problem_threads)
#define cp_gradients_check    CP_WIDTH(cp_gradients_check)
#define cp_tile_of            CP_WIDTH(cp_tile_of)
#define cp_tile_gather        CP_WIDTH(cp_tile_gather)
#define cp_tile_scores        CP_WIDTH(cp_tile_scores)
#define cp_tile_hide          CP_WIDTH(cp_tile_hide)
#define cp_tile_row_gradient  CP_WIDTH(cp_tile_row_gradient)
#define cp_tile_row_scale     CP_WIDTH(cp_tile_row_scale)
#define cp_tile_row_round     CP_WIDTH(cp_tile_row_round)

#endif

/* This rank's part of the batch: everything was decided on the whole row; here it is only cut. */
#ifndef CPEQ_HARNESS_PARALLEL_SHARD_H
#define CPEQ_HARNESS_PARALLEL_SHARD_H

#include "base/tensor.h"
#include "base/tokens/tokens.h"

typedef struct cp_shard {
    int64_t B, S;
    cp_tensor index;      /* int64 [B,S]: cp_tokens.row_index */
    cp_tensor ids;        /* int64 [B,S]; automatic padding is `padding_id`. CP_NONE with embeddings */
    cp_tensor embeddings; /* `dtype` [B,S,C]; automatic padding is 0. CP_NONE with ids */
    cp_tensor position;   /* int64 [B,S] */
    cp_tensor target;     /* int64 [B,S] */
    cp_tensor real;       /* int64 [B,S]: 0 for padding of any kind */
} cp_shard;

/* Tensors are taken from `arena`; when it measures they have no data and nothing is read but B, C and S. */
void cp_shard_cut(cp_shard *shard, const cp_batch *batch, const cp_tokens *tokens, const cp_layout *layout,
                  int rank, int64_t padding_id, cp_dtype dtype, cp_arena *arena);

#endif

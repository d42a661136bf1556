#include "harness/parallel/shard.h"

/* A value of every token of the shard, from an array [B,T]. */
static cp_tensor cut(const int64_t *whole, const cp_layout *layout, int rank, cp_arena *arena)
{
    int64_t B = layout->B, S = layout->tokens[rank];
    cp_tensor tensor = CP_TAKE(arena, CP_I64, B, S);
    int64_t *out = tensor.data;
    for (int64_t n = 0; out && n < B * S; n++)
        out[n] = whole[n / S * layout->T + layout->index[rank][n]];
    return tensor;
}

static cp_tensor cut_real(const cp_tokens *tokens, const cp_layout *layout, int rank, cp_arena *arena)
{
    int64_t B = layout->B, S = layout->tokens[rank];
    cp_tensor tensor = CP_TAKE(arena, CP_I64, B, S);
    int64_t *out = tensor.data;
    for (int64_t n = 0; out && n < B * S; n++)
        out[n] = tokens->real[n / S * layout->T + layout->index[rank][n]];
    return tensor;
}

/* Where in the batch, counted in tokens, the n-th token of the shard comes from; -1: it is automatic padding. */
static int64_t source_of(const cp_batch *batch, const cp_tokens *tokens, const cp_layout *layout, int rank,
                         int64_t n)
{
    int64_t at = n / layout->tokens[rank] * layout->T + layout->index[rank][n];
    return tokens->source[at] < 0 ? -1 : tokens->source_row[at] * batch->T + tokens->source[at];
}

static cp_tensor cut_ids(const cp_batch *batch, const cp_tokens *tokens, const cp_layout *layout, int rank,
                         int64_t padding_id, cp_arena *arena)
{
    int64_t B = layout->B, S = layout->tokens[rank];
    cp_tensor tensor = CP_TAKE(arena, CP_I64, B, S);
    int64_t *out = tensor.data;
    for (int64_t n = 0; out && n < B * S; n++) {
        int64_t source = source_of(batch, tokens, layout, rank, n);
        out[n] = source < 0 ? padding_id : batch->input_ids[source];
    }
    return tensor;
}

static cp_tensor cut_embeddings(const cp_batch *batch, const cp_tokens *tokens, const cp_layout *layout,
                                int rank, cp_dtype dtype, cp_arena *arena)
{
    int64_t B = layout->B, S = layout->tokens[rank], C = batch->C;
    cp_tensor tensor = CP_TAKE(arena, dtype, B, S, C);
    cp_tensor_zero(tensor);
    unsigned char *out = tensor.data;
    size_t row = (size_t)C * cp_dtype_bytes(dtype);
    for (int64_t n = 0; out && n < B * S; n++) {
        int64_t source = source_of(batch, tokens, layout, rank, n);
        if (source >= 0)
            cp_dtype_from_double(out + (size_t)n * row, dtype, batch->inputs_embeds + source * C, (size_t)C);
    }
    return tensor;
}

void cp_shard_cut(cp_shard *shard, const cp_batch *batch, const cp_tokens *tokens, const cp_layout *layout,
                  int rank, int64_t padding_id, cp_dtype dtype, cp_arena *arena)
{
    cp_check(rank >= 0 && rank < layout->P, "rank %d of %d", rank, layout->P);
    *shard = (cp_shard){.B = layout->B, .S = layout->tokens[rank]};
    shard->index = cut(tokens->row_index, layout, rank, arena);
    if (batch->inputs_embeds)
        shard->embeddings = cut_embeddings(batch, tokens, layout, rank, dtype, arena);
    else
        shard->ids = cut_ids(batch, tokens, layout, rank, padding_id, arena);
    shard->position = cut(tokens->position, layout, rank, arena);
    shard->target = cut(tokens->target, layout, rank, arena);
    shard->real = cut_real(tokens, layout, rank, arena);
}

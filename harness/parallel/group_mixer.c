#include "harness/parallel/group_mixer.h"

enum { SUM_CHUNK = 64 }; /* numbers that are summed in one message */

static const cp_group_mixer *group_of(const cp_mixer *mixer)
{
    return (const cp_group_mixer *)mixer;
}

/* ---- carry ------------------------------------------------------------------------------------------------------ */

static int next_rank(const cp_comm *comm)
{
    return cp_comm_rank(comm) + 1 < cp_comm_size(comm) ? cp_comm_rank(comm) + 1 : -1;
}

static int previous_rank(const cp_comm *comm)
{
    return cp_comm_rank(comm) - 1; /* of the first: nobody */
}

static void group_carry(const cp_mixer *mixer, cp_tensor received, cp_tensor sent)
{
    cp_comm *comm = group_of(mixer)->comm;
    cp_check(cp_tensor_same_shape(received, sent), "a state of another shape");
    cp_check(cp_tensor_contiguous(received) && cp_tensor_contiguous(sent), "a strided state");
    size_t bytes = cp_tensor_bytes(sent);
    cp_comm_shift(comm, next_rank(comm), sent.data, bytes, previous_rank(comm), received.data, bytes);
    if (previous_rank(comm) < 0)
        cp_tensor_zero(received);
}

static void group_carry_backward(const cp_mixer *mixer, cp_tensor dsent, cp_tensor dreceived,
                                 cp_arena *scratch)
{
    cp_comm *comm = group_of(mixer)->comm;
    cp_check(cp_tensor_same_shape(dsent, dreceived), "a state of another shape");
    cp_check(cp_tensor_contiguous(dreceived), "a strided state");
    size_t mark = cp_arena_mark(scratch);
    cp_tensor arrived = cp_tensor_take(scratch, dsent.dtype, dsent.dims, dsent.extent);
    size_t bytes = cp_tensor_bytes(arrived);
    cp_comm_shift(comm, previous_rank(comm), dreceived.data, bytes, next_rank(comm), arrived.data, bytes);
    if (next_rank(comm) >= 0)
        mixer->ops->pointwise->accumulate(dsent, arrived, CP_EXACT);
    cp_arena_release(scratch, mark);
}

/* ---- sum, maximum ----------------------------------------------------------------------------------------------- */

typedef double combine(double a, double b);

static double plus(double a, double b)
{
    return a + b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void combine_ranks(const cp_mixer *mixer, double *values, int count, combine *with)
{
    const cp_group_mixer *s = group_of(mixer);
    if (cp_comm_measures(s->comm))
        return;
    for (int first = 0; first < count; first += SUM_CHUNK) {
        int chunk = count - first < SUM_CHUNK ? count - first : SUM_CHUNK;
        for (int rank = 0; rank < s->layout->P; rank++)
            s->bytes[rank] = (size_t)chunk * sizeof *values;
        cp_comm_allgather(s->comm, s->gathered, s->bytes, values + first, (size_t)chunk * sizeof *values);
        for (int n = 0; n < chunk; n++) {
            double result = s->gathered[n];
            for (int rank = 1; rank < s->layout->P; rank++)
                result = with(result, s->gathered[rank * chunk + n]);
            values[first + n] = result;
        }
    }
}

static void group_sum(const cp_mixer *mixer, double *values, int count)
{
    combine_ranks(mixer, values, count, plus);
}

static void group_maximum(const cp_mixer *mixer, double *values, int count)
{
    combine_ranks(mixer, values, count, larger);
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

void cp_group_check(const cp_group_mixer *group, const cp_attend *attend, cp_tensor q, cp_tensor k,
                    cp_tensor v)
{
    int64_t B = group->layout->B, S = group->layout->tokens[cp_comm_rank(group->comm)];
    cp_check(cp_tensor_has_shape(q, 4, CP_EXTENTS(B, S, attend->H, q.extent[3])) &&
                 cp_tensor_has_shape(k, 4, CP_EXTENTS(B, S, k.extent[2], q.extent[3])) &&
                 cp_tensor_has_shape(v, 4, CP_EXTENTS(B, S, v.extent[2], v.extent[3])),
             "q, k, v are not this shard's");
    cp_check(cp_tensor_contiguous(q) && cp_tensor_contiguous(k) && cp_tensor_contiguous(v),
             "strided q, k or v");
}

cp_tensor cp_group_whole_index(const cp_layout *layout, cp_arena *arena)
{
    cp_tensor index = CP_TAKE(arena, CP_I64, layout->B, layout->T);
    int64_t *out = index.data;
    for (int64_t n = 0; n < layout->B * layout->T; n++)
        out[n] = n % layout->T;
    return index;
}

cp_attention cp_group_attention(const cp_group_mixer *group, const cp_attend *attend, cp_tensor key_index)
{
    return (cp_attention){.visibility = attend->visibility,
                          .query_index = group->mixer.index,
                          .key_index = key_index,
                          .key_head = attend->key_head,
                          .value_head = attend->value_head,
                          .scale = attend->scale,
                          .softcap = attend->softcap};
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

void cp_group_mixer_open(cp_group_mixer *group, const cp_exchange_setup *setup)
{
    int rank = cp_comm_rank(setup->comm);
    const cp_layout *layout = setup->layout;
    size_t P = (size_t)layout->P;
    *group = (cp_group_mixer){
        .mixer = {.carry = group_carry,
                  .carry_backward = group_carry_backward,
                  .sum = group_sum,
                  .maximum = group_maximum,
                  .ops = setup->ops,
                  .form = setup->form,
                  .index = CP_VIEW(layout->index[rank], CP_I64, layout->B, layout->tokens[rank])},
        .comm = setup->comm,
        .layout = layout,
        .gathered = cp_arena_take(setup->arena, P * SUM_CHUNK * sizeof *group->gathered),
        .bytes = cp_arena_take(setup->arena, P * sizeof *group->bytes)};
}

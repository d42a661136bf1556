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
    static const cp_precision exact = {.matmul = CP_MATMUL_ORDERED, .rounding = CP_ROUND_NONE};
    cp_comm *comm = group_of(mixer)->comm;
    cp_check(cp_tensor_same_shape(dsent, dreceived), "a state of another shape");
    cp_check(cp_tensor_contiguous(dreceived), "a strided state");
    size_t mark = cp_arena_mark(scratch);
    cp_tensor arrived = cp_tensor_take(scratch, dsent.dtype, dsent.dims, dsent.extent);
    size_t bytes = cp_tensor_bytes(arrived);
    cp_comm_shift(comm, previous_rank(comm), dreceived.data, bytes, next_rank(comm), arrived.data, bytes);
    if (next_rank(comm) >= 0)
        mixer->ops->pointwise->accumulate(dsent, arrived, exact);
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

#include "reference/mixer.h"

enum { SAVED_LSE };

static cp_attention attention_of(const cp_mixer *mixer, const cp_attend *attend)
{
    return (cp_attention){.visibility = attend->visibility,
                          .query_index = mixer->index,
                          .key_index = mixer->index,
                          .key_head = attend->key_head,
                          .value_head = attend->value_head,
                          .scale = attend->scale,
                          .softcap = attend->softcap};
}

static void local_attend(const cp_mixer *mixer, cp_tensor o, cp_saved *saved, cp_tensor q, cp_tensor k,
                         cp_tensor v, const cp_attend *attend, cp_arena *arena, cp_precision precision)
{
    cp_tensor lse = CP_TAKE(arena, q.dtype, q.extent[0], q.extent[1], q.extent[2]);
    cp_attention attention = attention_of(mixer, attend);
    mixer->ops->attention[mixer->form]->forward(o, lse, q, k, v, &attention, arena, precision);
    if (cp_tensor_given(attend->sink))
        mixer->ops->partial->sink(o, lse, attend->sink, precision);
    saved->tensor[SAVED_LSE] = lse;
}

static void local_attend_backward(const cp_mixer *mixer, cp_tensor dq, cp_tensor dk, cp_tensor dv,
                                  cp_tensor dsink, cp_tensor dout, const cp_saved *saved, cp_tensor o,
                                  cp_tensor q, cp_tensor k, cp_tensor v, const cp_attend *attend,
                                  cp_arena *scratch, cp_precision precision)
{
    size_t mark = cp_arena_mark(scratch);
    cp_tensor lse = saved->tensor[SAVED_LSE];
    cp_tensor delta = CP_TAKE(scratch, lse.dtype, lse.extent[0], lse.extent[1], lse.extent[2]);
    mixer->ops->partial->delta(delta, dout, o);
    if (cp_tensor_given(attend->sink))
        mixer->ops->partial->sink_backward(dsink, lse, delta, attend->sink);
    cp_attention attention = attention_of(mixer, attend);
    mixer->ops->attention[mixer->form]->backward(dq, dk, dv, dout, lse, delta, q, k, v, &attention, scratch,
                                                 precision);
    cp_arena_release(scratch, mark);
}

static void local_carry(const cp_mixer *mixer, cp_tensor received, cp_tensor sent)
{
    (void)mixer;
    cp_check(cp_tensor_same_shape(received, sent), "a state of another shape");
    cp_tensor_zero(received);
}

static void local_carry_backward(const cp_mixer *mixer, cp_tensor dsent, cp_tensor dreceived,
                                 cp_arena *scratch)
{
    (void)mixer;
    (void)scratch;
    cp_check(cp_tensor_same_shape(dsent, dreceived), "a state of another shape");
}

static void local_reduce(const cp_mixer *mixer, double *values, int count)
{
    (void)mixer;
    (void)values;
    (void)count;
}

cp_mixer cp_mixer_local(const cp_ops *ops, cp_attention_form form, cp_tensor index)
{
    return (cp_mixer){.attend = local_attend,
                      .attend_backward = local_attend_backward,
                      .carry = local_carry,
                      .carry_backward = local_carry_backward,
                      .sum = local_reduce,
                      .maximum = local_reduce,
                      .ops = ops,
                      .form = form,
                      .index = index};
}

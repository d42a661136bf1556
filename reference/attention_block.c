#include "reference/attention_stream.h"
#include "reference/kernels.h"

static void forward(cp_tensor o, cp_tensor lse, cp_tensor q, cp_tensor k, cp_tensor v,
                    const cp_attention *attention, cp_arena *scratch, cp_precision precision)
{
    cp_stream_forward(o, lse, q, k, v, attention, cp_mask_of_visibility(attention), scratch, precision);
}

static void backward(cp_tensor dq, cp_tensor dk, cp_tensor dv, cp_tensor dout, cp_tensor lse, cp_tensor delta,
                     cp_tensor q, cp_tensor k, cp_tensor v, const cp_attention *attention, cp_arena *scratch,
                     cp_precision precision)
{
    cp_attention_gradients gradients = {dq, dk, dv, dout, lse, delta};
    cp_stream_backward(&gradients, q, k, v, attention, cp_mask_of_visibility(attention), scratch, precision);
}

const cp_attention_ops CP_WIDTH(cp_attention_block) = {.forward = forward, .backward = backward};

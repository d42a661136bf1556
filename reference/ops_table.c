#include "reference/ops.h"

#include "reference/kernels.h"

#define CP_TABLE(width)                                                                                      \
    {                                                                                                        \
        .embedding = &cp_embedding_##width, .linear = &cp_linear_##width, .rmsnorm = &cp_rmsnorm_##width,    \
        .rope = &cp_rope_##width, .pointwise = &cp_pointwise_##width, .router = &cp_router_##width,          \
        .experts = &cp_experts_##width,                                                                      \
        .attention = {[CP_ATTENTION_DENSE] = &cp_attention_dense_##width,                                    \
                      [CP_ATTENTION_BLOCK] = &cp_attention_block_##width,                                    \
                      [CP_ATTENTION_VARLEN] = &cp_attention_varlen_##width},                                 \
        .partial = &cp_partial_##width, .loss = &cp_loss_##width                                             \
    }

static const cp_ops ops_f64 = CP_TABLE(f64);
static const cp_ops ops_f32 = CP_TABLE(f32);
static const cp_ops ops_shape = CP_TABLE(shape);

const cp_ops *cp_ops_of(cp_dtype dtype)
{
    cp_check(dtype == CP_F64 || dtype == CP_F32, "no kernels for %s", cp_dtype_name(dtype));
    return dtype == CP_F64 ? &ops_f64 : &ops_f32;
}

const cp_ops *cp_ops_shape(void)
{
    return &ops_shape;
}

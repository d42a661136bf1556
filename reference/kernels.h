/* What the kernel files export, once for each width: tables. */
#ifndef CPEQ_REFERENCE_KERNELS_H
#define CPEQ_REFERENCE_KERNELS_H

#include "reference/ops.h"

#define CP_KERNELS(width)                                                                                    \
    extern const cp_embedding_ops cp_embedding_##width;                                                      \
    extern const cp_linear_ops cp_linear_##width;                                                            \
    extern const cp_rmsnorm_ops cp_rmsnorm_##width;                                                          \
    extern const cp_rope_ops cp_rope_##width;                                                                \
    extern const cp_pointwise_ops cp_pointwise_##width;                                                      \
    extern const cp_router_ops cp_router_##width;                                                            \
    extern const cp_experts_ops cp_experts_##width;                                                          \
    extern const cp_attention_ops cp_attention_dense_##width;                                                \
    extern const cp_attention_ops cp_attention_varlen_##width;                                               \
    extern const cp_attention_ops cp_attention_block_##width;                                                \
    extern const cp_partial_ops cp_partial_##width;                                                          \
    extern const cp_loss_ops cp_loss_##width;

CP_KERNELS(f64)
CP_KERNELS(f32)
CP_KERNELS(shape)

#endif

/* The operations of the reference, each with its backward: the header to read first.
 *
 * Conventions of every operation:
 *   - Arguments: outputs, then what the forward saved, then inputs, then scalars, then scratch, then precision.
 *   - A forward overwrites its outputs; a backward ADDS into its gradients ("d" + name), so fan-out, tied weights and
 *     shared layers need no special case. A gradient that is not wanted is CP_NONE.
 *   - Outputs do not alias inputs, unless said.
 *   - Leading axes are [B,S]: batch row, local token. The last axis is contiguous (stride 1); others may be strided.
 *   - Shapes and dtypes are checked on entry; a violation stops the job (a bug of ours, never of a file).
 *   - Scratch comes from the arena that is passed and is given back; nothing else is allocated. It is taken for the
 *     OpenMP threads of the calling thread (omp_get_max_threads): plan and run with the same number.
 *   - Every output element is computed by one thread in a fixed order: results do not depend on the number of threads.
 *   - Under CP_ROUND_BF16 each result named "rounded" below is rounded to bfloat16 row by row after it was
 *     accumulated in float; statistics (inverse_rms, lse, delta, token_loss) are never rounded. The same points are
 *     disturbed where the precision has noise, in either rounding (rounding.h).
 *   - A backward rounds what it computes on its way, as named below, but not the gradients that it adds into: the walk
 *     does so after each step.
 *
 * Letters: B batch, S local tokens, C hidden, O and I output and input width of a projection, H query heads,
 * K key/value heads, D head size, V vocabulary, E experts, F an expert's width. */
#ifndef CPEQ_REFERENCE_OPS_H
#define CPEQ_REFERENCE_OPS_H

#include "base/tensor.h"
#include "base/tokens/visibility.h"
#include "reference/precision.h"

/* ---- embedding.c ------------------------------------------------------------------------------------------------
 * out[b,s,:] = scale · table[ids[b,s],:]          out [B,S,C] (rounded)  ids int64 [B,S]  table [V,C]
 * dtable[ids[b,s],:] += scale · dout[b,s,:]       (the product and each sum rounded) except where ids[b,s] == padding_id (-1: no such row), as
 *                                                 torch.nn.Embedding(padding_idx) does
 * Under CP_ROUND_BF16 the scale is the nearest bfloat16 (transformers keeps it in the table's type). */
typedef struct cp_embedding_ops {
    void (*forward)(cp_tensor out, cp_tensor ids, cp_tensor table, double scale, cp_precision precision);
    void (*backward)(cp_tensor dtable, cp_tensor dout, cp_tensor ids, double scale, int64_t padding_id,
                     cp_precision precision);
} cp_embedding_ops;

/* ---- linear.c ---------------------------------------------------------------------------------------------------
 * y = x · weightᵀ (+ bias)    y [...,O] (rounded)  x [...,I]  weight [O,I]  bias [O] or CP_NONE
 * dx += dy · weight    dweight += dyᵀ · x    dbias += Σ dy        each or CP_NONE */
typedef struct cp_linear_ops {
    void (*forward)(cp_tensor y, cp_tensor x, cp_tensor weight, cp_tensor bias, cp_precision precision);
    void (*backward)(cp_tensor dx, cp_tensor dweight, cp_tensor dbias, cp_tensor dy, cp_tensor x,
                     cp_tensor weight, cp_precision precision);
} cp_linear_ops;

/* ---- rmsnorm.c --------------------------------------------------------------------------------------------------
 * r = (mean x² + epsilon)^-1/2   y = x · r · w̃     over the last axis, of N elements
 *   w̃ = 1 (CP_NORM_PLAIN, weight CP_NONE), weight (CP_NORM_WEIGHT), 1 + weight (CP_NORM_ONE_PLUS)
 * y, x [...,N] (y rounded)  inverse_rms [...] saved  weight [N]
 * g = w̃ · dy   x̂ = x · r   dx += r · (g − x̂ · mean(g · x̂))   dweight += Σ dy · x̂
 * Under CP_ROUND_BF16, CP_NORM_WEIGHT rounds x̂ before the product with the weight and the product again (llama's
 * order), and in the backward weight · dy and the terms dy · x̂, with x̂ rounded; CP_NORM_ONE_PLUS and CP_NORM_PLAIN round
 * only y (gemma's). Source: transformers' LlamaRMSNorm, Gemma2RMSNorm. */
typedef enum cp_norm_weight { CP_NORM_PLAIN, CP_NORM_WEIGHT, CP_NORM_ONE_PLUS } cp_norm_weight;

typedef struct cp_rmsnorm_ops {
    void (*forward)(cp_tensor y, cp_tensor inverse_rms, cp_tensor x, cp_tensor weight, cp_norm_weight kind,
                    double epsilon, cp_precision precision);
    void (*backward)(cp_tensor dx, cp_tensor dweight, cp_tensor dy, cp_tensor inverse_rms, cp_tensor x,
                     cp_tensor weight, cp_norm_weight kind, cp_arena *scratch, cp_precision precision);
} cp_rmsnorm_ops;

/* ---- rope.c -----------------------------------------------------------------------------------------------------
 * table:   angle = position[b,s] · inverse_frequency[j]   cos, sin [B,S,R/2] of it, times attention_scaling
 * forward: y of x [B,S,H,D], the first R channels rotated, the rest copied (y rounded)
 *   CP_ROPE_HALVED       pairs (j, j+R/2):  y_j = x_j c − x_k s   y_k = x_k c + x_j s
 *   CP_ROPE_INTERLEAVED  pairs (2j, 2j+1), the same
 * backward: dx += the rotation by the negative angle of dy
 * The table is computed in double and stored in the kernel's width. Under CP_ROUND_BF16 cos and sin are rounded, and
 * of a halved rotation, forward and backward, the two products before their sum; transformers turns interleaved pairs
 * in float32, so their table is asked for without rounding. */
typedef enum cp_rope_layout { CP_ROPE_HALVED, CP_ROPE_INTERLEAVED } cp_rope_layout;

typedef struct cp_rope_ops {
    void (*table)(cp_tensor cosine, cp_tensor sine, cp_tensor position, const double *inverse_frequency,
                  double attention_scaling, cp_precision precision);
    void (*forward)(cp_tensor y, cp_tensor x, cp_tensor cosine, cp_tensor sine, cp_rope_layout layout,
                    cp_precision precision);
    void (*backward)(cp_tensor dx, cp_tensor dy, cp_tensor cosine, cp_tensor sine, cp_rope_layout layout,
                     cp_precision precision);
} cp_rope_ops;

/* ---- pointwise.c ------------------------------------------------------------------------------------------------
 * add:          y = a + b (rounded; y may alias a)           the backward is accumulate, twice
 * accumulate:   y += x
 * scale:        y = factor · x (rounded; may alias)          dx += factor · dy
 * scale_tokens: y[b,s,...] = factor[b,s] · x[b,s,...] (rounded)   factor float64 [B,S]; the same for dx += …
 * gate:         y = act(gate) · up (act(gate) rounded, y rounded)
 *               dgate += dy · up (rounded) · act'(gate)   dup += dy · act(gate) (rounded)
 *   CP_ACT_SILU u·σ(u)   CP_ACT_GELU ½u(1+erf(u/√2))   CP_ACT_GELU_TANH ½u(1+tanh(√(2/π)(u+0.044715u³)))
 *   CP_ACT_RELU max(u,0)
 * softcap:      y = cap · tanh(x / cap) (quotient, tanh and y rounded, each step of the backward too; may alias)  dx += dy · (1 − (y/cap)²)   from y alone; in place
 *               (dx the same memory as dy) it overwrites instead of adding
 * convert:      y = x, between float dtypes (x of any float dtype, y of this width)
 * round:        x (rounded), in place; nothing without rounding and without noise */
typedef enum cp_activation {
    CP_ACT_SILU,
    CP_ACT_GELU,
    CP_ACT_GELU_TANH,
    CP_ACT_RELU,
    CP_ACTIVATIONS
} cp_activation;

typedef struct cp_pointwise_ops {
    void (*add)(cp_tensor y, cp_tensor a, cp_tensor b, cp_precision precision);
    void (*accumulate)(cp_tensor y, cp_tensor x, cp_precision precision);
    void (*scale)(cp_tensor y, cp_tensor x, double factor, cp_precision precision);
    void (*scale_backward)(cp_tensor dx, cp_tensor dy, double factor, cp_precision precision);
    void (*scale_tokens)(cp_tensor y, cp_tensor x, cp_tensor factor, cp_precision precision);
    void (*scale_tokens_backward)(cp_tensor dx, cp_tensor dy, cp_tensor factor, cp_precision precision);
    void (*gate)(cp_tensor y, cp_tensor gate, cp_tensor up, cp_activation activation, cp_precision precision);
    void (*gate_backward)(cp_tensor dgate, cp_tensor dup, cp_tensor dy, cp_tensor gate, cp_tensor up,
                          cp_activation activation, cp_precision precision);
    void (*softcap)(cp_tensor y, cp_tensor x, double cap, cp_precision precision);
    void (*softcap_backward)(cp_tensor dx, cp_tensor dy, cp_tensor y, double cap, cp_precision precision);
    void (*convert)(cp_tensor y, cp_tensor x);
    void (*round)(cp_tensor x, cp_precision precision);
} cp_pointwise_ops;

/* ---- router.c ---------------------------------------------------------------------------------------------------
 * Of the scores [B,S,E] of a token the `chosen` largest are taken; of equal ones that of the lower index. Those get
 *   weight_e = exp(logits_e) / Σ_taken exp(logits)       (rounded)        the others 0
 * dlogits_e += weight_e (dweights_e − Σ weight dweights)                  nothing is differentiated through the choice
 * The same function is a softmax over all, of which the largest are taken and divided by their sum (transformers'
 * Mixtral); as written it is that of GptOss.
 *
 * balance: of tokens with real[b,s] ≠ 0 (int64 [B,S]), in order and in double:
 *   choices[e] += how many took e    probabilities[e] += Σ softmax(logits)_e    returns how many tokens there were
 * balance_backward: dlogits_e += p_e (slope_e − Σ p slope) there, p the softmax: slope [E] is the gradient by each
 * probability. */
typedef struct cp_router_ops {
    void (*forward)(cp_tensor weights, cp_tensor logits, int64_t chosen, cp_precision precision);
    void (*backward)(cp_tensor dlogits, cp_tensor dweights, cp_tensor weights, cp_precision precision);
    int64_t (*balance)(double *choices, double *probabilities, cp_tensor logits, cp_tensor real,
                       int64_t chosen);
    void (*balance_backward)(cp_tensor dlogits, cp_tensor logits, cp_tensor real, const double *slope);
} cp_router_ops;

/* ---- experts.c --------------------------------------------------------------------------------------------------
 * y = Σ_e weights_e · expert_e(x)       over the experts whose weight is not 0, in order      y, x [B,S,C] (y rounded)
 *   expert(x): (g, u) = up · x + up_bias    g' = min(g, limit)  u' = min(max(u, −limit), limit)      (g, u rounded)
 *              a = (u' + shift) · g' · σ(alpha g')          down · a + down_bias               (a, the result rounded)
 * alpha 1, shift 0, limit ∞ is the usual gated silu. Parameters are stacks:
 *   up [E,2F,C], down [E,C,F], or `transposed` [E,C,2F], [E,F,C];  up_bias [E,2F], down_bias [E,C], or CP_NONE
 *   of the 2F rows the first F are g, or, `interleaved`, the even ones
 * dweights_e += dout · expert_e(x)     d = weights_e dout     ddown += d aᵀ   ddown_bias += d   da = downᵀ d
 *   dg = [g ≤ limit] da (u' + shift) (s + alpha g' s (1 − s)), s = σ(alpha g')   du = [−limit ≤ u ≤ limit] da g' s
 *   dup += (dg, du) xᵀ   dup_bias += (dg, du)   dx += upᵀ (dg, du)              each of `gradients` or CP_NONE
 * An expert that a token did not choose gets nothing from it, dweights included. The backward computes the experts'
 * insides again. Rounded on the way: products before their biases, d, da, da (u' + shift), dg, du, and dx after each
 * expert. Source: transformers' GptOssExperts, MixtralExperts. */
typedef struct cp_experts {
    cp_tensor up, up_bias, down, down_bias;
} cp_experts;

typedef struct cp_experts_form {
    bool transposed, interleaved;
    double alpha, shift, limit;
} cp_experts_form;

typedef struct cp_experts_ops {
    void (*forward)(cp_tensor y, cp_tensor x, cp_tensor weights, const cp_experts *experts,
                    cp_experts_form form, cp_arena *scratch, cp_precision precision);
    void (*backward)(cp_tensor dx, cp_tensor dweights, const cp_experts *gradients, cp_tensor dout,
                     cp_tensor x, cp_tensor weights, const cp_experts *experts, cp_experts_form form,
                     cp_arena *scratch, cp_precision precision);
} cp_experts_ops;

/* ---- attention_dense.c, attention_block.c, attention_varlen.c --------------------------------------------------
 * Any set of queries against any set of keys, each token known by its global index in its row:
 *
 *   t[i,j] = scale · q_i · k_j      z = softcap · tanh(t / softcap), or t where softcap is 0
 *   lse_i = log Σ_{j visible} exp z[i,j]            −∞ where nothing is visible
 *   o_i   = Σ_{j visible} exp(z[i,j] − lse_i) v_j   0 there
 *
 * Where visibility->masked_before_cap and there is a softcap, keys that are not visible take part with z = −softcap.
 *
 * q [B,Sq,H,D]  k [B,Sk,K,D]  v [B,Sk,Kv,Dv]  o [B,Sq,H,Dv] (rounded)  lse [B,Sq,H]
 * The backward takes the FINAL lse (over all keys) and delta_i = Σ_d do_id · o_id of the FINAL o, and adds this key
 * set's share:
 *   p = exp(z − lse)   dv_j += Σ p do_i   ds = p (do_i · v_j − delta_i)   dt = ds (1 − (z/softcap)²)
 *   dq_i += scale Σ dt k_j   dk_j += scale Σ dt q_i           heads that are read by several query heads get the sum
 * Under CP_ROUND_BF16 are rounded, as in transformers' eager attention: q·k, t, each step of the cap, probabilities
 * (as they multiply v and do), o; in the backward do·v, ds, each step back through the cap, scale · dt.
 * Every form computes this; they differ in what they hold at a time. */
typedef enum cp_attention_form {
    CP_ATTENTION_BLOCK, /* of a tile of queries against a block of keys: memory does not grow with the keys */
    CP_ATTENTION_DENSE, /* the scores of a tile of queries against all keys */
    CP_ATTENTION_VARLEN, /* the same without padded keys and without a predicate: by segments and a window */
    CP_ATTENTION_FORMS
} cp_attention_form;

typedef struct cp_attention {
    const cp_visibility *visibility;
    cp_tensor query_index;   /* int64 [B,Sq], global */
    cp_tensor key_index;     /* int64 [B,Sk], global */
    const int32_t *key_head; /* [H]: the head of k that a query head reads; never NULL, also when measuring */
    const int32_t *value_head; /* [H]: the head of v */
    double scale;
    double softcap; /* 0: none */
} cp_attention;

typedef struct cp_attention_ops {
    void (*forward)(cp_tensor o, cp_tensor lse, cp_tensor q, cp_tensor k, cp_tensor v,
                    const cp_attention *attention, cp_arena *scratch, cp_precision precision);
    void (*backward)(cp_tensor dq, cp_tensor dk, cp_tensor dv, cp_tensor dout, cp_tensor lse, cp_tensor delta,
                     cp_tensor q, cp_tensor k, cp_tensor v, const cp_attention *attention, cp_arena *scratch,
                     cp_precision precision);
} cp_attention_ops;

/* ---- partial.c --------------------------------------------------------------------------------------------------
 * Results of attention over a part of the keys, o [...,H,Dv] and lse [...,H], both in and out:
 * merge: of two disjoint sets of keys. One way is right, the others are what somebody has shipped:
 *   BY_LSE          L = log(e^lse + e^lse_part)   o = e^(lse−L) o + e^(lse_part−L) o_part
 *   AVERAGE         L the same                    o = (o + o_part) / 2
 *   LOG2_MIXED      the same with 2 in the place of e: statistics in ln, merged as if they were in log2
 *   NO_MAXIMUM      L as it stands, with an e^x that is infinite above 88.72, as in float32
 *                   o = (e^lse o + e^lse_part o_part) / e^L
 *   INF_FROM_EMPTY  a part that saw nothing counts with lse_part = +∞: L = ∞, o = o_part = 0, whatever comes after
 * sink: a score without a value, σ [H], one a query head; once, after the last merge:
 *   L = log(e^lse + e^σ)          o = e^(lse−L) o                              a row that saw nothing: L = σ, o = 0
 * delta: δ_i = Σ_d do_id · o_id of the FINAL o
 * sink_backward, from the FINAL lse (the sink in it): dσ_h −= Σ_i e^(σ_h − lse_ih) δ_ih
 * narrow: x rounded to bfloat16 in place, in storage of either width
 * Source of the sink: transformers' GptOss eager attention, which appends σ to the scores and drops its column. */
typedef enum cp_merge {
    CP_MERGE_BY_LSE,
    CP_MERGE_AVERAGE,
    CP_MERGE_LOG2_MIXED,
    CP_MERGE_NO_MAXIMUM,
    CP_MERGE_INF_FROM_EMPTY,
    CP_MERGES
} cp_merge;

typedef struct cp_partial_ops {
    void (*merge[CP_MERGES])(cp_tensor o, cp_tensor lse, cp_tensor o_part, cp_tensor lse_part,
                             cp_precision precision);
    void (*sink)(cp_tensor o, cp_tensor lse, cp_tensor sink, cp_precision precision);
    void (*delta)(cp_tensor delta, cp_tensor dout, cp_tensor o);
    void (*sink_backward)(cp_tensor dsink, cp_tensor lse, cp_tensor delta, cp_tensor sink);
    void (*narrow)(cp_tensor x);
} cp_partial_ops;

/* ---- loss.c -----------------------------------------------------------------------------------------------------
 * token_loss[b,s] = lse − logits[target]      lse[b,s] = log Σ_v exp logits[b,s,v]    0 where target is −100
 * dlogits[b,s,v] = factor · (exp(logits − lse) − [v = target])    (rounded)           0 where target is −100
 * logits [B,S,V]  target int64 [B,S]  token_loss, lse [B,S]. The backward OVERWRITES dlogits (it is a scratch block
 * of rows). A target outside [0,V) that is not −100 is stopped: batches are checked when they are read.
 * sum: Σ token_loss in index order, in double. */
typedef struct cp_loss_ops {
    void (*forward)(cp_tensor token_loss, cp_tensor lse, cp_tensor logits, cp_tensor target,
                    cp_precision precision);
    void (*backward)(cp_tensor dlogits, cp_tensor lse, cp_tensor logits, cp_tensor target, double factor,
                     cp_precision precision);
    double (*sum)(cp_tensor token_loss);
} cp_loss_ops;

/* One width of all of them. */
typedef struct cp_ops {
    const cp_embedding_ops *embedding;
    const cp_linear_ops *linear;
    const cp_rmsnorm_ops *rmsnorm;
    const cp_rope_ops *rope;
    const cp_pointwise_ops *pointwise;
    const cp_router_ops *router;
    const cp_experts_ops *experts;
    const cp_attention_ops *attention[CP_ATTENTION_FORMS];
    const cp_partial_ops *partial;
    const cp_loss_ops *loss;
} cp_ops;

/* The table for CP_F64 or CP_F32. Never NULL; any other dtype stops the job. */
const cp_ops *cp_ops_of(cp_dtype dtype);

/* The table that checks, takes scratch and computes nothing: with a measuring arena, the memory plan. */
const cp_ops *cp_ops_shape(void);

#endif

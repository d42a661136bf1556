/* The seam: three verbs through which tokens see other tokens, and nothing else does. Everything that is not a mixer
 * is position-wise and must not know that shards exist.
 *
 *   attend  queries of this shard against every visible key, wherever it is
 *   carry   a state handed to the next shard, its gradient handed back
 *   sum     numbers added (or their maximum taken) over all shards, in rank order
 *
 * Unsharded it is the local mixer; sharded it is an exchange of the harness around the same calls. A mixer with a
 * shape table and a measuring arena plans memory: it takes what it would take and moves nothing. */
#ifndef CPEQ_REFERENCE_MIXER_H
#define CPEQ_REFERENCE_MIXER_H

#include "reference/ops.h"

/* One layer's attention, as its program asks for it. The tables are never NULL, also when measuring. */
typedef struct cp_attend {
    const cp_visibility *visibility; /* on global indices; NULL when measuring */
    int64_t H, K;                    /* query heads, key/value heads of the tensors that are passed */
    const int32_t *key_head;         /* [H]: which head of k a query head reads */
    const int32_t *value_head;       /* [H]: which head of v */
    double scale, softcap;           /* softcap 0: none */
    cp_tensor sink;                  /* [H], or CP_NONE */
} cp_attend;

/* What a mixer keeps from the forward for the backward, in the arena that the forward was given. */
enum { CP_SAVED_TENSORS = 10 };
typedef struct cp_saved {
    cp_tensor tensor[CP_SAVED_TENSORS];
} cp_saved;

typedef struct cp_mixer cp_mixer;
struct cp_mixer {
    /* o [B,S,H,Dv] of q [B,S,H,D], k [B,S,K,D], v [B,S,K,Dv], all of this shard's tokens; contiguous. `saved` is
     * taken from `arena` and outlives the call; scratch is given back. Collective. */
    void (*attend)(const cp_mixer *mixer, cp_tensor o, cp_saved *saved, cp_tensor q, cp_tensor k, cp_tensor v,
                   const cp_attend *attend, cp_arena *arena, cp_precision precision);
    /* Adds into dq, dk, dv, and into dsink [H] (CP_NONE without a sink) a share: the shards' sum is the gradient.
     * q, k, v, o are those of the forward; `scratch` is given back. Collective. */
    void (*attend_backward)(const cp_mixer *mixer, cp_tensor dq, cp_tensor dk, cp_tensor dv, cp_tensor dsink,
                            cp_tensor dout, const cp_saved *saved, cp_tensor o, cp_tensor q, cp_tensor k,
                            cp_tensor v, const cp_attend *attend, cp_arena *scratch, cp_precision precision);
    /* received = what the previous shard sent; zeros on the first. Contiguous, equal shapes. Collective. */
    void (*carry)(const cp_mixer *mixer, cp_tensor received, cp_tensor sent);
    /* dsent += the next shard's dreceived; nothing on the last. `scratch` is given back. Collective. */
    void (*carry_backward)(const cp_mixer *mixer, cp_tensor dsent, cp_tensor dreceived, cp_arena *scratch);
    /* values[n] = Σ (or the maximum) over shards of theirs, in rank order: the same bits on every rank. Collective. */
    void (*sum)(const cp_mixer *mixer, double *values, int count);
    void (*maximum)(const cp_mixer *mixer, double *values, int count);

    const cp_ops *ops;
    cp_attention_form form;
    cp_tensor index; /* int64 [B,S]: global index of each token of this shard */
};

/* The mixer of one shard that holds every token: attention is one call. `index` is borrowed. */
cp_mixer cp_mixer_local(const cp_ops *ops, cp_attention_form form, cp_tensor index);

#endif

/* Who sees whom: one predicate on global indices, as data.
 *
 *   visible(b,i,j) = real[j] and document[i] = document[j] and scope[i] = scope[j] and order[j] ≤ order[i]
 *                    and (no window, or distance[j] > distance[i] − window) and chunk[i] = chunk[j]
 *
 * A mask is never built per shard and patched; a shard evaluates the same predicate on the global indices of its
 * tokens. The planner reads the decisions about masks; the predicate has none. */
#ifndef CPEQ_BASE_TOKENS_VISIBILITY_H
#define CPEQ_BASE_TOKENS_VISIBILITY_H

#include "base/tokens/tokens.h"

/* What a layer asks for. */
typedef struct cp_mask {
    int64_t window; /* keys that an interior query sees, itself included; 0: no window */
    int64_t chunk;  /* length of a chunk; 0: none */
} cp_mask;

typedef enum cp_causal_rule {
    CP_CAUSAL_GLOBAL,        /* on coordinates of the row */
    CP_CAUSAL_LOCAL,         /* on the index of each token in its own shard */
    CP_CAUSAL_OFF_WHEN_ONE,  /* switched off where the rank's shard holds one token a row */
    CP_CAUSAL_FULL_DIAGONAL, /* not among keys of the rank's own shard */
    CP_CAUSAL_LOCAL_BOTTOM_RIGHT, /* key j ≤ l + T − S for the query at local l: as if the rank's queries were the
                                     row's last, whichever they are */
    CP_CAUSAL_RULES
} cp_causal_rule;

typedef enum cp_window_rule {
    CP_WINDOW_GLOBAL,       /* j > i − w */
    CP_WINDOW_LOCAL,        /* on the index of each token in its own shard */
    CP_WINDOW_PLUS_ONE,     /* w + 1 */
    CP_WINDOW_MINUS_ONE,    /* w − 1; a window of 1 is left alone: nothing would be visible */
    CP_WINDOW_DROPPED,      /* none */
    CP_WINDOW_LOCAL_LENGTH, /* dropped where S ≤ w */
    CP_WINDOW_RULES
} cp_window_rule;

typedef enum cp_chunk_rule {
    CP_CHUNK_GLOBAL,     /* ⌊coordinate / c⌋ */
    CP_CHUNK_LOCAL,      /* ⌊l / c⌋ */
    CP_CHUNK_NO_PADDING, /* ⌊g / c⌋ where the coordinate is g minus leading padding */
    CP_CHUNK_DROPPED,    /* none */
    CP_CHUNK_RULES
} cp_chunk_rule;

typedef enum cp_padding_rule {
    CP_PADDING_GLOBAL,  /* every key's own */
    CP_PADDING_DROPPED, /* none is hidden */
    CP_PADDING_SHARD,   /* only keys of this rank's own shard are hidden */
    CP_PADDING_ROTATED, /* the key at local l of rank r is hidden where the one at l of rank (r+1) mod P is padding */
    CP_PADDING_RULES
} cp_padding_rule;

typedef enum cp_scope_rule {
    CP_SCOPE_ALL,               /* keys of every rank */
    CP_SCOPE_SHARD,             /* own shard only */
    CP_SCOPE_LAST_STEP_SKIPPED, /* not those of rank r + 1, which come to rank r last */
    CP_SCOPE_FIRST_ONLY,        /* own shard and that of rank r − 1, which comes to rank r first */
    CP_SCOPE_RULES
} cp_scope_rule;

typedef enum cp_softcap_order {
    CP_SOFTCAP_THEN_MASK, /* a hidden key takes no part */
    CP_MASK_THEN_SOFTCAP, /* its score −∞ goes through the cap, which makes −cap of it: a visible one */
    CP_SOFTCAP_ORDERS
} cp_softcap_order;

typedef struct cp_mask_rules {
    cp_causal_rule causal;
    cp_window_rule window;
    cp_chunk_rule chunk;
    cp_padding_rule padding_mask;
    cp_scope_rule attention_scope;
    cp_softcap_order softcap_order;
} cp_mask_rules;

/* All arrays [B,T]. */
typedef struct cp_visibility {
    int64_t B, T;
    const uint8_t *real;
    const int64_t *document, *scope, *order, *distance, *chunk;
    const int64_t *key_order; /* order[j] of keys, where it is not that of queries; else NULL */
    int64_t window;           /* 0: none */
    bool masked_before_cap;   /* for whoever caps scores: what this hides has the score −cap, not −∞ */
} cp_visibility;

/* The predicate that `rank` applies in layers of this mask. Arrays in `arena`, or shared with `tokens`. */
void cp_visibility_plan(cp_visibility *visibility, cp_mask mask, const cp_tokens *tokens,
                        const cp_layout *layout, int rank, const cp_mask_rules *rules, cp_arena *arena);

bool cp_visible(const cp_visibility *visibility, int64_t row, int64_t query, int64_t key);

/* out[n] = visible(row, query, keys[n]). */
void cp_visible_row(uint8_t *out, const cp_visibility *visibility, int64_t row, int64_t query,
                    const int64_t *keys, int64_t count);

/* What a block of queries sees of a block of keys. SOME is always allowed; NONE and ALL are certain. Costs
 * O(queries + keys). */
typedef enum cp_cover { CP_COVER_NONE, CP_COVER_SOME, CP_COVER_ALL } cp_cover;
cp_cover cp_visibility_cover(const cp_visibility *visibility, int64_t row, const int64_t *queries,
                             int64_t query_count, const int64_t *keys, int64_t key_count);

#endif

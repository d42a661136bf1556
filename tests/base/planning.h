/* Batches and plans for the tests of tokens and visibility. */
#ifndef CPEQ_TESTS_BASE_PLANNING_H
#define CPEQ_TESTS_BASE_PLANNING_H

#include "base/rng.h"
#include "base/tokens/visibility.h"

extern const cp_token_rules right_tokens;
extern const cp_mask_rules right_masks;

/* A batch padded, cut over P ranks (contiguous, or as the layout says) and planned. */
typedef struct planned {
    cp_arena arena;
    cp_layout layout;
    cp_tokens tokens;
} planned;

void plan_laid_out(planned *p, const cp_batch *batch, const cp_layout_spec *spec, int P,
                   const cp_token_rules *rules);
void plan_batch(planned *p, const cp_batch *batch, int P, const cp_token_rules *rules);
void plan_visibility(cp_visibility *visibility, planned *p, cp_mask mask, int rank,
                     const cp_mask_rules *rules);
void close_plan(planned *p);

cp_layout_spec layout_named(const char *text);

/* Random batches that cp_batch_check accepts, of at most RANDOM_PLACES tokens. */
enum { RANDOM_PLACES = 3 * 24 };

typedef struct random_batch {
    cp_batch batch; /* its arrays are those below, where they are given */
    int64_t ids[RANDOM_PLACES], positions[RANDOM_PLACES], documents[RANDOM_PLACES], labels[RANDOM_PLACES];
    uint8_t mask[RANDOM_PLACES];
} random_batch;

/* What a random batch gives beside ids and labels. */
typedef enum batch_kind {
    PLAIN,
    POSITIONS, /* of one document, from anywhere */
    PADDED,    /* mask, on both sides and with holes */
    PACKED,    /* several documents in positions, from anywhere; some rows hold one */
    DOCUMENTS, /* document_ids with padding, and positions from 0 in each */
    BATCH_KINDS
} batch_kind;

/* The `number`-th one of its kind. */
void make_random_batch(random_batch *r, batch_kind kind, cp_rng rng, uint64_t number);

#endif

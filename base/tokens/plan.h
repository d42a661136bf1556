/* The parts of cp_tokens_plan, in the order in which it calls them. Private to base/tokens. */
#ifndef CPEQ_BASE_TOKENS_PLAN_H
#define CPEQ_BASE_TOKENS_PLAN_H

#include "base/tokens/tokens.h"

/* A stretch of a row that is padded and cut by itself: the whole row, a document, or nothing but padding. */
typedef struct cp_span {
    int64_t begin, length; /* in the batch's own row; without what is cut off */
    int64_t first, places; /* in the padded row */
} cp_span;

typedef struct cp_spans {
    cp_span *spans;
    int64_t count;
} cp_spans;

typedef struct cp_token_plan {
    cp_tokens *tokens;
    cp_layout *layout;
    const cp_batch *batch;
    const cp_layout_spec *spec;
    const cp_token_rules *rules;
    cp_arena *scratch; /* growing; closed with the plan */
    int64_t *
        row_document; /* [B,batch->T]: 0, 1, … in each row; padding joins the document before it, or the first */
    cp_spans *rows; /* [B] */
    uint8_t *kept;  /* [B,batch->T]: 0 where a row is cut down */
    int64_t length; /* of the batch's rows, or what is left of them where they are cut down */
} cp_token_plan;

/* row_document; returns whether any row of the batch holds more than one. */
bool cp_plan_row_documents(cp_token_plan *plan);

/* What the length of a span must be a multiple of. */
int64_t cp_plan_multiple(const cp_layout_spec *spec, int P);

/* rows, and layout->T. */
void cp_plan_spans(cp_token_plan *plan);

/* The arrays of the layout, in `arena`. */
void cp_plan_layout(const cp_token_plan *plan, cp_arena *arena);

/* The index of a place where a row's shards stand one after the other in rank order. */
int64_t cp_plan_gathered(const cp_layout *layout, int64_t place);

/* tokens->home, `kept` and `length`. */
void cp_plan_places(cp_token_plan *plan);

/* row[i] carried to the places of each row: out[b,g] = row[b,home], or `step` more than the place before it where
 * nothing is at home. row [B,batch->T], out [B,T]. */
void cp_plan_carry(const cp_token_plan *plan, int64_t *out, const int64_t *row, int64_t step);

/* Whether the rule makes one document of each row of this batch. */
bool cp_plan_ignores_documents(const cp_batch *batch, cp_document_rule rule);

/* tokens->document under the document rule; tokens->position still holds those of the row. */
void cp_plan_ruled_documents(const cp_token_plan *plan);

/* Whether a place holds the row reversed (cp_rank_data, one row). */
bool cp_plan_reversed(const cp_token_plan *plan, int64_t place);

/* tokens->target as the row has it, label [B,T] (each place's own label), and tokens->count. */
void cp_plan_row_targets(const cp_token_plan *plan, int64_t *label);

/* tokens->target under the rules that work inside a shard or on padding. */
void cp_plan_ruled_targets(const cp_token_plan *plan, const int64_t *label);

#endif

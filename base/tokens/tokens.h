/* Everything about tokens that is decided on the whole row, before any cut: padding, positions, documents, targets.
 *
 * Each decision is an enum whose first value is right and whose others are what somebody has shipped. They are read
 * here, by planners that return arrays; whoever uses the arrays cannot tell a right plan from a wrong one. The
 * formulas use: g a global index in the padded row, r its rank, l its local index there, S local tokens; i an index
 * in the batch's own row, home(g) the i that stands at g. Labels that the batch holds shifted are shifted back first:
 * label[i] = shift_labels[i-1]. */
#ifndef CPEQ_BASE_TOKENS_TOKENS_H
#define CPEQ_BASE_TOKENS_TOKENS_H

#include "base/tokens/batch.h"
#include "base/tokens/layout.h"

typedef enum cp_auto_pad {
    CP_AUTO_PAD_ROW_END, /* appended at the row's end (per_document: behind each document, and to the end of a row
                            that is shorter than another): no target, hidden, embeddings 0; it joins the document
                            before it, and positions continue */
    CP_AUTO_PAD_LABEL_0, /* the padding's target is 0; the divisor does not count it */
    CP_AUTO_PAD_COUNTED, /* every padded place is added to the divisor */
    CP_AUTO_PAD_PER_SHARD, /* the row is cut into as many nearly equal pieces as the layout deals out (contiguous: P,
                              zigzag: 2P, per_document: each document into 2P; the first ones hold one token more)
                              and each is padded at its own end; each token keeps its target, and positions that the
                              batch does not give count the padding too. striped: nothing of its own */
    CP_AUTO_PAD_TRUNCATE, /* the row (per_document: each document), with its labels, is cut down to a multiple (where
                             one is left, else padded); the divisor counts what is left and may be 0 */
    CP_AUTO_PADS
} cp_auto_pad;

typedef enum cp_label_shift {
    CP_LABEL_SHIFT_ROW,    /* target[g] = label[home(g)+1], none at the row's end */
    CP_LABEL_SHIFT_SHARD,  /* target at local l = label at l+1, none at the shard's end */
    CP_LABEL_SHIFT_ROLLED, /* the same, but the shard's end gets the shard's first label */
    CP_LABEL_SHIFT_TWICE,  /* target[g] = label[home(g)+2] */
    CP_LABEL_SHIFTS
} cp_label_shift;

typedef enum cp_position_rule {
    CP_POSITION_ROW,    /* those of the row, sharded like the tokens */
    CP_POSITION_SHARD,  /* l: each shard counts from 0 */
    CP_POSITION_ARANGE, /* tokens of the ranks before r, + l: shards taken for contiguous ones */
    CP_POSITION_RULES
} cp_position_rule;

typedef enum cp_document_rule {
    CP_DOCUMENT_ROW, /* found on the whole row */
    CP_DOCUMENT_SHARD, /* counted inside the shard, from 0 in each: where neither mask nor document_ids are given,
                            places l with position[l] != position[l-1] + 1, else those whose document differs */
    CP_DOCUMENT_DIVIDED, /* the row's boundaries divided by P: documents that start at an i = c > 0 with
                            floor(c/P) <= l */
    CP_DOCUMENT_IGNORED, /* the row is one document, and coordinates are those of one */
    CP_DOCUMENT_MASK_GIVEN, /* the same where documents are told by positions alone: a mask of ones is passed, and
                               nobody looks for jumps any more */
    CP_DOCUMENT_RULES
} cp_document_rule;

typedef enum cp_rank_data {
    CP_RANK_DATA_SAME, /* every rank cuts its shard from the same batch */
    CP_RANK_DATA_OTHER, /* ranks > 0 cut everything from the next row; where the batch has one row, ids (or embeddings)
                           and labels from the row reversed */
    CP_RANK_DATAS
} cp_rank_data;

/* n(g): tokens of the ranks before g's, + l: where g stands when shards are put one after the other. */
typedef enum cp_layout_inverse {
    CP_LAYOUT_INVERSE_RIGHT,
    CP_LAYOUT_INVERSE_NONE,  /* results of g are brought to n(g): the shards are taken for contiguous ones */
    CP_LAYOUT_INVERSE_AGAIN, /* to n(n(g)): the permutation once more, and not its inverse */
    CP_LAYOUT_INVERSE_CONTIGUOUS_MASK, /* masks take coordinate, document and padding of g from n(g) */
    CP_LAYOUT_INVERSES
} cp_layout_inverse;

typedef struct cp_token_rules {
    cp_auto_pad auto_pad;
    cp_label_shift label_shift;
    cp_position_rule position_ids;
    cp_document_rule document_ids;
    cp_rank_data rank_data;
    cp_layout_inverse layout_inverse;
} cp_token_rules;

typedef struct cp_tokens {
    int64_t B, T;        /* padded */
    int64_t *source_row; /* [B,T]: the batch row and … */
    int64_t *source; /* [B,T]: … the index there whose id or embedding stands here; -1: automatic padding */
    int64_t *home;   /* [B,T]: index in the batch's own row that this place's results belong to; -1: none */
    int64_t
        *destination; /* [B,T]: the place in the padded row to which results that stand here are brought: g */
    int64_t
        *row_index; /* [B,T]: home(g), continued through automatic padding; with CP_AUTO_PAD_PER_SHARD g */
    int64_t *
        position; /* [B,T]: for rope; row_index where the batch gives none; automatic padding continues them */
    int64_t *
        coordinate; /* [B,T]: for causal, window and chunk: position where any row of the batch holds more than
                            one document and positions are given (then in every row), else row_index minus the row's
                            leading padding (transformers ≥ 5.23: masking_utils, packed sequences) */
    bool by_position;  /* coordinate is position */
    int64_t *document; /* [B,T]: 0, 1, … in each row; padding joins the document before it, or the first */
    uint8_t *real;     /* [B,T]: 0 for padding of any kind */
    int64_t *leading;  /* [B]: padding before the row's first real token */
    int64_t *target;   /* [B,T]: CP_IGNORED where there is none */
    double count;      /* the divisor of the loss: num_items_in_batch, or targets of the whole batch as
                            CP_LABEL_SHIFT_ROW finds them, whatever the other rules; see cp_auto_pad */
} cp_tokens;

/* Plans the tokens of a batch and their layout over P ranks. The batch has passed cp_batch_check and `spec`
 * cp_layout_check. Rows are padded to a multiple of P (contiguous), 2P (zigzag), P blocks (striped), each document to
 * one of 2P (per_document), or not (uneven). Arrays in `arena`, which must not measure. */
void cp_tokens_plan(cp_tokens *tokens, cp_layout *layout, const cp_batch *batch, const cp_layout_spec *spec,
                    int P, const cp_token_rules *rules, cp_arena *arena);

/* transformers' rule: a document starts where position_ids jump by something other than +1. Writes [B,T]
 * (0, 1, … in each row) and returns whether any row has more than one. */
bool cp_documents_from_positions(int64_t *document, const int64_t *position, int64_t B, int64_t T);

#endif

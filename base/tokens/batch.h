/* One batch as a file holds it, and the sentences with which a meaningless one is refused. */
#ifndef CPEQ_BASE_TOKENS_BATCH_H
#define CPEQ_BASE_TOKENS_BATCH_H

#include "base/status.h"

#include <stdint.h>

enum { CP_IGNORED = -100 }; /* a label that is no target */

/* Arrays are borrowed, row-major [B,T]; NULL where the file has none. */
typedef struct cp_batch {
    int64_t B, T;
    int64_t C;                     /* width of inputs_embeds; 0 with input_ids */
    const int64_t *input_ids;      /* either these … */
    const double *inputs_embeds;   /* … or these [B,T,C] */
    const uint8_t *attention_mask; /* 1 = real */
    const int64_t *position_ids;
    const int64_t *document_ids;  /* -1 = padding */
    const int64_t *labels;        /* not shifted … */
    const int64_t *shift_labels;  /* … or already shifted */
    double num_items_in_batch;    /* the divisor; 0: the number of targets */
    const int64_t *microbatch;    /* [B]: the accumulation step that a row belongs to */
    const int64_t *data_parallel; /* [B]: the data-parallel group that a row belongs to */
} cp_batch;

/* CP_BAD_INPUT, naming `file` and the object, where: ids or labels are missing or given twice; an id or a label is
 * outside [0, vocabulary) (and not -100), a position, a micro-batch or a data-parallel group outside
 * [0, 2^31); a mask holds anything but 0 and 1, or a row is
 * all padding; document ids do not agree with the mask, decrease, or come back; positions jump inside a document of
 * document_ids; embeddings are not finite; num_items_in_batch is negative or not finite (a file that holds 0 is refused
 * by its reader: here 0 means that there is none).
 * CP_REFUSED where the batch means nothing: restarting positions together with a mask and without document_ids
 * (ambiguous; positions of padding are not looked at); a target that would be predicted from a padding position, or
 * that is padding itself; no target at all. */
cp_status cp_batch_check(const cp_batch *batch, int64_t vocabulary, const char *file);

/* The same of mask, positions and documents alone: of a batch that has neither ids nor labels. */
cp_status cp_batch_check_places(const cp_batch *batch, const char *file);

#endif

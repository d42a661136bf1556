/* Batches that `make` draws. */
#ifndef CPEQ_HARNESS_CLI_MAKE_BATCH_H
#define CPEQ_HARNESS_CLI_MAKE_BATCH_H

#include "base/tokens/batch.h"
#include "harness/cli/options.h"
#include "reference/program.h"

enum { CP_MOST_ROWS = 256 };

/* What was asked for. */
typedef struct cp_batch_plan {
    const char *file; /* a batch.safetensors; NULL: drawn */
    int64_t length;   /* T; 0: not given */
    int documents;    /* packed: one row of these; 0: not packed */
    int64_t document[CP_MOST_ROWS];
    int rows; /* padded: the real tokens of each row; 0: not padded */
    int64_t real[CP_MOST_ROWS];
    bool left;      /* where the padding is */
    bool embeds;    /* inputs_embeds instead of input_ids */
    int64_t prompt; /* the first labels of each row that are no targets */
    uint64_t seed;
} cp_batch_plan;

/* Reads --batch, --length, --left-pad, --right-pad, --embeds, --prompt. CP_BAD_USAGE: what contradicts. */
cp_status cp_batch_plan_read(cp_batch_plan *plan, const cp_arguments *arguments);

/* Draws it for a model. The first tokens of documents and of left-padded rows are no targets. Arrays live in `arena`
 * (growing). */
void cp_batch_draw(cp_batch *batch, const cp_batch_plan *plan, const cp_program *program, cp_arena *arena);

#endif

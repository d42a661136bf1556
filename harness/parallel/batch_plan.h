/* Which rows of a batch each data-parallel group runs, and in which micro-batch; and the rows of a plan that was made on
 * the whole batch. Every count is decided on the whole batch before it is cut. */
#ifndef CPEQ_HARNESS_PARALLEL_BATCH_PLAN_H
#define CPEQ_HARNESS_PARALLEL_BATCH_PLAN_H

#include "base/tokens/tokens.h"

typedef struct cp_batch_plan {
    int D, M; /* groups, micro-batches */
    int64_t B;
    int64_t *group, *micro; /* [B]: of each row */
} cp_batch_plan;

/* The micro-batches of a batch: those of batch->microbatch, else M; at least 1. */
int cp_batch_micros(const cp_batch *batch, int M);

/* CP_REFUSED where batch->data_parallel names a group that is none of D, or batch->microbatch one that is none of B, or
 * another number of them than M; D and M of 0 ask for nothing. `file` is named. */
cp_status cp_batch_plan_check(const cp_batch *batch, int D, int M, const char *file);

/* batch->data_parallel, else the first B mod D groups run one row more than the others; batch->microbatch, else in the
 * same way each group's rows in M runs. Groups and micro-batches may be without rows. Arrays in `arena`, which must not
 * measure. Has passed the check. */
void cp_batch_plan_make(cp_batch_plan *plan, const cp_batch *batch, int D, int M, cp_arena *arena);

enum { CP_EVERY_MICRO = -1 };

/* The rows of a group in a micro-batch, or in every one, ascending into `rows` [B]; returns how many. */
int64_t cp_batch_rows(int64_t *rows, const cp_batch_plan *plan, int group, int micro);

/* What `tokens` and `layout` say about `count` rows. Arrays in `arena`, which must not measure. */
void cp_tokens_select(cp_tokens *out, const cp_tokens *tokens, const int64_t *rows, int64_t count,
                      cp_arena *arena);
void cp_layout_select(cp_layout *out, const cp_layout *layout, const int64_t *rows, int64_t count,
                      cp_arena *arena);

#endif

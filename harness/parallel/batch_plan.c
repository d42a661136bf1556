#include "harness/parallel/batch_plan.h"

#include <inttypes.h>
#include <string.h>

/* ---- groups and micro-batches ----------------------------------------------------------------------------------- */

int cp_batch_micros(const cp_batch *batch, int M)
{
    int64_t most = M > 0 ? M - 1 : 0;
    for (int64_t b = 0; batch->microbatch && b < batch->B; b++)
        most = batch->microbatch[b] > most ? batch->microbatch[b] : most;
    return (int)most + 1;
}

cp_status cp_batch_plan_check(const cp_batch *batch, int D, int M, const char *file)
{
    for (int64_t b = 0; D > 1 && batch->data_parallel && b < batch->B; b++)
        if (batch->data_parallel[b] >= D)
            return cp_fail(CP_REFUSED,
                           "%s: /batch/data_parallel: row %" PRId64 " is of group %" PRId64
                           ", expected one of %d groups",
                           file, b, batch->data_parallel[b], D);
    for (int64_t b = 0; batch->microbatch && b < batch->B; b++)
        if (batch->microbatch[b] >= batch->B)
            return cp_fail(CP_REFUSED,
                           "%s: /batch/microbatch: row %" PRId64 " is of micro-batch %" PRId64
                           ", expected one below the %" PRId64 " rows",
                           file, b, batch->microbatch[b], batch->B);
    int micros = cp_batch_micros(batch, 0);
    if (M > 0 && batch->microbatch && micros != M)
        return cp_fail(CP_REFUSED,
                       "%s: /batch/microbatch: the batch has %d micro-batches of its own, expected %d", file,
                       micros, M);
    return CP_OK;
}

/* Of `count` things in `runs` runs, the first count mod runs one longer than the others: the run of the n-th. */
static int64_t run_of(int64_t n, int64_t count, int64_t runs)
{
    int64_t shorter = count / runs, longer = count % runs;
    int64_t in_longer = longer * (shorter + 1);
    return n < in_longer ? n / (shorter + 1) : longer + (n - in_longer) / shorter;
}

void cp_batch_plan_make(cp_batch_plan *plan, const cp_batch *batch, int D, int M, cp_arena *arena)
{
    int64_t B = batch->B;
    *plan = (cp_batch_plan){.D = D > 1 ? D : 1, .M = cp_batch_micros(batch, M), .B = B};
    plan->group = cp_arena_take(arena, (size_t)B * sizeof *plan->group);
    plan->micro = cp_arena_take(arena, (size_t)B * sizeof *plan->micro);
    for (int64_t b = 0; b < B; b++) {
        bool given = plan->D > 1 && batch->data_parallel;
        plan->group[b] = given ? batch->data_parallel[b] : run_of(b, B, plan->D);
        plan->micro[b] = 0;
    }
    int64_t *rows = cp_arena_take(arena, (size_t)B * sizeof *rows);
    for (int group = 0; group < plan->D; group++) {
        int64_t count = cp_batch_rows(rows, plan, group, CP_EVERY_MICRO);
        for (int64_t n = 0; n < count; n++)
            plan->micro[rows[n]] = batch->microbatch ? batch->microbatch[rows[n]] : run_of(n, count, plan->M);
    }
}

int64_t cp_batch_rows(int64_t *rows, const cp_batch_plan *plan, int group, int micro)
{
    int64_t count = 0;
    for (int64_t b = 0; b < plan->B; b++)
        if (plan->group[b] == group && (micro == CP_EVERY_MICRO || plan->micro[b] == micro))
            rows[count++] = b;
    return count;
}

/* ---- rows of a plan --------------------------------------------------------------------------------------------- */

/* Rows of `width` bytes. */
static void *select_rows(const void *values, size_t width, const int64_t *rows, int64_t count,
                         cp_arena *arena)
{
    unsigned char *out = cp_arena_take(arena, (size_t)count * width);
    for (int64_t n = 0; n < count; n++)
        memcpy(out + (size_t)n * width, (const unsigned char *)values + (size_t)rows[n] * width, width);
    return out;
}

void cp_tokens_select(cp_tokens *out, const cp_tokens *tokens, const int64_t *rows, int64_t count,
                      cp_arena *arena)
{
    size_t T = (size_t)tokens->T;
    *out = *tokens;
    out->B = count;
    int64_t **const arrays[] = {&out->source_row, &out->source,      &out->home,
                                &out->position,   &out->coordinate,  &out->document,
                                &out->target,     &out->destination, &out->row_index};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = select_rows(*arrays[i], T * sizeof(int64_t), rows, count, arena);
    out->real = select_rows(tokens->real, T, rows, count, arena);
    out->leading = select_rows(tokens->leading, sizeof *tokens->leading, rows, count, arena);
}

void cp_layout_select(cp_layout *out, const cp_layout *layout, const int64_t *rows, int64_t count,
                      cp_arena *arena)
{
    size_t T = (size_t)layout->T;
    *out = *layout;
    out->B = count;
    out->owner = select_rows(layout->owner, T * sizeof *layout->owner, rows, count, arena);
    out->slot = select_rows(layout->slot, T * sizeof *layout->slot, rows, count, arena);
    out->index = cp_arena_take(arena, (size_t)layout->P * sizeof *out->index);
    for (int rank = 0; rank < layout->P; rank++)
        out->index[rank] = select_rows(layout->index[rank], (size_t)layout->tokens[rank] * sizeof(int64_t),
                                       rows, count, arena);
}

#include "harness/cli/make_batch.h"

#include "base/arena.h"
#include "base/rng.h"

#include <string.h>

enum { USUAL_ROWS = 2, USUAL_LENGTH = 16, MOST_LENGTH = 1 << 20 };

/* ---- what is asked for ---------------------------------------------------------------------------------------------- */

static cp_status read_batch(cp_batch_plan *plan, const cp_arguments *arguments)
{
    static const char packed[] = "packed:";
    const char *text = cp_value(arguments, "batch");
    if (text == NULL)
        return CP_OK;
    if (strncmp(text, packed, sizeof packed - 1) != 0) {
        plan->file = text;
        return CP_OK;
    }
    if (!cp_parse_integers(plan->document, &plan->documents, CP_MOST_ROWS, text + sizeof packed - 1, 1,
                           MOST_LENGTH))
        return cp_fail(CP_BAD_USAGE,
                       "--batch: '%s' is not packed: and a list of document lengths, as packed:5,1,7,3",
                       text);
    return CP_OK;
}

static cp_status read_padding(cp_batch_plan *plan, const cp_arguments *arguments)
{
    CP_TRY(cp_value_integers(plan->real, &plan->rows, CP_MOST_ROWS, arguments, "left-pad", 1, MOST_LENGTH));
    plan->left = plan->rows > 0;
    if (plan->left && cp_given(arguments, "right-pad"))
        return cp_fail(CP_BAD_USAGE, "--right-pad: not together with --left-pad");
    return cp_value_integers(plan->real, &plan->rows, CP_MOST_ROWS, arguments, "right-pad", 1, MOST_LENGTH);
}

static int64_t longest(const int64_t *values, int count)
{
    int64_t most = 0;
    for (int i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

cp_status cp_batch_plan_read(cp_batch_plan *plan, const cp_arguments *arguments)
{
    CP_TRY(cp_value_integer(&plan->length, arguments, "length", 2, MOST_LENGTH));
    CP_TRY(cp_value_integer(&plan->prompt, arguments, "prompt", 0, MOST_LENGTH));
    CP_TRY(read_batch(plan, arguments));
    CP_TRY(read_padding(plan, arguments));
    plan->embeds = cp_given(arguments, "embeds");
    if (plan->documents > 0 && plan->rows > 0)
        return cp_fail(CP_BAD_USAGE, "--batch: packed rows are not padded: no --left-pad, no --right-pad");
    if (plan->documents > 0 && plan->length > 0)
        return cp_fail(CP_BAD_USAGE, "--length: the documents of --batch have their lengths");
    if (plan->file != NULL && (plan->length > 0 || plan->rows > 0 || plan->prompt > 0 || plan->embeds))
        return cp_fail(CP_BAD_USAGE,
                       "--batch: %s is a whole batch: no --length, --left-pad, --right-pad, --embeds "
                       "or --prompt",
                       plan->file);
    int64_t most = longest(plan->real, plan->rows);
    if (plan->length > 0 && most > plan->length)
        return cp_fail(CP_BAD_USAGE, "--length: %lld, but a row has %lld real tokens",
                       (long long)plan->length, (long long)most);
    if (plan->rows > 0 && plan->length == 0)
        plan->length = most;
    return CP_OK;
}

/* ---- drawing ---------------------------------------------------------------------------------------------------------- */

static int64_t *take_integers(cp_arena *arena, int64_t count)
{
    return cp_arena_take(arena, (size_t)count * sizeof(int64_t));
}

/* The padding id is not drawn: its embedding takes no gradient, and a batch should not depend on that by chance. */
static void draw_ids(int64_t *ids, int64_t count, const cp_batch_plan *plan, const cp_program *program)
{
    cp_rng rng = cp_rng_named(plan->seed, "input_ids");
    bool skips = program->padding_id >= 0 && program->padding_id < program->V && program->V > 1;
    for (int64_t i = 0; i < count; i++) {
        ids[i] = cp_rng_below(rng, (uint64_t)i, skips ? program->V - 1 : program->V);
        if (skips && ids[i] >= program->padding_id)
            ids[i]++;
    }
}

/* Values as those of an embedding table, exact in bfloat16. */
static double *draw_embeddings(const cp_batch *batch, const cp_batch_plan *plan, cp_arena *arena)
{
    cp_rng rng = cp_rng_named(plan->seed, "inputs_embeds");
    int64_t count = batch->B * batch->T * batch->C;
    double *out = cp_arena_take(arena, (size_t)count * sizeof(double));
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)cp_bf16_round((float)(0.5 * cp_rng_normal(rng, (uint64_t)i)));
    return out;
}

static void pack(cp_batch *batch, int64_t *labels, const cp_batch_plan *plan, cp_arena *arena)
{
    int64_t *documents = take_integers(arena, batch->T), *positions = take_integers(arena, batch->T), t = 0;
    for (int d = 0; d < plan->documents; d++) {
        labels[t] = CP_IGNORED;
        for (int64_t p = 0; p < plan->document[d]; p++, t++) {
            documents[t] = d;
            positions[t] = p;
        }
    }
    batch->document_ids = documents;
    batch->position_ids = positions;
}

static void pad(cp_batch *batch, int64_t *ids, int64_t *labels, const cp_batch_plan *plan, int64_t padding_id,
                cp_arena *arena)
{
    uint8_t *mask = cp_arena_take(arena, (size_t)(batch->B * batch->T));
    for (int64_t b = 0; b < batch->B; b++) {
        int64_t begin = plan->left ? batch->T - plan->real[b] : 0, end = begin + plan->real[b];
        for (int64_t t = 0; t < batch->T; t++) {
            int64_t place = b * batch->T + t;
            mask[place] = t >= begin && t < end;
            if (!mask[place]) {
                ids[place] = padding_id;
                labels[place] = CP_IGNORED;
            }
        }
        if (begin > 0) /* it would be predicted from a padding position */
            labels[b * batch->T + begin] = CP_IGNORED;
    }
    batch->attention_mask = mask;
}

static void leave_prompt_out(const cp_batch *batch, int64_t *labels, int64_t prompt)
{
    for (int64_t b = 0; b < batch->B; b++)
        for (int64_t t = 0; t < prompt && t < batch->T; t++)
            labels[b * batch->T + t] = CP_IGNORED;
}

static int64_t sum(const int64_t *values, int count)
{
    int64_t total = 0;
    for (int i = 0; i < count; i++)
        total += values[i];
    return total;
}

void cp_batch_draw(cp_batch *batch, const cp_batch_plan *plan, const cp_program *program, cp_arena *arena)
{
    *batch = (cp_batch){.B = plan->rows > 0 ? plan->rows : USUAL_ROWS,
                        .T = plan->length > 0 ? plan->length : USUAL_LENGTH};
    if (plan->documents > 0) {
        batch->B = 1;
        batch->T = sum(plan->document, plan->documents);
    }
    int64_t count = batch->B * batch->T;
    int64_t *ids = take_integers(arena, count), *labels = take_integers(arena, count);
    draw_ids(ids, count, plan, program);
    memcpy(labels, ids, (size_t)count * sizeof *labels);
    if (plan->documents > 0)
        pack(batch, labels, plan, arena);
    if (plan->rows > 0)
        pad(batch, ids, labels, plan, program->padding_id >= 0 ? program->padding_id : 0, arena);
    leave_prompt_out(batch, labels, plan->prompt);
    batch->labels = labels;
    if (plan->embeds) {
        batch->C = program->C;
        batch->inputs_embeds = draw_embeddings(batch, plan, arena);
    } else {
        batch->input_ids = ids;
    }
}

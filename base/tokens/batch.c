#include "base/tokens/batch.h"

#include <inttypes.h>
#include <math.h>

static const int64_t POSITION_BOUND = INT64_C(1) << 31; /* sums with lengths and windows must not overflow */

typedef struct checking {
    const cp_batch *batch;
    int64_t vocabulary;
    const char *file;
} checking;

#define FAIL(code, object, ...)                                                                              \
    cp_fail_within(cp_fail(code, __VA_ARGS__), "%s: /batch/%s", check->file, object)

static bool is_real(const cp_batch *batch, int64_t token)
{
    if (batch->attention_mask)
        return batch->attention_mask[token] != 0;
    return !batch->document_ids || batch->document_ids[token] >= 0;
}

/* ---- what is there ----------------------------------------------------------------------------------------------- */

static cp_status check_one_of_two(const checking *check, const char *one, bool has_one, const char *other,
                                  bool has_other)
{
    if (has_one != has_other)
        return CP_OK;
    return cp_fail(CP_BAD_INPUT, "%s: /batch: %s %s %s %s; one of them is expected", check->file,
                   has_one ? "both" : "neither", one, has_one ? "and" : "nor", other);
}

static cp_status check_presence(const checking *check)
{
    const cp_batch *batch = check->batch;
    if (batch->B < 1 || batch->T < 1)
        return cp_fail(CP_BAD_INPUT, "%s: /batch: [%" PRId64 ",%" PRId64 "] holds no token", check->file,
                       batch->B, batch->T);
    CP_TRY(check_one_of_two(check, "input_ids", batch->input_ids != NULL, "inputs_embeds",
                            batch->inputs_embeds != NULL));
    return check_one_of_two(check, "labels", batch->labels != NULL, "shift_labels",
                            batch->shift_labels != NULL);
}

/* ---- values, one by one ------------------------------------------------------------------------------------------ */

/* Every value is `also`, or in [0, bound). */
static cp_status check_range(const checking *check, const char *object, const int64_t *values, int64_t bound,
                             int64_t also)
{
    const cp_batch *batch = check->batch;
    for (int64_t i = 0; values && i < batch->B * batch->T; i++)
        if ((values[i] < 0 || values[i] >= bound) && values[i] != also)
            return FAIL(CP_BAD_INPUT, object,
                        "row %" PRId64 ", token %" PRId64 ": %" PRId64 " is outside [0,%" PRId64 ")",
                        i / batch->T, i % batch->T, values[i], bound);
    return CP_OK;
}

/* Which part of a step a row belongs to. */
static cp_status check_row_numbers(const checking *check, const char *object, const int64_t *values)
{
    for (int64_t row = 0; values && row < check->batch->B; row++)
        if (values[row] < 0 || values[row] >= POSITION_BOUND)
            return FAIL(CP_BAD_INPUT, object, "row %" PRId64 ": %" PRId64 " is outside [0,%" PRId64 ")", row,
                        values[row], POSITION_BOUND);
    return CP_OK;
}

static cp_status check_embeddings(const checking *check)
{
    const cp_batch *batch = check->batch;
    int64_t per_row = batch->T * batch->C;
    for (int64_t i = 0; batch->inputs_embeds && i < batch->B * per_row; i++)
        if (!isfinite(batch->inputs_embeds[i]))
            return FAIL(CP_BAD_INPUT, "inputs_embeds",
                        "row %" PRId64 ", token %" PRId64 ", channel %" PRId64 ": %g is not finite",
                        i / per_row, i % per_row / batch->C, i % batch->C, batch->inputs_embeds[i]);
    return CP_OK;
}

static cp_status check_divisor(const checking *check)
{
    double items = check->batch->num_items_in_batch;
    if (isinf(items))
        return FAIL(CP_BAD_INPUT, "num_items_in_batch", "%g is not finite", items);
    if (!(items >= 0))
        return FAIL(CP_BAD_INPUT, "num_items_in_batch", "%g is not positive", items);
    return CP_OK;
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */

static cp_status check_mask_values(const checking *check)
{
    const cp_batch *batch = check->batch;
    for (int64_t i = 0; batch->attention_mask && i < batch->B * batch->T; i++)
        if (batch->attention_mask[i] > 1)
            return FAIL(CP_BAD_INPUT, "attention_mask",
                        "row %" PRId64 ", token %" PRId64 ": %d; 0 (padding) or 1 (real) is expected",
                        i / batch->T, i % batch->T, batch->attention_mask[i]);
    return CP_OK;
}

static cp_status check_rows_hold_tokens(const checking *check)
{
    const cp_batch *batch = check->batch;
    for (int64_t b = 0; b < batch->B; b++) {
        int64_t real = 0;
        for (int64_t i = 0; i < batch->T; i++)
            real += is_real(batch, b * batch->T + i);
        if (real == 0)
            return FAIL(CP_BAD_INPUT, batch->attention_mask ? "attention_mask" : "document_ids",
                        "row %" PRId64 " is all padding", b);
    }
    return CP_OK;
}

static cp_status check_documents_agree(const checking *check)
{
    const cp_batch *batch = check->batch;
    if (!batch->document_ids || !batch->attention_mask)
        return CP_OK;
    for (int64_t i = 0; i < batch->B * batch->T; i++)
        if ((batch->document_ids[i] >= 0) != (batch->attention_mask[i] != 0))
            return FAIL(CP_BAD_INPUT, "document_ids",
                        "row %" PRId64 ", token %" PRId64 ": %" PRId64
                        ", but attention_mask is %d (padding is -1)",
                        i / batch->T, i % batch->T, batch->document_ids[i], batch->attention_mask[i]);
    return CP_OK;
}

/* ---- documents and positions, along each row --------------------------------------------------------------------- */

static bool seen_before(const int64_t *ids, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (ids[k] == ids[i])
            return true;
    return false;
}

static cp_status check_document_order(const checking *check, int64_t row)
{
    const int64_t *ids = check->batch->document_ids + row * check->batch->T;
    int64_t last = -1;
    for (int64_t i = 0; i < check->batch->T; i++) {
        if (ids[i] < 0)
            continue;
        if (ids[i] < last && seen_before(ids, i))
            return FAIL(CP_BAD_INPUT, "document_ids",
                        "row %" PRId64 ", token %" PRId64 ": document %" PRId64
                        " comes back after document %" PRId64,
                        row, i, ids[i], last);
        if (ids[i] < last)
            return FAIL(CP_BAD_INPUT, "document_ids",
                        "row %" PRId64 ", token %" PRId64 ": ids decrease from %" PRId64 " to %" PRId64, row,
                        i, last, ids[i]);
        last = ids[i];
    }
    return CP_OK;
}

static cp_status check_positions_in_documents(const checking *check, int64_t row)
{
    const cp_batch *batch = check->batch;
    const int64_t *ids = batch->document_ids + row * batch->T;
    const int64_t *position = batch->position_ids + row * batch->T;
    for (int64_t i = 1; i < batch->T; i++)
        if (ids[i] >= 0 && ids[i] == ids[i - 1] && position[i] != position[i - 1] + 1)
            return FAIL(CP_BAD_INPUT, "position_ids",
                        "row %" PRId64 ", token %" PRId64 ": positions jump from %" PRId64 " to %" PRId64
                        " inside document %" PRId64 " of document_ids",
                        row, i, position[i - 1], position[i], ids[i]);
    return CP_OK;
}

/* Positions of padding mean nothing; across padding inside a row they may count it or not. */
static cp_status check_no_restart(const checking *check, int64_t row)
{
    const cp_batch *batch = check->batch;
    const uint8_t *mask = batch->attention_mask + row * batch->T;
    const int64_t *position = batch->position_ids + row * batch->T;
    int64_t last = -1; /* real token before this one */
    for (int64_t i = 0; i < batch->T; i++) {
        if (!mask[i])
            continue;
        bool neighbours = last >= 0 && last == i - 1;
        if (last >= 0 && (neighbours ? position[i] != position[last] + 1 : position[i] <= position[last]))
            return FAIL(CP_REFUSED, "position_ids",
                        "row %" PRId64 ", token %" PRId64 ": positions jump from %" PRId64 " to %" PRId64
                        " and there is an attention_mask: with it transformers sees one document, without it "
                        "several; "
                        "document_ids are expected",
                        row, i, position[last], position[i]);
        last = i;
    }
    return CP_OK;
}

static cp_status check_rows(const checking *check)
{
    const cp_batch *batch = check->batch;
    for (int64_t row = 0; row < batch->B; row++) {
        if (batch->document_ids)
            CP_TRY(check_document_order(check, row));
        if (batch->document_ids && batch->position_ids)
            CP_TRY(check_positions_in_documents(check, row));
        if (!batch->document_ids && batch->position_ids && batch->attention_mask)
            CP_TRY(check_no_restart(check, row));
    }
    return CP_OK;
}

/* ---- targets ----------------------------------------------------------------------------------------------------- */

/* `at` is where the file holds the label, `from` the place that predicts it. */
static cp_status check_target(const checking *check, const char *object, int64_t row, int64_t at,
                              int64_t from)
{
    const cp_batch *batch = check->batch;
    if (batch->labels && !is_real(batch, row * batch->T + at))
        return FAIL(CP_REFUSED, object,
                    "row %" PRId64 ", token %" PRId64 ": padding is a target; -100 is expected there", row,
                    at);
    if (!is_real(batch, row * batch->T + from))
        return FAIL(CP_REFUSED, object,
                    "row %" PRId64 ", token %" PRId64
                    ": this target would be predicted from padding (token %" PRId64
                    "); -100 is expected there",
                    row, at, from);
    return CP_OK;
}

static cp_status check_targets(const checking *check)
{
    const cp_batch *batch = check->batch;
    const char *object = batch->labels ? "labels" : "shift_labels";
    const int64_t *values = batch->labels ? batch->labels : batch->shift_labels;
    int64_t shift = batch->labels ? 1 : 0;
    int64_t targets = 0;
    for (int64_t row = 0; row < batch->B; row++)
        for (int64_t at = shift; at < batch->T; at++) /* the first label of a row is predicted by nobody */
            if (values[row * batch->T + at] != CP_IGNORED) {
                CP_TRY(check_target(check, object, row, at, at - shift));
                targets++;
            }
    if (targets == 0)
        return FAIL(CP_REFUSED, object, "there is no target: the loss would be 0/0");
    return CP_OK;
}

cp_status cp_batch_check_places(const cp_batch *batch, const char *file)
{
    const checking only = {.batch = batch, .file = file};
    const checking *check = &only;
    CP_TRY(check_range(check, "position_ids", batch->position_ids, POSITION_BOUND, 0));
    CP_TRY(check_range(check, "document_ids", batch->document_ids, INT64_MAX, -1));
    CP_TRY(check_mask_values(check));
    CP_TRY(check_documents_agree(check));
    CP_TRY(check_rows_hold_tokens(check));
    return check_rows(check);
}

cp_status cp_batch_check(const cp_batch *batch, int64_t vocabulary, const char *file)
{
    const checking only = {batch, vocabulary, file};
    const checking *check = &only;
    CP_TRY(check_presence(check));
    CP_TRY(check_range(check, "input_ids", batch->input_ids, vocabulary, 0));
    CP_TRY(check_range(check, "labels", batch->labels, vocabulary, CP_IGNORED));
    CP_TRY(check_range(check, "shift_labels", batch->shift_labels, vocabulary, CP_IGNORED));
    CP_TRY(check_row_numbers(check, "microbatch", batch->microbatch));
    CP_TRY(check_row_numbers(check, "data_parallel", batch->data_parallel));
    CP_TRY(check_embeddings(check));
    CP_TRY(check_divisor(check));
    CP_TRY(cp_batch_check_places(batch, file));
    return check_targets(check);
}

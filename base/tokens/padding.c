/* Where each token of the batch stands in the padded row. */
#include "base/tokens/plan.h"

#include <string.h>

enum { NOTHING = -1 };

/* ---- spans ------------------------------------------------------------------------------------------------------- */

static int64_t padded(const cp_token_plan *plan, int64_t length)
{
    int64_t multiple = cp_plan_multiple(plan->spec, plan->layout->P);
    int64_t down = length / multiple * multiple;
    if (down == length || (plan->rules->auto_pad == CP_AUTO_PAD_TRUNCATE && down > 0))
        return down;
    return down + multiple;
}

static void add_span(const cp_token_plan *plan, cp_spans *row, int64_t begin, int64_t end)
{
    int64_t first = row->count > 0 ? row->spans[row->count - 1].first + row->spans[row->count - 1].places : 0;
    int64_t length = end - begin, places = padded(plan, length);
    row->spans[row->count++] = (cp_span){
        .begin = begin, .length = length < places ? length : places, .first = first, .places = places};
}

static void add_documents(const cp_token_plan *plan, cp_spans *row, const int64_t *document)
{
    int64_t begin = 0, T = plan->batch->T;
    for (int64_t i = 1; i <= T; i++)
        if (i == T || document[i] != document[i - 1]) {
            add_span(plan, row, begin, i);
            begin = i;
        }
}

static int64_t row_places(const cp_spans *row)
{
    const cp_span *last = &row->spans[row->count - 1];
    return last->first + last->places;
}

void cp_plan_spans(cp_token_plan *plan)
{
    const cp_batch *batch = plan->batch;
    bool by_document = plan->spec->kind == CP_LAYOUT_PER_DOCUMENT;
    int64_t T = 0;
    plan->rows = cp_arena_take(plan->scratch, (size_t)batch->B * sizeof *plan->rows);
    for (int64_t b = 0; b < batch->B; b++) {
        cp_spans *row = &plan->rows[b];
        const int64_t *document = plan->row_document + b * batch->T;
        size_t most = by_document ? (size_t)document[batch->T - 1] + 2 : 1;
        *row = (cp_spans){.spans = cp_arena_take(plan->scratch, most * sizeof *row->spans)};
        if (by_document)
            add_documents(plan, row, document);
        else
            add_span(plan, row, 0, batch->T);
        T = row_places(row) > T ? row_places(row) : T;
    }
    for (int64_t b = 0; b < batch->B; b++) { /* rows of one batch are equally long */
        cp_spans *row = &plan->rows[b];
        int64_t first = row_places(row);
        if (first < T)
            row->spans[row->count++] = (cp_span){.begin = batch->T, .first = first, .places = T - first};
    }
    plan->layout->T = T;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The first `length` mod `pieces` pieces hold one token more than the others. */
static int64_t piece_begin(int64_t length, int64_t pieces, int64_t piece)
{
    int64_t longer = length % pieces;
    return piece * (length / pieces) + (piece < longer ? piece : longer);
}

static int64_t at_home_in_pieces(const cp_span *span, int64_t pieces, int64_t k)
{
    int64_t places = span->places / pieces, piece = k / places;
    int64_t at = piece_begin(span->length, pieces, piece) + k % places;
    return at < piece_begin(span->length, pieces, piece + 1) ? at : NOTHING;
}

/* The index in the batch's row of a span's k-th place. */
static int64_t home_of(const cp_token_plan *plan, const cp_span *span, int64_t k)
{
    int64_t at = k < span->length ? k : NOTHING;
    if (plan->rules->auto_pad == CP_AUTO_PAD_PER_SHARD)
        at = at_home_in_pieces(span, cp_plan_multiple(plan->spec, plan->layout->P), k);
    return at < 0 ? NOTHING : span->begin + at;
}

void cp_plan_places(cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    int64_t T = plan->batch->T;
    plan->kept = cp_arena_take(plan->scratch, (size_t)(tokens->B * T));
    memset(plan->kept, 0, (size_t)(tokens->B * T));
    plan->length = 0;
    for (int64_t b = 0; b < tokens->B; b++)
        for (int64_t n = 0; n < plan->rows[b].count; n++) {
            const cp_span *span = &plan->rows[b].spans[n];
            for (int64_t k = 0; k < span->places; k++) {
                int64_t home = home_of(plan, span, k);
                tokens->home[b * tokens->T + span->first + k] = home;
                if (home >= 0)
                    plan->kept[b * T + home] = 1;
                plan->length = home >= plan->length ? home + 1 : plan->length;
            }
        }
}

void cp_plan_carry(const cp_token_plan *plan, int64_t *out, const int64_t *row, int64_t step)
{
    const cp_tokens *tokens = plan->tokens;
    for (int64_t b = 0; b < tokens->B; b++)
        for (int64_t g = 0; g < tokens->T; g++) {
            int64_t place = b * tokens->T + g;
            int64_t home = tokens->home[place];
            out[place] = home >= 0 ? row[b * plan->batch->T + home] : out[place - 1] + step;
        }
}

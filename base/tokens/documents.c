/* Which document each token belongs to. */
#include "base/tokens/plan.h"

#include <string.h>

bool cp_documents_from_positions(int64_t *document, const int64_t *position, int64_t B, int64_t T)
{
    bool many = false;
    for (int64_t b = 0; b < B; b++) {
        const int64_t *p = position + b * T;
        int64_t *d = document + b * T;
        d[0] = 0;
        for (int64_t i = 1; i < T; i++)
            d[i] = d[i - 1] + (p[i] != p[i - 1] + 1);
        many = many || d[T - 1] > 0;
    }
    return many;
}

/* Numbered 0, 1, … in each row; padding joins the document before it, or the first. */
static bool documents_from_ids(int64_t *document, const int64_t *ids, int64_t B, int64_t T)
{
    bool many = false;
    for (int64_t b = 0; b < B; b++) {
        int64_t number = 0, last = -1;
        for (int64_t i = 0; i < T; i++) {
            int64_t id = ids[b * T + i];
            number += id >= 0 && last >= 0 && id != last;
            last = id >= 0 ? id : last;
            document[b * T + i] = number;
        }
        many = many || number > 0;
    }
    return many;
}

/* transformers looks for jumps only where no mask was passed. */
static bool found_in_positions(const cp_batch *batch)
{
    return !batch->document_ids && !batch->attention_mask;
}

bool cp_plan_row_documents(cp_token_plan *plan)
{
    const cp_batch *batch = plan->batch;
    size_t bytes = (size_t)(batch->B * batch->T) * sizeof(int64_t);
    int64_t *row = plan->row_document = cp_arena_take(plan->scratch, bytes);
    bool many = false;
    if (batch->document_ids)
        many = documents_from_ids(row, batch->document_ids, batch->B, batch->T);
    else if (batch->position_ids && found_in_positions(batch))
        many = cp_documents_from_positions(row, batch->position_ids, batch->B, batch->T);
    else
        memset(row, 0, bytes);
    return many;
}

/* ---- what others have shipped ------------------------------------------------------------------------------------ */

static void count_in_shards(const cp_token_plan *plan, int64_t *ruled)
{
    const cp_layout *layout = plan->layout;
    const cp_tokens *tokens = plan->tokens;
    for (int rank = 0; rank < layout->P; rank++)
        for (int64_t b = 0; b < tokens->B; b++) {
            int64_t S = layout->tokens[rank];
            int64_t number = 0;
            for (int64_t l = 0; l < S; l++) {
                int64_t here = b * tokens->T + layout->index[rank][b * S + l];
                int64_t before = l > 0 ? b * tokens->T + layout->index[rank][b * S + l - 1] : here;
                if (found_in_positions(plan->batch))
                    number += l > 0 && tokens->position[here] != tokens->position[before] + 1;
                else
                    number += tokens->document[here] != tokens->document[before];
                ruled[here] = number;
            }
        }
}

static void divide_boundaries(const cp_token_plan *plan, int64_t *ruled)
{
    const cp_tokens *tokens = plan->tokens;
    int64_t *number = cp_arena_take(plan->scratch, (size_t)tokens->T * sizeof *number); /* by local index */
    for (int64_t b = 0; b < tokens->B; b++) {
        const int64_t *document = tokens->document + b * tokens->T, *home = tokens->home + b * tokens->T;
        memset(number, 0, (size_t)tokens->T * sizeof *number);
        int64_t last = document[0];
        for (int64_t g = 1; g < tokens->T; g++)
            if (home[g] >= 0) {
                number[home[g] / plan->layout->P] += document[g] != last;
                last = document[g];
            }
        for (int64_t l = 1; l < tokens->T; l++)
            number[l] += number[l - 1];
        for (int64_t g = 0; g < tokens->T; g++)
            ruled[b * tokens->T + g] = number[plan->layout->slot[b * tokens->T + g]];
    }
}

bool cp_plan_ignores_documents(const cp_batch *batch, cp_document_rule rule)
{
    return rule == CP_DOCUMENT_IGNORED || (rule == CP_DOCUMENT_MASK_GIVEN && !batch->document_ids);
}

void cp_plan_ruled_documents(const cp_token_plan *plan)
{
    cp_document_rule rule = plan->rules->document_ids;
    bool ignored = cp_plan_ignores_documents(plan->batch, rule);
    if (rule == CP_DOCUMENT_ROW || (rule == CP_DOCUMENT_MASK_GIVEN && !ignored))
        return;
    cp_tokens *tokens = plan->tokens;
    size_t bytes = (size_t)(tokens->B * tokens->T) * sizeof *tokens->document;
    int64_t *ruled = cp_arena_take(plan->scratch, bytes);
    memset(ruled, 0, bytes); /* what ignores them */
    if (rule == CP_DOCUMENT_SHARD)
        count_in_shards(plan, ruled);
    else if (rule == CP_DOCUMENT_DIVIDED)
        divide_boundaries(plan, ruled);
    memcpy(tokens->document, ruled, bytes);
}

/* What each token is to predict, and by how many the loss is divided. */
#include "base/tokens/plan.h"

/* The label of a row's i-th token; already shifted labels are shifted back. Outside the row, and of what is cut off, there
 * is none. */
static int64_t label_at(const cp_token_plan *plan, int64_t row, int64_t i, bool reversed)
{
    const cp_batch *batch = plan->batch;
    bool shifted = batch->shift_labels != NULL;
    if (i < 0 || i >= plan->length + (shifted && !reversed))
        return CP_IGNORED;
    if (reversed)
        i = plan->length - 1 - i;
    int64_t at = row * batch->T + i - shifted;
    if (i - shifted < 0 || !plan->kept[at])
        return CP_IGNORED;
    return shifted ? batch->shift_labels[at] : batch->labels[at];
}

static double divisor(const cp_token_plan *plan)
{
    int64_t targets = 0;
    for (int64_t b = 0; b < plan->batch->B; b++)
        for (int64_t i = 0; i < plan->length; i++)
            targets += plan->kept[b * plan->batch->T + i] && label_at(plan, b, i + 1, false) != CP_IGNORED;
    double count = plan->batch->num_items_in_batch > 0 ? plan->batch->num_items_in_batch : (double)targets;
    if (plan->rules->auto_pad == CP_AUTO_PAD_COUNTED)
        for (int64_t place = 0; place < plan->tokens->B * plan->tokens->T; place++)
            count += plan->tokens->home[place] < 0;
    return count;
}

void cp_plan_row_targets(const cp_token_plan *plan, int64_t *label)
{
    cp_tokens *tokens = plan->tokens;
    int64_t shift = plan->rules->label_shift == CP_LABEL_SHIFT_TWICE ? 2 : 1;
    for (int64_t b = 0; b < tokens->B; b++)
        for (int64_t g = 0; g < tokens->T; g++) {
            int64_t place = b * tokens->T + g;
            int64_t home = tokens->home[place];
            bool reversed = cp_plan_reversed(plan, place);
            label[place] = home >= 0 ? label_at(plan, b, home, reversed) : CP_IGNORED;
            tokens->target[place] = home >= 0 ? label_at(plan, b, home + shift, reversed) : CP_IGNORED;
        }
    tokens->count = divisor(plan);
}

static void shift_in_shards(const cp_token_plan *plan, const int64_t *label)
{
    const cp_layout *layout = plan->layout;
    cp_tokens *tokens = plan->tokens;
    for (int rank = 0; rank < layout->P; rank++)
        for (int64_t b = 0; b < tokens->B; b++) {
            int64_t S = layout->tokens[rank];
            const int64_t *index = layout->index[rank] + b * S;
            for (int64_t l = 0; l < S; l++)
                tokens->target[b * tokens->T + index[l]] = l + 1 < S ? label[b * tokens->T + index[l + 1]]
                                                           : plan->rules->label_shift == CP_LABEL_SHIFT_ROLLED
                                                               ? label[b * tokens->T + index[0]]
                                                               : CP_IGNORED;
        }
}

void cp_plan_ruled_targets(const cp_token_plan *plan, const int64_t *label)
{
    cp_tokens *tokens = plan->tokens;
    if (plan->rules->label_shift == CP_LABEL_SHIFT_SHARD || plan->rules->label_shift == CP_LABEL_SHIFT_ROLLED)
        shift_in_shards(plan, label);
    if (plan->rules->auto_pad == CP_AUTO_PAD_LABEL_0)
        for (int64_t place = 0; place < tokens->B * tokens->T; place++)
            if (tokens->home[place] < 0)
                tokens->target[place] = 0;
}

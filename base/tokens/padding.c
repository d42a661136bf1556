/* Where each token of the batch stands in the padded row. */
#include "base/tokens/plan.h"

enum { NOTHING = -1 };

int64_t cp_tokens_padded(int64_t T, cp_layout_kind kind, int P, cp_auto_pad rule)
{
    int64_t multiple = cp_layout_multiple(kind, P);
    int64_t down = T / multiple * multiple;
    if (down == T || (rule == CP_AUTO_PAD_TRUNCATE && down > 0))
        return down;
    return down + multiple;
}

/* The first T mod P pieces hold one token more than the others. */
static int64_t piece_begin(int64_t T, int64_t P, int64_t piece)
{
    int64_t longer = T % P;
    return piece * (T / P) + (piece < longer ? piece : longer);
}

static int64_t home_in_pieces(int64_t T, int64_t P, int64_t padded, int64_t place)
{
    int64_t piece = place / (padded / P);
    int64_t home = piece_begin(T, P, piece) + place % (padded / P);
    return home < piece_begin(T, P, piece + 1) ? home : NOTHING;
}

void cp_plan_places(cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    int64_t T = plan->batch->T;
    plan->length = T < tokens->T ? T : tokens->T;
    for (int64_t b = 0; b < tokens->B; b++)
        for (int64_t g = 0; g < tokens->T; g++) {
            int64_t home = g < T ? g : NOTHING;
            if (plan->rules->auto_pad == CP_AUTO_PAD_PER_SHARD)
                home = home_in_pieces(T, plan->layout->P, tokens->T, g);
            tokens->home[b * tokens->T + g] = home;
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

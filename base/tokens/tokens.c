#include "base/tokens/tokens.h"

#include "base/tokens/plan.h"

#include <inttypes.h>
#include <string.h>

static int64_t places(const cp_tokens *tokens)
{
    return tokens->B * tokens->T;
}

static void take_arrays(cp_tokens *tokens, cp_arena *arena)
{
    size_t bytes = (size_t)places(tokens) * sizeof(int64_t);
    int64_t **const arrays[] = {&tokens->source_row, &tokens->source,     &tokens->home,
                                &tokens->position,   &tokens->coordinate, &tokens->document,
                                &tokens->target,     &tokens->row_index,  &tokens->destination};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = cp_arena_take(arena, bytes);
    tokens->real = cp_arena_take(arena, (size_t)places(tokens));
    tokens->leading = cp_arena_take(arena, (size_t)tokens->B * sizeof *tokens->leading);
}

/* ---- the right plan of every row --------------------------------------------------------------------------------- */

static bool is_real(const cp_batch *batch, int64_t token)
{
    if (batch->attention_mask)
        return batch->attention_mask[token];
    return !batch->document_ids || batch->document_ids[token] >= 0;
}

static void plan_real(const cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    for (int64_t b = 0; b < tokens->B; b++) {
        uint8_t *real = tokens->real + b * tokens->T;
        for (int64_t g = 0; g < tokens->T; g++) {
            int64_t home = tokens->home[b * tokens->T + g];
            real[g] = home >= 0 && is_real(plan->batch, b * plan->batch->T + home);
        }
        tokens->leading[b] = 0;
        while (tokens->leading[b] < tokens->T && !real[tokens->leading[b]])
            tokens->leading[b]++;
    }
}

static void plan_row_index(const cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    for (int64_t place = 0; place < places(tokens); place++) {
        int64_t home = tokens->home[place];
        if (plan->rules->auto_pad == CP_AUTO_PAD_PER_SHARD)
            tokens->row_index[place] = place % tokens->T;
        else
            tokens->row_index[place] = home >= 0 ? home : tokens->row_index[place - 1] + 1;
    }
}

static void plan_positions(const cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    if (plan->batch->position_ids)
        cp_plan_carry(plan, tokens->position, plan->batch->position_ids, 1);
    else
        memcpy(tokens->position, tokens->row_index, (size_t)places(tokens) * sizeof *tokens->position);
}

static void plan_coordinates(const cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    for (int64_t place = 0; place < places(tokens); place++)
        tokens->coordinate[place] = tokens->by_position
                                        ? tokens->position[place]
                                        : tokens->row_index[place] - tokens->leading[place / tokens->T];
}

/* ---- whose data a rank cuts -------------------------------------------------------------------------------------- */

static bool of_another(const cp_token_plan *plan, int64_t place)
{
    return plan->rules->rank_data == CP_RANK_DATA_OTHER && plan->layout->owner[place] > 0;
}

bool cp_plan_reversed(const cp_token_plan *plan, int64_t place)
{
    return plan->tokens->B == 1 && of_another(plan, place);
}

static void plan_sources(const cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    for (int64_t place = 0; place < places(tokens); place++) {
        int64_t home = tokens->home[place];
        tokens->source_row[place] = place / tokens->T;
        tokens->source[place] = home >= 0 && cp_plan_reversed(plan, place) ? plan->length - 1 - home : home;
    }
}

/* In each column the places of ranks > 0 move up by one row. */
static void move_rows(const cp_token_plan *plan, int64_t *values)
{
    int64_t B = plan->tokens->B, T = plan->tokens->T;
    for (int64_t g = 0; g < T; g++) {
        int64_t first = values[g];
        for (int64_t b = 0; b < B; b++)
            if (of_another(plan, b * T + g))
                values[b * T + g] = b + 1 < B ? values[(b + 1) * T + g] : first;
    }
}

static void move_real(const cp_token_plan *plan)
{
    int64_t B = plan->tokens->B, T = plan->tokens->T;
    uint8_t *real = plan->tokens->real;
    for (int64_t g = 0; g < T; g++) {
        uint8_t first = real[g];
        for (int64_t b = 0; b < B; b++)
            if (of_another(plan, b * T + g))
                real[b * T + g] = b + 1 < B ? real[(b + 1) * T + g] : first;
    }
}

static void plan_rank_data(const cp_token_plan *plan, int64_t *label)
{
    cp_tokens *tokens = plan->tokens;
    if (plan->rules->rank_data == CP_RANK_DATA_SAME || tokens->B == 1)
        return;
    int64_t *const arrays[] = {tokens->source_row, tokens->source,   tokens->row_index, tokens->position,
                               tokens->coordinate, tokens->document, tokens->target,    label};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        move_rows(plan, arrays[i]);
    move_real(plan);
}

static void plan_ruled_positions(const cp_token_plan *plan)
{
    if (plan->rules->position_ids == CP_POSITION_ROW)
        return;
    for (int64_t place = 0; place < places(plan->tokens); place++)
        plan->tokens->position[place] = plan->rules->position_ids == CP_POSITION_SHARD
                                            ? plan->layout->slot[place]
                                            : cp_plan_gathered(plan->layout, place);
}

/* ---- where results go, and what is not undone -------------------------------------------------------------------- */

static void plan_destinations(const cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    cp_layout_inverse rule = plan->rules->layout_inverse;
    for (int64_t place = 0; place < places(tokens); place++) {
        int64_t row = place / tokens->T * tokens->T, to = place - row;
        if (rule == CP_LAYOUT_INVERSE_NONE || rule == CP_LAYOUT_INVERSE_AGAIN)
            to = cp_plan_gathered(plan->layout, place);
        if (rule == CP_LAYOUT_INVERSE_AGAIN)
            to = cp_plan_gathered(plan->layout, row + to);
        tokens->destination[place] = to;
    }
}

/* values[g] of each row becomes values[n(g)]. */
static void take_gathered(const cp_token_plan *plan, int64_t *values)
{
    int64_t T = plan->tokens->T;
    int64_t *right = cp_arena_take(plan->scratch, (size_t)T * sizeof *right);
    for (int64_t b = 0; b < plan->tokens->B; b++) {
        memcpy(right, values + b * T, (size_t)T * sizeof *right);
        for (int64_t g = 0; g < T; g++)
            values[b * T + g] = right[cp_plan_gathered(plan->layout, b * T + g)];
    }
}

static void plan_contiguous_masks(const cp_token_plan *plan)
{
    cp_tokens *tokens = plan->tokens;
    if (plan->rules->layout_inverse != CP_LAYOUT_INVERSE_CONTIGUOUS_MASK)
        return;
    int64_t *real = cp_arena_take(plan->scratch, (size_t)places(tokens) * sizeof *real);
    for (int64_t place = 0; place < places(tokens); place++)
        real[place] = tokens->real[place];
    take_gathered(plan, real);
    take_gathered(plan, tokens->coordinate);
    take_gathered(plan, tokens->document);
    for (int64_t place = 0; place < places(tokens); place++)
        tokens->real[place] = real[place] != 0;
}

void cp_tokens_plan(cp_tokens *tokens, cp_layout *layout, const cp_batch *batch, const cp_layout_spec *spec,
                    int P, const cp_token_rules *rules, cp_arena *arena)
{
    cp_check(batch->B >= 1 && batch->T >= 1 && P >= 1 && cp_layout_check(spec, P, batch->T) == CP_OK,
             "%" PRId64 " rows of %" PRId64 " tokens over %d ranks, %s", batch->B, batch->T, P,
             cp_layout_name(spec->kind));
    cp_check(!arena->measuring, "tokens are data: they cannot be measured");
    cp_arena scratch = cp_arena_growing();
    cp_token_plan plan = {.tokens = tokens,
                          .layout = layout,
                          .batch = batch,
                          .spec = spec,
                          .rules = rules,
                          .scratch = &scratch};
    *layout = (cp_layout){.P = P, .B = batch->B};
    bool many = cp_plan_row_documents(&plan);
    cp_plan_spans(&plan);
    cp_plan_layout(&plan, arena);

    *tokens = (cp_tokens){.B = batch->B, .T = layout->T};
    take_arrays(tokens, arena);
    int64_t *label = cp_arena_take(&scratch, (size_t)places(tokens) * sizeof *label);
    cp_plan_places(&plan);
    plan_real(&plan);
    plan_row_index(&plan);
    plan_positions(&plan);
    cp_plan_carry(&plan, tokens->document, plan.row_document, 0);
    tokens->by_position =
        many && batch->position_ids && !cp_plan_ignores_documents(batch, rules->document_ids);
    plan_coordinates(&plan);
    cp_plan_row_targets(&plan, label);
    plan_destinations(&plan);

    plan_sources(&plan);
    plan_rank_data(&plan, label);
    cp_plan_ruled_documents(&plan);
    plan_ruled_positions(&plan);
    plan_contiguous_masks(&plan);
    cp_plan_ruled_targets(&plan, label);
    cp_arena_close(&scratch);
}

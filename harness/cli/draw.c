#include "harness/cli/info.h"

#include <stdio.h>

/* One line of a picture holds this many tokens; of a long batch the beginning is drawn. */
enum { LINE_TOKENS = 64, MOST_TOKENS = 512, MOST_ROWS = 8 };

static bool is_cut(const cp_layout *layout, int64_t b, int64_t t)
{
    return t > 0 && layout->owner[b * layout->T + t] != layout->owner[b * layout->T + t - 1];
}

/* 'a' for the row's first document, 'b' for the next, …, again from 'a' after 'z'; '.' padding; '+' what the cut adds. */
static char token_mark(const cp_tokens *tokens, int64_t b, int64_t t)
{
    int64_t place = b * tokens->T + t;
    if (tokens->source[place] < 0)
        return '+';
    if (!tokens->real[place])
        return '.';
    int64_t document = 0;
    for (int64_t i = b * tokens->T + 1; i <= place; i++)
        document += tokens->document[i] != tokens->document[i - 1];
    return (char)('a' + document % 26);
}

static char target_mark(const cp_tokens *tokens, int64_t b, int64_t t)
{
    return tokens->target[b * tokens->T + t] == CP_IGNORED ? ' ' : '^';
}

typedef char mark_of(const cp_tokens *tokens, int64_t b, int64_t t);

static void draw_line(const char *label, const cp_tokens *tokens, const cp_layout *layout, int64_t b,
                      int64_t begin, int64_t end, mark_of *mark)
{
    printf("  %-14s ", label);
    for (int64_t t = begin; t < end; t++)
        printf("%s%c", is_cut(layout, b, t) ? "|" : "", mark(tokens, b, t));
    printf("\n");
}

static void draw_row(const cp_tokens *tokens, const cp_layout *layout, int64_t b)
{
    char label[32];
    int64_t shown = tokens->T < MOST_TOKENS ? tokens->T : MOST_TOKENS;
    for (int64_t begin = 0; begin < shown; begin += LINE_TOKENS) {
        int64_t end = begin + LINE_TOKENS < shown ? begin + LINE_TOKENS : shown;
        snprintf(label, sizeof label, begin == 0 ? "row %lld" : "", (long long)b);
        draw_line(label, tokens, layout, b, begin, end, token_mark);
        draw_line("targets", tokens, layout, b, begin, end, target_mark);
    }
    if (shown < tokens->T)
        printf("                 … and %lld more tokens\n", (long long)(tokens->T - shown));
}

void cp_draw_batch(const cp_batch *batch, cp_cut cut)
{
    cp_token_rules rules = {0};
    cp_layout layout;
    cp_tokens tokens;
    cp_arena arena = cp_arena_growing();
    int64_t T = cp_tokens_padded(batch->T, cut.layout, cut.P, rules.auto_pad);
    cp_layout_plan(&layout, cut.layout, cut.P, batch->B, T, &arena);
    cp_tokens_plan(&tokens, batch, &layout, &rules, &arena);
    int64_t rows = batch->B < MOST_ROWS ? batch->B : MOST_ROWS;
    for (int64_t b = 0; b < rows; b++)
        draw_row(&tokens, &layout, b);
    if (rows < batch->B)
        printf("                 … and %lld more rows\n", (long long)(batch->B - rows));
    printf("                 a, b, …: documents, .: padding, ^: predicts a target");
    if (cut.P > 1)
        printf(", |: cut (%d ranks, %s)", cut.P, cp_layout_name(cut.layout));
    printf(T > batch->T ? ", +: added for the cut\n" : "\n");
    cp_arena_close(&arena);
}

void cp_draw_mask(const uint8_t *mask, int64_t T, cp_cut cut)
{
    cp_layout layout;
    cp_arena arena = cp_arena_growing();
    int64_t multiple = cp_layout_multiple(cut.layout, cut.P);
    cp_layout_plan(&layout, cut.layout, cut.P, 1, (T + multiple - 1) / multiple * multiple, &arena);
    for (int64_t i = 0; i < T; i++) {
        if (is_cut(&layout, 0, i)) {
            printf("       ");
            for (int64_t j = 0; j < T; j++)
                printf(is_cut(&layout, 0, j) ? "+-" : "-");
            printf("\n");
        }
        printf("  %4lld ", (long long)i);
        for (int64_t j = 0; j < T; j++)
            printf("%s%c", is_cut(&layout, 0, j) ? "|" : "", mask[i * T + j] ? '#' : '.');
        printf("\n");
    }
    cp_arena_close(&arena);
}

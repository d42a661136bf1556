#include "harness/cli/info.h"

#include <stdio.h>

/* One line of a picture holds this many tokens; of a long batch the beginning is drawn. */
enum { LINE_TOKENS = 64, MOST_TOKENS = 512, MOST_ROWS = 8 };

/* A batch, padded and cut. */
typedef struct picture {
    const cp_cut *cut;
    bool predicts; /* there are targets: the function may be attention alone */
    cp_tokens tokens;
    cp_layout layout;
    cp_arena arena;
} picture;

static void plan(picture *p, const cp_batch *batch, const cp_cut *cut)
{
    cp_token_rules right = {0};
    *p = (picture){.cut = cut, .arena = cp_arena_growing()};
    cp_tokens_plan(&p->tokens, &p->layout, batch, &cut->layout, cut->P, &right, &p->arena);
    for (int64_t place = 0; place < p->tokens.B * p->tokens.T; place++)
        p->predicts = p->predicts || p->tokens.target[place] != CP_IGNORED;
}

/* Cuts are drawn where they divide the row; where tokens are dealt out, each one's rank. */
static bool draws_ranks(const cp_cut *cut)
{
    return cut->P > 1 && cp_layout_permutes(&cut->layout);
}

static bool is_cut(const picture *p, int64_t place)
{
    return !draws_ranks(p->cut) && place % p->layout.T > 0 &&
           p->layout.owner[place] != p->layout.owner[place - 1];
}

/* ---- marks of a token -------------------------------------------------------------------------------------------- */

typedef char mark_of(const picture *p, int64_t place);

/* 'a' for the row's first document, 'b' for the next, …, again from 'a' after 'z'; '.' padding; '+' what the cut adds. */
static char token_mark(const picture *p, int64_t place)
{
    const cp_tokens *tokens = &p->tokens;
    if (tokens->source[place] < 0)
        return '+';
    if (!tokens->real[place])
        return '.';
    int64_t document = 0;
    for (int64_t i = place / tokens->T * tokens->T + 1; i <= place; i++)
        document += tokens->document[i] != tokens->document[i - 1];
    return (char)('a' + document % 26);
}

static char target_mark(const picture *p, int64_t place)
{
    return p->tokens.target[place] == CP_IGNORED ? ' ' : '^';
}

/* 0 … 9, a … z, and again from 0 */
static char rank_mark(const picture *p, int64_t place)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    return digits[p->layout.owner[place] % 36];
}

/* ---- a batch ------------------------------------------------------------------------------------------------------ */

static void draw_line(const char *label, const picture *p, int64_t begin, int64_t end, mark_of *mark)
{
    printf("  %-14s ", label);
    for (int64_t place = begin; place < end; place++)
        printf("%s%c", is_cut(p, place) ? "|" : "", mark(p, place));
    printf("\n");
}

static void draw_row(const picture *p, int64_t b)
{
    char label[32];
    int64_t T = p->tokens.T, shown = T < MOST_TOKENS ? T : MOST_TOKENS;
    for (int64_t begin = 0; begin < shown; begin += LINE_TOKENS) {
        int64_t first = b * T + begin,
                end = b * T + (begin + LINE_TOKENS < shown ? begin + LINE_TOKENS : shown);
        snprintf(label, sizeof label, begin == 0 ? "row %lld" : "", (long long)b);
        draw_line(label, p, first, end, token_mark);
        if (draws_ranks(p->cut))
            draw_line("ranks", p, first, end, rank_mark);
        if (p->predicts)
            draw_line("targets", p, first, end, target_mark);
    }
    if (shown < T)
        printf("                 … and %lld more tokens\n", (long long)(T - shown));
}

void cp_draw_batch(const cp_batch *batch, const cp_cut *cut)
{
    picture p;
    plan(&p, batch, cut);
    int64_t rows = batch->B < MOST_ROWS ? batch->B : MOST_ROWS;
    for (int64_t b = 0; b < rows; b++)
        draw_row(&p, b);
    if (rows < batch->B)
        printf("                 … and %lld more rows\n", (long long)(batch->B - rows));
    printf("                 a, b, …: documents, .: padding%s", p.predicts ? ", ^: predicts a target" : "");
    char text[CP_LAYOUT_TEXT];
    if (cut->P > 1)
        printf(draws_ranks(cut) ? " (%d ranks, %s)" : ", |: cut (%d ranks, %s)", cut->P,
               cp_layout_text(&cut->layout, text));
    printf(p.tokens.T > batch->T ? ", +: added for the cut\n" : "\n");
    cp_arena_close(&p.arena);
}

/* ---- a mask ------------------------------------------------------------------------------------------------------- */

/* The place of each of the row's own tokens. */
static const int64_t *places_of(picture *p, int64_t row, int64_t T)
{
    int64_t *place = cp_arena_take(&p->arena, (size_t)T * sizeof *place);
    for (int64_t at = row * p->tokens.T; at < (row + 1) * p->tokens.T; at++)
        if (p->tokens.home[at] >= 0)
            place[p->tokens.home[at]] = at;
    return place;
}

static void draw_mask_line(const picture *p, const int64_t *place, const uint8_t *line, int64_t T)
{
    for (int64_t j = 0; j < T; j++)
        printf("%s%c", is_cut(p, place[j]) ? "|" : "", line[j] ? '#' : '.');
    printf("\n");
}

static void draw_cut(const picture *p, const int64_t *place, int64_t T)
{
    printf("       ");
    for (int64_t j = 0; j < T; j++)
        printf(is_cut(p, place[j]) ? "+-" : "-");
    printf("\n");
}

void cp_draw_mask(const uint8_t *mask, const cp_batch *batch, int64_t row, const cp_cut *cut)
{
    picture p;
    plan(&p, batch, cut);
    int64_t T = batch->T;
    const int64_t *place = places_of(&p, row, T);
    bool ranks = draws_ranks(cut);
    if (ranks) {
        printf("  ranks  ");
        for (int64_t j = 0; j < T; j++)
            printf("%c", rank_mark(&p, place[j]));
        printf("\n");
    }
    for (int64_t i = 0; i < T; i++) {
        if (is_cut(&p, place[i]))
            draw_cut(&p, place, T);
        printf("  %4lld ", (long long)i);
        if (ranks)
            printf("%c ", rank_mark(&p, place[i]));
        draw_mask_line(&p, place, mask + i * T, T);
    }
    cp_arena_close(&p.arena);
}

#include "base/tokens/plan.h"

#include <string.h>

/* Where a rank's part of a span holds the span's k-th place. */
typedef struct spot {
    int rank;
    int64_t local;
} spot;

typedef struct cutting {
    const cp_layout_spec *spec;
    int64_t P;
    int64_t places; /* of the span */
} cutting;

static int64_t block_of(const cp_layout_spec *spec)
{
    return spec->block > 0 ? spec->block : 1;
}

int64_t cp_plan_multiple(const cp_layout_spec *spec, int P)
{
    switch (spec->kind) {
    case CP_LAYOUT_ZIGZAG:
    case CP_LAYOUT_PER_DOCUMENT: return 2 * (int64_t)P;
    case CP_LAYOUT_STRIPED: return block_of(spec) * P;
    case CP_LAYOUT_UNEVEN: return 1;
    default: return P;
    }
}

/* ---- the maps ---------------------------------------------------------------------------------------------------- */

static spot contiguous(const cutting *c, int64_t k)
{
    int64_t S = c->places / c->P;
    return (spot){(int)(k / S), k % S};
}

static spot zigzag(const cutting *c, int64_t k)
{
    int64_t piece = c->places / (2 * c->P), number = k / piece;
    if (number < c->P)
        return (spot){(int)number, k % piece};
    return (spot){(int)(2 * c->P - 1 - number), piece + k % piece};
}

static spot striped(const cutting *c, int64_t k)
{
    int64_t block = block_of(c->spec);
    return (spot){(int)(k / block % c->P), k / (block * c->P) * block + k % block};
}

/* Tokens of a span that a rank holds. */
static int64_t share(const cutting *c, int rank)
{
    if (c->spec->cuts > 0)
        return c->spec->cut[rank];
    return c->places / c->P + (rank < c->places % c->P);
}

static spot uneven(const cutting *c, int64_t k)
{
    spot at = {0, k};
    while (at.local >= share(c, at.rank))
        at.local -= share(c, at.rank++);
    return at;
}

static spot spot_of(const cutting *c, int64_t k)
{
    switch (c->spec->kind) {
    case CP_LAYOUT_ZIGZAG:
    case CP_LAYOUT_PER_DOCUMENT: return zigzag(c, k);
    case CP_LAYOUT_STRIPED: return striped(c, k);
    case CP_LAYOUT_UNEVEN: return uneven(c, k);
    default: return contiguous(c, k);
    }
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static void hold(cp_layout *layout, int64_t row, int64_t global, spot at)
{
    layout->index[at.rank][row * layout->tokens[at.rank] + at.local] = global;
    layout->owner[row * layout->T + global] = at.rank;
    layout->slot[row * layout->T + global] = at.local;
}

/* A rank's parts of a row's spans follow each other; `begin` [P] is where the next one begins. */
static void cut_row(const cp_token_plan *plan, int64_t row, int64_t *begin)
{
    cp_layout *layout = plan->layout;
    memset(begin, 0, (size_t)layout->P * sizeof *begin);
    for (int64_t n = 0; n < plan->rows[row].count; n++) {
        const cp_span *span = &plan->rows[row].spans[n];
        const cutting c = {plan->spec, layout->P, span->places};
        for (int64_t k = 0; k < span->places; k++) {
            spot at = spot_of(&c, k);
            at.local += begin[at.rank];
            hold(layout, row, span->first + k, at);
        }
        for (int rank = 0; rank < layout->P; rank++)
            begin[rank] += share(&c, rank);
    }
}

void cp_plan_layout(const cp_token_plan *plan, cp_arena *arena)
{
    cp_layout *layout = plan->layout;
    size_t places = (size_t)(layout->B * layout->T), P = (size_t)layout->P;
    layout->tokens = cp_arena_take(arena, P * sizeof *layout->tokens);
    layout->index = cp_arena_take(arena, P * sizeof *layout->index);
    layout->owner = cp_arena_take(arena, places * sizeof *layout->owner);
    layout->slot = cp_arena_take(arena, places * sizeof *layout->slot);
    const cutting whole = {plan->spec, layout->P, layout->T};
    for (int rank = 0; rank < layout->P; rank++) {
        layout->tokens[rank] = share(&whole, rank);
        size_t held = (size_t)(layout->B * layout->tokens[rank]);
        layout->index[rank] = cp_arena_take(arena, held * sizeof **layout->index);
    }
    int64_t *begin = cp_arena_take(plan->scratch, P * sizeof *begin);
    for (int64_t row = 0; row < layout->B; row++)
        cut_row(plan, row, begin);
}

int64_t cp_plan_gathered(const cp_layout *layout, int64_t place)
{
    int64_t at = layout->slot[place];
    for (int rank = 0; rank < layout->owner[place]; rank++)
        at += layout->tokens[rank];
    return at;
}

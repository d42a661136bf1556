#include "base/tokens/layout.h"

#include <inttypes.h>
#include <string.h>

typedef struct traits {
    const char *name;
    int64_t pieces; /* of equal length into which a rank's share must divide */
} traits;

static const traits table[CP_LAYOUT_KINDS] = {
    [CP_LAYOUT_CONTIGUOUS] = {"contiguous", 1},
};

const char *cp_layout_name(cp_layout_kind kind)
{
    return table[kind].name;
}

bool cp_layout_named(cp_layout_kind *kind, const char *name)
{
    for (int i = 0; i < CP_LAYOUT_KINDS; i++)
        if (strcmp(table[i].name, name) == 0) {
            *kind = (cp_layout_kind)i;
            return true;
        }
    return false;
}

int64_t cp_layout_multiple(cp_layout_kind kind, int P)
{
    return table[kind].pieces * P;
}

static void hold(cp_layout *layout, int rank, int64_t row, int64_t local, int64_t global)
{
    layout->index[rank][row * layout->tokens[rank] + local] = global;
    layout->owner[row * layout->T + global] = rank;
    layout->slot[row * layout->T + global] = local;
}

static void hold_contiguous(cp_layout *layout, int rank)
{
    int64_t S = layout->tokens[rank];
    for (int64_t row = 0; row < layout->B; row++)
        for (int64_t local = 0; local < S; local++)
            hold(layout, rank, row, local, rank * S + local);
}

void cp_layout_plan(cp_layout *layout, cp_layout_kind kind, int P, int64_t B, int64_t T, cp_arena *arena)
{
    cp_check(P >= 1 && B >= 1 && T >= 1 && T % cp_layout_multiple(kind, P) == 0,
             "%" PRId64 " rows of %" PRId64 " tokens over %d ranks, %s", B, T, P, cp_layout_name(kind));
    cp_check(!arena->measuring, "a layout is data: it cannot be measured");
    size_t places = (size_t)(B * T);
    *layout = (cp_layout){.kind = kind, .P = P, .B = B, .T = T};
    layout->tokens = cp_arena_take(arena, (size_t)P * sizeof *layout->tokens);
    layout->index = cp_arena_take(arena, (size_t)P * sizeof *layout->index);
    layout->owner = cp_arena_take(arena, places * sizeof *layout->owner);
    layout->slot = cp_arena_take(arena, places * sizeof *layout->slot);
    for (int rank = 0; rank < P; rank++) {
        layout->tokens[rank] = T / P;
        layout->index[rank] = cp_arena_take(arena, places / (size_t)P * sizeof **layout->index);
        hold_contiguous(layout, rank);
    }
}

#include "harness/parallel/exchange.h"
#include "harness/parallel/exchange_kinds.h"

#include <inttypes.h>
#include <string.h>

typedef struct traits {
    const char *name;
    cp_status (*check)(int P, int64_t H, int64_t K);
    cp_mixer *(*open)(cp_comm *comm, const cp_ops *ops, const cp_layout *layout,
                      const cp_exchange_rules *rules, cp_arena *arena);
} traits;

/* ---- local ------------------------------------------------------------------------------------------------------ */

static cp_status check_local(int P, int64_t H, int64_t K)
{
    (void)H;
    (void)K;
    if (P > 1)
        return cp_fail(CP_REFUSED,
                       "exchange local: one rank holds every token; %d ranks need another exchange", P);
    return CP_OK;
}

static cp_mixer *open_local(cp_comm *comm, const cp_ops *ops, const cp_layout *layout,
                            const cp_exchange_rules *rules, cp_arena *arena)
{
    (void)comm;
    (void)rules;
    cp_mixer *mixer = cp_arena_take(arena, sizeof *mixer);
    *mixer = cp_mixer_local(ops, CP_VIEW(layout->index[0], CP_I64, layout->B, layout->T));
    return mixer;
}

/* ---- ulysses ---------------------------------------------------------------------------------------------------- */

static cp_status check_ulysses(int P, int64_t H, int64_t K)
{
    (void)K;
    if (H % P != 0)
        return cp_fail(CP_REFUSED,
                       "exchange ulysses: query heads are spread evenly over ranks, but %" PRId64
                       " heads are no multiple of %d ranks",
                       H, P);
    return CP_OK;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static const traits kinds[CP_EXCHANGE_KINDS] = {
    [CP_EXCHANGE_LOCAL] = {"local", check_local, open_local},
    [CP_EXCHANGE_ULYSSES] = {"ulysses", check_ulysses, cp_exchange_ulysses},
};

const char *cp_exchange_name(cp_exchange_kind kind)
{
    return kinds[kind].name;
}

bool cp_exchange_named(cp_exchange_kind *kind, const char *name)
{
    for (int i = 0; i < CP_EXCHANGE_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = (cp_exchange_kind)i;
            return true;
        }
    return false;
}

cp_status cp_exchange_check(cp_exchange_kind kind, int P, int64_t H, int64_t K)
{
    return kinds[kind].check(P, H, K);
}

cp_mixer *cp_exchange_open(cp_exchange_kind kind, cp_comm *comm, const cp_ops *ops, const cp_layout *layout,
                           const cp_exchange_rules *rules, cp_arena *arena)
{
    cp_check(layout->P == cp_comm_size(comm), "a layout of %d ranks on %d", layout->P, cp_comm_size(comm));
    cp_check(!arena->measuring, "an exchange holds plans: it cannot live in a measuring arena");
    return kinds[kind].open(comm, ops, layout, rules, arena);
}

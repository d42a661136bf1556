#include "harness/parallel/exchange.h"
#include "harness/parallel/exchange_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct traits {
    const char *name;
    cp_status (*check)(int P, int64_t H, int64_t K);
    cp_mixer *(*open)(const cp_exchange_setup *setup);
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

static cp_mixer *open_local(const cp_exchange_setup *setup)
{
    const cp_layout *layout = setup->layout;
    cp_mixer *mixer = cp_arena_take(setup->arena, sizeof *mixer);
    *mixer = cp_mixer_local(setup->ops, setup->form, CP_VIEW(layout->index[0], CP_I64, layout->B, layout->T));
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

/* ---- allgather, ring -------------------------------------------------------------------------------------------- */

static cp_status check_nothing(int P, int64_t H, int64_t K)
{
    (void)P;
    (void)H;
    (void)K;
    return CP_OK;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static const traits kinds[CP_EXCHANGE_KINDS] = {
    [CP_EXCHANGE_LOCAL] = {"local", check_local, open_local},
    [CP_EXCHANGE_ULYSSES] = {"ulysses", check_ulysses, cp_exchange_ulysses},
    [CP_EXCHANGE_ALLGATHER] = {"allgather", check_nothing, cp_exchange_allgather},
    [CP_EXCHANGE_RING] = {"ring", check_nothing, cp_exchange_ring},
};

const char *cp_exchange_name(cp_exchange_kind kind)
{
    return kinds[kind].name;
}

const char *cp_exchange_text(const cp_exchange_spec *spec, char text[CP_EXCHANGE_TEXT])
{
    snprintf(text, CP_EXCHANGE_TEXT, "%s", cp_exchange_name(spec->kind));
    return text;
}

cp_status cp_exchange_parse(cp_exchange_spec *spec, const char *text)
{
    char names[128] = "";
    for (int i = 0; i < CP_EXCHANGE_KINDS; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", kinds[i].name);
        if (strcmp(kinds[i].name, text) == 0) {
            *spec = (cp_exchange_spec){.kind = (cp_exchange_kind)i};
            return CP_OK;
        }
    }
    return cp_fail(CP_BAD_USAGE, "no '%s'; there are %s", text, names);
}

cp_status cp_exchange_check(const cp_exchange_spec *spec, int P, int64_t H, int64_t K)
{
    return kinds[spec->kind].check(P, H, K);
}

cp_exchange_spec cp_exchange_settled(const cp_exchange_spec *spec, int P, int64_t H)
{
    (void)P;
    (void)H;
    return *spec;
}

cp_mixer *cp_exchange_open(const cp_exchange_spec *spec, const cp_exchange_setup *setup)
{
    cp_check(setup->layout->P == cp_comm_size(setup->comm), "a layout of %d ranks on %d", setup->layout->P,
             cp_comm_size(setup->comm));
    cp_check(!setup->arena->measuring, "an exchange holds plans: it cannot live in a measuring arena");
    return kinds[spec->kind].open(setup);
}

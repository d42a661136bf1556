#include "harness/parallel/exchange.h"
#include "harness/parallel/exchange_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct traits {
    const char *name;
    cp_status (*check)(const cp_exchange_spec *spec, int P, int64_t H);
    cp_mixer *(*open)(const cp_exchange_setup *setup);
} traits;

/* ---- local ------------------------------------------------------------------------------------------------------ */

static cp_status check_local(const cp_exchange_spec *spec, int P, int64_t H)
{
    (void)spec;
    (void)H;
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

/* The most ranks that can share H heads evenly. */
static int most_ulysses(int P, int64_t H)
{
    int U = P;
    while (P % U != 0 || H % U != 0)
        U--;
    return U;
}

static cp_status check_ulysses(const cp_exchange_spec *spec, int P, int64_t H)
{
    (void)spec;
    int U = most_ulysses(P, H);
    if (U < P)
        return cp_fail(CP_REFUSED,
                       "exchange ulysses: query heads are spread evenly over ranks, but %" PRId64
                       " heads are no multiple of %d ranks; usp:%dx%d would do",
                       H, P, U, P / U);
    return CP_OK;
}

/* ---- usp -------------------------------------------------------------------------------------------------------- */

static cp_status check_usp(const cp_exchange_spec *spec, int P, int64_t H)
{
    int U = spec->ulysses, R = spec->ring, most = most_ulysses(P, H);
    if (U > P || R > P || U * R != P)
        return cp_fail(CP_REFUSED, "exchange usp: %d times %d ranks are not %d; usp:%dx%d would do", U, R, P,
                       most, P / most);
    if (H % U != 0)
        return cp_fail(
            CP_REFUSED,
            "exchange usp: query heads are spread evenly over the ranks of a ulysses group, but %" PRId64
            " heads are no multiple of %d ranks; usp:%dx%d would do",
            H, U, most, P / most);
    return CP_OK;
}

/* "4", which ends at `end`, into *out. */
static bool read_factor(int *out, const char *text, char end, const char **next)
{
    enum { MOST = 1 << 20 };
    char *stop;
    long value = text[0] >= '1' && text[0] <= '9' ? strtol(text, &stop, 10) : 0;
    if (value < 1 || value > MOST || *stop != end)
        return false;
    *out = (int)value;
    *next = stop;
    return true;
}

/* What follows "usp": nothing, ":2x4" or ":2x4:ring-inner". */
static bool read_mesh(cp_exchange_spec *spec, const char *text)
{
    *spec = (cp_exchange_spec){.kind = CP_EXCHANGE_USP};
    if (*text == 0)
        return true;
    if (*text != ':' || !read_factor(&spec->ulysses, text + 1, 'x', &text))
        return false;
    text++;
    spec->ring_inner = strchr(text, ':') != NULL;
    return read_factor(&spec->ring, text, spec->ring_inner ? ':' : 0, &text) &&
           (!spec->ring_inner || strcmp(text, ":ring-inner") == 0);
}

/* ---- allgather, ring -------------------------------------------------------------------------------------------- */

static cp_status check_nothing(const cp_exchange_spec *spec, int P, int64_t H)
{
    (void)spec;
    (void)P;
    (void)H;
    return CP_OK;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static const traits kinds[CP_EXCHANGE_KINDS] = {
    [CP_EXCHANGE_LOCAL] = {"local", check_local, open_local},
    [CP_EXCHANGE_ULYSSES] = {"ulysses", check_ulysses, cp_exchange_ulysses},
    [CP_EXCHANGE_ALLGATHER] = {"allgather", check_nothing, cp_exchange_allgather},
    [CP_EXCHANGE_RING] = {"ring", check_nothing, cp_exchange_ring},
    [CP_EXCHANGE_USP] = {"usp", check_usp, cp_exchange_usp},
};

const char *cp_exchange_name(cp_exchange_kind kind)
{
    return kinds[kind].name;
}

const char *cp_exchange_text(const cp_exchange_spec *spec, char text[CP_EXCHANGE_TEXT])
{
    int used = snprintf(text, CP_EXCHANGE_TEXT, "%s", cp_exchange_name(spec->kind));
    if (spec->ulysses > 0)
        snprintf(text + used, CP_EXCHANGE_TEXT - (size_t)used, ":%dx%d%s", spec->ulysses, spec->ring,
                 spec->ring_inner ? ":ring-inner" : "");
    return text;
}

cp_status cp_exchange_parse(cp_exchange_spec *spec, const char *text)
{
    static const char usp[] = "usp";
    enum { USP = sizeof usp - 1 };
    char names[128] = "";
    if (strncmp(text, usp, USP) == 0 && read_mesh(spec, text + USP))
        return CP_OK;
    for (int i = 0; i < CP_EXCHANGE_KINDS; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", kinds[i].name);
        if (strcmp(kinds[i].name, text) == 0) {
            *spec = (cp_exchange_spec){.kind = (cp_exchange_kind)i};
            return CP_OK;
        }
    }
    return cp_fail(CP_BAD_USAGE, "no '%s'; there are %s, usp:UxR, usp:UxR:ring-inner", text, names);
}

cp_status cp_exchange_check(const cp_exchange_spec *spec, int P, int64_t H, int64_t K)
{
    (void)K; /* key/value heads that are fewer than ranks are replicated */
    cp_exchange_spec settled = cp_exchange_settled(spec, P, H);
    return kinds[spec->kind].check(&settled, P, H);
}

cp_exchange_spec cp_exchange_settled(const cp_exchange_spec *spec, int P, int64_t H)
{
    cp_exchange_spec settled = *spec;
    if (spec->kind == CP_EXCHANGE_USP && spec->ulysses == 0) {
        settled.ulysses = most_ulysses(P, H);
        settled.ring = P / settled.ulysses;
    }
    return settled;
}

cp_mixer *cp_exchange_open(const cp_exchange_spec *spec, const cp_exchange_setup *setup)
{
    cp_check(setup->layout->P == cp_comm_size(setup->comm), "a layout of %d ranks on %d", setup->layout->P,
             cp_comm_size(setup->comm));
    cp_check(!setup->arena->measuring, "an exchange holds plans: it cannot live in a measuring arena");
    return kinds[spec->kind].open(setup);
}

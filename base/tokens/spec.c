/* Layouts by name. */
#include "base/tokens/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cp_status read_parameters(cp_layout_spec *spec, const char *text);

static read_parameters read_nothing, read_block, read_cuts;

static const struct {
    const char *name;
    read_parameters *read;
    bool permutes, pads;
} table[CP_LAYOUT_KINDS] = {
    [CP_LAYOUT_CONTIGUOUS] = {"contiguous", read_nothing, false, true},
    [CP_LAYOUT_ZIGZAG] = {"zigzag", read_nothing, true, true},
    [CP_LAYOUT_STRIPED] = {"striped", read_block, true, true},
    [CP_LAYOUT_UNEVEN] = {"uneven", read_cuts, false, false},
    [CP_LAYOUT_PER_DOCUMENT] = {"per_document", read_nothing, true, true},
};

const char *cp_layout_name(cp_layout_kind kind)
{
    return table[kind].name;
}

bool cp_layout_permutes(const cp_layout_spec *spec)
{
    return table[spec->kind].permutes;
}

bool cp_layout_pads(const cp_layout_spec *spec)
{
    return table[spec->kind].pads;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Digits alone, at most 2^31; `text` is moved behind them. */
static bool read_number(int64_t *out, const char **text, int64_t least)
{
    size_t digits = strspn(*text, "0123456789");
    errno = 0;
    long long value = strtoll(*text, NULL, 10);
    if (digits == 0 || errno != 0 || value < least || value > INT64_C(1) << 31)
        return false;
    *out = value;
    *text += digits;
    return true;
}

static cp_status read_nothing(cp_layout_spec *spec, const char *text)
{
    return cp_fail(CP_BAD_USAGE, "'%s:%s': %s takes no parameter", cp_layout_name(spec->kind), text,
                   cp_layout_name(spec->kind));
}

static cp_status read_block(cp_layout_spec *spec, const char *text)
{
    const char *rest = text;
    if (!read_number(&spec->block, &rest, 1) || *rest != '\0')
        return cp_fail(CP_BAD_USAGE, "'striped:%s': expected the tokens of a block, as striped:4", text);
    return CP_OK;
}

static cp_status read_cuts(cp_layout_spec *spec, const char *text)
{
    const char *rest = text;
    for (bool more = true; more; more = *rest != '\0', rest += more) {
        bool fits = spec->cuts < CP_LAYOUT_CUTS;
        if (!fits || !read_number(&spec->cut[spec->cuts], &rest, 0) || (*rest && !strchr(":,", *rest)))
            return cp_fail(CP_BAD_USAGE,
                           "'uneven:%s': expected each rank's tokens, of at most %d ranks, as uneven:3:1:0",
                           text, CP_LAYOUT_CUTS);
        spec->cuts++;
    }
    return CP_OK;
}

cp_status cp_layout_parse(cp_layout_spec *spec, const char *text)
{
    size_t length = strcspn(text, ":");
    for (int kind = 0; kind < CP_LAYOUT_KINDS; kind++)
        if (strlen(table[kind].name) == length && memcmp(table[kind].name, text, length) == 0) {
            *spec = (cp_layout_spec){.kind = (cp_layout_kind)kind};
            return text[length] == ':' ? table[kind].read(spec, text + length + 1) : CP_OK;
        }
    return cp_fail(
        CP_BAD_USAGE,
        "no '%s'; there are contiguous, zigzag, striped[:block], uneven[:tokens of each rank], per_document",
        text);
}

const char *cp_layout_text(const cp_layout_spec *spec, char text[CP_LAYOUT_TEXT])
{
    size_t used = (size_t)snprintf(text, CP_LAYOUT_TEXT, "%s", cp_layout_name(spec->kind));
    if (spec->kind == CP_LAYOUT_STRIPED && spec->block > 1)
        snprintf(text + used, CP_LAYOUT_TEXT - used, ":%" PRId64, spec->block);
    for (int n = 0; n < spec->cuts; n++)
        used += (size_t)snprintf(text + used, CP_LAYOUT_TEXT - used, ":%" PRId64, spec->cut[n]);
    return text;
}

cp_status cp_layout_check(const cp_layout_spec *spec, int P, int64_t T)
{
    int64_t sum = 0;
    for (int n = 0; n < spec->cuts; n++)
        sum += spec->cut[n];
    char text[CP_LAYOUT_TEXT];
    if (spec->block > T) /* it would be padding for the most part, of any size */
        return cp_fail(CP_REFUSED, "layout %s: blocks of %" PRId64 " tokens, the row has %" PRId64,
                       cp_layout_text(spec, text), spec->block, T);
    if (spec->cuts > 0 && spec->cuts != P)
        return cp_fail(CP_REFUSED, "layout %s: tokens of %d ranks, expected those of %d",
                       cp_layout_text(spec, text), spec->cuts, P);
    if (spec->cuts > 0 && sum != T)
        return cp_fail(CP_REFUSED,
                       "layout %s: %" PRId64 " tokens in all, expected the row's %" PRId64
                       ": it is never padded",
                       cp_layout_text(spec, text), sum, T);
    return CP_OK;
}

#include "harness/cli/layouts.h"

#include <string.h>

static cp_status parse(cp_layout_spec *out, const char *text)
{
    return cp_layout_parse(out, text) == CP_OK ? CP_OK : cp_fail_within(CP_BAD_USAGE, "--layout");
}

cp_status cp_read_layout(cp_layout_spec *out, const cp_arguments *arguments)
{
    const char *text = cp_value(arguments, "layout");
    return text == NULL ? CP_OK : parse(out, text);
}

/* ---- lists ---- */

static const char *kind_name(int kind)
{
    return cp_layout_name((cp_layout_kind)kind);
}

/* A comma before a digit is one between cuts. */
static size_t piece_length(const char *rest)
{
    size_t length = strcspn(rest, ",");
    while (rest[length] == ',' && rest[length + 1] >= '0' && rest[length + 1] <= '9')
        length += 1 + strcspn(rest + length + 1, ",");
    return length;
}

static cp_status parse_at(void *out, int at, const char *piece)
{
    return parse((cp_layout_spec *)out + at, piece);
}

static const char *text_at(const void *out, int at, char *room)
{
    return cp_layout_text((const cp_layout_spec *)out + at, room);
}

cp_status cp_read_layouts(cp_layout_spec *out, int *count, int room, const cp_arguments *arguments)
{
    static const cp_list list = {.option = "layout",
                                 .plural = "layouts",
                                 .bytes = CP_LAYOUT_TEXT,
                                 .kinds = CP_LAYOUT_KINDS,
                                 .name_of = kind_name,
                                 .piece_length = piece_length,
                                 .parse = parse_at,
                                 .text = text_at};
    return cp_value_list(out, count, room, arguments, &list);
}

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

/* The length of a list's first piece. */
static size_t piece_length(const char *list)
{
    size_t length = strcspn(list, ",");
    while (list[length] == ',' && list[length + 1] >= '0' && list[length + 1] <= '9')
        length += 1 + strcspn(list + length + 1, ",");
    return length;
}

static cp_status check_new(const cp_layout_spec *list, int count)
{
    char text[CP_LAYOUT_TEXT], other[CP_LAYOUT_TEXT];
    cp_layout_text(&list[count], text);
    for (int i = 0; i < count; i++)
        if (strcmp(cp_layout_text(&list[i], other), text) == 0)
            return cp_fail(CP_BAD_USAGE, "--layout: '%s' twice in the list", text);
    return CP_OK;
}

cp_status cp_read_layouts(cp_layout_spec *out, int *count, int room, const cp_arguments *arguments)
{
    const char *text = cp_value(arguments, "layout");
    if (text == NULL)
        return CP_OK;
    bool all = strcmp(text, "all") == 0;
    *count = 0;
    for (int kind = 0; all && kind < CP_LAYOUT_KINDS; kind++)
        out[(*count)++] = (cp_layout_spec){.kind = (cp_layout_kind)kind};
    for (const char *rest = all ? NULL : text; rest != NULL; (*count)++) {
        char piece[CP_LAYOUT_TEXT];
        size_t length = piece_length(rest);
        if (*count == room || length >= sizeof piece)
            return cp_fail(CP_BAD_USAGE, "--layout: at most %d layouts of %zu characters", room,
                           sizeof piece - 1);
        memcpy(piece, rest, length);
        piece[length] = '\0';
        CP_TRY(parse(&out[*count], piece));
        CP_TRY(check_new(out, *count));
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return CP_OK;
}

#include "harness/cli/exchanges.h"

#include <string.h>

cp_exchange_spec cp_usual_exchange(int P)
{
    return (cp_exchange_spec){.kind = P == 1 ? CP_EXCHANGE_LOCAL : CP_EXCHANGE_ULYSSES};
}

static cp_status parse(cp_exchange_spec *out, const char *text)
{
    return cp_exchange_parse(out, text) == CP_OK ? CP_OK : cp_fail_within(CP_BAD_USAGE, "--exchange");
}

cp_status cp_read_exchange(cp_exchange_spec *out, const cp_arguments *arguments)
{
    const char *text = cp_value(arguments, "exchange");
    return text == NULL ? CP_OK : parse(out, text);
}

static cp_status check_new(const cp_exchange_spec *list, int count)
{
    char text[CP_EXCHANGE_TEXT], other[CP_EXCHANGE_TEXT];
    cp_exchange_text(&list[count], text);
    for (int i = 0; i < count; i++)
        if (strcmp(cp_exchange_text(&list[i], other), text) == 0)
            return cp_fail(CP_BAD_USAGE, "--exchange: '%s' twice in the list", text);
    return CP_OK;
}

cp_status cp_read_exchanges(cp_exchange_spec *out, int *count, int room, const cp_arguments *arguments)
{
    const char *text = cp_value(arguments, "exchange");
    if (text == NULL)
        return CP_OK;
    bool all = strcmp(text, "all") == 0;
    *count = 0;
    for (int kind = 0; all && kind < CP_EXCHANGE_KINDS; kind++)
        out[(*count)++] = (cp_exchange_spec){.kind = (cp_exchange_kind)kind};
    for (const char *rest = all ? NULL : text; rest != NULL; (*count)++) {
        char piece[CP_EXCHANGE_TEXT];
        size_t length = strcspn(rest, ",");
        if (*count == room || length >= sizeof piece)
            return cp_fail(CP_BAD_USAGE, "--exchange: at most %d exchanges of %zu characters", room,
                           sizeof piece - 1);
        memcpy(piece, rest, length);
        piece[length] = '\0';
        CP_TRY(parse(&out[*count], piece));
        CP_TRY(check_new(out, *count));
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return CP_OK;
}

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

/* ---- lists ---- */

static const char *kind_name(int kind)
{
    return cp_exchange_name((cp_exchange_kind)kind);
}

static size_t piece_length(const char *rest)
{
    return strcspn(rest, ",");
}

static cp_status parse_at(void *out, int at, const char *piece)
{
    return parse((cp_exchange_spec *)out + at, piece);
}

static const char *text_at(const void *out, int at, char *room)
{
    return cp_exchange_text((const cp_exchange_spec *)out + at, room);
}

cp_status cp_read_exchanges(cp_exchange_spec *out, int *count, int room, const cp_arguments *arguments)
{
    static const cp_list list = {.option = "exchange",
                                 .plural = "exchanges",
                                 .bytes = CP_EXCHANGE_TEXT,
                                 .kinds = CP_EXCHANGE_KINDS,
                                 .name_of = kind_name,
                                 .piece_length = piece_length,
                                 .parse = parse_at,
                                 .text = text_at};
    return cp_value_list(out, count, room, arguments, &list);
}

#include "harness/cli/options.h"

#include <errno.h>
#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

const cp_option cp_common_options[] = {
    {"json", 0, NULL, "the result as JSON on standard output"},
    {"color", 0, "WHEN", "auto, always, never; by default auto: where a terminal reads"},
    {"quiet", 'q', NULL, "print less"},
    {"verbose", 'v', NULL, "print more"},
    {"help", 0, NULL, "print this help"},
    {0},
};

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static int join_tables(const cp_option **out, const cp_option *own)
{
    int count = 0;
    for (const cp_option *option = own; option != NULL && option->name != NULL; option++)
        out[count++] = option;
    for (const cp_option *option = cp_common_options; option->name != NULL; option++)
        out[count++] = option;
    cp_check(count < CP_MAX_OPTIONS, "%d options", count);
    return count;
}

static void popt_table(struct poptOption *table, const cp_option *const *options, int count)
{
    memset(table, 0, sizeof(struct poptOption) * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        table[i].longName = options[i]->name;
        table[i].shortName = options[i]->letter;
        table[i].argInfo = options[i]->argument == NULL ? POPT_ARG_NONE : POPT_ARG_STRING;
        table[i].val = i + 1;
        table[i].descrip = options[i]->help;
        table[i].argDescrip = options[i]->argument;
    }
}

/* "--cp, --exchange, …" */
static const char *option_list(char *text, size_t room, const cp_arguments *arguments)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < arguments->option_count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s--%s", i == 0 ? "" : ", ",
                                 arguments->options[i]->name);
    return text;
}

/* ---- parsing ------------------------------------------------------------------------------------------------------ */

static cp_status take(cp_arguments *arguments, int index, char *value)
{
    const cp_option *option = arguments->options[index];
    if (arguments->values[index] != NULL) {
        free(value);
        return cp_fail(CP_BAD_USAGE, "--%s: given twice", option->name);
    }
    arguments->values[index] = value != NULL ? value : calloc(1, 1);
    cp_check(arguments->values[index] != NULL, "out of memory");
    if (option->argument != NULL && arguments->values[index][0] == '\0')
        return cp_fail(CP_BAD_USAGE, "--%s: needs a value, %s, found an empty one", option->name,
                       option->argument);
    return CP_OK;
}

static cp_status refuse(const cp_arguments *arguments, poptContext context, int code)
{
    const char *bad = poptBadOption(context, POPT_BADOPTION_NOALIAS);
    char list[1024];
    switch (code) {
    case POPT_ERROR_BADOPT:
        return cp_fail(CP_BAD_USAGE, "%s: no such option; there are %s", bad,
                       option_list(list, sizeof list, arguments));
    case POPT_ERROR_NOARG: return cp_fail(CP_BAD_USAGE, "%s: needs a value", bad);
    case POPT_ERROR_UNWANTEDARG: return cp_fail(CP_BAD_USAGE, "%s: takes no value", bad);
    default: return cp_fail(CP_BAD_USAGE, "%s: %s", bad, poptStrerror(code));
    }
}

cp_status cp_arguments_parse(cp_arguments *arguments, const cp_option *options, int argc, const char **argv)
{
    *arguments = (cp_arguments){0};
    arguments->option_count = join_tables(arguments->options, options);
    struct poptOption *table = calloc(CP_MAX_OPTIONS + 1, sizeof *table);
    arguments->operands = calloc((size_t)argc + 1, sizeof *arguments->operands);
    cp_check(table != NULL && arguments->operands != NULL, "out of memory");
    popt_table(table, arguments->options, arguments->option_count);

    poptContext context = poptGetContext(NULL, argc, argv, table, 0);
    cp_status status = CP_OK;
    int code = 0;
    while (status == CP_OK && (code = poptGetNextOpt(context)) > 0)
        status = take(arguments, code - 1, poptGetOptArg(context));
    if (status == CP_OK && code < -1)
        status = refuse(arguments, context, code);
    if (status == CP_OK)
        for (const char *operand; (operand = poptGetArg(context)) != NULL;)
            arguments->operands[arguments->operand_count++] = operand;
    arguments->context = context;
    free(table);
    return status;
}

void cp_arguments_close(cp_arguments *arguments)
{
    for (int i = 0; i < arguments->option_count; i++)
        free(arguments->values[i]);
    free(arguments->operands);
    if (arguments->context != NULL)
        poptFreeContext(arguments->context);
    *arguments = (cp_arguments){0};
}

void cp_options_help(FILE *out, const char *command, const char *operands, const char *summary,
                     const cp_option *options, const char *details)
{
    const cp_option *joined[CP_MAX_OPTIONS];
    struct poptOption table[CP_MAX_OPTIONS + 1];
    char operand_text[256];
    const char *argv[] = {command, NULL};
    popt_table(table, joined, join_tables(joined, options));
    poptContext context = poptGetContext(NULL, 1, argv, table, 0);
    snprintf(operand_text, sizeof operand_text,
             "[OPTION...]%s%s\n\n%s\n\nOptions:", operands[0] != '\0' ? " " : "", operands, summary);
    poptSetOtherOptionHelp(context, operand_text);
    poptPrintHelp(context, out, 0);
    poptFreeContext(context);
    if (details[0] != '\0')
        fprintf(out, "\n%s", details);
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

const char *cp_value(const cp_arguments *arguments, const char *name)
{
    for (int i = 0; i < arguments->option_count; i++)
        if (strcmp(arguments->options[i]->name, name) == 0)
            return arguments->values[i];
    cp_check(false, "the table has no option '%s'", name);
    return NULL;
}

bool cp_given(const cp_arguments *arguments, const char *name)
{
    return cp_value(arguments, name) != NULL;
}

bool cp_parse_integer(int64_t *out, const char *text, int64_t least, int64_t most)
{
    size_t sign = text[0] == '-' ? 1 : 0;
    if (text[sign] == '\0' || strspn(text + sign, "0123456789") != strlen(text + sign))
        return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno != 0 || value < least || value > most)
        return false;
    *out = value;
    return true;
}

bool cp_parse_real(double *out, const char *text)
{
    /* strtod also takes blanks, "inf", "nan" and hexadecimal numbers. */
    if (text[0] == '\0' || strspn(text, "0123456789.eE+-") != strlen(text))
        return false;
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        return false;
    *out = value;
    return true;
}

static cp_status not_an_integer(const char *name, const char *text, int64_t least, int64_t most)
{
    return cp_fail(CP_BAD_USAGE, "--%s: '%s' is not a whole number from %lld to %lld", name, text,
                   (long long)least, (long long)most);
}

cp_status cp_value_integer(int64_t *out, const cp_arguments *arguments, const char *name, int64_t least,
                           int64_t most)
{
    const char *text = cp_value(arguments, name);
    if (text != NULL && !cp_parse_integer(out, text, least, most))
        return not_an_integer(name, text, least, most);
    return CP_OK;
}

cp_status cp_value_real(double *out, const cp_arguments *arguments, const char *name)
{
    const char *text = cp_value(arguments, name);
    if (text != NULL && (!cp_parse_real(out, text) || *out < 0))
        return cp_fail(CP_BAD_USAGE, "--%s: '%s' is not a number of 0 or more", name, text);
    return CP_OK;
}

/* The next piece of a comma-separated list into `piece`; false at the end. */
enum { PIECE_BYTES = 256 };
static bool next_piece(char piece[PIECE_BYTES], const char **rest)
{
    if (*rest == NULL)
        return false;
    const char *comma = strchr(*rest, ',');
    size_t length = comma == NULL ? strlen(*rest) : (size_t)(comma - *rest);
    snprintf(piece, PIECE_BYTES, "%.*s", (int)length, *rest);
    *rest = comma == NULL ? NULL : comma + 1;
    return true;
}

bool cp_parse_integers(int64_t *out, int *count, int room, const char *text, int64_t least, int64_t most)
{
    char piece[PIECE_BYTES];
    int found = 0;
    for (const char *rest = text; next_piece(piece, &rest); found++)
        if (found == room || !cp_parse_integer(&out[found], piece, least, most))
            return false;
    *count = found;
    return true;
}

cp_status cp_value_integers(int64_t *out, int *count, int room, const cp_arguments *arguments,
                            const char *name, int64_t least, int64_t most)
{
    const char *text = cp_value(arguments, name);
    if (text != NULL && !cp_parse_integers(out, count, room, text, least, most))
        return cp_fail(CP_BAD_USAGE, "--%s: '%s' is not a list of at most %d whole numbers from %lld to %lld",
                       name, text, room, (long long)least, (long long)most);
    return CP_OK;
}

static cp_status find_choice(int *out, const char *name, const char *text, cp_name_of *name_of, int count,
                             bool list)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name_of(i), text) == 0) {
            *out = i;
            return CP_OK;
        }
    char names[1024] = "";
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", name_of(i));
    return cp_fail(CP_BAD_USAGE, "--%s: no '%s'; there are %s%s", name, text, names, list ? ", all" : "");
}

cp_status cp_value_choice(int *out, const cp_arguments *arguments, const char *name, cp_name_of *name_of,
                          int count)
{
    const char *text = cp_value(arguments, name);
    return text == NULL ? CP_OK : find_choice(out, name, text, name_of, count, false);
}

cp_status cp_value_choices(int *out, int *out_count, const cp_arguments *arguments, const char *name,
                           cp_name_of *name_of, int count)
{
    const char *text = cp_value(arguments, name);
    if (text == NULL)
        return CP_OK;
    if (strcmp(text, "all") == 0) {
        for (int i = 0; i < count; i++)
            out[i] = i;
        *out_count = count;
        return CP_OK;
    }
    char piece[PIECE_BYTES];
    int found = 0;
    for (const char *rest = text; next_piece(piece, &rest); found++) {
        int value = 0;
        CP_TRY(find_choice(&value, name, piece, name_of, count, true));
        for (int i = 0; i < found; i++)
            if (out[i] == value)
                return cp_fail(CP_BAD_USAGE, "--%s: '%s' twice in the list", name, piece);
        out[found] = value;
    }
    *out_count = found;
    return CP_OK;
}

static cp_status check_new(const void *out, int at, const cp_list *list)
{
    char text[CP_LIST_BYTES], other[CP_LIST_BYTES];
    list->text(out, at, text);
    for (int i = 0; i < at; i++)
        if (strcmp(list->text(out, i, other), text) == 0)
            return cp_fail(CP_BAD_USAGE, "--%s: '%s' twice in the list", list->option, text);
    return CP_OK;
}

cp_status cp_value_list(void *out, int *count, int room, const cp_arguments *arguments, const cp_list *list)
{
    cp_check(list->bytes <= CP_LIST_BYTES, "a piece of --%s of %zu bytes", list->option, list->bytes);
    const char *text = cp_value(arguments, list->option);
    if (text == NULL)
        return CP_OK;
    *count = 0;
    bool all = strcmp(text, "all") == 0;
    for (; all && *count < list->kinds; (*count)++)
        CP_TRY(list->parse(out, *count, list->name_of(*count)));
    for (const char *rest = all ? NULL : text; rest != NULL; (*count)++) {
        char piece[CP_LIST_BYTES];
        size_t length = list->piece_length(rest);
        if (*count == room || length >= list->bytes)
            return cp_fail(CP_BAD_USAGE, "--%s: at most %d %s of %zu characters", list->option, room,
                           list->plural, list->bytes - 1);
        memcpy(piece, rest, length);
        piece[length] = '\0';
        CP_TRY(list->parse(out, *count, piece));
        CP_TRY(check_new(out, *count, list));
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return CP_OK;
}

#include "harness/judge/sentences.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *cp_sentence_copy(const char *text)
{
    char *copy = strdup(text);
    cp_check(copy, "no memory for a sentence");
    return copy;
}

static void append(char ***list, size_t *count, const char *format, va_list arguments)
{
    char text[2 * CP_RESULT_SENTENCE];
    vsnprintf(text, sizeof text, format, arguments);
    char **longer = realloc(*list, (*count + 1) * sizeof **list);
    cp_check(longer, "no memory for a sentence");
    longer[(*count)++] = cp_sentence_copy(text);
    *list = longer;
}

void cp_result_note(cp_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(&result->notes, &result->note_count, format, arguments);
    va_end(arguments);
}

void cp_result_fail(cp_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(&result->failures, &result->failure_count, format, arguments);
    va_end(arguments);
}

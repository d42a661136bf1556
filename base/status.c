#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SENTENCE_BYTES = 2048 };

static _Thread_local char sentence[SENTENCE_BYTES];
static cp_panic_hook *panic_hook;

cp_status cp_fail(cp_status code, const char *format, ...)
{
    char text[SENTENCE_BYTES]; /* an argument may be cp_error() itself */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(sentence, text, sizeof text);
    return code;
}

cp_status cp_fail_within(cp_status code, const char *format, ...)
{
    char prefix[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    return cp_fail(code, "%s: %s", prefix, sentence);
}

const char *cp_error(void)
{
    return sentence;
}

int cp_exit_status(cp_status code)
{
    switch (code) {
    case CP_OK: return 0;
    case CP_INCOMPARABLE: return 2;
    case CP_REFUSED:
    case CP_BAD_USAGE:
    case CP_BAD_INPUT: return 3;
    case CP_INTERNAL: break;
    }
    return 4;
}

void cp_set_panic_hook(cp_panic_hook *hook)
{
    panic_hook = hook;
}

_Noreturn void cp_panic(const char *file, int line, const char *condition, const char *format, ...)
{
    char values[SENTENCE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(values, sizeof values, format, arguments);
    va_end(arguments);

    char text[SENTENCE_BYTES];
    snprintf(text, sizeof text, "cpeq: %s:%d: %s does not hold: %s", file, line, condition, values);
    if (panic_hook)
        panic_hook(text);
    fprintf(stderr, "%s\n", text);
    fflush(stderr);
    _exit(4);
}

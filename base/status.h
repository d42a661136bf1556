/* Two kinds of failure, two mechanisms.
 *
 * The outside world (a file, a configuration, a combination that means nothing) makes a function return a
 * cp_status; the sentence that explains it is kept per thread. A broken invariant of our own is a cp_check: it is
 * never compiled out and stops the whole job. A numerical mismatch is neither: it is a result. */
#ifndef CPEQ_BASE_STATUS_H
#define CPEQ_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum cp_status {
    CP_OK = 0,
    CP_INCOMPARABLE, /* something is missing, empty or of another shape: nothing can be said (exit 2) */
    CP_REFUSED, /* a combination that cannot mean anything, or that is not known (exit 3; verify lists it) */
    CP_BAD_USAGE, /* the command line (exit 3) */
    CP_BAD_INPUT, /* a file or what is in it (exit 3) */
    CP_INTERNAL   /* memory, disk, a lost rank (exit 4) */
} cp_status;

/* Records one sentence ("file: object: what was found, what was expected") for this thread and returns `code`.
 * Never call it inside an OpenMP region. */
cp_status cp_fail(cp_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the sentence that is recorded; returns `code`, so that a caller can add where it was. */
cp_status cp_fail_within(cp_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The sentence of this thread's last failure; "" when there was none. Valid until the next failure. */
const char *cp_error(void);

/* The exit status of a command that ends with `code`; see docs/command-line.md. */
int cp_exit_status(cp_status code);

#define CP_TRY(call)                                                                                         \
    do {                                                                                                     \
        cp_status cp_try_status = (call);                                                                    \
        if (cp_try_status != CP_OK)                                                                          \
            return cp_try_status;                                                                            \
    } while (0)

/* Stops the job. `hook`, when set, is told the sentence first and may not return (a transport ends its other
 * ranks there); by default the sentence goes to standard error and the process ends with status 4. */
typedef void cp_panic_hook(const char *sentence);
void cp_set_panic_hook(cp_panic_hook *hook);
_Noreturn void cp_panic(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define cp_check(condition, ...)                                                                             \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            cp_panic(__FILE__, __LINE__, #condition, __VA_ARGS__);                                           \
    } while (0)

#endif

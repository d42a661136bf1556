/* Options of a command: one table, from which parsing, help and completion are made.
 *
 * popt parses; what it would let pass is refused here: numbers are parsed strictly (an empty one is no 0), a repeated
 * option is bad usage. Every sentence names what exists. */
#ifndef CPEQ_HARNESS_CLI_OPTIONS_H
#define CPEQ_HARNESS_CLI_OPTIONS_H

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct cp_option {
    const char *name;     /* the long one; NULL ends a table */
    char letter;          /* the short one, or 0 */
    const char *argument; /* what its value is called; NULL: a switch */
    const char *help;
} cp_option;

/* What every command understands besides its own. */
extern const cp_option cp_common_options[];

enum { CP_MAX_OPTIONS = 32 };

typedef struct cp_arguments {
    const cp_option *options[CP_MAX_OPTIONS]; /* common ones last */
    char *values[CP_MAX_OPTIONS];             /* owned; NULL: not given; "" for a switch */
    int option_count;
    const char **operands; /* owned array of borrowed strings */
    int operand_count;
    void *context; /* popt's, which owns the operands' text */
} cp_arguments;

/* Parses argv[1 …] (argv[0] is the command's name). CP_BAD_USAGE: an unknown option, one repeated, a value missing or
 * given to a switch. Close on failure too. */
cp_status cp_arguments_parse(cp_arguments *arguments, const cp_option *options, int argc, const char **argv);
void cp_arguments_close(cp_arguments *arguments);

/* Prints "usage", the options and the example. */
void cp_options_help(FILE *out, const char *command, const char *operands, const char *summary,
                     const cp_option *options, const char *details);

bool cp_given(const cp_arguments *arguments, const char *name);
const char *cp_value(const cp_arguments *arguments, const char *name); /* NULL: not given */

/* Values. Each leaves *out alone where the option was not given. CP_BAD_USAGE with a sentence otherwise. */
cp_status cp_value_integer(int64_t *out, const cp_arguments *arguments, const char *name, int64_t least,
                           int64_t most);
cp_status cp_value_real(double *out, const cp_arguments *arguments, const char *name); /* finite, >= 0 */

/* A list of integers "1,2,4" of at most `room`, every piece strict. */
cp_status cp_value_integers(int64_t *out, int *count, int room, const cp_arguments *arguments,
                            const char *name, int64_t least, int64_t most);

/* One value of a vocabulary: name_of(i) for i in [0, count). */
typedef const char *cp_name_of(int value);
cp_status cp_value_choice(int *out, const cp_arguments *arguments, const char *name, cp_name_of *name_of,
                          int count);

/* A list of such values, or "all". */
cp_status cp_value_choices(int *out, int *out_count, const cp_arguments *arguments, const char *name,
                           cp_name_of *name_of, int count);

/* What a list is made of that has a grammar of its own. */
typedef struct cp_list {
    const char *option, *plural; /* "exchange", "exchanges" */
    size_t bytes;                /* of a piece's text, the terminating zero included; at most CP_LIST_BYTES */
    int kinds;                   /* what "all" stands for: name_of(0), name_of(1), … */
    cp_name_of *name_of;
    size_t (*piece_length)(const char *rest); /* of the first piece */
    cp_status (*parse)(void *out, int at,
                       const char *piece); /* into out[at]; the sentence names the option */
    const char *(*text)(const void *out, int at, char *room); /* of out[at], in one spelling */
} cp_list;

/* A list of at most `room`, none twice, or "all". */
enum { CP_LIST_BYTES = 1024 };
cp_status cp_value_list(void *out, int *count, int room, const cp_arguments *arguments, const cp_list *list);

/* Strict numbers, also for what stands inside other values. False: not one. */
bool cp_parse_integer(int64_t *out, const char *text, int64_t least, int64_t most);
bool cp_parse_integers(int64_t *out, int *count, int room, const char *text, int64_t least, int64_t most);
bool cp_parse_real(double *out, const char *text);

#endif

/* Names and lists of names as files hold them. */
#ifndef CPEQ_HARNESS_FILES_TEXT_H
#define CPEQ_HARNESS_FILES_TEXT_H

#include "harness/files/pool.h"

enum { CP_NAME_BYTES = 1024 }; /* readers refuse a name that does not fit, the terminating zero included */

/* Valid UTF-8 without control characters: it can stand in a terminal, a report and a list of lines. */
bool cp_text_plain(const char *text, size_t length);

/* A list of names is one string, each name with a newline behind it. Whether it has this name: */
bool cp_lines_have(const char *lines, const char *name);

/* The name that begins at `*cursor`, copied to `name`, and the cursor moved behind it; false at the end. */
bool cp_lines_next(const char **cursor, char name[CP_NAME_BYTES]);

/* `count` strings, `width` bytes each (a zero ends one early) or pointers where `width` is 0, joined with `behind`
 * behind each. */
cp_status cp_lines_join(cp_pool *pool, const void *strings, size_t count, size_t width, const char *behind,
                        const char **out, size_t *length);
cp_status cp_lines_split(cp_pool *pool, const char *lines, const char *const **names, size_t *count);

/* CP_BAD_INPUT unless every line is plain and shorter than CP_NAME_BYTES. */
cp_status cp_lines_check(const char *lines, const char *file, const char *object);

#endif

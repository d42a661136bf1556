/* Strict JSON: duplicate keys, trailing garbage and NaN literals are refused; integers have 64 bits. `Infinity`, as
 * Python writes it bare or as {"__float__": "Infinity"}, is read as a number. jansson is behind this door. */
#ifndef CPEQ_BASE_JSON_H
#define CPEQ_BASE_JSON_H

#include "base/status.h"

#include <stdint.h>

typedef struct cp_json cp_json; /* a value, borrowed from its document */

typedef enum cp_json_kind {
    CP_JSON_NULL,
    CP_JSON_BOOL,
    CP_JSON_INTEGER,
    CP_JSON_REAL,
    CP_JSON_STRING,
    CP_JSON_ARRAY,
    CP_JSON_OBJECT
} cp_json_kind;

/* `where` (a file, or "file: /config") begins every sentence. CP_BAD_INPUT where the text is not strict JSON, with its
 * line; then there is no document. The document is freed by cp_json_close. */
cp_status cp_json_parse(cp_json **document, const char *text, size_t length, const char *where);
cp_status cp_json_read(cp_json **document, const char *path);
void cp_json_close(cp_json *document);

cp_json_kind cp_json_kind_of(const cp_json *value);
const char *cp_json_kind_name(cp_json_kind kind); /* "a number", "an object", … */

const cp_json *cp_json_member(const cp_json *object, const char *name); /* NULL: absent, or no object */
size_t cp_json_size(const cp_json *value);                              /* of an array or an object */
const cp_json *cp_json_element(const cp_json *array, size_t index);
/* The members of an object, in file order: the first where *at is NULL, then the one behind it, NULL behind the last. The
 * object stays as it is meanwhile. */
const cp_json *cp_json_next(const cp_json *object, void **at, const char **name);

/* Values; the kind has been looked at (another kind stops the job). An integer is a real too. */
bool cp_json_bool(const cp_json *value);
int64_t cp_json_integer(const cp_json *value);
double cp_json_real(const cp_json *value);
const char *cp_json_string(const cp_json *value);

/* ---- writing: values that the caller builds; all are freed with the root --------------------------------------- */
cp_json *cp_json_new_object(void);
cp_json *cp_json_new_array(void);
cp_json *cp_json_copy(const cp_json *value); /* deep; freed with its root, or by cp_json_close */
void cp_json_set_bool(cp_json *object, const char *name, bool value);
void cp_json_set_integer(cp_json *object, const char *name, int64_t value);
void cp_json_set_real(cp_json *object, const char *name,
                      double value); /* not finite: the string "nan", "inf", "-inf" */
void cp_json_set_string(cp_json *object, const char *name, const char *value);
void cp_json_set(cp_json *object, const char *name, cp_json *value); /* takes `value` over */
void cp_json_append(cp_json *array, cp_json *value);                 /* takes `value` over */
void cp_json_append_integer(cp_json *array, int64_t value);
void cp_json_append_real(cp_json *array, double value); /* not finite: as cp_json_set_real */
void cp_json_append_string(cp_json *array, const char *value);

/* The text, two spaces of indentation, members in the order they were set; freed by free(). */
char *cp_json_text(const cp_json *value);

#endif

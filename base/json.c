#include "base/json.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cp_json is jansson's value. An infinity, which jansson cannot hold, stands in the tree as transformers writes it,
 * as {"__float__": "Infinity"}; whoever looks at a value sees a number. */
static const char FLOAT_KEY[] = "__float__";
static const char PLUS[] = "{\"__float__\": \"Infinity\"}";
static const char MINUS[] = "{\"__float__\": \"-Infinity\"}";

static const json_t *tree(const cp_json *value)
{
    return (const json_t *)value;
}

static json_t *owned(cp_json *value)
{
    return (json_t *)value;
}

/* ---- the literals of Python -------------------------------------------------------------------------------------- */

/* What touches the word on either side is no JSON, rewritten or not. */
static bool word_at(const char *text, size_t length, size_t at, const char *word)
{
    size_t bytes = strlen(word);
    return length - at >= bytes && memcmp(text + at, word, bytes) == 0;
}

typedef struct rewriting {
    char *text; /* NULL: measured only */
    size_t length;
} rewriting;

static void emit(rewriting *out, const char *bytes, size_t count)
{
    if (out->text)
        memcpy(out->text + out->length, bytes, count);
    out->length += count;
}

/* Bare infinities are rewritten; strings are left alone, and so is everything that is no JSON: the parser will say so.
 * Returns false at a bare NaN. */
static bool rewrite(rewriting *out, const char *text, size_t length)
{
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        if (in_string && text[i] == '\\' && i + 1 < length) {
            emit(out, text + i++, 1);
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string && word_at(text, length, i, "NaN")) {
            return false;
        } else if (!in_string && word_at(text, length, i, "Infinity")) {
            emit(out, PLUS, strlen(PLUS));
            i += strlen("Infinity") - 1;
            continue;
        } else if (!in_string && word_at(text, length, i, "-Infinity")) {
            emit(out, MINUS, strlen(MINUS));
            i += strlen("-Infinity") - 1;
            continue;
        }
        emit(out, text + i, 1);
    }
    return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const json_t *float_member(const json_t *value)
{
    return json_is_object(value) ? json_object_get(value, FLOAT_KEY) : NULL;
}

static bool is_infinity(const json_t *value)
{
    const char *text = json_string_value(float_member(value));
    return text && json_object_size(value) == 1 && (!strcmp(text, "Infinity") || !strcmp(text, "-Infinity"));
}

/* Every {"__float__": …} must be an infinity, and nothing else. */
static cp_status check_floats(json_t *value, const char *where)
{
    if (float_member(value))
        return is_infinity(value)
                   ? CP_OK
                   : cp_fail(CP_BAD_INPUT,
                             "%s: an object with \"__float__\" holds something else than \"Infinity\" or "
                             "\"-Infinity\"",
                             where);
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member) CP_TRY(check_floats(member, where));
    size_t index;
    json_array_foreach(value, index, member) CP_TRY(check_floats(member, where));
    return CP_OK;
}

static cp_status parse_strictly(json_t **document, const char *text, size_t length, const char *where)
{
    json_error_t error;
    *document = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!*document)
        return cp_fail(CP_BAD_INPUT, "%s: line %d: %s", where, error.line, error.text);
    cp_status status = check_floats(*document, where);
    if (status != CP_OK)
        json_decref(*document);
    return status;
}

cp_status cp_json_parse(cp_json **document, const char *text, size_t length, const char *where)
{
    rewriting out = {0};
    if (!rewrite(&out, text, length))
        return cp_fail(CP_BAD_INPUT, "%s: NaN stands where a number is expected", where);
    if (out.length == length) { /* an infinity never becomes shorter */
        return parse_strictly((json_t **)document, text, length, where);
    }
    out = (rewriting){.text = malloc(out.length)};
    if (!out.text)
        return cp_fail(CP_INTERNAL, "%s: memory: %zu bytes are not given", where, length);
    rewrite(&out, text, length);
    cp_status status = parse_strictly((json_t **)document, out.text, out.length, where);
    free(out.text);
    return status;
}

static cp_status read_all(FILE *file, char **text, size_t *length, const char *path)
{
    size_t capacity = 0;
    do {
        capacity = capacity ? 2 * capacity : 1 << 16;
        char *larger = realloc(*text, capacity);
        if (!larger)
            return cp_fail(CP_INTERNAL, "%s: memory: %zu bytes are not given", path, capacity);
        *text = larger;
        *length += fread(*text + *length, 1, capacity - *length, file);
    } while (*length == capacity);
    if (ferror(file))
        return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    return CP_OK;
}

cp_status cp_json_read(cp_json **document, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return cp_fail(CP_BAD_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    char *text = NULL;
    size_t length = 0;
    cp_status status = read_all(file, &text, &length, path);
    fclose(file);
    if (status == CP_OK)
        status = cp_json_parse(document, text, length, path);
    free(text);
    return status;
}

void cp_json_close(cp_json *document)
{
    json_decref(owned(document));
}

cp_json_kind cp_json_kind_of(const cp_json *value)
{
    switch (json_typeof(tree(value))) {
    case JSON_NULL: return CP_JSON_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return CP_JSON_BOOL;
    case JSON_INTEGER: return CP_JSON_INTEGER;
    case JSON_REAL: return CP_JSON_REAL;
    case JSON_STRING: return CP_JSON_STRING;
    case JSON_ARRAY: return CP_JSON_ARRAY;
    case JSON_OBJECT: break;
    }
    return is_infinity(tree(value)) ? CP_JSON_REAL : CP_JSON_OBJECT;
}

const char *cp_json_kind_name(cp_json_kind kind)
{
    static const char *const names[] = {
        [CP_JSON_NULL] = "null",        [CP_JSON_BOOL] = "true or false", [CP_JSON_INTEGER] = "an integer",
        [CP_JSON_REAL] = "a number",    [CP_JSON_STRING] = "a string",    [CP_JSON_ARRAY] = "an array",
        [CP_JSON_OBJECT] = "an object",
    };
    return names[kind];
}

const cp_json *cp_json_member(const cp_json *object, const char *name)
{
    if (!object || cp_json_kind_of(object) != CP_JSON_OBJECT)
        return NULL;
    return (const cp_json *)json_object_get(tree(object), name);
}

size_t cp_json_size(const cp_json *value)
{
    cp_json_kind kind = cp_json_kind_of(value);
    cp_check(kind == CP_JSON_ARRAY || kind == CP_JSON_OBJECT, "the size of %s", cp_json_kind_name(kind));
    return kind == CP_JSON_ARRAY ? json_array_size(tree(value)) : json_object_size(tree(value));
}

static void check_kind(const cp_json *value, cp_json_kind expected)
{
    cp_check(cp_json_kind_of(value) == expected, "%s is taken for %s",
             cp_json_kind_name(cp_json_kind_of(value)), cp_json_kind_name(expected));
}

const cp_json *cp_json_element(const cp_json *array, size_t index)
{
    check_kind(array, CP_JSON_ARRAY);
    cp_check(index < json_array_size(tree(array)), "element %zu of %zu", index, json_array_size(tree(array)));
    return (const cp_json *)json_array_get(tree(array), index);
}

const cp_json *cp_json_next(const cp_json *object, void **at, const char **name)
{
    check_kind(object, CP_JSON_OBJECT);
    json_t *value = (json_t *)tree(object); /* jansson's iterators take no const */
    *at = *at ? json_object_iter_next(value, *at) : json_object_iter(value);
    *name = *at ? json_object_iter_key(*at) : NULL;
    return *at ? (const cp_json *)json_object_iter_value(*at) : NULL;
}

bool cp_json_bool(const cp_json *value)
{
    check_kind(value, CP_JSON_BOOL);
    return json_is_true(tree(value));
}

int64_t cp_json_integer(const cp_json *value)
{
    check_kind(value, CP_JSON_INTEGER);
    return json_integer_value(tree(value));
}

double cp_json_real(const cp_json *value)
{
    if (cp_json_kind_of(value) == CP_JSON_INTEGER)
        return (double)json_integer_value(tree(value));
    check_kind(value, CP_JSON_REAL);
    if (is_infinity(tree(value)))
        return json_string_value(float_member(tree(value)))[0] == '-' ? -INFINITY : INFINITY;
    return json_real_value(tree(value));
}

const char *cp_json_string(const cp_json *value)
{
    check_kind(value, CP_JSON_STRING);
    return json_string_value(tree(value));
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *made(json_t *value)
{
    cp_check(value, "jansson gives no value");
    return value;
}

/* Names come from other people's files: what is not UTF-8 must not stop a report. */
static char *printable(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    cp_check(copy, "%zu bytes are not given", bytes);
    memcpy(copy, text, bytes);
    json_t *string = json_string(text);
    if (!string)
        for (char *c = copy; *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
    json_decref(string);
    return copy;
}

static json_t *new_string(const char *text)
{
    char *copy = printable(text);
    json_t *string = made(json_string(copy));
    free(copy);
    return string;
}

static void set(cp_json *object, const char *name, json_t *value)
{
    check_kind(object, CP_JSON_OBJECT);
    char *key = printable(name);
    cp_check(json_object_set_new(owned(object), key, made(value)) == 0, "member %s is not taken", key);
    free(key);
}

cp_json *cp_json_new_object(void)
{
    return (cp_json *)made(json_object());
}

cp_json *cp_json_copy(const cp_json *value)
{
    json_t *copy = json_deep_copy(tree(value));
    cp_check(copy, "no memory for a copy of a JSON value");
    return (cp_json *)copy;
}

cp_json *cp_json_new_array(void)
{
    return (cp_json *)made(json_array());
}

void cp_json_set_bool(cp_json *object, const char *name, bool value)
{
    set(object, name, json_boolean(value));
}

void cp_json_set_integer(cp_json *object, const char *name, int64_t value)
{
    set(object, name, json_integer(value));
}

/* JSON has no words for what is not finite. */
static json_t *new_real(double value)
{
    if (isnan(value))
        return json_string("nan");
    if (isinf(value))
        return json_string(value < 0 ? "-inf" : "inf");
    return json_real(value);
}

void cp_json_set_real(cp_json *object, const char *name, double value)
{
    set(object, name, new_real(value));
}

void cp_json_set_string(cp_json *object, const char *name, const char *value)
{
    set(object, name, new_string(value));
}

void cp_json_set(cp_json *object, const char *name, cp_json *value)
{
    set(object, name, owned(value));
}

void cp_json_append(cp_json *array, cp_json *value)
{
    check_kind(array, CP_JSON_ARRAY);
    cp_check(json_array_append_new(owned(array), owned(value)) == 0, "a value is not taken");
}

void cp_json_append_integer(cp_json *array, int64_t value)
{
    cp_json_append(array, (cp_json *)made(json_integer(value)));
}

void cp_json_append_real(cp_json *array, double value)
{
    cp_json_append(array, (cp_json *)made(new_real(value)));
}

void cp_json_append_string(cp_json *array, const char *value)
{
    cp_json_append(array, (cp_json *)new_string(value));
}

char *cp_json_text(const cp_json *value)
{
    char *text = json_dumps(tree(value), JSON_INDENT(2) | JSON_ENCODE_ANY);
    cp_check(text, "jansson gives no text");
    return text;
}

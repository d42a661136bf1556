#include "harness/files/ran.h"

#include "harness/files/prefixes.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 1 << 12, DIGITS = 64 };

static const char weights[] = "weights";

typedef enum known { UNKNOWN, INTEGERS, FLOATS } known;

static known known_input(const char *name)
{
    static const struct {
        const char *name;
        known what;
    } table[] = {{"input_ids", INTEGERS},
                 {"inputs_embeds", FLOATS},
                 {"position_ids", INTEGERS},
                 {"labels", INTEGERS},
                 {"shift_labels", INTEGERS}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].what;
    return UNKNOWN;
}

/* ---- listing ----------------------------------------------------------------------------------------------------- */

typedef struct listing {
    cp_results *results;
    cp_pool *pool;
    cp_ran *items;
    const char **paths;
} listing;

static cp_status make_room(listing *list, size_t count)
{
    void *items, *paths;
    CP_TRY(cp_pool_take(list->pool, &items, count, sizeof *list->items));
    CP_TRY(cp_pool_take(list->pool, &paths, count, sizeof *list->paths));
    list->results->source.ran = list->items = items;
    list->results->ran_paths = list->paths = paths;
    return CP_OK;
}

static cp_status read_digest(listing *list, cp_ran *item, const char *path)
{
    size_t length;
    CP_TRY(cp_h5_read_text(list->results->file, list->pool, path, &item->digest, &length));
    if (length == DIGITS && strspn(item->digest, "0123456789abcdef") == DIGITS)
        return CP_OK;
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected numbers, or a sha256 in 64 small hexadecimal digits",
                   cp_h5_path(list->results->file), path);
}

static cp_status describe(listing *list, cp_ran *item, const char *path, known what)
{
    cp_h5 *file = list->results->file;
    cp_h5_array array;
    CP_TRY(cp_h5_describe(file, path, &array));
    if (cp_dtype_is_float(array.dtype) != (what == FLOATS))
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected %s or a digest, found %s", cp_h5_path(file), path,
                       what == FLOATS ? "floating-point numbers" : "integers", cp_dtype_name(array.dtype));
    item->tensor.dtype = array.dtype;
    item->tensor.dims = array.dims;
    memcpy(item->tensor.extent, array.extent, sizeof item->tensor.extent);
    return CP_OK;
}

static cp_status add(listing *list, const char *group, const char *name, known what)
{
    size_t at = list->results->source.ran_count++;
    cp_ran *item = &list->items[at];
    char bare[CP_NAME_BYTES];
    bool text;
    cp_prefixes_bare(bare, name);
    CP_TRY(cp_pool_format(list->pool, &item->tensor.name, "%s%s", group, *group ? bare : name));
    CP_TRY(cp_pool_format(list->pool, &list->paths[at], "/ran/%s%s", group, name));
    CP_TRY(cp_h5_is_text(list->results->file, list->paths[at], &text));
    return text ? read_digest(list, item, list->paths[at]) : describe(list, item, list->paths[at], what);
}

static cp_status note_unknown(listing *list, const char *name)
{
    const char **notes = &list->results->source.notes;
    return cp_pool_format(list->pool, notes,
                          "%s/ran/%s is an input that this version does not know: not compared\n", *notes,
                          name);
}

static cp_status read_ran(const cp_source *source, size_t item, int64_t first, int64_t count, double *out)
{
    const cp_results *results = source->state;
    cp_dtype dtype = source->ran[item].tensor.dtype;
    double stored[BLOCK];
    for (int64_t done = 0; done < count;) {
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        CP_TRY(cp_h5_read(results->file, results->ran_paths[item], first + done, n, stored));
        cp_dtype_to_double(out + done, stored, dtype, (size_t)n);
        done += n;
    }
    return CP_OK;
}

/* The members of a group that may not be there. */
static cp_status members_of(const listing *list, const char *path, const cp_h5_member **members,
                            size_t *count)
{
    cp_h5 *file = list->results->file;
    cp_h5_kind kind;
    *count = 0;
    CP_TRY(cp_h5_look(file, path, &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    if (kind != CP_H5_GROUP)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected a group, found something else", cp_h5_path(file),
                       path);
    return cp_h5_list(file, list->pool, path, members, count);
}

cp_status cp_ran_collect(cp_results *results, cp_pool *pool)
{
    listing list = {.results = results, .pool = pool};
    const cp_h5_member *inputs, *parameters;
    size_t input_count, parameter_count = 0;
    results->source.read_ran = read_ran;
    CP_TRY(members_of(&list, "/ran", &inputs, &input_count));
    if (input_count == 0)
        return CP_OK;
    CP_TRY(members_of(&list, "/ran/weights", &parameters, &parameter_count));
    CP_TRY(make_room(&list, input_count + parameter_count));
    for (size_t i = 0; i < input_count; i++) {
        known what = known_input(inputs[i].name);
        if (what != UNKNOWN)
            CP_TRY(add(&list, "", inputs[i].name, what));
        else if (strcmp(inputs[i].name, weights) != 0)
            CP_TRY(note_unknown(&list, inputs[i].name));
    }
    for (size_t i = 0; i < parameter_count; i++)
        CP_TRY(add(&list, "weights/", parameters[i].name, FLOATS));
    return CP_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

int64_t cp_ran_find(const cp_source *part, const char *name)
{
    for (size_t i = 0; i < part->ran_count; i++)
        if (strcmp(part->ran[i].tensor.name, name) == 0)
            return (int64_t)i;
    return -1;
}

bool cp_ran_fits(const cp_ran *ran, int64_t rows, int64_t length, int64_t width)
{
    const cp_source_tensor *tensor = &ran->tensor;
    return tensor->dims == (width ? 3 : 2) && (tensor->extent[0] == rows || tensor->extent[0] == 1) &&
           tensor->extent[1] == length && (!width || tensor->extent[2] == width);
}

/* How many of the next tokens lie behind each other in one row of one part. */
static int64_t run_of(const cp_place *places, int64_t token, int64_t most, int64_t length)
{
    int64_t row = places ? places[token].row : token;
    int64_t run = 1;
    while (
        run < most && (row + run) % length != 0 &&
        (!places || (places[token + run].part == places[token].part && places[token + run].row == row + run)))
        run++;
    return run;
}

cp_status cp_ran_read(const cp_source *joined, const char *name, int64_t first, int64_t count, int64_t width,
                      double *out, int32_t *owner)
{
    cp_source *const *parts = NULL;
    const cp_place *places = NULL;
    size_t part_count = cp_join_parts(joined, &parts, &places);
    cp_check(part_count > 0, "%s is not joined", joined->label);
    for (int64_t done = 0, run; done < count; done += run) {
        int64_t token = first + done;
        cp_place place = places ? places[token] : (cp_place){0, token};
        const cp_source *part = parts[place.part];
        int64_t item = cp_ran_find(part, name);
        bool held = item >= 0 && !part->ran[item].digest;
        const int64_t *extent = held ? part->ran[item].tensor.extent : NULL;
        run = held ? run_of(places, token, count - done, extent[1]) : 1;
        int64_t row = held && extent[0] == 1 ? place.row % extent[1] : place.row;
        if (held)
            CP_TRY(part->read_ran(part, (size_t)item, row * width, run * width, out + done * width));
        for (int64_t i = 0; i < run; i++)
            owner[done + i] = held ? place.part : -1;
    }
    return CP_OK;
}

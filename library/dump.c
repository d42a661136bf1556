#include "library/common.h"

#include "base/status.h"
#include "harness/files/attention.h"
#include "harness/files/dump.h"
#include "harness/files/header.h"
#include "harness/files/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct written {
    const char *path;
    cp_dtype dtype;
    int dims;
    int64_t extent[CP_MAX_DIMS];
    int64_t elements, done;
} written;

struct cpeq_dump {
    cp_h5 *file; /* NULL: not open, or finished */
    cp_pool pool;
    char temporary[CP_PATH_BYTES], path[CP_PATH_BYTES];
    size_t count, room;
    written *arrays; /* [room] */
    cpeq_status status;
    char sentence[CPEQ_SENTENCE_BYTES];
};

/* ---- the life of a dump ------------------------------------------------------------------------------------------ */

static void discard(cpeq_dump *d)
{
    if (!d->file)
        return;
    cp_h5_close(d->file);
    cp_temporary_discard(d->temporary);
    d->file = NULL;
}

/* A dump that failed once stays failed: it could not be whole any more. */
static cpeq_status report(cpeq_dump *d, cp_status status)
{
    if (status == CP_OK)
        return CPEQ_OK;
    if (d->status == CPEQ_OK)
        d->status = cp_library_report(d->sentence, status);
    discard(d);
    return d->status;
}

static cp_status check_open(const cpeq_dump *d)
{
    if (d->file)
        return CP_OK;
    return cp_fail(CP_BAD_USAGE, "%.512s: the dump is finished", d->path);
}

static cp_status create(cpeq_dump *d, const char *path, const char *kind)
{
    if (!path || strlen(path) >= sizeof d->path)
        return cp_fail(CP_BAD_USAGE, "path: expected the name of a file");
    if (!kind || (strcmp(kind, "dump") != 0 && strcmp(kind, CP_KIND_ATTENTION) != 0))
        return cp_fail(CP_BAD_USAGE, "%.512s: kind: expected \"dump\" or \"attention\", found \"%.64s\"",
                       path, kind ? kind : "");
    snprintf(d->path, sizeof d->path, "%s", path);
    CP_TRY(cp_temporary_name(d->temporary, path));
    CP_TRY(cp_h5_create(&d->file, d->temporary));
    return cp_header_write(d->file, kind);
}

cpeq_status cpeq_dump_create(cpeq_dump **dump, const char *path, const char *kind)
{
    cpeq_dump *d = *dump = calloc(1, sizeof *d);
    return d ? report(d, create(d, path, kind)) : CPEQ_FAILED;
}

const char *cpeq_dump_error(const cpeq_dump *dump)
{
    return dump ? dump->sentence : "no memory";
}

static cp_status finish(cpeq_dump *d)
{
    CP_TRY(check_open(d));
    for (size_t i = 0; i < d->count; i++)
        if (d->arrays[i].done != d->arrays[i].elements)
            return cp_fail(CP_BAD_USAGE,
                           "%.512s: %.256s: expected %" PRId64 " elements in all its slabs, found %" PRId64,
                           d->path, d->arrays[i].path, d->arrays[i].elements, d->arrays[i].done);
    cp_h5 *file = d->file;
    d->file = NULL;
    cp_status status = cp_h5_close(file);
    if (status == CP_OK)
        return cp_temporary_commit(d->temporary, d->path);
    cp_temporary_discard(d->temporary);
    return status;
}

cpeq_status cpeq_dump_finish(cpeq_dump *dump)
{
    return dump->status != CPEQ_OK ? dump->status : report(dump, finish(dump));
}

void cpeq_dump_close(cpeq_dump *dump)
{
    if (!dump)
        return;
    discard(dump);
    cp_pool_close(&dump->pool);
    free(dump->arrays);
    free(dump);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static cp_status check_attribute(const cpeq_dump *d, const char *name)
{
    static const char *const ours[] = {"format", "format_version", "kind"};
    bool found;
    CP_TRY(check_open(d));
    if (!name || !*name || strlen(name) >= CP_NAME_BYTES)
        return cp_fail(CP_BAD_USAGE, "%.512s: attribute: expected a name", d->path);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(name, ours[i]) == 0)
            return cp_fail(CP_BAD_USAGE, "%.512s: attribute %s: is written by the library", d->path, name);
    CP_TRY(cp_h5_has(d->file, "/", name, &found));
    return found ? cp_fail(CP_BAD_USAGE, "%.512s: attribute %.256s: is declared already", d->path, name)
                 : CP_OK;
}

static cp_status set_text(cpeq_dump *d, const char *name, const char *value, bool lines)
{
    CP_TRY(check_attribute(d, name));
    if (!value)
        return cp_fail(CP_BAD_USAGE, "%.512s: attribute %.256s: expected a text, found NULL", d->path, name);
    return lines ? cp_h5_set_lines(d->file, "/", name, value) : cp_h5_set_text(d->file, "/", name, value);
}

cpeq_status cpeq_dump_set_text(cpeq_dump *dump, const char *attribute, const char *value)
{
    return dump->status != CPEQ_OK ? dump->status : report(dump, set_text(dump, attribute, value, false));
}

cpeq_status cpeq_dump_set_lines(cpeq_dump *dump, const char *attribute, const char *lines)
{
    return dump->status != CPEQ_OK ? dump->status : report(dump, set_text(dump, attribute, lines, true));
}

static cp_status set_integer(cpeq_dump *d, const char *name, int64_t value)
{
    CP_TRY(check_attribute(d, name));
    return cp_h5_set_integer(d->file, "/", name, value);
}

cpeq_status cpeq_dump_set_integer(cpeq_dump *dump, const char *attribute, int64_t value)
{
    return dump->status != CPEQ_OK ? dump->status : report(dump, set_integer(dump, attribute, value));
}

static cp_status set_real(cpeq_dump *d, const char *name, double value)
{
    CP_TRY(check_attribute(d, name));
    return cp_h5_set_real(d->file, "/", name, value);
}

cpeq_status cpeq_dump_set_real(cpeq_dump *dump, const char *attribute, double value)
{
    return dump->status != CPEQ_OK ? dump->status : report(dump, set_real(dump, attribute, value));
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* A parent stands before its child. What follows the slash is one link. */
static const char *const groups[] = {"grads", "trace", "ran", "ran/weights", "grads_partial"};
enum { GROUPS = sizeof groups / sizeof *groups };

static cp_status make_groups(cpeq_dump *d, const char *name)
{
    for (size_t i = 0; i < GROUPS; i++) {
        size_t length = strlen(groups[i]);
        char path[64];
        cp_h5_kind kind;
        if (strncmp(name, groups[i], length) != 0 || name[length] != '/')
            continue;
        snprintf(path, sizeof path, "/%s", groups[i]);
        CP_TRY(cp_h5_look(d->file, path, &kind));
        if (kind == CP_H5_NOTHING)
            CP_TRY(cp_h5_make_group(d->file, path));
    }
    return CP_OK;
}

static cp_status check_name(const cpeq_dump *d, const char *name)
{
    CP_TRY(check_open(d));
    size_t length = name ? strlen(name) : 0;
    const char *last = length ? strrchr(name, '/') : NULL;
    if (length == 0 || length >= CP_NAME_BYTES || *name == '/' || (last && last[1] == '\0') ||
        !cp_text_plain(name, length))
        return cp_fail(CP_BAD_USAGE, "%.512s: name: expected one as \"out\" or \"grads/lm_head.weight\"",
                       d->path);
    bool known = !last;
    for (size_t i = 0; i < GROUPS && !known; i++)
        known = strlen(groups[i]) == (size_t)(last - name) &&
                strncmp(groups[i], name, (size_t)(last - name)) == 0;
    return known ? CP_OK
                 : cp_fail(CP_BAD_USAGE,
                           "%.512s: %.256s: expected a name in grads, trace, ran, ran/weights or "
                           "grads_partial, or one without a group",
                           d->path, name);
}

static cp_status check_array(const cpeq_dump *d, const char *name, cpeq_dtype dtype, int dims,
                             const int64_t *shape)
{
    if ((int)dtype < 0 || (int)dtype >= CP_DTYPES || (int)dtype == CP_F16)
        return cp_fail(CP_BAD_USAGE, "%.512s: %.256s: dtype: a type %d is not written", d->path, name,
                       (int)dtype);
    if (dims < 0 || dims > CP_MAX_DIMS || (dims > 0 && !shape))
        return cp_fail(CP_BAD_USAGE, "%.512s: %.256s: expected 0 to %d dimensions, found %d", d->path, name,
                       CP_MAX_DIMS, dims);
    for (int axis = 0; axis < dims; axis++)
        if (shape[axis] < 0)
            return cp_fail(CP_BAD_USAGE, "%.512s: %.256s: axis %d: extent %" PRId64, d->path, name, axis,
                           shape[axis]);
    return CP_OK;
}

static written *find(const cpeq_dump *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->arrays[i].path + 1, name) == 0)
            return &d->arrays[i];
    return NULL;
}

static cp_status make_array(cpeq_dump *d, written **out, const char *name, cp_dtype dtype, int dims,
                            const int64_t *shape)
{
    if (d->count == d->room) {
        size_t room = 2 * d->room + 16;
        written *grown = realloc(d->arrays, room * sizeof *grown);
        if (!grown)
            return cp_fail(CP_INTERNAL, "%.512s: no memory for %zu arrays", d->path, room);
        d->arrays = grown;
        d->room = room;
    }
    written array = {.dtype = dtype, .dims = dims};
    CP_TRY(cp_slab_check(&array.elements, name, dims, shape, NULL, NULL));
    if (dims > 0)
        memcpy(array.extent, shape, (size_t)dims * sizeof *shape);
    CP_TRY(cp_pool_format(&d->pool, &array.path, "/%s", name));
    CP_TRY(make_groups(d, name));
    CP_TRY(cp_h5_make_array(d->file, array.path, dtype, dims, array.extent));
    *out = &d->arrays[d->count++];
    **out = array;
    return CP_OK;
}

typedef struct writing {
    cp_h5 *file;
    const written *array;
    const char *data;
} writing;

static cp_status write_run(void *state, int64_t first, int64_t packed, int64_t count)
{
    const writing *w = state;
    return cp_h5_write(w->file, w->array->path, first, count,
                       w->data + packed * (int64_t)cp_dtype_bytes(w->array->dtype));
}

static cp_status write_slab(cpeq_dump *d, const char *name, cpeq_dtype dtype, int dims, const int64_t *shape,
                            const int64_t *offset, const int64_t *count, const void *data)
{
    int64_t elements;
    CP_TRY(check_name(d, name));
    CP_TRY(check_array(d, name, dtype, dims, shape));
    CP_TRY(cp_slab_check(&elements, name, dims, shape, offset, count));
    if (!data && elements > 0)
        return cp_fail(CP_BAD_USAGE, "%.512s: %.256s: data: expected %" PRId64 " elements, found NULL",
                       d->path, name, elements);
    written *array = find(d, name);
    if (!array)
        CP_TRY(make_array(d, &array, name, (cp_dtype)dtype, dims, shape));
    bool agrees = array->dtype == (cp_dtype)dtype && array->dims == dims;
    for (int axis = 0; agrees && axis < dims; axis++)
        agrees = array->extent[axis] == shape[axis];
    if (!agrees)
        return cp_fail(CP_BAD_USAGE, "%.512s: %.256s: another type or shape than that of its first slab",
                       d->path, name);
    if (elements > array->elements - array->done)
        return cp_fail(CP_BAD_USAGE,
                       "%.512s: %.256s: more than its %" PRId64 " elements: a slab was written twice",
                       d->path, name, array->elements);
    writing w = {d->file, array, data};
    CP_TRY(cp_slab_each_run(dims, shape, offset, count, write_run, &w));
    array->done += elements;
    return CP_OK;
}

cpeq_status cpeq_dump_write(cpeq_dump *dump, const char *name, cpeq_dtype dtype, int dims,
                            const int64_t *shape, const int64_t *offset, const int64_t *count,
                            const void *data)
{
    if (dump->status != CPEQ_OK)
        return dump->status;
    return report(dump, write_slab(dump, name, dtype, dims, shape, offset, count, data));
}

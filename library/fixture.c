#include "library/common.h"

#include "base/status.h"
#include "harness/files/attention.h"
#include "harness/files/header.h"
#include "harness/files/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cpeq_fixture {
    cp_h5 *file; /* NULL: it could not be opened */
    cp_pool pool;
    const char *kind, *id, *config;
    char sentence[CPEQ_SENTENCE_BYTES];
};

static cpeq_status report(cpeq_fixture *fixture, cp_status status)
{
    return cp_library_report(fixture->sentence, status);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static cp_status open_fixture(cpeq_fixture *f, const char *path)
{
    bool fixture = false;
    cp_h5_kind kind;
    size_t length;
    if (!path)
        return cp_fail(CP_BAD_USAGE, "path: expected the name of a file, found NULL");
    CP_TRY(cp_h5_open(&f->file, path));
    CP_TRY(cp_header_read(f->file, &f->pool, &f->kind));
    if (strcmp(f->kind, CP_KIND_ATTENTION) == 0)
        CP_TRY(cp_attention_is_fixture(&fixture, f->file));
    else
        fixture = strcmp(f->kind, "fixture") == 0;
    if (!fixture)
        return cp_fail(CP_BAD_INPUT, "%s: expected a fixture, found a dump or another kind (%.32s)", path,
                       f->kind);
    CP_TRY(cp_text_or_empty(f->file, &f->pool, "/", "fixture_id", &f->id));
    CP_TRY(cp_h5_look(f->file, "/config", &kind));
    return kind == CP_H5_NOTHING ? CP_OK : cp_h5_read_text(f->file, &f->pool, "/config", &f->config, &length);
}

cpeq_status cpeq_fixture_open(cpeq_fixture **fixture, const char *path)
{
    cpeq_fixture *f = *fixture = calloc(1, sizeof *f);
    if (!f)
        return CPEQ_FAILED;
    f->kind = f->id = f->config = "";
    cp_status status = open_fixture(f, path);
    if (status != CP_OK) {
        cpeq_status reported = report(f, status);
        cp_h5_close(f->file);
        f->file = NULL;
        return reported;
    }
    return CPEQ_OK;
}

void cpeq_fixture_close(cpeq_fixture *fixture)
{
    if (!fixture)
        return;
    cp_h5_close(fixture->file);
    cp_pool_close(&fixture->pool);
    free(fixture);
}

const char *cpeq_fixture_error(const cpeq_fixture *fixture)
{
    return fixture ? fixture->sentence : "no memory";
}

const char *cpeq_fixture_kind(const cpeq_fixture *fixture)
{
    return fixture->kind;
}

const char *cpeq_fixture_id(const cpeq_fixture *fixture)
{
    return fixture->id;
}

const char *cpeq_fixture_config(const cpeq_fixture *fixture)
{
    return fixture->config;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

typedef char object_path[2 * CP_NAME_BYTES];

/* "batch/q" -> "/batch/q"; "/" and "/batch/q" stay. */
static cp_status path_of(object_path path, const cpeq_fixture *f, const char *name)
{
    if (!f->file)
        return cp_fail(CP_BAD_USAGE, "the fixture is not open: %.512s", f->sentence);
    if (!name || !*name || strlen(name) >= CP_NAME_BYTES)
        return cp_fail(CP_BAD_USAGE, "name: expected 1 to %d characters", CP_NAME_BYTES - 1);
    snprintf(path, sizeof(object_path), "%s%s", *name == '/' ? "" : "/", name);
    return CP_OK;
}

static cp_status list(cpeq_fixture *f, const char *group, const char *const **names, size_t *count)
{
    object_path path;
    cp_h5_kind kind;
    const cp_h5_member *members;
    void *memory;
    *names = NULL;
    *count = 0;
    CP_TRY(path_of(path, f, group));
    CP_TRY(cp_h5_look(f->file, path, &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    size_t found;
    CP_TRY(cp_h5_list(f->file, &f->pool, path, &members, &found));
    CP_TRY(cp_pool_take(&f->pool, &memory, found, sizeof **names));
    const char **out = memory;
    for (size_t i = 0; i < found; i++)
        out[i] = members[i].name;
    *names = out;
    *count = found;
    return CP_OK;
}

cpeq_status cpeq_fixture_names(cpeq_fixture *fixture, const char *group, const char *const **names,
                               size_t *count)
{
    return report(fixture, list(fixture, group, names, count));
}

cpeq_status cpeq_fixture_has(cpeq_fixture *fixture, const char *name, int *found)
{
    object_path path;
    cp_h5_kind kind = CP_H5_NOTHING;
    cp_status status = path_of(path, fixture, name);
    if (status == CP_OK)
        status = cp_h5_look(fixture->file, path, &kind);
    *found = kind == CP_H5_DATASET;
    return report(fixture, status);
}

static cp_status describe(cpeq_fixture *f, object_path path, const char *name, cp_h5_array *array)
{
    CP_TRY(path_of(path, f, name));
    return cp_h5_describe(f->file, path, array);
}

cpeq_status cpeq_fixture_describe(cpeq_fixture *fixture, const char *name, cpeq_array *array)
{
    object_path path;
    cp_h5_array found;
    cp_status status = describe(fixture, path, name, &found);
    if (status == CP_OK) {
        *array = (cpeq_array){(cpeq_dtype)found.dtype, found.dims, {0}};
        memcpy(array->extent, found.extent, sizeof array->extent);
    }
    return report(fixture, status);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reading {
    cp_h5 *file;
    const char *path;
    cp_dtype stored, wanted;
    char *out;
} reading;

enum { BLOCK = 2048 };

/* int32 or uint8 */
static void widen(int64_t *out, const void *in, cp_dtype dtype, size_t count)
{
    const int32_t *words = in;
    const uint8_t *bytes = in;
    for (size_t i = 0; i < count; i++)
        out[i] = dtype == CP_I32 ? words[i] : bytes[i];
}

static cp_status read_run(void *state, int64_t first, int64_t packed, int64_t count)
{
    const reading *r = state;
    char *out = r->out + packed * (int64_t)cp_dtype_bytes(r->wanted);
    if (r->stored == r->wanted)
        return cp_h5_read(r->file, r->path, first, count, out);
    for (int64_t done = 0; done < count; done += BLOCK) {
        double stored[BLOCK], values[BLOCK];
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        CP_TRY(cp_h5_read(r->file, r->path, first + done, n, stored));
        char *at = out + done * (int64_t)cp_dtype_bytes(r->wanted);
        if (r->wanted == CP_I64) {
            widen((int64_t *)(void *)at, stored, r->stored, (size_t)n);
            continue;
        }
        cp_dtype_to_double(values, stored, r->stored, (size_t)n);
        cp_dtype_from_double(at, r->wanted, values, (size_t)n);
    }
    return CP_OK;
}

static bool converts(cp_dtype stored, cp_dtype wanted)
{
    return stored == wanted || (cp_dtype_is_float(stored) && cp_dtype_is_float(wanted) && wanted != CP_F16) ||
           (!cp_dtype_is_float(stored) && wanted == CP_I64);
}

static cp_status read_slab(cpeq_fixture *f, const char *name, cpeq_dtype dtype, const int64_t *offset,
                           const int64_t *count, void *data)
{
    object_path path;
    cp_h5_array array;
    int64_t elements;
    if ((int)dtype < 0 || (int)dtype >= CP_DTYPES)
        return cp_fail(CP_BAD_USAGE, "%.512s: dtype: there is no type %d", name, (int)dtype);
    CP_TRY(describe(f, path, name, &array));
    cp_dtype wanted = (cp_dtype)dtype;
    if (!converts(array.dtype, wanted))
        return cp_fail(CP_BAD_USAGE, "%s: %s: is %s, which is not read as %s", cp_h5_path(f->file), path,
                       cp_dtype_name(array.dtype), cp_dtype_name(wanted));
    CP_TRY(cp_slab_check(&elements, path, array.dims, array.extent, offset, count));
    reading r = {f->file, path, array.dtype, wanted, data};
    return cp_slab_each_run(array.dims, array.extent, offset, count, read_run, &r);
}

cpeq_status cpeq_fixture_read(cpeq_fixture *fixture, const char *name, cpeq_dtype dtype,
                              const int64_t *offset, const int64_t *count, void *data)
{
    return report(fixture, read_slab(fixture, name, dtype, offset, count, data));
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

cpeq_status cpeq_fixture_integer(cpeq_fixture *fixture, const char *object, const char *attribute,
                                 int64_t *value, int *found)
{
    object_path path;
    bool there = false;
    cp_status status = path_of(path, fixture, object);
    if (status == CP_OK)
        status = cp_h5_integer(fixture->file, path, attribute, value, &there);
    *found = there;
    return report(fixture, status);
}

cpeq_status cpeq_fixture_real(cpeq_fixture *fixture, const char *object, const char *attribute, double *value,
                              int *found)
{
    object_path path;
    bool there = false;
    cp_status status = path_of(path, fixture, object);
    if (status == CP_OK)
        status = cp_h5_real(fixture->file, path, attribute, value, &there);
    *found = there;
    return report(fixture, status);
}

cpeq_status cpeq_fixture_text(cpeq_fixture *fixture, const char *object, const char *attribute,
                              const char **value, int *found)
{
    object_path path;
    bool there = false;
    cp_status status = path_of(path, fixture, object);
    if (status == CP_OK)
        status = cp_h5_text(fixture->file, &fixture->pool, path, attribute, value, &there);
    *found = there;
    return report(fixture, status);
}

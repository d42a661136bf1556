#include "harness/files/results.h"

#include "harness/files/chunks.h"
#include "harness/files/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 13 }; /* elements that are converted at a time */

static const char *const groups[] = {"grads", "grads_partial", "trace"};
enum { GROUPS = sizeof groups / sizeof *groups };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* `file` and `object` are what the sentence calls them. */
static cp_status check_finite(const char *file, const char *object, const cp_source_tensor *t, int64_t first,
                              int64_t count, const double *values)
{
    int64_t bad = 0;
    while (bad < count && isfinite(values[bad]))
        bad++;
    if (bad == count)
        return CP_OK;
    int64_t index[CP_MAX_DIMS] = {0};
    int64_t rest = first + bad;
    for (int axis = t->dims - 1; axis >= 0; axis--) {
        index[axis] = rest % t->extent[axis];
        rest /= t->extent[axis];
    }
    char place[CP_SHAPE_TEXT];
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected finite numbers, found %g at %s", file, object, values[bad],
                   cp_shape_text(place, t->dims, index));
}

static cp_status read_results(const cp_source *source, size_t tensor, int64_t first, int64_t count,
                              double *out)
{
    const cp_results *results = source->state;
    const char *path = results->paths[tensor];
    cp_dtype dtype = results->tensors[tensor].dtype;
    double block[BLOCK / 2]; /* holds BLOCK of the narrower types */
    if (dtype == CP_F64)
        CP_TRY(cp_h5_read(results->file, path, first, count, out));
    for (int64_t done = 0; dtype != CP_F64 && done < count;) {
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        CP_TRY(cp_h5_read(results->file, path, first + done, n, block));
        cp_dtype_to_double(out + done, block, dtype, (size_t)n);
        done += n;
    }
    return results->finite ? check_finite(source->label, path, &source->tensors[tensor], first, count, out)
                           : CP_OK;
}

static cp_status look_stored(const cp_results *results, cp_view *view, size_t tensor, int64_t first,
                             int64_t count, const void **data)
{
    const cp_h5_array *array = &results->arrays[tensor];
    const char *path = results->paths[tensor];
    int64_t width = (int64_t)cp_dtype_bytes(array->dtype);
    cp_grain grain = cp_chunks_grain(array);
    if (array->offset >= 0 && results->descriptor >= 0)
        return cp_view_map(view, results->descriptor, cp_h5_path(results->file),
                           array->offset + first * width, count * width, data);
    if (grain.bytes > 0 && grain.bytes <= view->allowance)
        return cp_chunks_look(view, results, tensor, results->file, path, array, first, count, data);
    CP_TRY(cp_view_room(&view->values, &view->values_room, (size_t)(count * width)));
    *data = view->values;
    return cp_h5_read(results->file, path, first, count, view->values);
}

static cp_status look_results(const cp_source *source, cp_view *view, size_t tensor, int64_t first,
                              int64_t count, const void **data, cp_dtype *dtype)
{
    enum { PIECE = 512 };
    const cp_results *results = source->state;
    CP_TRY(look_stored(results, view, tensor, first, count, data));
    *dtype = results->tensors[tensor].dtype;
    size_t width = cp_dtype_bytes(*dtype);
    for (int64_t done = 0; results->finite && done < count; done += PIECE) {
        double values[PIECE];
        int64_t n = count - done < PIECE ? count - done : PIECE;
        cp_view_double(values, (const char *)*data + (size_t)done * width, *dtype, n);
        CP_TRY(check_finite(source->label, results->paths[tensor], &source->tensors[tensor], first + done, n,
                            values));
    }
    return CP_OK;
}

static cp_grain grain_of_results(const cp_source *source, size_t tensor)
{
    const cp_results *results = source->state;
    return cp_chunks_grain(&results->arrays[tensor]);
}

/* ---- listing ----------------------------------------------------------------------------------------------------- */

typedef struct group {
    const char *path, *prefix; /* "/expected/grads", "grads/" */
    const cp_h5_member *members;
    size_t count;
} group;

static cp_status add_result(cp_results *results, cp_pool *pool, const group *from, const char *name)
{
    size_t at = results->source.count++;
    cp_source_tensor *tensor = &results->tensors[at];
    CP_TRY(cp_pool_format(pool, &tensor->name, "%s%s", from->prefix, name));
    CP_TRY(cp_pool_format(pool, &results->paths[at], "%s/%s", from->path, name));
    cp_h5_array array;
    CP_TRY(cp_h5_describe(results->file, results->paths[at], &array));
    if (!cp_dtype_is_float(array.dtype))
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected floating-point numbers, found %s",
                       cp_h5_path(results->file), results->paths[at], cp_dtype_name(array.dtype));
    results->arrays[at] = array;
    tensor->dtype = array.dtype;
    tensor->dims = array.dims;
    memcpy(tensor->extent, array.extent, sizeof tensor->extent);
    return CP_OK;
}

static cp_status list_groups(group lists[1 + GROUPS], cp_h5 *file, cp_pool *pool, const char *root)
{
    lists[0] = (group){.path = root, .prefix = ""};
    CP_TRY(cp_h5_list(file, pool, *root ? root : "/", &lists[0].members, &lists[0].count));
    for (int g = 0; g < GROUPS; g++) {
        group *list = &lists[1 + g];
        cp_h5_kind kind;
        *list = (group){0};
        CP_TRY(cp_pool_format(pool, &list->path, "%s/%s", root, groups[g]));
        CP_TRY(cp_pool_format(pool, &list->prefix, "%s/", groups[g]));
        CP_TRY(cp_h5_look(file, list->path, &kind));
        if (kind != CP_H5_NOTHING)
            CP_TRY(cp_h5_list(file, pool, list->path, &list->members, &list->count));
    }
    return CP_OK;
}

/* In these groups everything is a result. At the root groups are other parts of the file, named types are nothing to
 * us, and every dataset that does not stand apart is a result. */
static cp_status is_result(bool *result, const cp_results *results, const group *from,
                           const cp_h5_member *member, const char *apart)
{
    static const char known[] = "loss\naux_loss\ntoken_loss\nlogits\n";
    bool at_root = *from->prefix == '\0';
    *result = !at_root || (member->kind == CP_H5_DATASET && !cp_lines_have(apart, member->name));
    bool misplaced = at_root && member->kind == CP_H5_GROUP &&
                     (cp_lines_have(known, member->name) || cp_lines_have(apart, member->name));
    return misplaced ? cp_fail(CP_BAD_INPUT, "%s: %s/%s: expected a dataset, found a group",
                               cp_h5_path(results->file), from->path, member->name)
                     : CP_OK;
}

cp_status cp_results_collect(cp_results *results, cp_h5 *file, cp_pool *pool, const char *root,
                             const char *apart)
{
    *results = (cp_results){.file = file, .descriptor = cp_h5_descriptor(file)};
    results->source = (cp_source){
        .notes = "", .read = read_results, .look = look_results, .grain = grain_of_results, .state = results};
    group lists[1 + GROUPS];
    CP_TRY(list_groups(lists, file, pool, root));
    size_t room = 0;
    for (int g = 0; g < 1 + GROUPS; g++)
        room += lists[g].count;
    void *tensors, *paths, *arrays;
    CP_TRY(cp_pool_take(pool, &tensors, room, sizeof *results->tensors));
    CP_TRY(cp_pool_take(pool, &arrays, room, sizeof *results->arrays));
    CP_TRY(cp_pool_take(pool, &paths, room, sizeof *results->paths));
    results->source.tensors = results->tensors = tensors;
    results->paths = paths;
    results->arrays = arrays;
    for (int g = 0; g < 1 + GROUPS; g++) {
        for (size_t m = 0; m < lists[g].count; m++) {
            const cp_h5_member *member = &lists[g].members[m];
            bool result;
            CP_TRY(is_result(&result, results, &lists[g], member, apart));
            if (result)
                CP_TRY(add_result(results, pool, &lists[g], member->name));
        }
    }
    return cp_results_sort(results, pool);
}

typedef struct named {
    cp_source_tensor tensor;
    const char *path;
    cp_h5_array array;
} named;

static int compare_named(const void *a, const void *b)
{
    return strcmp(((const named *)a)->tensor.name, ((const named *)b)->tensor.name);
}

cp_status cp_results_sort(cp_results *results, cp_pool *pool)
{
    size_t count = results->source.count;
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, count, sizeof(named)));
    named *all = memory;
    for (size_t i = 0; i < count; i++)
        all[i] = (named){results->tensors[i], results->paths[i], results->arrays[i]};
    qsort(all, count, sizeof *all, compare_named);
    for (size_t i = 0; i < count; i++) {
        results->tensors[i] = all[i].tensor;
        results->paths[i] = all[i].path;
        results->arrays[i] = all[i].array;
        if (i > 0 && strcmp(all[i - 1].tensor.name, all[i].tensor.name) == 0)
            return cp_fail(CP_INCOMPARABLE, "%s: %s and %s: two tensors of one name",
                           cp_h5_path(results->file), all[i - 1].path, all[i].path);
    }
    return CP_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static cp_status write_tensor(cp_h5 *file, const char *root, const cp_source *source, size_t tensor,
                              bool finite)
{
    const cp_source_tensor *t = &source->tensors[tensor];
    cp_dtype dtype = t->dtype == CP_F16 ? CP_F32 : t->dtype;
    char path[2 * CP_NAME_BYTES];
    cp_check(strlen(t->name) < CP_NAME_BYTES, "a name of %zu bytes", strlen(t->name));
    snprintf(path, sizeof path, "%s/%s", root, t->name);
    int64_t count = 1;
    for (int axis = 0; axis < t->dims; axis++)
        count *= t->extent[axis];
    CP_TRY(cp_h5_make_array(file, path, dtype, t->dims, t->extent));
    double values[BLOCK / 2], stored[BLOCK / 2];
    for (int64_t done = 0; done < count;) {
        int64_t n = count - done < BLOCK / 2 ? count - done : BLOCK / 2;
        CP_TRY(source->read(source, tensor, done, n, values));
        if (finite)
            CP_TRY(check_finite(source->label, path, t, done, n, values));
        cp_dtype_from_double(stored, dtype, values, (size_t)n);
        CP_TRY(cp_h5_write(file, path, done, n, stored));
        done += n;
    }
    return CP_OK;
}

cp_status cp_results_write(cp_h5 *file, const char *root, const cp_source *source, bool finite)
{
    for (int g = 0; g < GROUPS; g++) {
        char path[64];
        bool needed = false;
        for (size_t t = 0; t < source->count; t++) {
            size_t length = strlen(groups[g]);
            needed |= strncmp(source->tensors[t].name, groups[g], length) == 0 &&
                      source->tensors[t].name[length] == '/';
        }
        snprintf(path, sizeof path, "%s/%s", root, groups[g]);
        if (needed)
            CP_TRY(cp_h5_make_group(file, path));
    }
    for (size_t t = 0; t < source->count; t++)
        CP_TRY(write_tensor(file, root, source, t, finite));
    return CP_OK;
}

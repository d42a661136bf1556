#include "harness/files/chunks.h"

#include <string.h>

/* What deflate adds at worst to what it cannot pack, and more. */
static size_t packed_most(size_t bytes)
{
    return bytes + bytes / 64 + 4096;
}

/* ---- rows of chunks ---------------------------------------------------------------------------------------------- */

typedef struct geometry {
    int axis;       /* the first that is cut */
    int64_t inner;  /* elements of one step along it */
    int64_t slab;   /* of the whole axis */
    int64_t volume; /* of a chunk */
} geometry;

static geometry geometry_of(const cp_h5_array *array)
{
    geometry g = {.inner = 1, .volume = 1};
    while (g.axis < array->dims - 1 && array->chunk[g.axis] == 1)
        g.axis++;
    for (int axis = g.axis + 1; axis < array->dims; axis++)
        g.inner *= array->extent[axis];
    for (int axis = 0; axis < array->dims; axis++)
        g.volume = array->chunk[axis] > INT32_MAX / g.volume ? INT32_MAX : g.volume * array->chunk[axis];
    g.slab = g.inner * array->extent[g.axis];
    return g;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

cp_grain cp_chunks_grain(const cp_h5_array *array)
{
    if (array->dims == 0 || array->chunk[0] == 0 || array->count == 0)
        return (cp_grain){1, 0};
    geometry g = geometry_of(array);
    int64_t rows = smaller(array->chunk[g.axis], array->extent[g.axis]);
    size_t width = cp_dtype_bytes(array->dtype);
    size_t chunk = (size_t)g.volume * width;
    bool regular = array->extent[g.axis] % rows == 0 || g.slab == array->count;
    return (cp_grain){regular ? rows * g.inner : g.slab,
                      (size_t)(rows * g.inner) * width + chunk + packed_most(chunk)};
}

/* ---- one chunk --------------------------------------------------------------------------------------------------- */

static cp_status damaged(const cp_h5 *file, const char *path)
{
    return cp_fail(CP_BAD_INPUT, "%s: %s: cannot be read; the file is damaged", cp_h5_path(file), path);
}

/* The bytes of the chunk that begins at `at`, still shuffled where `*shuffled` comes back true. */
static cp_status fetch(cp_view *view, cp_h5 *file, const char *path, const cp_h5_array *array,
                       const int64_t at[], size_t bytes, const char **out, bool *shuffled)
{
    size_t packed;
    unsigned skipped;
    size_t most = packed_most(bytes);
    CP_TRY(cp_view_room(&view->packed, &view->packed_room, most));
    CP_TRY(cp_h5_read_chunk(file, path, at, view->packed, most, &packed, &skipped));
    *shuffled = array->shuffled && !(skipped & 1);
    bool deflated = array->deflated && !(skipped & (array->shuffled ? 2 : 1));
    *out = view->packed;
    if (!deflated)
        return packed == bytes ? CP_OK : damaged(file, path);
    CP_TRY(cp_view_room(&view->unpacked, &view->unpacked_room, bytes));
    *out = view->unpacked;
    return view->inflate(&view->inflater, view->unpacked, bytes, view->packed, packed) ? CP_OK
                                                                                       : damaged(file, path);
}

/* Byte b of all elements stands together, `volume` apart from byte b + 1. With a constant width the loops are vectors. */
static inline void unshuffle_width(char *restrict out, const char *restrict in, int64_t volume, int64_t count,
                                   int width)
{
    for (int64_t i = 0; i < count; i++)
        for (int b = 0; b < width; b++)
            out[i * width + b] = in[b * volume + i];
}

static void unshuffle(char *out, const char *in, int64_t volume, int64_t count, int width)
{
    switch (width) {
    case 2: unshuffle_width(out, in, volume, count, 2); return;
    case 4: unshuffle_width(out, in, volume, count, 4); return;
    case 8: unshuffle_width(out, in, volume, count, 8); return;
    default: memcpy(out, in, (size_t)count);
    }
}

/* Puts a chunk's elements where they belong in the row of chunks; what sticks out of the array is left. */
static void place(cp_view *view, const cp_h5_array *array, const int64_t at[], const char *chunk,
                  bool shuffled)
{
    int last = array->dims - 1;
    int width = (int)cp_dtype_bytes(array->dtype);
    int64_t volume = geometry_of(array).volume;
    int64_t run = smaller(array->chunk[last], array->extent[last] - at[last]);
    for (int64_t from = 0; from < volume; from += array->chunk[last]) {
        int64_t rest = from / array->chunk[last];
        int64_t to = at[last], step = array->extent[last];
        bool inside = true;
        for (int axis = last - 1; axis >= 0; axis--) {
            int64_t index = at[axis] + rest % array->chunk[axis];
            rest /= array->chunk[axis];
            inside = inside && index < array->extent[axis];
            to += index * step;
            step *= array->extent[axis];
        }
        if (!inside)
            continue;
        char *out = (char *)view->band + (to - view->band_first) * width;
        if (shuffled)
            unshuffle(out, chunk + from, volume, run, width);
        else
            memcpy(out, chunk + from * width, (size_t)(run * width));
    }
}

/* ---- a row of chunks --------------------------------------------------------------------------------------------- */

static bool next_chunk(int64_t at[], const cp_h5_array *array, int above)
{
    for (int axis = array->dims - 1; axis > above; axis--) {
        at[axis] += array->chunk[axis];
        if (at[axis] < array->extent[axis])
            return true;
        at[axis] = 0;
    }
    return false;
}

/* The row that holds `element`. */
static cp_status unpack_row(cp_view *view, cp_h5 *file, const char *path, const cp_h5_array *array,
                            int64_t element)
{
    geometry g = geometry_of(array);
    int64_t at[CP_MAX_DIMS] = {0};
    int64_t lead = element / g.slab;
    int64_t begin = element % g.slab / g.inner / array->chunk[g.axis] * array->chunk[g.axis];
    int64_t rows = smaller(array->chunk[g.axis], array->extent[g.axis] - begin);
    size_t width = cp_dtype_bytes(array->dtype);
    view->band_of = NULL; /* until it is whole */
    view->band_first = lead * g.slab + begin * g.inner;
    view->band_count = rows * g.inner;
    CP_TRY(cp_view_room(&view->band, &view->band_room, (size_t)view->band_count * width));
    at[g.axis] = begin;
    for (int axis = g.axis - 1; axis >= 0; axis--) {
        at[axis] = lead % array->extent[axis];
        lead /= array->extent[axis];
    }
    do {
        const char *chunk;
        bool shuffled;
        CP_TRY(fetch(view, file, path, array, at, (size_t)g.volume * width, &chunk, &shuffled));
        place(view, array, at, chunk, shuffled);
    } while (next_chunk(at, array, g.axis));
    return CP_OK;
}

static cp_status use_row(cp_view *view, const void *owner, size_t tensor, cp_h5 *file, const char *path,
                         const cp_h5_array *array, int64_t element)
{
    if (view->band_of == owner && view->band_tensor == tensor && element >= view->band_first &&
        element < view->band_first + view->band_count)
        return CP_OK;
    CP_TRY(unpack_row(view, file, path, array, element));
    view->band_of = owner;
    view->band_tensor = tensor;
    return CP_OK;
}

cp_status cp_chunks_look(cp_view *view, const void *owner, size_t tensor, cp_h5 *file, const char *path,
                         const cp_h5_array *array, int64_t first, int64_t count, const void **data)
{
    size_t width = cp_dtype_bytes(array->dtype);
    CP_TRY(use_row(view, owner, tensor, file, path, array, first));
    *data = (const char *)view->band + (size_t)(first - view->band_first) * width;
    if (first + count <= view->band_first + view->band_count)
        return CP_OK;
    CP_TRY(cp_view_room(&view->values, &view->values_room, (size_t)count * width));
    for (int64_t done = 0; done < count;) {
        CP_TRY(use_row(view, owner, tensor, file, path, array, first + done));
        int64_t from = first + done - view->band_first;
        int64_t n = smaller(count - done, view->band_count - from);
        memcpy((char *)view->values + (size_t)done * width, (const char *)view->band + (size_t)from * width,
               (size_t)n * width);
        done += n;
    }
    *data = view->values;
    return CP_OK;
}

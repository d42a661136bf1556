/* Looking at tensors of a source where they lie. A view is the room that one reader needs: mapped windows of files,
 * decompressed chunks, joined values. Several threads may look at one source, each with views of its own. */
#ifndef CPEQ_HARNESS_FILES_VIEW_H
#define CPEQ_HARNESS_FILES_VIEW_H

#include "harness/files/source.h"

#include <stddef.h>

typedef struct cp_view {
    size_t allowance; /* bytes that decompressed chunks may take */
    /* a mapped window of a file: bytes [map_begin, map_begin + map_bytes) of `map_file` */
    int map_file;
    int64_t map_begin, map_bytes;
    const char *map;
    /* what was unpacked, or had to be put in order, of one tensor: elements [band_first, band_first + band_count) */
    const void *band_of;
    size_t band_tensor;
    int64_t band_first, band_count;
    void *band, *unpacked, *packed;
    size_t band_room, unpacked_room, packed_room;
    bool (*inflate)(void **state, void *out, size_t out_bytes, const void *in, size_t in_bytes);
    void *inflater; /* its state */
    /* what had to be read, converted or summed */
    void *values;
    size_t values_room;
    struct cp_view *parts; /* of a joined source */
    size_t part_count;
} cp_view;

void cp_view_open(cp_view *view, size_t allowance);
void cp_view_close(cp_view *view);

/* `count` elements from the `first` on: *data holds them as *dtype (of any alignment), and is good until the view is
 * used again. */
cp_status cp_view_look(cp_view *view, const cp_source *source, size_t tensor, int64_t first, int64_t count,
                       const void **data, cp_dtype *dtype);

/* The same, as double, in `out`. */
cp_status cp_view_read(cp_view *view, const cp_source *source, size_t tensor, int64_t first, int64_t count,
                       double *out);

/* `count` elements, of any alignment, as double. */
void cp_view_double(double *out, const void *data, cp_dtype dtype, int64_t count);

/* The same as float32, of float32, bfloat16 or float16. */
void cp_view_float(float *out, const void *data, cp_dtype dtype, int64_t count);

/* How a tensor is best cut (source.h). */
cp_grain cp_view_grain(const cp_source *source, size_t tensor);

/* ---- for sources ---- */

/* Room of at least `bytes` for values; what was in it may be lost. */
cp_status cp_view_room(void **room, size_t *have, size_t bytes);

void cp_view_unmap(cp_view *view);

/* Bytes [begin, begin + bytes) of the open file `descriptor`, mapped. CP_BAD_INPUT where it has become shorter. */
cp_status cp_view_map(cp_view *view, int descriptor, const char *label, int64_t begin, int64_t bytes,
                      const void **data);

/* The label of the file that this thread last mapped at an address, NULL where there is none: a page of a file that
 * becomes shorter is lost, and a signal handler may ask here what to blame. */
const char *cp_view_mapped(const void *address);

/* Views of the parts of a joined source. */
cp_status cp_view_parts(cp_view *view, size_t count);

#endif

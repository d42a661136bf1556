/* A view of an array: width-free, by value, owning nothing.
 *
 * Extents and strides are in elements. A tensor without data (a NULL pointer) is a shape: it comes from a measuring
 * arena, and only the shape kernels take it. A tensor with `dims` 0 and no data is "none": an optional argument
 * that was not given. */
#ifndef CPEQ_BASE_TENSOR_H
#define CPEQ_BASE_TENSOR_H

#include "base/arena.h"
#include "base/dtype.h"

enum { CP_MAX_DIMS = 4 };

typedef struct cp_tensor {
    void *data;
    cp_dtype dtype;
    int dims; /* 0: none */
    int64_t extent[CP_MAX_DIMS];
    int64_t stride[CP_MAX_DIMS]; /* elements */
} cp_tensor;

#define CP_NONE ((cp_tensor){0})

static inline bool cp_tensor_given(cp_tensor tensor)
{
    return tensor.dims != 0;
}

/* A contiguous view of memory that somebody else owns. The last extents may be 0 arguments: use the macros. */
cp_tensor cp_tensor_view(void *data, cp_dtype dtype, int dims, const int64_t extent[]);

/* A contiguous tensor in an arena; no data when the arena measures. Not initialised. */
cp_tensor cp_tensor_take(cp_arena *arena, cp_dtype dtype, int dims, const int64_t extent[]);

#define CP_EXTENTS(...)      ((const int64_t[]){__VA_ARGS__})
#define CP_EXTENT_COUNT(...) ((int)(sizeof(CP_EXTENTS(__VA_ARGS__)) / sizeof(int64_t)))
#define CP_TAKE(arena, dtype, ...)                                                                           \
    cp_tensor_take(arena, dtype, CP_EXTENT_COUNT(__VA_ARGS__), CP_EXTENTS(__VA_ARGS__))
#define CP_VIEW(data, dtype, ...)                                                                            \
    cp_tensor_view(data, dtype, CP_EXTENT_COUNT(__VA_ARGS__), CP_EXTENTS(__VA_ARGS__))

int64_t cp_tensor_count(cp_tensor tensor); /* elements; 1 for no extents is never returned: none has 0 */
size_t cp_tensor_bytes(cp_tensor tensor);  /* of a contiguous tensor */
bool cp_tensor_contiguous(cp_tensor tensor);
bool cp_tensor_same_shape(cp_tensor a, cp_tensor b); /* dims and extents; not strides, not dtype */
bool cp_tensor_has_shape(cp_tensor tensor, int dims, const int64_t extent[]);

/* [begin, begin + count) along `axis`: a view of the same memory. */
cp_tensor cp_tensor_slice(cp_tensor tensor, int axis, int64_t begin, int64_t count);

/* The same memory with other extents; the last axes only need be contiguous where they are split or joined.
 * Stops the job when no view can express it. */
cp_tensor cp_tensor_reshape(cp_tensor tensor, int dims, const int64_t extent[]);

/* "[2,7,16]" into `text`; returns `text`. */
enum { CP_SHAPE_TEXT = 96 };
const char *cp_shape_text(char text[CP_SHAPE_TEXT], int dims, const int64_t extent[]);

/* Sets every element of a contiguous tensor to zero; nothing where there is no data. */
void cp_tensor_zero(cp_tensor tensor);

#endif

#include "base/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

cp_tensor cp_tensor_view(void *data, cp_dtype dtype, int dims, const int64_t extent[])
{
    cp_check(dims >= 1 && dims <= CP_MAX_DIMS, "%d dimensions", dims);
    cp_tensor tensor = {.data = data, .dtype = dtype, .dims = dims};
    int64_t stride = 1;
    for (int axis = dims - 1; axis >= 0; axis--) {
        tensor.extent[axis] = extent[axis];
        tensor.stride[axis] = stride;
        stride *= extent[axis];
    }
    return tensor;
}

cp_tensor cp_tensor_take(cp_arena *arena, cp_dtype dtype, int dims, const int64_t extent[])
{
    cp_tensor tensor = cp_tensor_view(NULL, dtype, dims, extent);
    tensor.data = cp_arena_take(arena, cp_tensor_bytes(tensor));
    return tensor;
}

int64_t cp_tensor_count(cp_tensor tensor)
{
    int64_t count = tensor.dims > 0;
    for (int axis = 0; axis < tensor.dims; axis++)
        count *= tensor.extent[axis];
    return count;
}

size_t cp_tensor_bytes(cp_tensor tensor)
{
    return (size_t)cp_tensor_count(tensor) * cp_dtype_bytes(tensor.dtype);
}

bool cp_tensor_contiguous(cp_tensor tensor)
{
    int64_t stride = 1;
    for (int axis = tensor.dims - 1; axis >= 0; axis--) {
        if (tensor.extent[axis] != 1 && tensor.stride[axis] != stride)
            return false;
        stride *= tensor.extent[axis];
    }
    return true;
}

bool cp_tensor_has_shape(cp_tensor tensor, int dims, const int64_t extent[])
{
    return tensor.dims == dims && memcmp(tensor.extent, extent, (size_t)dims * sizeof *extent) == 0;
}

bool cp_tensor_same_shape(cp_tensor a, cp_tensor b)
{
    return cp_tensor_has_shape(a, b.dims, b.extent);
}

cp_tensor cp_tensor_slice(cp_tensor tensor, int axis, int64_t begin, int64_t count)
{
    cp_check(axis >= 0 && axis < tensor.dims && begin >= 0 && count >= 0 &&
                 begin + count <= tensor.extent[axis],
             "slice [%" PRId64 ", +%" PRId64 ") of axis %d", begin, count, axis);
    if (tensor.data)
        tensor.data =
            (char *)tensor.data + begin * tensor.stride[axis] * (int64_t)cp_dtype_bytes(tensor.dtype);
    tensor.extent[axis] = count;
    return tensor;
}

/* Old and new axes are walked from the last; each group of axes with equal products must be contiguous inside. */
cp_tensor cp_tensor_reshape(cp_tensor tensor, int dims, const int64_t extent[])
{
    cp_tensor out = cp_tensor_view(tensor.data, tensor.dtype, dims, extent);
    char from[CP_SHAPE_TEXT], to[CP_SHAPE_TEXT];
    cp_check(cp_tensor_count(out) == cp_tensor_count(tensor), "%s as %s",
             cp_shape_text(from, tensor.dims, tensor.extent), cp_shape_text(to, dims, extent));
    if (cp_tensor_contiguous(tensor))
        return out;
    int old_axis = tensor.dims - 1;
    int new_axis = dims - 1;
    while (old_axis >= 0 && new_axis >= 0) {
        int64_t old_count = tensor.extent[old_axis];
        int64_t new_count = extent[new_axis];
        int64_t stride = tensor.stride[old_axis];
        out.stride[new_axis] = stride;
        while (old_count != new_count) {
            if (old_count < new_count) {
                old_axis--;
                cp_check(old_axis >= 0 && tensor.stride[old_axis] == stride * old_count,
                         "%s as %s is no view", cp_shape_text(from, tensor.dims, tensor.extent),
                         cp_shape_text(to, dims, extent));
                old_count *= tensor.extent[old_axis];
            } else {
                new_axis--;
                out.stride[new_axis] = stride * new_count;
                new_count *= extent[new_axis];
            }
        }
        old_axis--;
        new_axis--;
    }
    return out;
}

const char *cp_shape_text(char text[CP_SHAPE_TEXT], int dims, const int64_t extent[])
{
    int used = snprintf(text, CP_SHAPE_TEXT, "[");
    for (int axis = 0; axis < dims; axis++)
        used += snprintf(text + used, (size_t)(CP_SHAPE_TEXT - used), axis ? ",%" PRId64 : "%" PRId64,
                         extent[axis]);
    snprintf(text + used, (size_t)(CP_SHAPE_TEXT - used), "]");
    return text;
}

void cp_tensor_zero(cp_tensor tensor)
{
    cp_check(cp_tensor_contiguous(tensor), "a strided tensor");
    if (tensor.data)
        memset(tensor.data, 0, cp_tensor_bytes(tensor));
}

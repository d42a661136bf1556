/* Tensors as rows, and the checks on entry: the part of every kernel that knows about strides and threads. */
#ifndef CPEQ_REFERENCE_ROWS_H
#define CPEQ_REFERENCE_ROWS_H

#include "reference/precision.h"
#include "reference/real.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* Below this many elements (or multiplications) a second thread costs more than it does. */
enum { CP_WORTH_A_THREAD = 1 << 15 };

/* How many threads scratch must suffice for, and which one this is. */
static inline int cp_thread_limit(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static inline int cp_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static inline int64_t cp_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows are the last axis; there is one for every combination of the axes before it. */
static inline int64_t cp_width(cp_tensor tensor)
{
    return tensor.extent[tensor.dims - 1];
}

static inline int64_t cp_row_count(cp_tensor tensor)
{
    int64_t count = 1;
    for (int axis = 0; axis < tensor.dims - 1; axis++)
        count *= tensor.extent[axis];
    return count;
}

/* Where the row stands whose leading indices, counted through, are `row`. `lead` axes are leading. */
static inline int64_t cp_offset(cp_tensor tensor, int lead, int64_t row)
{
    int64_t offset = 0;
    for (int axis = lead - 1; axis > 0; axis--) {
        offset += row % tensor.extent[axis] * tensor.stride[axis];
        row /= tensor.extent[axis];
    }
    return lead > 0 ? offset + row * tensor.stride[0] : 0;
}

static inline real *cp_row(cp_tensor tensor, int64_t row)
{
    return (real *)tensor.data + cp_offset(tensor, tensor.dims - 1, row);
}

/* One number a row (statistics, ids): every axis leads. */
static inline real *cp_scalar(cp_tensor tensor, int64_t row)
{
    return (real *)tensor.data + cp_offset(tensor, tensor.dims, row);
}

static inline int64_t cp_integer(cp_tensor tensor, int64_t row)
{
    return ((const int64_t *)tensor.data)[cp_offset(tensor, tensor.dims, row)];
}

/* Makes one axis of two neighbours wherever every operand allows it; the last `kept` axes stay alone. All operands
 * have the same extents before those. */
static inline void cp_join_axes(cp_tensor *operand[], int operands, int kept)
{
    for (int axis = operand[0]->dims - kept - 2; axis >= 0; axis--) {
        bool joined = true;
        for (int n = 0; n < operands; n++)
            joined = joined && (operand[n]->extent[axis] == 1 ||
                                operand[n]->stride[axis] ==
                                    operand[n]->extent[axis + 1] * operand[n]->stride[axis + 1]);
        for (int n = 0; joined && n < operands; n++) {
            cp_tensor *t = operand[n];
            t->extent[axis] *= t->extent[axis + 1];
            t->stride[axis] = t->stride[axis + 1];
            for (int later = axis + 1; later < t->dims - 1; later++) {
                t->extent[later] = t->extent[later + 1];
                t->stride[later] = t->stride[later + 1];
            }
            t->dims--;
        }
    }
}

static inline void cp_check_real(const char *name, cp_tensor tensor)
{
    cp_check(tensor.dims >= 1 && cp_is_real(tensor), "%s: %d axes of %s", name, tensor.dims,
             cp_dtype_name(tensor.dtype));
    cp_check(tensor.stride[tensor.dims - 1] == 1 || cp_width(tensor) <= 1,
             "%s: its last axis has stride %lld", name, (long long)tensor.stride[tensor.dims - 1]);
    cp_check(CP_SHAPE_ONLY || tensor.data || cp_tensor_count(tensor) == 0, "%s: no data", name);
}

static inline void cp_check_integers(const char *name, cp_tensor tensor, int dims, const int64_t extent[])
{
    char text[CP_SHAPE_TEXT], expected[CP_SHAPE_TEXT];
    cp_check(tensor.dtype == CP_I64 && cp_tensor_has_shape(tensor, dims, extent),
             "%s: %s%s, expected int64%s", name, cp_dtype_name(tensor.dtype),
             cp_shape_text(text, tensor.dims, tensor.extent), cp_shape_text(expected, dims, extent));
}

/* Of this width, with these extents. */
static inline void cp_check_shape(const char *name, cp_tensor tensor, int dims, const int64_t extent[])
{
    char text[CP_SHAPE_TEXT], expected[CP_SHAPE_TEXT];
    cp_check_real(name, tensor);
    cp_check(cp_tensor_has_shape(tensor, dims, extent), "%s: %s, expected %s", name,
             cp_shape_text(text, tensor.dims, tensor.extent), cp_shape_text(expected, dims, extent));
}

static inline void cp_check_like(const char *name, cp_tensor tensor, cp_tensor other)
{
    cp_check_shape(name, tensor, other.dims, other.extent);
}

/* A gradient or another optional argument. */
static inline void cp_check_optional(const char *name, cp_tensor tensor, int dims, const int64_t extent[])
{
    if (cp_tensor_given(tensor))
        cp_check_shape(name, tensor, dims, extent);
}

#endif

/* Every kernel file is compiled three times, with CP_REAL_BITS 64, 32 and 0. With 0 it is the shape kernel: it makes
 * the same checks, takes the same scratch and returns before it reads an element. Everything in a kernel file is
 * static but its table, whose name carries the width. */
#ifndef CPEQ_REFERENCE_REAL_H
#define CPEQ_REFERENCE_REAL_H

#include "base/tensor.h"

#include <math.h>

#ifndef CP_REAL_BITS
#error "a kernel file is compiled with CP_REAL_BITS defined as 64, 32 or 0"
#endif

#if CP_REAL_BITS == 64
typedef double real;
#define CP_REAL_DTYPE  CP_F64
#define CP_WIDTH(name) name##_f64
#define CP_SHAPE_ONLY  0
#elif CP_REAL_BITS == 32
typedef float real;
#define CP_REAL_DTYPE  CP_F32
#define CP_WIDTH(name) name##_f32
#define CP_SHAPE_ONLY  0
#else
typedef float real;
#define CP_REAL_DTYPE  CP_F32
#define CP_WIDTH(name) name##_shape
#define CP_SHAPE_ONLY  1
#endif

/* A tensor of this kernel's width; the shape kernel takes floats of any width. */
static inline int cp_is_real(cp_tensor tensor)
{
    return CP_SHAPE_ONLY ? cp_dtype_is_float(tensor.dtype) : tensor.dtype == CP_REAL_DTYPE;
}

#endif

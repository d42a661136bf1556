/* Element types as they stand in memory and in files. */
#ifndef CPEQ_BASE_DTYPE_H
#define CPEQ_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cp_dtype {
    CP_F64,
    CP_F32,
    CP_F16,
    CP_BF16,
    CP_I64,
    CP_I32,
    CP_U8,
    CP_DTYPES /* how many there are */
} cp_dtype;

size_t cp_dtype_bytes(cp_dtype dtype);
bool cp_dtype_is_float(cp_dtype dtype);
const char *cp_dtype_name(cp_dtype dtype);              /* "float64", "bfloat16", "int64", … */
bool cp_dtype_named(cp_dtype *dtype, const char *name); /* false: no such name */
double cp_dtype_epsilon(cp_dtype dtype); /* distance from 1 to the next number; 0 for integers */

/* bfloat16 and float16 as words; round to nearest even, NaN stays a (quiet) NaN. */
uint16_t cp_bf16_from_float(float value);
float cp_float_from_bf16(uint16_t word);
float cp_float_from_f16(uint16_t word);

/* `value` rounded to the nearest bfloat16, kept as float. */
float cp_bf16_round(float value);

/* out[i] = in[i] as double, for any dtype. `in` and `out` do not overlap. */
void cp_dtype_to_double(double *out, const void *in, cp_dtype dtype, size_t count);

/* out[i] = in[i] in `dtype` (float64, float32, bfloat16), rounded to nearest even. */
void cp_dtype_from_double(void *out, cp_dtype dtype, const double *in, size_t count);

#endif

#ifndef CPEQ_TESTS_REFERENCE_VECTOR_FUNCTIONS_H
#define CPEQ_TESTS_REFERENCE_VECTOR_FUNCTIONS_H

#include <stdint.h>

typedef enum vector_function {
    VECTOR_EXP,
    VECTOR_TANH,
    VECTOR_SIGMOID,
    VECTOR_BF16,
    VECTOR_BF16_NOISE,
    VECTOR_NOISE
} vector_function;

/* y, x: n doubles or floats */
typedef void vector_apply(vector_function function, void *y, const void *x, int64_t n);

extern vector_apply *const vector_apply_f64;
extern vector_apply *const vector_apply_f32;

#endif

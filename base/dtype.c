#include "base/dtype.h"

#include "base/status.h"

#include <math.h>
#include <string.h>

typedef struct traits {
    const char *name;
    size_t bytes;
    double epsilon; /* 0: no float */
} traits;

static const traits table[CP_DTYPES] = {
    [CP_F64] = {"float64", 8, 0x1p-52}, [CP_F32] = {"float32", 4, 0x1p-23},
    [CP_F16] = {"float16", 2, 0x1p-10}, [CP_BF16] = {"bfloat16", 2, 0x1p-7},
    [CP_I64] = {"int64", 8, 0},         [CP_I32] = {"int32", 4, 0},
    [CP_U8] = {"uint8", 1, 0},
};

static const traits *traits_of(cp_dtype dtype)
{
    cp_check((int)dtype >= 0 && dtype < CP_DTYPES, "dtype %d", (int)dtype);
    return &table[dtype];
}

size_t cp_dtype_bytes(cp_dtype dtype)
{
    return traits_of(dtype)->bytes;
}

bool cp_dtype_is_float(cp_dtype dtype)
{
    return traits_of(dtype)->epsilon > 0;
}

const char *cp_dtype_name(cp_dtype dtype)
{
    return traits_of(dtype)->name;
}

bool cp_dtype_named(cp_dtype *dtype, const char *name)
{
    for (int i = 0; i < CP_DTYPES; i++)
        if (strcmp(table[i].name, name) == 0) {
            *dtype = (cp_dtype)i;
            return true;
        }
    return false;
}

double cp_dtype_epsilon(cp_dtype dtype)
{
    return traits_of(dtype)->epsilon;
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t cp_bf16_from_float(float value)
{
    uint32_t bits = float_bits(value);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40); /* the carry of rounding could make an infinity of it */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float cp_float_from_bf16(uint16_t word)
{
    return float_of_bits((uint32_t)word << 16);
}

float cp_float_from_f16(uint16_t word)
{
    uint32_t sign = (uint32_t)(word & 0x8000) << 16;
    uint32_t exponent = word >> 10 & 0x1f;
    uint32_t fraction = word & 0x3ff;
    if (exponent == 0x1f)
        return float_of_bits(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

float cp_bf16_round(float value)
{
    return cp_float_from_bf16(cp_bf16_from_float(value));
}

/* Rounded to odd, so that a second rounding to fewer bits gives what one rounding of `value` would. */
static float float_to_odd(double value)
{
    float nearest = (float)value;
    uint32_t bits = float_bits(nearest);
    if ((double)nearest == value || isnan(value) || bits & 1)
        return nearest;
    return float_of_bits(fabs((double)nearest) > fabs(value) ? bits - 1 : bits + 1);
}

void cp_dtype_to_double(double *out, const void *in, cp_dtype dtype, size_t count)
{
#define CONVERT(type, expression)                                                                            \
    do {                                                                                                     \
        const type *x = in;                                                                                  \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = (double)(expression);                                                                   \
    } while (0)

    switch (dtype) {
    case CP_F64: CONVERT(double, x[i]); return;
    case CP_F32: CONVERT(float, x[i]); return;
    case CP_F16: CONVERT(uint16_t, cp_float_from_f16(x[i])); return;
    case CP_BF16: CONVERT(uint16_t, cp_float_from_bf16(x[i])); return;
    case CP_I64: CONVERT(int64_t, x[i]); return;
    case CP_I32: CONVERT(int32_t, x[i]); return;
    case CP_U8: CONVERT(uint8_t, x[i]); return;
    case CP_DTYPES: break;
    }
#undef CONVERT
    cp_check(false, "dtype %d", (int)dtype);
}

void cp_dtype_from_double(void *out, cp_dtype dtype, const double *in, size_t count)
{
    cp_check(dtype == CP_F64 || dtype == CP_F32 || dtype == CP_BF16, "%s", cp_dtype_name(dtype));
    if (dtype == CP_F64) {
        double *y = out;
        for (size_t i = 0; i < count; i++)
            y[i] = in[i];
    } else if (dtype == CP_F32) {
        float *y = out;
        for (size_t i = 0; i < count; i++)
            y[i] = (float)in[i];
    } else {
        uint16_t *y = out;
        for (size_t i = 0; i < count; i++)
            y[i] = cp_bf16_from_float(float_to_odd(in[i]));
    }
}

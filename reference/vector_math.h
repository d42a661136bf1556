/* Exponential and its relatives in a form that the compiler can turn into vector code: no branch, no table, no call.
 * libm's scalar versions cost a seventh of a training step.
 *
 * Errors in units in the last place, over all arguments (tests/reference/test_widths.c measures them against libm in
 * long double):
 *              float64   float32
 *   vec_exp       1.5       1.5     0 below x = −708 (float64) and −86.5 (float32), ∞ where it overflows
 *   vec_tanh      2.5       2.5
 *   vec_sigmoid   3         3       relative, also where it is nearly 0
 * NaN in, NaN out. */
#ifndef CPEQ_REFERENCE_VECTOR_MATH_H
#define CPEQ_REFERENCE_VECTOR_MATH_H

#include "reference/real.h"

#include <string.h>

#define CP_INLINE static inline __attribute__((always_inline))

/* A leaf loop is compiled for several instruction sets and chosen at start-up. All of them give the same bits: sums
 * are never reordered by the compiler (no -ffast-math) and products never fused (-ffp-contract=off). Sanitizers run
 * before the choice is made and cannot stand it. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && !defined(__clang__) &&             \
    !defined(CP_SANITIZED)
#define CP_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define CP_CLONES
#endif

#if CP_REAL_BITS == 64
typedef uint64_t real_bits;
#define real_sqrt(x)  sqrt(x)
#define real_log(x)   log(x)
#define real_log1p(x) log1p(x)
#define real_exp(x)   exp(x)
#define real_exp2(x)  exp2(x)
#define real_log2(x)  log2(x)
#define real_erf(x)   erf(x)
enum { REAL_FRACTION_BITS = 52, REAL_BIAS = 1023 };
#else
typedef uint32_t real_bits;
#define real_sqrt(x)  sqrtf(x)
#define real_log(x)   logf(x)
#define real_log1p(x) log1pf(x)
#define real_exp(x)   expf(x)
#define real_exp2(x)  exp2f(x)
#define real_log2(x)  log2f(x)
#define real_erf(x)   erff(x)
enum { REAL_FRACTION_BITS = 23, REAL_BIAS = 127 };
#endif

CP_INLINE real real_from_bits(real_bits bits)
{
    real value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

CP_INLINE real_bits bits_of_real(real value)
{
    real_bits bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* (e^r − 1 − r) / r² for |r| ≤ ½ log 2: Chebyshev interpolation, error below a tenth of a unit of e^r. */
CP_INLINE real exp_tail(real r)
{
#if CP_REAL_BITS == 64
    real q = 0x1.1f731ea5352cap-29;
    q = q * r + 0x1.af4e196027428p-26;
    q = q * r + 0x1.27e4db57442fbp-22;
    q = q * r + 0x1.71de021a90822p-19;
    q = q * r + 0x1.a01a01a6dcaffp-16;
    q = q * r + 0x1.a01a01abef415p-13;
    q = q * r + 0x1.6c16c16c162ccp-10;
    q = q * r + 0x1.11111111100cep-7;
    q = q * r + 0x1.5555555555556p-5;
    q = q * r + 0x1.5555555555557p-3;
    return q * r + 0.5;
#else
    real q = 0x1.6d113cp-10F;
    q = q * r + 0x1.120ba2p-7F;
    q = q * r + 0x1.55551ap-5F;
    q = q * r + 0x1.5554dcp-3F;
    return q * r + 0.5F;
#endif
}

/* x = n log 2 + r. `bits` is n, in two's complement, in its low bits. */
typedef struct reduced {
    real r;
    real_bits n;
} reduced;

CP_INLINE reduced reduce_exponent(real x)
{
#if CP_REAL_BITS == 64
    const real per_log2 = 0x1.71547652b82fep+0, magic = 0x1.8p52;
    const real log2_high = 0x1.62e42feep-1, log2_low = 0x1.a39ef35793c76p-33;
#else
    const real per_log2 = 0x1.715476p+0F, magic = 0x1.8p23F;
    const real log2_high = 0x1.63p-1F, log2_low = -0x1.bd0106p-13F;
#endif
    real shifted = x * per_log2 + magic; /* the addition rounds to an integer and leaves it in the fraction */
    real n = shifted - magic;
    return (reduced){.r = (x - n * log2_high) - n * log2_low, .n = bits_of_real(shifted)};
}

/* 2^(n + offset) */
CP_INLINE real power_of_two(real_bits n, int offset)
{
    return real_from_bits((n + (real_bits)(REAL_BIAS + offset)) << REAL_FRACTION_BITS);
}

CP_INLINE real vec_exp(real x)
{
#if CP_REAL_BITS == 64
    const real lowest = -708, highest = 0x1.62e42fefa39efp+9;
#else
    const real lowest = -86.5F, highest = 0x1.62e42ep+6F;
#endif
    real inside = x < lowest ? lowest : x;
    inside = inside > highest ? highest : inside;
    reduced e = reduce_exponent(inside);
    real value = (real)1 + (e.r + e.r * e.r * exp_tail(e.r));
    value = value * power_of_two(e.n, -1) * (real)2; /* 2^1024 has no representation, half of it has */
    value = x < lowest ? (real)0 : value;
    return x > highest ? (real)INFINITY : value;
}

/* tanh |x| = m / (m + 2) with m = e^(2|x|) − 1, which keeps its digits where x is small. */
CP_INLINE real vec_tanh(real x)
{
#if CP_REAL_BITS == 64
    const real saturated = 44;
#else
    const real saturated = 20;
#endif
    real magnitude = x < (real)0 ? -x : x;
    real twice = magnitude + magnitude;
    twice = twice > saturated ? saturated : twice;
    reduced e = reduce_exponent(twice);
    real power = power_of_two(e.n, 0);
    real m = power * (e.r + e.r * e.r * exp_tail(e.r)) + (power - (real)1);
    real value = m / (m + (real)2);
    return x < (real)0 ? -value : value;
}

CP_INLINE real vec_sigmoid(real x)
{
    return (real)1 / ((real)1 + vec_exp(-x));
}

/* Long sums run in this many lanes, in index order inside each, and end in a fixed tree: one order for every machine,
 * and vector code without licence to reorder. */
enum { LANES = 16 };

CP_INLINE void greatest_in_lanes(real lane[LANES], const real *x, int64_t n)
{
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] = x[j + i] > lane[i] ? x[j + i] : lane[i];
    for (int i = 0; j + i < n; i++)
        lane[i] = x[j + i] > lane[i] ? x[j + i] : lane[i];
}

CP_INLINE real greatest_of_lanes(const real lane[LANES])
{
    real greatest = lane[0];
    for (int i = 1; i < LANES; i++)
        greatest = lane[i] > greatest ? lane[i] : greatest;
    return greatest;
}

CP_INLINE real sum_of_lanes(real lane[LANES])
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

CP_INLINE real dot_in_lanes(const real *a, const real *b, int64_t n)
{
    real lane[LANES] = {0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] += a[j + i] * b[j + i];
    for (int i = 0; j + i < n; i++)
        lane[i] += a[j + i] * b[j + i];
    return sum_of_lanes(lane);
}

#endif

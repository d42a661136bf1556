/* The polynomials against libm in long double, in units in the last place, over all arguments that matter. */
#include "tests/reference/widths.h"

#include "tests/reference/vector_functions.h"
#include "tests/support/support.h"

#include "base/dtype.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 200000 };

static long double exact_exp(long double x)
{
    return expl(x);
}

static long double exact_tanh(long double x)
{
    return tanhl(x);
}

static long double exact_sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

/* Arguments are uniform in [low, high], or have a uniform exponent (`small`), of either sign. */
typedef struct range {
    const char *name;
    vector_function function;
    long double (*exact)(long double x);
    double low_f64, high_f64, low_f32, high_f32;
    bool small;
    double ulps; /* as vector_math.h says */
} range;

static const range ranges[] = {
    {"exp", VECTOR_EXP, exact_exp, -708, 709.78, -86.5, 88.72, false, 1.5},
    {"exp of little", VECTOR_EXP, exact_exp, -40, 0, -40, 0, true, 1.5},
    {"exp near 0", VECTOR_EXP, exact_exp, -1, 1, -1, 1, false, 1.5},
    {"tanh", VECTOR_TANH, exact_tanh, -25, 25, -12, 12, false, 2.5},
    {"tanh near 0", VECTOR_TANH, exact_tanh, -1, 1, -1, 1, false, 2.5},
    {"tanh of little", VECTOR_TANH, exact_tanh, -40, 0, -40, 0, true, 2.5},
    {"sigmoid", VECTOR_SIGMOID, exact_sigmoid, -700, 700, -86, 86, false, 3},
    {"sigmoid near 0", VECTOR_SIGMOID, exact_sigmoid, -6, 6, -6, 6, false, 3},
};

/* |found − exact| in units of the last place of exact, of a type with `bits` of fraction. */
static double ulps(double found, long double exact, int bits)
{
    int exponent;
    frexpl(exact, &exponent);
    return (double)(fabsl((long double)found - exact) / ldexpl(1, exponent - bits));
}

static double argument(const range *r, bool single, cp_rng rng, uint64_t n)
{
    double low = single ? r->low_f32 : r->low_f64;
    double high = single ? r->high_f32 : r->high_f64;
    double value = low + (high - low) * cp_rng_uniform(rng, n);
    if (r->small)
        value = (n % 2 ? 1 : -1) * exp2(value);
    return single ? (double)(float)value : value;
}

static double worst(const range *r, bool single, uint64_t seed)
{
    cp_rng rng = cp_rng_named(seed, r->name);
    double *x = calloc(COUNT, sizeof *x), *y = calloc(COUNT, sizeof *y);
    float *xs = calloc(COUNT, sizeof *xs), *ys = calloc(COUNT, sizeof *ys);
    for (int n = 0; n < COUNT; n++)
        xs[n] = (float)(x[n] = argument(r, single, rng, (uint64_t)n));
    if (single)
        vector_apply_f32(r->function, ys, xs, COUNT);
    else
        vector_apply_f64(r->function, y, x, COUNT);
    double error = 0;
    for (int n = 0; n < COUNT; n++) {
        double one =
            ulps(single ? (double)ys[n] : y[n], r->exact(x[n]), single ? FLT_MANT_DIG : DBL_MANT_DIG);
        error = one <= error ? error : one; /* NaN is kept */
    }
    free(x);
    free(y);
    free(xs);
    free(ys);
    return error;
}

void vector_errors_are_as_stated(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (size_t n = 0; n < sizeof ranges / sizeof *ranges; n++)
        for (int single = 0; single < 2; single++) {
            double error = worst(&ranges[n], single, seed);
            print_message("%s, float%d: %.2f ulp\n", ranges[n].name, single ? 32 : 64, error);
            assert_true(error <= ranges[n].ulps);
        }
}

typedef struct corner {
    vector_function function;
    double x, y;
} corner;

/* Where no polynomial is: overflow, underflow, saturation. The same at both widths. */
static const corner corners[] = {
    {VECTOR_EXP, -INFINITY, 0},
    {VECTOR_EXP, INFINITY, INFINITY},
    {VECTOR_EXP, 1000, INFINITY},
    {VECTOR_EXP, -1000, 0},
    {VECTOR_EXP, 0, 1},
    {VECTOR_EXP, -0.0, 1},
    {VECTOR_TANH, INFINITY, 1},
    {VECTOR_TANH, -INFINITY, -1},
    {VECTOR_TANH, 0, 0},
    {VECTOR_TANH, 1e30, 1},
    {VECTOR_SIGMOID, -INFINITY, 0},
    {VECTOR_SIGMOID, INFINITY, 1},
    {VECTOR_SIGMOID, 0, 0.5},
    {VECTOR_EXP, NAN, NAN},
    {VECTOR_TANH, NAN, NAN},
    {VECTOR_SIGMOID, NAN, NAN},
    {VECTOR_SIGMOID, -1000, 0},
};

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

void vector_corners(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof corners / sizeof *corners; n++) {
        double x = corners[n].x, y;
        float xs = (float)x, ys;
        vector_apply_f64(corners[n].function, &y, &x, 1);
        vector_apply_f32(corners[n].function, &ys, &xs, 1);
        if (!same(y, corners[n].y) || !same((double)ys, corners[n].y))
            print_error("function %d of %g: %g and %g, expected %g\n", (int)corners[n].function, x, y,
                        (double)ys, corners[n].y);
        assert_true(same(y, corners[n].y) && same((double)ys, corners[n].y));
    }
}

/* Every exponent with ties, their neighbours and random fractions, against the conversion of base. */
void bf16_rounds_as_base_does(void **state)
{
    (void)state;
    enum { PER_EXPONENT = 64 };
    cp_rng rng = cp_rng_named(test_seed(), "bf16");
    for (uint32_t high = 0; high < 1 << 9; high++) {
        float x[PER_EXPONENT], y[PER_EXPONENT];
        for (uint32_t n = 0; n < PER_EXPONENT; n++) {
            static const uint32_t edges[] = {0x8000,  0x7fff,  0x8001,   0x18000,
                                             0x17fff, 0x18001, 0x7fffff, 0x7f8000};
            uint32_t low = n < 8 ? edges[n] : (uint32_t)cp_rng_bits(rng, high * PER_EXPONENT + n);
            uint32_t bits = (high << 23) | (low & 0x7fffff);
            memcpy(&x[n], &bits, sizeof bits);
        }
        vector_apply_f32(VECTOR_BF16, y, x, PER_EXPONENT);
        for (int n = 0; n < PER_EXPONENT; n++) {
            float expected = cp_bf16_round(x[n]);
            assert_true(isnan(expected) ? isnan(y[n]) : memcmp(&y[n], &expected, sizeof expected) == 0);
        }
    }
}

/* An eighth of the way to the next bfloat16, one of eight is rounded up; what is a bfloat16 already stays. */
void bf16_noise_is_fair(void **state)
{
    (void)state;
    enum { DRAWS = 40000 };
    static float x[DRAWS], y[DRAWS];
    for (int eighths = 0; eighths < 8; eighths++) {
        int up = 0;
        for (int n = 0; n < DRAWS; n++)
            x[n] = -(1 + (float)eighths * 0x1p-10F);
        vector_apply_f32(VECTOR_BF16_NOISE, y, x, DRAWS);
        for (int n = 0; n < DRAWS; n++) {
            assert_true(y[n] == -1 || (eighths > 0 && y[n] == -(1 + 0x1p-7F)));
            up += y[n] != -1;
        }
        double expected = DRAWS * eighths / 8.0;
        assert_true(fabs(up - expected) <= 5 * sqrt(expected * (1 - eighths / 8.0)));
    }
}

/* A neighbour, above or below as often; zeros and what is not finite stay. */
void noise_is_one_unit(void **state)
{
    (void)state;
    enum { DRAWS = 10000, STILL = 4 };
    static double x[DRAWS], y[DRAWS];
    static float narrow_x[DRAWS], narrow_y[DRAWS];
    for (int n = 0; n < DRAWS; n++)
        narrow_x[n] = (float)(x[n] = n < STILL ? (double[]){0, -0.0, INFINITY, -INFINITY}[n] : 1.5 + n);
    vector_apply_f64(VECTOR_NOISE, y, x, DRAWS);
    vector_apply_f32(VECTOR_NOISE, narrow_y, narrow_x, DRAWS);
    for (int n = 0; n < STILL; n++)
        assert_true(memcmp(&x[n], &y[n], sizeof *x) == 0 &&
                    memcmp(&narrow_x[n], &narrow_y[n], sizeof *narrow_x) == 0);
    int above = 0, narrow_above = 0;
    for (int n = STILL; n < DRAWS; n++) {
        assert_true(y[n] == nextafter(x[n], INFINITY) || y[n] == nextafter(x[n], 0));
        assert_true(narrow_y[n] == nextafterf(narrow_x[n], INFINITY) ||
                    narrow_y[n] == nextafterf(narrow_x[n], 0));
        above += y[n] > x[n];
        narrow_above += narrow_y[n] > narrow_x[n];
    }
    assert_in_range(above, DRAWS / 2 - 250, DRAWS / 2 + 250);
    assert_in_range(narrow_above, DRAWS / 2 - 250, DRAWS / 2 + 250);
}

#include "base/dtype.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { WORDS = 1 << 16 };

static void traits_agree(void **state)
{
    (void)state;
    for (int i = 0; i < CP_DTYPES; i++) {
        cp_dtype dtype = CP_DTYPES;
        assert_true(cp_dtype_named(&dtype, cp_dtype_name((cp_dtype)i)));
        assert_int_equal(dtype, i);
        assert_int_equal(cp_dtype_is_float(dtype), cp_dtype_epsilon(dtype) > 0);
    }
    cp_dtype dtype = CP_U8;
    assert_false(cp_dtype_named(&dtype, "float8"));
    assert_int_equal(dtype, CP_U8);
    assert_string_equal(cp_dtype_name(CP_BF16), "bfloat16");
    const size_t bytes[CP_DTYPES] = {8, 4, 2, 2, 8, 4, 1};
    for (int i = 0; i < CP_DTYPES; i++)
        assert_int_equal(cp_dtype_bytes((cp_dtype)i), bytes[i]);
    assert_true(cp_dtype_epsilon(CP_F64) == DBL_EPSILON && cp_dtype_epsilon(CP_F32) == FLT_EPSILON);
    assert_true(cp_dtype_epsilon(CP_F16) == 0x1p-10 && cp_dtype_epsilon(CP_BF16) == 0x1p-7);
}

/* sign · 1.fraction · 2^exponent, by arithmetic. */
static double value_of(int word, int exponent_bits, int fraction_bits)
{
    int exponent = word >> fraction_bits & ((1 << exponent_bits) - 1);
    int fraction = word & ((1 << fraction_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = word >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

static void every_word_has_its_value(void **state)
{
    (void)state;
    for (int word = 0; word < WORDS; word++) {
        assert_true(same((double)cp_float_from_bf16((uint16_t)word), value_of(word, 8, 7)));
        assert_true(same((double)cp_float_from_f16((uint16_t)word), value_of(word, 5, 10)));
    }
}

static uint16_t bf16_of_double(double value)
{
    uint16_t word;
    cp_dtype_from_double(&word, CP_BF16, &value, 1);
    return word;
}

static void every_word_survives(void **state)
{
    (void)state;
    for (int word = 0; word < WORDS; word++) {
        float value = cp_float_from_bf16((uint16_t)word);
        uint16_t back = cp_bf16_from_float(value);
        if (isnan(value)) {
            assert_true(isnan(cp_float_from_bf16(back)) && back & 0x40);
            assert_true(isnan(cp_float_from_bf16(bf16_of_double((double)value))));
        } else {
            assert_int_equal(back, word);
            assert_int_equal(bf16_of_double((double)value), word);
        }
    }
}

static void signalling_nan_stays_nan(void **state)
{
    (void)state;
    const uint32_t bits[] = {0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        float value;
        memcpy(&value, &bits[i], sizeof value);
        assert_true(isnan(cp_bf16_round(value)));
    }
}

/* Between each two neighbours: just below the middle, the middle (to even), just above; in float and in double, whose
 * middle and neighbours a rounding by way of float would get wrong. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    const int largest = 0x7f7f; /* its upper neighbour, for rounding, is 2^128 */
    for (int word = 0; word <= largest; word++) {
        double low = value_of(word, 8, 7);
        double high = word < largest ? value_of(word + 1, 8, 7) : 0x1p128;
        double middle = low / 2 + high / 2;
        int even = word % 2 == 0 ? word : word + 1;
        assert_int_equal(bf16_of_double(nextafter(middle, 0)), word);
        assert_int_equal(bf16_of_double(middle), even);
        assert_int_equal(bf16_of_double(nextafter(middle, INFINITY)), word + 1);
        assert_int_equal(bf16_of_double(-nextafter(middle, 0)), word | 0x8000);
        assert_int_equal(bf16_of_double(-middle), even | 0x8000);
        assert_int_equal(bf16_of_double(-nextafter(middle, INFINITY)), (word + 1) | 0x8000);
        float above = nextafterf((float)middle, INFINITY), below = nextafterf((float)middle, 0);
        assert_int_equal(bf16_of_double(middle + 0.75 * ((double)above - middle)), word + 1);
        assert_int_equal(bf16_of_double(middle - 0.75 * (middle - (double)below)), word);
        assert_int_equal(cp_bf16_from_float(below), word);
        assert_int_equal(cp_bf16_from_float((float)middle), even);
        assert_int_equal(cp_bf16_from_float(above), word + 1);
    }
    assert_int_equal(bf16_of_double(DBL_MAX), 0x7f80);
    assert_int_equal(bf16_of_double(DBL_TRUE_MIN), 0);
    assert_int_equal(bf16_of_double(-DBL_TRUE_MIN), 0x8000);
}

static void arrays_are_converted(void **state)
{
    (void)state;
    const double values[] = {0, -1.5, 3, 250};
    enum { COUNT = sizeof values / sizeof *values };
    double back[COUNT];
    const int64_t i64[COUNT] = {0, -1, 3, 250};
    const int32_t i32[COUNT] = {0, -1, 3, 250};
    const uint8_t u8[COUNT] = {0, 255, 3, 250};
    const double integers[COUNT] = {0, -1, 3, 250}, bytes[COUNT] = {0, 255, 3, 250};
    const uint16_t f16[COUNT] = {0, 0xbe00, 0x4200, 0x5bd0};

    cp_dtype_to_double(back, i64, CP_I64, COUNT);
    assert_memory_equal(back, integers, sizeof back);
    cp_dtype_to_double(back, i32, CP_I32, COUNT);
    assert_memory_equal(back, integers, sizeof back);
    cp_dtype_to_double(back, u8, CP_U8, COUNT);
    assert_memory_equal(back, bytes, sizeof back);
    cp_dtype_to_double(back, f16, CP_F16, COUNT);
    assert_memory_equal(back, values, sizeof back);

    const cp_dtype floats[] = {CP_F64, CP_F32, CP_BF16};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        double memory[COUNT];
        cp_dtype_from_double(memory, floats[i], values, COUNT);
        cp_dtype_to_double(back, memory, floats[i], COUNT);
        assert_memory_equal(back, values, sizeof back);
    }
}

static void store_integer(void *unused)
{
    (void)unused;
    double value = 1;
    int64_t out;
    cp_dtype_from_double(&out, CP_I64, &value, 1);
}

static void integers_are_not_written(void **state)
{
    (void)state;
    assert_stops(store_integer, NULL, "int64");
}

int dtype_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traits_agree),
        cmocka_unit_test(every_word_has_its_value),
        cmocka_unit_test(every_word_survives),
        cmocka_unit_test(signalling_nan_stays_nan),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(arrays_are_converted),
        cmocka_unit_test(integers_are_not_written),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}

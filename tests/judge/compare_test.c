#include "harness/judge/compare.h"

#include "base/rng.h"
#include "tests/judge/groups.h"
#include "tests/support/support.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static cp_statistics compare(const double *expected, const double *actual, const uint8_t *places,
                             int64_t count)
{
    cp_statistics statistics;
    cp_compare_begin(&statistics, 0, 0);
    cp_compare_add(&statistics, expected, actual, places, count);
    cp_compare_finish(&statistics);
    return statistics;
}

static void assert_relative(double actual, double expected, double relative)
{
    if (!(fabs(actual - expected) <= relative * fabs(expected)))
        fail_msg("%.17g, expected %.17g", actual, expected);
}

/* Values over many magnitudes, in uneven pieces, against sums in long double. */
static void agrees_with_long_double(void **state)
{
    (void)state;
    enum { COUNT = 100003 };
    double *e = malloc(COUNT * sizeof *e);
    double *a = malloc(COUNT * sizeof *a);
    uint8_t *places = malloc(COUNT);
    cp_rng rng = cp_rng_named(test_seed(), "compare");
    cp_statistics s;
    cp_compare_begin(&s, 0, 0);
    long double ee = 0, aa = 0, dd = 0, ae = 0, largest = 0;
    int64_t worst = -1, unjudged = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        e[i] = cp_rng_normal(rng, 3 * (uint64_t)i) * pow(10, 6 * cp_rng_uniform(rng, 3 * (uint64_t)i + 1));
        a[i] = e[i] + 1e-9 * cp_rng_normal(rng, 3 * (uint64_t)i + 2);
        places[i] = i % 7 == 3 ? CP_PLACE_UNJUDGED : CP_PLACE_JUDGED;
        unjudged += places[i] == CP_PLACE_UNJUDGED;
        if (places[i] == CP_PLACE_UNJUDGED)
            continue;
        long double d = fabsl((long double)(a[i] - e[i]));
        ee += (long double)e[i] * e[i];
        aa += (long double)a[i] * a[i];
        ae += (long double)a[i] * e[i];
        dd += d * d;
        if (d > largest) {
            largest = d;
            worst = i;
        }
    }
    for (int64_t done = 0, piece = 1; done < COUNT; piece = piece * 3 + 1) {
        int64_t count = piece < COUNT - done ? piece : COUNT - done;
        cp_compare_add(&s, e + done, a + done, places + done, count);
        done += count;
    }
    cp_compare_finish(&s);
    assert_relative(s.expected_norm, (double)sqrtl(ee), 1e-15);
    assert_relative(s.actual_norm, (double)sqrtl(aa), 1e-15);
    assert_relative(s.error_norm, (double)sqrtl(dd), 1e-14);
    assert_relative(s.factor, (double)(ae / ee), 1e-15);
    assert_relative(s.cosine, (double)(ae / sqrtl(ee * aa)), 1e-15);
    assert_int_equal(s.worst.index, worst);
    assert_true(s.largest_error == (double)largest);
    assert_true(s.worst.expected == e[worst] && s.worst.actual == a[worst]);
    assert_int_equal(s.unjudged, unjudged);
    assert_int_equal(s.judged, COUNT - unjudged);
    free(e);
    free(a);
    free(places);
}

/* One large and many small values of the same sign: a plain sum loses the small ones. */
static void small_terms_are_not_lost(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    double *e = malloc(COUNT * sizeof *e);
    e[0] = 1e8;
    for (int i = 1; i < COUNT; i++)
        e[i] = 1;
    cp_statistics s = compare(e, e, NULL, COUNT);
    assert_relative(s.expected_norm, (double)sqrtl(1e16L + (COUNT - 1)), 3e-14); /* plainly: 5e-11 */
    assert_true(s.error_norm == 0 && s.mismatches == 0 && s.worst.index == -1);
    free(e);
}

static void magnitudes_neither_overflow_nor_vanish(void **state)
{
    (void)state;
    static const double scales[] = {1e300, 1e-300, 1, 4e-320, 4e307};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        double e[] = {3 * scales[i] / 8, 4 * scales[i] / 8};
        double a[] = {e[0] * 2, e[1] * 2};
        double digits = scales[i] < 1e-310 ? 1e-3 : 1e-15; /* subnormal numbers have few */
        cp_statistics s = compare(e, a, NULL, 2);
        assert_relative(s.expected_norm, 5 * scales[i] / 8, digits);
        assert_relative(s.actual_norm, 10 * scales[i] / 8, digits);
        assert_relative(s.error_norm, 5 * scales[i] / 8, digits);
        assert_relative(s.factor, 2, digits);
        assert_relative(s.cosine, 1, digits);
    }
}

/* Tiles of very different size follow each other, in both orders. */
static void magnitudes_mix(void **state)
{
    (void)state;
    enum { COUNT = 1024 };
    double e[COUNT];
    for (int reversed = 0; reversed < 2; reversed++) {
        for (int i = 0; i < COUNT; i++)
            e[i] = (i < COUNT / 2) == reversed ? 1e-200 : 1e200;
        cp_statistics s = compare(e, e, NULL, COUNT);
        assert_relative(s.expected_norm, sqrt(COUNT / 2) * 1e200, 1e-15);
        assert_relative(s.cosine, 1, 1e-15);
    }
}

static void an_overflowing_error_is_the_largest_number(void **state)
{
    (void)state;
    double e[] = {DBL_MAX, 1};
    double a[] = {-DBL_MAX, 1};
    cp_statistics s = compare(e, a, NULL, 2);
    assert_true(s.largest_error == DBL_MAX);
    assert_true(s.error_norm >= 1e308 && isfinite(s.error_norm) && isfinite(s.expected_norm));
    assert_relative(s.factor, -1, 1e-15);
}

static void values_that_are_not_finite_are_counted_and_left_out(void **state)
{
    (void)state;
    double e[] = {1, NAN, 2, INFINITY, 3, 4};
    double a[] = {1, NAN, -INFINITY, INFINITY, NAN, 5};
    cp_statistics s = compare(e, a, NULL, 6);
    assert_int_equal(s.judged, 6);
    assert_int_equal(s.nonfinite_expected, 2);
    assert_int_equal(s.nonfinite_actual, 4);
    assert_int_equal(s.first_nonfinite.index, 1);
    assert_relative(s.expected_norm, sqrt(17), 1e-15);
    assert_relative(s.error_norm, 1, 1e-15);
    assert_int_equal(s.worst.index, 5);
}

static void padding_may_hold_anything(void **state)
{
    (void)state;
    double e[] = {1, NAN, 2};
    double a[] = {1, 7, 2};
    const uint8_t places[] = {CP_PLACE_JUDGED, CP_PLACE_UNJUDGED, CP_PLACE_JUDGED};
    cp_statistics s = compare(e, a, places, 3);
    assert_int_equal(s.judged, 2);
    assert_int_equal(s.unjudged, 1);
    assert_int_equal(s.nonfinite_expected + s.nonfinite_actual + s.mismatches, 0);
}

static void zero_means_zero(void **state)
{
    (void)state;
    double e[] = {0, 0, -0.0, 0, 1e-320};
    double a[] = {0, 1e-320, 0, NAN, 0};
    uint8_t places[] = {CP_PLACE_ZERO, CP_PLACE_ZERO, CP_PLACE_ZERO, CP_PLACE_ZERO, CP_PLACE_ZERO};
    cp_statistics s = compare(e, a, places, 5);
    assert_int_equal(s.zero_violations, 3);
    assert_int_equal(s.first_violation.index, 1);
    assert_true(s.first_violation.actual == 1e-320);
}

/* With a relative bound the worst element is the one farthest over its own. */
static void the_worst_is_in_units_of_its_bound(void **state)
{
    (void)state;
    double e[] = {100, 1, 0};
    double a[] = {110, 1.5, 0};
    cp_statistics s;
    cp_compare_begin(&s, 1e-3, 0.1);
    cp_compare_add(&s, e, a, NULL, 3);
    cp_compare_finish(&s);
    assert_int_equal(s.worst.index, 1);
    assert_true(s.largest_error == 0.5);
    assert_relative(s.worst_bound, 0.101, 1e-15);
    cp_statistics equal;
    cp_compare_begin(&equal, 1e-3, 0.1);
    cp_compare_add(&equal, e, e, NULL, 3);
    assert_int_equal(equal.worst.index, -1);
    assert_relative(s.bound_norm, sqrt(10.001 * 10.001 + 0.101 * 0.101 + 1e-6), 1e-15);
}

static void directions_of_nothing_are_undefined(void **state)
{
    (void)state;
    double zero[] = {0, 0};
    double one[] = {1, 1};
    cp_statistics s = compare(zero, one, NULL, 2);
    assert_true(isnan(s.factor) && isnan(s.cosine));
    s = compare(one, zero, NULL, 2);
    assert_true(s.factor == 0 && isnan(s.cosine) && s.largest_actual == 0);
}

int compare_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_long_double),
        cmocka_unit_test(small_terms_are_not_lost),
        cmocka_unit_test(magnitudes_neither_overflow_nor_vanish),
        cmocka_unit_test(magnitudes_mix),
        cmocka_unit_test(an_overflowing_error_is_the_largest_number),
        cmocka_unit_test(values_that_are_not_finite_are_counted_and_left_out),
        cmocka_unit_test(padding_may_hold_anything),
        cmocka_unit_test(zero_means_zero),
        cmocka_unit_test(the_worst_is_in_units_of_its_bound),
        cmocka_unit_test(directions_of_nothing_are_undefined),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}

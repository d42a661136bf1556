#include "base/rng.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>

enum { MANY = 1000000 };

/* SplitMix64 with state 1234567, as published with its reference implementation. */
static void bits_are_splitmix64(void **state)
{
    (void)state;
    const uint64_t published[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                  4593380528125082431u, 16408922859458223821u};
    for (uint64_t i = 0; i < 5; i++)
        assert_true(cp_rng_bits((cp_rng){.key = 1234567}, i) == published[i]);
}

/* Weights, and with them every random fixture, are made of these: they stay as they are from version to version. */
static void values_are_frozen(void **state)
{
    (void)state;
    const struct {
        uint64_t seed;
        const char *name;
        uint64_t index, bits;
        double uniform, normal;
        int64_t below_1000;
    } cases[] = {
        {0u, "", 0u, 12035550249420947055u, 0.6524484863740322, -0.4387214756878968, 55},
        {1u, "model.embed_tokens.weight", 0u, 16961627778720067839u, 0.9194916843289389, 1.379347107542718,
         839},
        {1u, "model.embed_tokens.weight", 1u, 2668914707981206804u, 0.14468215622858693, 0.05841775290819626,
         804},
        {18446744073709551615u, "model.layers.27.mlp.down_proj.weight", 123456789012u, 17659861153106589536u,
         0.9573429913995264, -0.8693651018844807, 536},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_rng rng = cp_rng_named(cases[i].seed, cases[i].name);
        assert_true(cp_rng_bits(rng, cases[i].index) == cases[i].bits);
        assert_near(cp_rng_uniform(rng, cases[i].index), cases[i].uniform, 0);
        assert_near(cp_rng_normal(rng, cases[i].index), cases[i].normal, 1e-15);
        assert_true(cp_rng_below(rng, cases[i].index, 1000) == cases[i].below_1000);
    }
}

static void seed_name_and_index_count(void **state)
{
    (void)state;
    uint64_t value = cp_rng_bits(cp_rng_named(1, "ab"), 0);
    assert_true(value != cp_rng_bits(cp_rng_named(2, "ab"), 0));
    assert_true(value != cp_rng_bits(cp_rng_named(1, "ba"), 0));
    assert_true(value != cp_rng_bits(cp_rng_named(1, "a"), 0));
    assert_true(value != cp_rng_bits(cp_rng_named(1, ""), 0));
    assert_true(value != cp_rng_bits(cp_rng_named(1, "ab"), 1));
}

/* Moments of N(0,1) within five of their own deviations. */
static void normal_has_its_moments(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(7, "model.layers.0.self_attn.q_proj.weight");
    double sum[5] = {0}, largest = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        double x = cp_rng_normal(rng, i);
        sum[1] += x;
        sum[2] += x * x;
        sum[3] += x * x * x;
        sum[4] += x * x * x * x;
        largest = fmax(largest, fabs(x));
    }
    const double expected[] = {0, 0, 1, 0, 3};
    const double deviation[] = {0, 1, 1.4142, 3.8730, 9.7980}; /* of x^n: √(E x^2n − (E x^n)²) */
    for (int n = 1; n <= 4; n++)
        assert_near(sum[n] / MANY, expected[n], 5 * deviation[n] / sqrt(MANY));
    assert_true(largest > 4.2 &&
                largest < 7); /* a million normal numbers have one beyond 4.2 with p = 1 − 1e-11 */
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov's distance to the normal distribution; 1.95/√n is exceeded with p = 0.001. */
static void normal_has_its_distribution(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    double *x = malloc(COUNT * sizeof *x);
    assert_non_null(x);
    cp_rng rng = cp_rng_named(11, "lm_head.weight");
    for (uint64_t i = 0; i < COUNT; i++)
        x[i] = cp_rng_normal(rng, i);
    qsort(x, COUNT, sizeof *x, by_value);
    double distance = 0;
    for (int i = 0; i < COUNT; i++)
        distance = fmax(distance, fabs(0.5 * erfc(-x[i] / sqrt(2)) - (i + 0.5) / COUNT));
    free(x);
    assert_near(distance, 0, 1.95 / sqrt(COUNT));
}

static void names_and_neighbours_are_independent(void **state)
{
    (void)state;
    cp_rng a = cp_rng_named(3, "layers.0"), b = cp_rng_named(3, "layers.1");
    double between = 0, lag = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        double x = cp_rng_normal(a, i);
        between += x * cp_rng_normal(b, i);
        lag += x * cp_rng_normal(a, i + 1);
    }
    assert_near(between / MANY, 0, 5 / sqrt(MANY));
    assert_near(lag / MANY, 0, 5 / sqrt(MANY));
}

static void uniform_and_below_stay_inside(void **state)
{
    (void)state;
    enum { BOUND = 7, COUNT = 70000 };
    cp_rng rng = cp_rng_named(5, "ids");
    int64_t counts[BOUND] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double u = cp_rng_uniform(rng, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        counts[cp_rng_below(rng, i, BOUND)]++;
    }
    assert_near(sum / COUNT, 0.5, 5 / sqrt(12.0 * COUNT));
    for (int i = 0; i < BOUND; i++)
        assert_near((double)counts[i], 10000, 5 * sqrt(10000 * 6.0 / 7));
}

static void below_nothing(void *unused)
{
    (void)unused;
    cp_rng_below(cp_rng_named(1, ""), 0, 0);
}

static void nothing_is_below_zero(void **state)
{
    (void)state;
    assert_stops(below_nothing, NULL, "nothing is below 0");
}

int rng_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_splitmix64),
        cmocka_unit_test(values_are_frozen),
        cmocka_unit_test(seed_name_and_index_count),
        cmocka_unit_test(normal_has_its_moments),
        cmocka_unit_test(normal_has_its_distribution),
        cmocka_unit_test(names_and_neighbours_are_independent),
        cmocka_unit_test(uniform_and_below_stay_inside),
        cmocka_unit_test(nothing_is_below_zero),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}

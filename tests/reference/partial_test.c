/* What exchanges do with partial results, by hand: the right merge, and what the wrong ones say of themselves. */
#include "reference/ops.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4 };

/* One number a row. */
typedef struct rows {
    double o[ROWS], lse[ROWS];
} rows;

static rows merged(cp_merge rule, rows whole, rows part)
{
    cp_ops_of(CP_F64)->partial->merge[rule](
        CP_VIEW(whole.o, CP_F64, 1, ROWS, 1, 1), CP_VIEW(whole.lse, CP_F64, 1, ROWS, 1),
        CP_VIEW(part.o, CP_F64, 1, ROWS, 1, 1), CP_VIEW(part.lse, CP_F64, 1, ROWS, 1), (cp_precision){0});
    return whole;
}

static void assert_rows(rows actual, rows expected)
{
    for (int n = 0; n < ROWS; n++) {
        if (!isfinite(expected.lse[n]))
            assert_true(actual.lse[n] == expected.lse[n]);
        else
            assert_near(actual.lse[n], expected.lse[n], 1e-12);
        if (isnan(expected.o[n]))
            assert_true(isnan(actual.o[n]));
        else
            assert_near(actual.o[n], expected.o[n], 1e-12);
    }
}

/* Scores log 1, log 2, log 3 over values 1, 4, 9, in blocks of two and one, also shifted to where exponentials of lse
 * itself would not do; and (0, −∞), the neutral element, on either side. */
#define NOTHING (-INFINITY)
static const rows some = {{3, 3, 3, 0}, {1.0986122886681098, 901.0986122886681, 0.5, NOTHING}};
static const rows others = {{9, 9, 0, 7}, {1.0986122886681098, 901.0986122886681, NOTHING, 700}};

static void merges_by_log_sum(void **state)
{
    (void)state;
    assert_rows(merged(CP_MERGE_BY_LSE, some, others),
                (rows){{6, 6, 3, 7}, {log(6), log(6) + 900, 0.5, 700}});
    assert_rows(merged(CP_MERGE_BY_LSE, others, some),
                (rows){{6, 6, 3, 7}, {log(6), log(6) + 900, 0.5, 700}});
    const rows nothing = {{0}, {NOTHING, NOTHING, NOTHING, NOTHING}};
    assert_rows(merged(CP_MERGE_BY_LSE, nothing, nothing), nothing);
}

/* A row of ones stays one: shares add up to 1, also where a rounding of the log-sum-exp is a hundred times larger. */
static void shares_add_up_to_one(void **state)
{
    (void)state;
    rows ones = {{1, 1, 1, 1}, {900.1, 900.1, -900.1, 900.1}};
    rows more = {{1, 1, 1, 1}, {900.3, 899.2, -901.7, 880.7}};
    rows actual = merged(CP_MERGE_BY_LSE, ones, more);
    for (int n = 0; n < ROWS; n++)
        assert_near(actual.o[n], 1, 4e-16);
}

static void wrong_merges_are_what_they_say(void **state)
{
    (void)state;
    assert_rows(merged(CP_MERGE_AVERAGE, some, others),
                (rows){{6, 6, 1.5, 3.5}, {log(6), log(6) + 900, 0.5, 700}});
    assert_rows(merged(CP_MERGE_NO_MAXIMUM, some, others),
                (rows){{6, NAN, 3, NAN}, {log(6), INFINITY, 0.5, INFINITY}});
    assert_rows(merged(CP_MERGE_INF_FROM_EMPTY, some, others),
                (rows){{6, 6, 0, 0}, {log(6), log(6) + 900, INFINITY, INFINITY}});
    const rows three_to_one = {{1, 1, 1, 1}, {2, 0, NOTHING, NOTHING}},
               one = {{5, 5, 5, 0}, {0, 0, 0, NOTHING}};
    assert_rows(merged(CP_MERGE_LOG2_MIXED, three_to_one, one),
                (rows){{(4 * 1 + 1 * 5) / 5.0, 3, 5, 1}, {log2(5), 1, 0, NOTHING}});
}

static void merge_infinity(void *argument)
{
    (void)argument;
    double o[1] = {0}, lse[1] = {INFINITY};
    cp_tensor numbers = CP_VIEW(o, CP_F64, 1, 1, 1, 1), statistics = CP_VIEW(lse, CP_F64, 1, 1, 1);
    cp_ops_of(CP_F64)->partial->merge[CP_MERGE_BY_LSE](numbers, statistics, numbers, statistics,
                                                       (cp_precision){0});
}

static void infinity_is_no_log_sum(void **state)
{
    (void)state;
    assert_stops(merge_infinity, NULL, "log-sum-exp of infinity");
}

/* 1 + 2^-8 lies in the middle between two bfloat16 and goes to the even one. */
static void narrows_either_width(void **state)
{
    (void)state;
    double wide[3] = {1 + 0x1p-8, 1 + 0x1p-7 + 0x1p-8, -0x1.03p0};
    float single[3] = {1 + 0x1p-8F, 1 + 0x1p-7F + 0x1p-8F, -0x1.03p0F};
    const double expected[3] = {1, 1 + 0x1p-6, -0x1.04p0};
    cp_ops_of(CP_F64)->partial->narrow(CP_VIEW(wide, CP_F64, 3));
    cp_ops_of(CP_F32)->partial->narrow(CP_VIEW(single, CP_F32, 3));
    for (int n = 0; n < 3; n++)
        assert_true(wide[n] == expected[n] && single[n] == (float)expected[n]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_log_sum),
        cmocka_unit_test(shares_add_up_to_one),
        cmocka_unit_test(wrong_merges_are_what_they_say),
        cmocka_unit_test(infinity_is_no_log_sum),
        cmocka_unit_test(narrows_either_width),
    };
    return cmocka_run_group_tests_name("partial results", tests, NULL, NULL);
}

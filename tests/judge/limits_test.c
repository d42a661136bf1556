#include "harness/judge/limits.h"

#include "tests/judge/groups.h"
#include "tests/support/support.h"

#include <math.h>

static void units_of_dtypes(void **state)
{
    (void)state;
    static const struct {
        cp_dtype dtype;
        bool islands;
        double unit; /* 0: none */
    } rows[] = {
        {CP_F64, false, 1e-12}, {CP_F64, true, 1e-5}, {CP_F32, false, 1e-5}, {CP_F32, true, 1e-5},
        {CP_BF16, false, 0},    {CP_F16, false, 0},   {CP_BF16, true, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cp_limits limits = cp_limits_choose(rows[i].dtype, rows[i].islands, &(cp_diff_options){0});
        assert_int_equal(limits.rule, CP_LIMITS_UNCALIBRATED);
        assert_true(rows[i].unit > 0 ? limits.unit == rows[i].unit : isnan(limits.unit));
        assert_int_equal(cp_limits_given(&limits), rows[i].unit > 0);
        limits = cp_limits_choose(rows[i].dtype, rows[i].islands,
                                  &(cp_diff_options){.user_limits = true, .rtol = 1e-3});
        assert_int_equal(limits.rule, CP_LIMITS_USER);
        assert_true(cp_limits_given(&limits) && limits.rtol == 1e-3 && limits.atol == 0);
    }
}

static void scales_of_kinds(void **state)
{
    (void)state;
    static const struct {
        cp_tensor_kind kind;
        double norm, group, scale64, scale32;
    } rows[] = {
        {CP_TENSOR_LOSS, 0.25, 0, 1, 1},           {CP_TENSOR_LOSS, 4, 0, 4, 4},
        {CP_TENSOR_LOGITS, 0.25, 9, 0.25, 0.25},   {CP_TENSOR_TOKEN_LOSS, 3, 9, 3, 3},
        {CP_TENSOR_GRADIENT, 200, 1000, 200, 200}, {CP_TENSOR_GRADIENT, 2, 1000, 2, 50},
        {CP_TENSOR_GRADIENT, 0.5, 1000, 1, 50},    {CP_TENSOR_GRADIENT, 0, 1000, 1, 50},
        {CP_TENSOR_TRACE, 0.5, 1000, 0.5, 0.5},
    };
    cp_limits float64 = cp_limits_choose(CP_F64, false, &(cp_diff_options){0});
    cp_limits float32 = cp_limits_choose(CP_F32, false, &(cp_diff_options){0});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_near(cp_limit_scale(&float64, rows[i].kind, rows[i].norm, rows[i].group), rows[i].scale64,
                    1e-15);
        assert_near(cp_limit_scale(&float32, rows[i].kind, rows[i].norm, rows[i].group), rows[i].scale32,
                    1e-13);
    }
}

static void groups_keep_their_largest(void **state)
{
    (void)state;
    cp_groups groups = {0};
    cp_groups_raise(&groups, -1, 1);
    cp_groups_raise(&groups, INT64_MAX, 5);
    cp_groups_raise(&groups, INT64_MAX, 4);
    assert_null(cp_groups_find(&groups, 0));
    assert_true(cp_groups_find(&groups, -1)->norm == 1);
    assert_true(cp_groups_find(&groups, INT64_MAX)->norm == 5);
    cp_groups_close(&groups);
}

int limits_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_dtypes),
        cmocka_unit_test(scales_of_kinds),
        cmocka_unit_test(groups_keep_their_largest),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}

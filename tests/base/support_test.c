/* The helpers of the tests can fail too. */
#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void compare_counts_what_is_not_finite(void **state)
{
    (void)state;
    const double expected[] = {1, 2, 3, 4};
    const double actual[] = {1, NAN, 3, INFINITY};
    test_verdict verdict = test_compare(actual, expected, 4, INFINITY, 0);
    assert_true(verdict.fails);
    assert_text_holds(verdict.text, "2 of 4 values are not finite, first [1] = ");
    assert_true(test_compare(expected, actual, 4, INFINITY, 0).fails);
}

static void compare_names_the_worst(void **state)
{
    (void)state;
    const double expected[] = {0, 10, 20};
    const double actual[] = {0.5, 10.75, 19.5};
    assert_false(test_compare(actual, expected, 3, 0.75, 0).fails);
    assert_false(test_compare(actual, expected, 3, 0, 0.0375).fails);
    test_verdict verdict = test_compare(actual, expected, 3, 0.5, 0.01);
    assert_true(verdict.fails);
    assert_text_holds(verdict.text, "[1] of 3: 10.75, expected 10: error 0.75, limit 0.7");
}

static void compare_walks_strides(void **state)
{
    (void)state;
    double whole[] = {1, 2, 3, 4, 5, 6};
    float columns[] = {2, 3, 5, 6};
    cp_tensor slice = cp_tensor_slice(CP_VIEW(whole, CP_F64, 2, 3), 1, 1, 2);
    cp_tensor other = CP_VIEW(columns, CP_F32, 2, 2);
    assert_tensors_near(slice, other, 0, 0);
    columns[3] = 7;
    assert_text_holds(test_compare_tensors(slice, other, 0, 0).text, "[3] of 4: 6, expected 7");
    assert_true(test_compare_tensors(slice, CP_VIEW(columns, CP_F32, 4), 0, 0).fails);
}

static void bitwise_tells_zeros_apart(void **state)
{
    (void)state;
    double plus[] = {1, 0.0}, minus[] = {1, -0.0};
    cp_tensor a = CP_VIEW(plus, CP_F64, 2), b = CP_VIEW(minus, CP_F64, 2);
    assert_tensors_equal(a, a);
    assert_text_holds(test_compare_bitwise(a, b).text, "1 of 2 elements differ, first [1]");
    assert_tensors_near(a, b, 0, 0);
}

static void directory_goes_with_what_is_in_it(void **state)
{
    (void)state;
    char *path = test_new_directory();
    char inside[512], copy[256];
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(inside, sizeof inside, "%s/folder", path);
    assert_int_equal(mkdir(inside, 0777), 0);
    snprintf(inside, sizeof inside, "%s/folder/file", path);
    FILE *file = fopen(inside, "w");
    assert_non_null(file);
    fclose(file);
    test_remove_directory(path);
    struct stat about;
    assert_int_not_equal(stat(copy, &about), 0);
}

int support_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compare_counts_what_is_not_finite),
        cmocka_unit_test(compare_names_the_worst),
        cmocka_unit_test(compare_walks_strides),
        cmocka_unit_test(bitwise_tells_zeros_apart),
        cmocka_unit_test(directory_goes_with_what_is_in_it),
    };
    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}

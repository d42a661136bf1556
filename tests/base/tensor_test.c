#include "base/tensor.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

static void view_is_contiguous(void **state)
{
    (void)state;
    float data[24];
    cp_tensor t = CP_VIEW(data, CP_F32, 2, 3, 4);
    assert_int_equal(t.dims, 3);
    assert_int_equal(t.stride[0], 12);
    assert_int_equal(t.stride[1], 4);
    assert_int_equal(t.stride[2], 1);
    assert_int_equal(cp_tensor_count(t), 24);
    assert_int_equal(cp_tensor_bytes(t), 96);
    assert_true(cp_tensor_contiguous(t));
    assert_true(cp_tensor_given(t));
}

static void none_holds_nothing(void **state)
{
    (void)state;
    assert_false(cp_tensor_given(CP_NONE));
    assert_int_equal(cp_tensor_count(CP_NONE), 0);
    assert_int_equal(cp_tensor_count(CP_VIEW(NULL, CP_F64, 3, 0, 2)), 0);
}

static void take_measures_and_gives(void **state)
{
    (void)state;
    cp_arena measuring = cp_arena_measuring();
    cp_tensor shape = CP_TAKE(&measuring, CP_F64, 5, 7);
    assert_null(shape.data);
    assert_true(measuring.used >= 5 * 7 * 8);
    cp_tensor_zero(shape);
    cp_arena arena;
    assert_ok(cp_arena_open(&arena, measuring.used));
    cp_tensor real = CP_TAKE(&arena, CP_F64, 5, 7);
    assert_true(cp_tensor_same_shape(real, shape));
    cp_tensor_zero(real);
    assert_true(((double *)real.data)[34] == 0);
    cp_arena_close(&arena);
}

static void slice_is_a_view(void **state)
{
    (void)state;
    int32_t data[2][3][4];
    for (int i = 0; i < 24; i++)
        ((int32_t *)data)[i] = i;
    cp_tensor t = CP_VIEW(data, CP_I32, 2, 3, 4);
    cp_tensor middle = cp_tensor_slice(t, 1, 1, 2);
    assert_true(cp_tensor_has_shape(middle, 3, CP_EXTENTS(2, 2, 4)));
    assert_false(cp_tensor_contiguous(middle));
    assert_ptr_equal(middle.data, &data[0][1][0]);
    cp_tensor last = cp_tensor_slice(cp_tensor_slice(t, 0, 1, 1), 2, 3, 1);
    assert_ptr_equal(last.data, &data[1][0][3]);
    assert_int_equal(cp_tensor_count(cp_tensor_slice(t, 2, 4, 0)), 0);
}

static void slice_outside(void *tensor)
{
    cp_tensor_slice(*(cp_tensor *)tensor, 1, 2, 2);
}

static void reshape_to_ten(void *tensor)
{
    cp_tensor_reshape(*(cp_tensor *)tensor, 1, CP_EXTENTS(10));
}

static void join_what_is_apart(void *tensor)
{
    cp_tensor_reshape(cp_tensor_slice(*(cp_tensor *)tensor, 1, 0, 2), 2, CP_EXTENTS(4, 4));
}

static void impossible_views_stop(void **state)
{
    (void)state;
    float data[24];
    cp_tensor t = CP_VIEW(data, CP_F32, 2, 3, 4);
    assert_stops(slice_outside, &t, "slice [2, +2) of axis 1");
    assert_stops(reshape_to_ten, &t, "[2,3,4] as [10]");
    assert_stops(join_what_is_apart, &t, "[2,2,4] as [4,4] is no view");
}

/* Each element of the reshaped view is the element with the same number of the strided one. */
static void assert_reshapes(cp_tensor from, int dims, const int64_t extent[])
{
    cp_tensor to = cp_tensor_reshape(from, dims, extent);
    assert_true(cp_tensor_has_shape(to, dims, extent));
    double *a = test_doubles(from), *b = test_doubles(to);
    test_verdict verdict = test_compare(b, a, cp_tensor_count(from), 0, 0);
    free(a);
    free(b);
    assert_verdict(verdict);
}

static void reshape_keeps_the_order(void **state)
{
    (void)state;
    double data[120];
    for (int i = 0; i < 120; i++)
        data[i] = i;
    cp_tensor t = CP_VIEW(data, CP_F64, 2, 5, 12);
    assert_reshapes(t, 2, CP_EXTENTS(10, 12));
    assert_reshapes(t, 4, CP_EXTENTS(2, 5, 3, 4));
    cp_tensor rows = cp_tensor_slice(t, 1, 1, 3); /* the last two axes are together */
    assert_reshapes(rows, 4, CP_EXTENTS(2, 3, 4, 3));
    assert_reshapes(rows, 2, CP_EXTENTS(2, 36));
    cp_tensor columns = cp_tensor_slice(t, 2, 2, 6); /* the first two are */
    assert_reshapes(columns, 2, CP_EXTENTS(10, 6));
    assert_reshapes(columns, 4, CP_EXTENTS(2, 5, 2, 3));
    assert_reshapes(columns, 3, CP_EXTENTS(10, 3, 2));
}

static void text_of_a_shape(void **state)
{
    (void)state;
    char text[CP_SHAPE_TEXT];
    assert_string_equal(cp_shape_text(text, 3, CP_EXTENTS(2, 7, 16)), "[2,7,16]");
    assert_string_equal(cp_shape_text(text, 0, NULL), "[]");
    const int64_t most[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    assert_int_equal(strlen(cp_shape_text(text, 4, most)), 4 * 19 + 5);
}

int tensor_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(view_is_contiguous),      cmocka_unit_test(none_holds_nothing),
        cmocka_unit_test(take_measures_and_gives), cmocka_unit_test(slice_is_a_view),
        cmocka_unit_test(impossible_views_stop),   cmocka_unit_test(reshape_keeps_the_order),
        cmocka_unit_test(text_of_a_shape),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}

/* The reference, unsharded, against what transformers computed; and its masks against those that transformers built. */
#include "tests/run/golden.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void run_all(const cp_run_options *options, const char *what)
{
    golden_list list = golden_all();
    double worst = 0;
    char worst_name[CP_RESULT_SENTENCE] = "";
    size_t same = 0;
    for (size_t n = 0; n < list.count; n++) {
        golden_model golden = golden_open(list.paths[n]);
        same += golden_same(&golden, options, &worst, worst_name, sizeof worst_name);
        golden_release(golden);
    }
    print_message("%s: %zu of %zu fixtures same, worst error %.1e of its scale (%s)\n", what, same,
                  list.count, worst, worst_name);
    assert_int_equal(same, list.count);
    golden_close(list);
}

static void float64_equals_transformers(void **state)
{
    (void)state;
    run_all(&(cp_run_options){.P = 1, .dtype = CP_F64}, "float64");
}

static void dense_float64_equals_transformers(void **state)
{
    (void)state;
    run_all(&(cp_run_options){.P = 1, .dtype = CP_F64, .attention = CP_ATTENTION_DENSE}, "float64, dense");
}

static void float64_with_ordered_sums_equals_transformers(void **state)
{
    (void)state;
    run_all(&(cp_run_options){.P = 1, .dtype = CP_F64, .matmul = CP_MATMUL_ORDERED}, "float64, ordered");
}

static void float32_stays_within_its_limits(void **state)
{
    (void)state;
    run_all(&(cp_run_options){.P = 1, .dtype = CP_F32}, "float32");
}

static void traces_equal_transformers(void **state)
{
    (void)state;
    run_all(&(cp_run_options){.P = 1, .dtype = CP_F64, .trace = true}, "float64, traced");
}

static void recomputation_changes_nothing(void **state)
{
    (void)state;
    run_all(&(cp_run_options){.P = 1, .dtype = CP_F64, .recompute = true}, "float64, recomputed");
}

/* Segments and a window in place of masks, where no layer has chunks. */
static void varlen_equals_transformers(void **state)
{
    (void)state;
    const cp_run_options options = {.P = 1, .dtype = CP_F64, .attention = CP_ATTENTION_VARLEN};
    golden_list list = golden_all();
    double worst = 0;
    char worst_name[CP_RESULT_SENTENCE] = "";
    size_t same = 0, refused = 0;
    for (size_t n = 0; n < list.count; n++) {
        golden_model golden = golden_open(list.paths[n]);
        if (strstr(list.paths[n], "llama4") != NULL) {
            assert_status(cp_run_check(golden.model, &options), CP_REFUSED,
                          "chunked attention needs the dense mask");
            refused++;
        } else {
            same += golden_same(&golden, &options, &worst, worst_name, sizeof worst_name);
        }
        golden_release(golden);
    }
    print_message("varlen: %zu of %zu fixtures same, %zu refused, worst error %.1e of its scale (%s)\n", same,
                  list.count, refused, worst, worst_name);
    assert_int_equal(same + refused, list.count);
    assert_in_range(refused, 1, list.count / 4);
    golden_close(list);
}

/* Counts the entries that differ, in rows whose results have a meaning: all of them, padding included. */
static int64_t mask_differences(const golden_model *golden, const cp_run_options *options, int64_t layer,
                                const uint8_t *expected)
{
    const cp_batch *batch = &golden->fixture->batch;
    int64_t count = batch->B * batch->T * batch->T;
    uint8_t *mask = calloc((size_t)count, 1);
    assert_non_null(mask);
    cp_run_mask(golden->model, options, layer, mask);
    int64_t differences = 0;
    for (int64_t n = 0; n < count; n++)
        differences += mask[n] != expected[n];
    if (differences)
        print_error("%s: layer %" PRId64 ", P %d: %" PRId64 " of %" PRId64 " mask entries differ\n",
                    golden_name(golden->fixture->path), layer, options->P, differences, count);
    free(mask);
    return differences;
}

static void masks_equal_those_of_transformers(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 6, 8, 12};
    golden_list list = golden_all();
    int64_t compared = 0, masks = 0, differences = 0, without = 0;
    for (size_t n = 0; n < list.count; n++) {
        golden_model golden = golden_open(list.paths[n]);
        const cp_batch *batch = &golden.fixture->batch;
        int64_t count = batch->B * batch->T * batch->T;
        uint8_t *expected = calloc((size_t)count, 1);
        assert_non_null(expected);
        for (int64_t layer = 0; layer < cp_model_program(golden.model)->L; layer++) {
            bool found;
            assert_ok(cp_fixture_mask(golden.fixture, layer, expected, &found));
            if (!found) {
                without += layer == 0;
                continue;
            }
            masks++;
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                cp_run_options options = {.P = sizes[s], .dtype = CP_F64};
                differences += mask_differences(&golden, &options, layer, expected);
                compared += count;
            }
        }
        free(expected);
        golden_release(golden);
    }
    print_message("%" PRId64 " masks, %" PRId64 " entries compared over 7 sizes, %" PRId64 " differ\n", masks,
                  compared, differences);
    assert_int_equal(differences, 0);
    assert_int_equal(without, 2 * 13); /* those of gpt_oss and mixtral hold none */
    assert_in_range(compared, 1000000, INT64_MAX);
    golden_close(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_equal_those_of_transformers),
        cmocka_unit_test(float64_equals_transformers),
        cmocka_unit_test(dense_float64_equals_transformers),
        cmocka_unit_test(float64_with_ordered_sums_equals_transformers),
        cmocka_unit_test(float32_stays_within_its_limits),
        cmocka_unit_test(traces_equal_transformers),
        cmocka_unit_test(recomputation_changes_nothing),
        cmocka_unit_test(varlen_equals_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every golden fixture, sharded over threads at every size that its heads allow. */
#include "tests/run/golden.h"

#include <string.h>

static void run_sharded(cp_dtype dtype, const int *sizes, size_t size_count)
{
    golden_list list = golden_all();
    double worst = 0;
    char worst_name[CP_RESULT_SENTENCE] = "";
    size_t runs = 0, same = 0;
    for (size_t n = 0; n < list.count; n += GOLDEN_STEP) {
        golden_model golden = golden_open(list.paths[n]);
        for (size_t s = 0; s < size_count; s++) {
            cp_run_options options = {
                .P = sizes[s], .exchange = {.kind = CP_EXCHANGE_ULYSSES}, .dtype = dtype};
            if (cp_model_program(golden.model)->H % sizes[s] != 0) {
                assert_status(cp_run_check(golden.model, &options), CP_REFUSED, "ulysses");
                continue;
            }
            runs++;
            same += golden_same(&golden, &options, &worst, worst_name, sizeof worst_name);
        }
        golden_release(golden);
    }
    print_message("%s: %zu of %zu sharded runs same, worst error %.1e of its scale (%s)\n",
                  cp_dtype_name(dtype), same, runs, worst, worst_name);
    assert_int_equal(same, runs);
    assert_in_range(runs, list.count / GOLDEN_STEP, 100000);
    golden_close(list);
}

static void float64_at_every_size(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 6, 8, 12, 24};
    run_sharded(CP_F64, sizes, sizeof sizes / sizeof *sizes);
}

static void float32_at_2_and_4(void **state)
{
    (void)state;
    static const int sizes[] = {2, 4};
    run_sharded(CP_F32, sizes, sizeof sizes / sizeof *sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float64_at_every_size),
        cmocka_unit_test(float32_at_2_and_4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

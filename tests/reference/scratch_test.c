/* Memory that attention takes, as measured. */
#include "reference/ops.h"
#include "tests/support/support.h"

/* Bytes of scratch that a form takes for T tokens of one key head. */
static size_t scratch_for(int64_t T, cp_attention_form form, bool backward)
{
    static const int32_t head[2] = {0};
    cp_attention attention = {.query_index = CP_VIEW(NULL, CP_I64, 1, T),
                              .key_index = CP_VIEW(NULL, CP_I64, 1, T),
                              .key_head = head,
                              .value_head = head};
    cp_tensor q = CP_VIEW(NULL, CP_F32, 1, T, 2, 16), k = CP_VIEW(NULL, CP_F32, 1, T, 1, 16);
    cp_tensor lse = CP_VIEW(NULL, CP_F32, 1, T, 2);
    cp_arena measuring = cp_arena_measuring();
    const cp_attention_ops *ops = cp_ops_shape()->attention[form];
    ops->forward(q, lse, q, k, k, &attention, &measuring, (cp_precision){0});
    if (backward)
        ops->backward(q, k, k, q, lse, lse, q, k, k, &attention, &measuring, (cp_precision){0});
    return measuring.peak;
}

/* Four times the tokens take at most four times the scratch. What the dense forward holds of a tile's queries against
 * all keys, the block form does not hold. */
static void block_memory_is_linear(void **state)
{
    (void)state;
    enum { T = 1 << 14 };
    assert_true(scratch_for(4 * T, CP_ATTENTION_BLOCK, true) <= 4 * scratch_for(T, CP_ATTENTION_BLOCK, true));
    assert_true(scratch_for(T, CP_ATTENTION_BLOCK, false) < scratch_for(T, CP_ATTENTION_DENSE, false) / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_memory_is_linear),
    };
    return cmocka_run_group_tests_name("scratch", tests, NULL, NULL);
}

#include "tests/judge/groups.h"
#include "tests/judge/world.h"
#include "tests/support/support.h"

#include <math.h>

static world w;

static int open_world(void **state)
{
    (void)state;
    world_open(&w);
    world_attention(&w);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static void a_copy_is_same(void **state)
{
    (void)state;
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.count, 6);
    assert_int_equal(w.result.note_count + w.result.failure_count, 0);
    assert_int_equal(world_result(&w, "out")->kind, CP_TENSOR_OUTPUT);
    assert_int_equal(world_result(&w, "out")->judged, (WORLD_B * WORLD_T - 1) * 4);
    assert_int_equal(world_result(&w, "dk")->judged, (WORLD_B * WORLD_T - 1) * 2);
    assert_int_equal(world_result(&w, "dsink")->judged, 2);
    assert_true(w.result.worst_logits == 0 && w.result.worst_gradient == 0);
}

static void padding_may_hold_anything(void **state)
{
    (void)state;
    static const char *const rows[] = {"out", "lse", "dq", "dk", "dv"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world_tensor *tensor = world_actual(&w, rows[i]);
        tensor->values[world_count(tensor) - 1] = NAN; /* of the last position, which is padding */
    }
    world_expect(&w, CP_SAME);
    world_actual(&w, "out")->values[0] = NAN;
    world_expect_tensor(&w, "out", CP_DIFFERENT, "not finite");
}

static void nothing_may_be_missing(void **state)
{
    (void)state;
    static const char *const names[] = {"out", "lse", "dq", "dk", "dv", "dsink"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        world_actual(&w, names[i])->there = false;
        world_expect_tensor(&w, names[i], CP_NOT_COMPARABLE, "missing from actual.h5");
        world_actual(&w, names[i])->there = true;
    }
    world_drop(&w.actual, "d");
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "actual.h5: no gradients");
    w.options.only = "[ol]*";
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "not judged, as --only");
}

static void what_is_no_result_of_attention_is_extra(void **state)
{
    (void)state;
    static const char *const names[] = {"loss", "logits", "grads/q_proj.weight", "dbias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        world_tensor *extra = world_add(&w.actual, names[i], 1, (int64_t[]){2});
        world_expect_tensor(&w, names[i], CP_NOT_COMPARABLE, "extra: expected.h5 has no such tensor");
        extra->there = false;
    }
}

static void a_training_step_has_no_attention_output(void **state)
{
    (void)state;
    world_close(&w);
    world_open(&w);
    world_add(&w.actual, "out", 1, (int64_t[]){2});
    world_expect_tensor(&w, "out", CP_NOT_COMPARABLE, "extra: expected.h5 has no such tensor");
    world_add(&w.actual, "dq", 1, (int64_t[]){2});
    world_expect_tensor(&w, "dq", CP_NOT_COMPARABLE, "extra: expected.h5 has no such tensor");
}

static void shapes_and_kinds_agree(void **state)
{
    (void)state;
    world_actual(&w, "dk")->extent[2] = 2; /* as if the keys' heads had been repeated */
    world_actual(&w, "dk")->extent[3] = 1;
    world_expect_tensor(&w, "dk", CP_NOT_COMPARABLE, "shape [2,4,2,1], expected [2,4,1,2]");
    w.actual.declaration.attention = false;
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w,
                         "actual.h5 is of a training step, expected kind \"attention\" as in expected.h5");
}

static void all_zero_is_different(void **state)
{
    (void)state;
    world_scale(world_actual(&w, "dv"), 0);
    world_expect_tensor(&w, "dv", CP_DIFFERENT, "all zero");
}

/* Under a window of 1 queries and keys have no gradient: what rounding leaves is held against dv's. */
static void gradients_that_cancel_have_their_neighbours_limit(void **state)
{
    (void)state;
    world_scale(world_expected(&w, "dq"), 0);
    world_scale(world_actual(&w, "dq"), 1e-17);
    world_expect(&w, CP_SAME);
    world_tensor *dq = world_actual(&w, "dq");
    world_scale(dq, 1e10);
    world_expect_tensor(&w, "dq", CP_DIFFERENT, "times its limit");
}

static void fingerprints(void **state)
{
    (void)state;
    world_scale(world_actual(&w, "dk"), 0.5);
    world_expect(&w, CP_DIFFERENT);
    assert_text_holds(w.result.next,
                      "first difference in execution order: dk; the forward pass is right; only "
                      "gradients of keys and values differ: look at how the exchange brings dk");
    world_scale(world_actual(&w, "dk"), 2);
    w.actual.declaration.cp_size = 2;
    w.actual.declaration.layout = "contiguous";
    static const char *const all[] = {"dq", "dk", "dv", "dsink"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        world_scale(world_actual(&w, all[i]), 2);
    world_expect(&w, CP_DIFFERENT);
    assert_text_holds(w.result.next, "every gradient is 2 times the expected, the number of ranks");
    world_tensor *out = world_actual(&w, "out");
    for (int row = 0; row < WORLD_B; row++) /* positions 2 and 3, the second rank's */
        for (int i = 8; i < 16; i++)
            out->values[row * 16 + i] += 1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        world_scale(world_actual(&w, all[i]), 0.5);
    world_expect_tensor(&w, "out", CP_DIFFERENT, "times its limit");
    assert_text_holds(w.result.next, "out is right before position 2, where rank 1's shard begins, and wrong "
                                     "from there on: look at what crosses that cut");
}

int attention_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_is_same, open_world, close_world),
        cmocka_unit_test_setup_teardown(padding_may_hold_anything, open_world, close_world),
        cmocka_unit_test_setup_teardown(nothing_may_be_missing, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_is_no_result_of_attention_is_extra, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_training_step_has_no_attention_output, open_world, close_world),
        cmocka_unit_test_setup_teardown(shapes_and_kinds_agree, open_world, close_world),
        cmocka_unit_test_setup_teardown(all_zero_is_different, open_world, close_world),
        cmocka_unit_test_setup_teardown(gradients_that_cancel_have_their_neighbours_limit, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(fingerprints, open_world, close_world),
    };
    return cmocka_run_group_tests_name("an attention function", tests, NULL, NULL);
}

#include "tests/judge/groups.h"
#include "tests/judge/world.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

static world w;

static int open_world(void **state)
{
    (void)state;
    world_open(&w);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static const char NORM[] = "grads/model.norm.weight";
static const char EMBEDDING[] = "grads/model.embed_tokens.weight";
static const char KEYS[] = "grads/model.layers.0.self_attn.k_proj.weight";

static const char *const EVERY_KIND[] = {"loss", "token_loss", "logits", "grads/model.norm.weight",
                                         "grads/lm_head.weight"};

/* ---- limits ---- */

static void clean_rounding_is_same_and_a_bug_is_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof EVERY_KIND / sizeof *EVERY_KIND; i++) {
        world_tensor *tensor = world_actual(&w, EVERY_KIND[i]);
        world_scale(tensor, 1 + 1e-14);
        world_expect(&w, CP_SAME);
        world_scale(tensor, 1 + 1e-6);
        world_expect_tensor(&w, tensor->name, CP_DIFFERENT, "times its limit");
        *tensor = *world_expected(&w, EVERY_KIND[i]);
    }
}

static void one_element_is_found(void **state)
{
    (void)state;
    world_tensor *tensor = world_actual(&w, "logits");
    tensor->values[(1 * WORLD_T + 2) * WORLD_V + 4] += 0.25;
    world_expect(&w, CP_DIFFERENT);
    const cp_tensor_result *logits = world_result(&w, "logits");
    assert_int_equal(logits->worst_index[0], 1);
    assert_int_equal(logits->worst_index[1], 2);
    assert_int_equal(logits->worst_index[2], 4);
    assert_near(logits->worst_actual - logits->worst_expected, 0.25, 1e-15);
    assert_int_equal(logits->over_limit, 1);
    assert_int_equal(logits->mismatches, 1);
    assert_int_equal(logits->first_bad_position, 2);
    assert_int_equal(logits->bad_positions, 1);
    assert_int_equal(logits->judged_positions, WORLD_B * WORLD_T - 1);
}

/* An error of exactly the limit is inside it, the next number is not. */
static void the_limit_itself_is_inside(void **state)
{
    (void)state;
    world_tensor *expected = world_expected(&w, "loss");
    world_tensor *actual = world_actual(&w, "loss");
    expected->values[0] = 0;
    actual->values[0] = 1e-12;
    world_expect(&w, CP_SAME);
    actual->values[0] = nextafter(1e-12, 1);
    world_expect_tensor(&w, "loss", CP_DIFFERENT, "times its limit");
    expected->values[0] = 8; /* 1e-12 · 8 */
    actual->values[0] = 8 + 8e-12 - 0x1p-49;
    world_expect(&w, CP_SAME);
    actual->values[0] = 8 + 8e-12 + 0x1p-49;
    world_expect(&w, CP_DIFFERENT);
}

/* The norm of many small errors is over the limit where none of them is. */
static void the_norm_is_judged_too(void **state)
{
    (void)state;
    world_tensor *actual = world_actual(&w, "grads/lm_head.weight");
    world_expect(&w, CP_SAME);
    double limit = world_result(&w, actual->name)->norm_limit;
    for (int i = 0; i < WORLD_V * WORLD_C; i++)
        actual->values[i] += 0.5 * limit;
    world_expect(&w, CP_DIFFERENT);
    const cp_tensor_result *head = world_result(&w, actual->name);
    assert_true(head->largest_error <= head->element_limit && head->error_norm > head->norm_limit);
    assert_int_equal(head->over_limit, 0);
}

/* Zero by symmetry: the layer's other gradients say what noise is. */
static void a_tiny_gradient_is_measured_by_its_layer(void **state)
{
    (void)state;
    world_scale(world_expected(&w, KEYS), 1e-17);
    world_scale(world_actual(&w, KEYS), -3e-17);
    world_expect(&w, CP_SAME);
    assert_true(world_result(&w, KEYS)->relative_error > 3);
    assert_true(world_result(&w, KEYS)->scaled_error < 1e-12);
    assert_true(w.result.worst_gradient < 1e-12);
    world_scale(world_actual(&w, KEYS), 0); /* exactly zero is as right */
    world_expect(&w, CP_SAME);
    /* and by that of no other layer */
    for (int i = 0; i < WORLD_C * WORLD_C; i++)
        world_actual(&w, KEYS)->values[i] = 1e-13;
    world_scale(world_expected(&w, "grads/model.layers.1.self_attn.q_proj.weight"), 1e6);
    world_scale(world_actual(&w, "grads/model.layers.1.self_attn.q_proj.weight"), 1e6);
    world_expect_tensor(&w, KEYS, CP_DIFFERENT, "times its limit");
}

static void extreme_magnitudes(void **state)
{
    (void)state;
    static const double scales[] = {1e300, 1e-300};
    for (int i = 0; i < 2; i++) {
        world_scale(world_expected(&w, "logits"), scales[i]);
        *world_actual(&w, "logits") = *world_expected(&w, "logits");
        world_expect(&w, CP_SAME);
        world_scale(world_actual(&w, "logits"), 1 + 1e-6);
        world_expect_tensor(&w, "logits", CP_DIFFERENT, "times its limit");
        assert_near(world_result(&w, "logits")->factor, 1 + 1e-6, 1e-12);
        assert_near(world_result(&w, "logits")->relative_error, 1e-6, 1e-9);
        world_scale(world_expected(&w, "logits"), 1 / scales[i]);
    }
    w.actual = w.expected;
    world_expected(&w, NORM)->values[0] = 1.7e308; /* the norm overflows; the limit must not */
    world_expected(&w, NORM)->values[1] = 1.7e308;
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "times its limit");
}

/* ---- not finite ---- */

static void a_value_that_is_not_finite_is_different(void **state)
{
    (void)state;
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < sizeof EVERY_KIND / sizeof *EVERY_KIND; k++) {
            w.actual = w.expected;
            world_actual(&w, EVERY_KIND[k])->values[0] = values[i];
            world_expect_tensor(&w, EVERY_KIND[k], CP_DIFFERENT, "not finite");
            assert_int_equal(world_result(&w, EVERY_KIND[k])->nonfinite_actual, 1);
        }
        w.options = (cp_diff_options){.user_limits = true, .atol = INFINITY, .rtol = INFINITY};
        world_expect(&w, CP_DIFFERENT);
        w.options = (cp_diff_options){0};
    }
    assert_true(isinf(w.result.worst_gradient));
}

static void a_value_that_is_not_finite_on_both_sides_of_two_dumps(void **state)
{
    (void)state;
    w.expected_is_dump = true;
    world_expected(&w, NORM)->values[1] = NAN;
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "on the expected side");
    world_actual(&w, NORM)->values[1] = NAN;
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "on the expected side too");
}

static void a_fixture_that_is_not_finite_is_bad_input(void **state)
{
    (void)state;
    world_expected(&w, NORM)->values[1] = INFINITY;
    assert_status(world_judge(&w), CP_BAD_INPUT,
                  "/expected/grads/model.norm.weight: 1 of 3 values are not finite");
    assert_int_equal(w.result.count, 0);
}

static void padding_is_not_judged(void **state)
{
    (void)state;
    world_actual(&w, "logits")->values[7 * WORLD_V + 2] = NAN;
    world_actual(&w, "token_loss")->values[7] = 1e6;
    world_expect(&w, CP_SAME);
    w.fixture.batch.attention_mask = NULL;
    world_expect(&w, CP_DIFFERENT);
    w.fixture.batch.document_ids = w.documents;
    world_expect(&w, CP_SAME);
}

/* ---- zeros ---- */

static void all_zero_is_different(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof EVERY_KIND / sizeof *EVERY_KIND; k++) {
        w.actual = w.expected;
        world_scale(world_actual(&w, EVERY_KIND[k]), 0);
        world_expect_tensor(&w, EVERY_KIND[k], CP_DIFFERENT, "all zero");
        w.options =
            (cp_diff_options){.user_limits = true, .atol = 1e6}; /* no tolerance excuses a run of nothing */
        world_expect_tensor(&w, EVERY_KIND[k], CP_DIFFERENT, "all zero");
        w.options = (cp_diff_options){0};
    }
}

static void unused_ids_of_an_untied_embedding_are_zero(void **state)
{
    (void)state;
    world_tensor *embedding = world_actual(&w, EMBEDDING);
    embedding->values[4 * WORLD_C + 1] = 1e-300;
    world_expect_tensor(&w, EMBEDDING, CP_DIFFERENT,
                        "1 value must be exactly zero (ids that are not in the batch)");
    assert_int_equal(world_result(&w, EMBEDDING)->worst_index[0], 4);
    w.input_ids[0] = 4; /* now it is used, and within the limits */
    world_expect(&w, CP_SAME);
}

static void unused_ids_of_a_tied_embedding_need_not_be(void **state)
{
    (void)state;
    world_tie(&w);
    world_expected(&w, EMBEDDING)->values[4 * WORLD_C + 1] = 1;
    world_actual(&w, EMBEDDING)->values[4 * WORLD_C + 1] = 1;
    world_expect(&w, CP_SAME);
}

/* Whatever says that the embedding is the head too is believed. */
static void one_sign_of_a_tie_is_enough(void **state)
{
    (void)state;
    world_expected(&w, EMBEDDING)->values[4 * WORLD_C + 1] = 1;
    world_actual(&w, EMBEDDING)->values[4 * WORLD_C + 1] = 1;
    world_expect(&w, CP_DIFFERENT);
    world_weight(&w, "model.embed_tokens.weight")->tied = "model.other.weight\n";
    world_expect(&w, CP_SAME);
    world_weight(&w, "model.embed_tokens.weight")->tied = "";
    world_expect(&w, CP_DIFFERENT);
    world_weight(&w, "lm_head.weight")->name = "model.head.weight"; /* no output matrix that is known */
    world_expected(&w, "grads/lm_head.weight")->name = "grads/model.head.weight";
    world_actual(&w, "grads/lm_head.weight")->name = "grads/model.head.weight";
    world_expect(&w, CP_SAME);
}

static void an_embedding_without_ids_is_zero(void **state)
{
    (void)state;
    w.fixture.batch.input_ids = NULL;
    world_expect_tensor(&w, EMBEDDING, CP_DIFFERENT, "must be exactly zero");
    world_scale(world_expected(&w, EMBEDDING), 0);
    world_scale(world_actual(&w, EMBEDDING), 0);
    world_expect(&w, CP_SAME);
}

static void padding_of_input_embeddings_is_zero(void **state)
{
    (void)state;
    static const int64_t extent[] = {WORLD_B, WORLD_T, 2};
    world_tensor *expected = world_add(&w.expected, "grads/inputs_embeds", 3, extent);
    world_tensor *actual = world_add(&w.actual, "grads/inputs_embeds", 3, extent);
    expected->values[14] = expected->values[15] = 0;
    actual->values[14] = actual->values[15] = 0;
    world_expect(&w, CP_SAME);
    actual->values[15] = 1e-300;
    world_expect_tensor(&w, "grads/inputs_embeds", CP_DIFFERENT, "must be exactly zero (padding)");
    actual->values[15] = -0.0;
    world_expect(&w, CP_SAME);
}

/* ---- dtypes ---- */

static void float32_has_its_own_limits(void **state)
{
    (void)state;
    world_scale(world_actual(&w, NORM), 1 + 1e-7);
    world_expect(&w, CP_DIFFERENT);
    w.actual.declaration.compute_dtype = CP_F32;
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.dtype, CP_F32);
    world_scale(world_actual(&w, NORM), 1 + 1e-4);
    world_expect(&w, CP_DIFFERENT);
}

static void a_dtype_that_is_not_declared_is_noted(void **state)
{
    (void)state;
    w.actual.declaration.dtype_declared = false;
    w.actual.declaration.compute_dtype = CP_F32;
    world_expect(&w, CP_SAME);
    world_expect_note(&w,
                      "actual.h5 declares no compute_dtype: taken from its narrowest stored float, float32");
}

static void storage_narrower_than_declared_is_noted(void **state)
{
    (void)state;
    world_actual(&w, NORM)->stored = CP_F32;
    world_expect(&w, CP_DIFFERENT);
    world_expect_note(&w, "narrower (grads/model.norm.weight is float32)");
    w.actual.declaration.compute_dtype = CP_F32;
    world_expect(&w, CP_SAME);
    world_expect_no_note(&w, "narrower");
}

static void islands_are_judged_as_float32(void **state)
{
    (void)state;
    world_scale(world_actual(&w, NORM), 1 + 1e-7);
    w.actual.declaration.islands = true;
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "float64 with float32 islands");
    assert_int_equal(w.result.dtype, CP_F64);
}

static void bfloat16_has_no_limits(void **state)
{
    (void)state;
    static const cp_dtype dtypes[] = {CP_BF16, CP_F16};
    for (int i = 0; i < 2; i++) {
        w.options = (cp_diff_options){0};
        w.actual.declaration.compute_dtype = dtypes[i];
        world_expect(&w, CP_NOT_COMPARABLE);
        world_expect_failure(&w, cp_dtype_name(dtypes[i]));
        assert_true(world_result(&w, NORM)->measured);
        w.options = (cp_diff_options){.user_limits = true, .rtol = 1e-2};
        world_expect(&w, CP_SAME);
        assert_int_equal(w.result.limits, CP_LIMITS_USER);
    }
}

static void two_dumps_are_judged_as_the_narrower(void **state)
{
    (void)state;
    w.without_fixture = true;
    w.expected.declaration.compute_dtype = CP_F32;
    world_scale(world_actual(&w, NORM), 1 + 1e-7);
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.dtype, CP_F32);
    world_expect_note(&w, "judged as the narrower");
}

/* ---- limits of the user ---- */

static void user_limits_are_of_each_element(void **state)
{
    (void)state;
    world_tensor *expected = world_expected(&w, NORM);
    world_tensor *actual = world_actual(&w, NORM);
    memcpy(expected->values, (double[]){8, 1, 0}, 3 * sizeof(double));
    memcpy(actual->values, (double[]){8.5, 1.0625, 0.0625}, 3 * sizeof(double));
    w.options = (cp_diff_options){.user_limits = true, .rtol = 0.0625, .atol = 0.0625};
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.limits, CP_LIMITS_USER);
    actual->values[2] = nextafter(0.0625, 1); /* still small beside the others */
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "times its limit");
    const cp_tensor_result *norm = world_result(&w, NORM);
    assert_int_equal(norm->worst_index[0], 2);
    assert_true(norm->element_limit == 0.0625);
    assert_int_equal(norm->over_limit, 1);
    actual->values[2] = 0.0625;
    w.options.atol = 0;
    w.options.rtol = 0.125;
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "times its limit");
}

static void exactly_equal_passes_limits_of_zero(void **state)
{
    (void)state;
    w.options = (cp_diff_options){.user_limits = true};
    world_expect(&w, CP_SAME);
    world_scale(world_actual(&w, NORM), 1 + 0x1p-52);
    world_expect(&w, CP_DIFFERENT);
}

static void limits_that_mean_nothing_are_bad_usage(void **state)
{
    (void)state;
    static const double wrong[] = {-1e-3, NAN};
    for (int i = 0; i < 2; i++) {
        w.options = (cp_diff_options){.user_limits = true, .rtol = wrong[i]};
        assert_status(world_judge(&w), CP_BAD_USAGE, "--rtol");
        w.options = (cp_diff_options){.user_limits = true, .atol = wrong[i]};
        assert_status(world_judge(&w), CP_BAD_USAGE, "--atol");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int values_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(clean_rounding_is_same_and_a_bug_is_not),
        TEST(one_element_is_found),
        TEST(the_limit_itself_is_inside),
        TEST(the_norm_is_judged_too),
        TEST(a_tiny_gradient_is_measured_by_its_layer),
        TEST(extreme_magnitudes),
        TEST(a_value_that_is_not_finite_is_different),
        TEST(a_value_that_is_not_finite_on_both_sides_of_two_dumps),
        TEST(a_fixture_that_is_not_finite_is_bad_input),
        TEST(padding_is_not_judged),
        TEST(all_zero_is_different),
        TEST(unused_ids_of_an_untied_embedding_are_zero),
        TEST(unused_ids_of_a_tied_embedding_need_not_be),
        TEST(one_sign_of_a_tie_is_enough),
        TEST(an_embedding_without_ids_is_zero),
        TEST(padding_of_input_embeddings_is_zero),
        TEST(float32_has_its_own_limits),
        TEST(a_dtype_that_is_not_declared_is_noted),
        TEST(storage_narrower_than_declared_is_noted),
        TEST(islands_are_judged_as_float32),
        TEST(bfloat16_has_no_limits),
        TEST(two_dumps_are_judged_as_the_narrower),
        TEST(user_limits_are_of_each_element),
        TEST(exactly_equal_passes_limits_of_zero),
        TEST(limits_that_mean_nothing_are_bad_usage),
    };
    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}

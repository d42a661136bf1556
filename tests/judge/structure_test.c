#include "tests/judge/groups.h"
#include "tests/judge/world.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
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
static const char HEAD[] = "grads/lm_head.weight";

static void a_copy_is_same(void **state)
{
    (void)state;
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.count, 12);
    assert_string_equal(w.result.next, "");
    assert_int_equal(w.result.note_count + w.result.failure_count, 0);
    assert_string_equal(w.result.tensors[0].name, "logits");
    assert_string_equal(w.result.tensors[11].name, HEAD);
    assert_int_equal(world_result(&w, "logits")->unjudged, WORLD_V);
    assert_int_equal(world_result(&w, "token_loss")->judged, WORLD_B * WORLD_T - 1);
    assert_true(w.result.worst_loss == 0 && w.result.worst_logits == 0 && w.result.worst_gradient == 0);
}

static void a_missing_gradient(void **state)
{
    (void)state;
    world_actual(&w, NORM)->there = false;
    world_expect_tensor(&w, NORM, CP_NOT_COMPARABLE, "missing from actual.h5");
    assert_false(world_result(&w, NORM)->measured);
}

static void an_extra_gradient(void **state)
{
    (void)state;
    world_add(&w.actual, "grads/model.norm.bias", 1, (int64_t[]){3});
    world_expect_tensor(&w, "grads/model.norm.bias", CP_NOT_COMPARABLE,
                        "extra: expected.h5 has no such tensor");
}

static void a_gradient_of_a_buffer_or_a_frozen_weight_is_extra(void **state)
{
    (void)state;
    world_add(&w.actual, "grads/model.rotary_emb.inv_freq", 1, (int64_t[]){2});
    world_expect_tensor(&w, "grads/model.rotary_emb.inv_freq", CP_NOT_COMPARABLE, "role is buffer");
    world_drop(&w.actual, "grads/model.rotary");
    world_weight(&w, "model.norm.weight")->role = "frozen";
    world_drop(&w.expected, NORM);
    world_expect_tensor(&w, NORM, CP_NOT_COMPARABLE, "role is frozen");
    world_drop(&w.actual, NORM);
    world_expect(&w, CP_SAME);
}

static void an_unknown_name_at_the_root_is_extra(void **state)
{
    (void)state;
    world_add(&w.actual, "aux_loss", 1, (int64_t[]){1});
    world_expect_tensor(&w, "aux_loss", CP_NOT_COMPARABLE, "extra: expected.h5 has no such tensor");
    world_add(&w.expected, "aux_loss", 1, (int64_t[]){1});
    world_expect(&w, CP_SAME);
    assert_text_holds(w.result.notes[0], "the loss holds it");
}

static void another_shape(void **state)
{
    (void)state;
    static const struct {
        int dims;
        int64_t extent[CP_MAX_DIMS];
    } shapes[] = {{1, {4}}, {2, {1, 3}}, {2, {3, 1}}, {1, {2}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        world_tensor *tensor = world_actual(&w, NORM);
        tensor->dims = shapes[i].dims;
        memcpy(tensor->extent, shapes[i].extent, sizeof tensor->extent);
        world_expect_tensor(&w, NORM, CP_NOT_COMPARABLE, ", expected [3]");
    }
}

static void transposed_logits(void **state)
{
    (void)state;
    world_tensor *logits = world_actual(&w, "logits");
    logits->extent[0] = WORLD_T;
    logits->extent[1] = WORLD_B;
    world_expect_tensor(&w, "logits", CP_NOT_COMPARABLE, "shape [4,2,6], expected [2,4,6]");
}

static void an_empty_tensor(void **state)
{
    (void)state;
    world_actual(&w, NORM)->extent[0] = 0;
    world_expected(&w, NORM)->extent[0] = 0;
    world_expect_tensor(&w, NORM, CP_NOT_COMPARABLE, "empty");
}

static void nothing_to_compare(void **state)
{
    (void)state;
    world_drop(&w.actual, "");
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "actual.h5: no loss");
    world_expect_failure(&w, "actual.h5: no logits");
    world_expect_failure(&w, "actual.h5: no gradients");
    world_drop(&w.expected, "");
    w.fixture.weight_count = 0;
    w.options.only = NULL;
    world_expect(&w, CP_NOT_COMPARABLE);
}

static void everything_is_padding(void **state)
{
    (void)state;
    memset(w.mask, 0, sizeof w.mask);
    world_expect_tensor(&w, "logits", CP_NOT_COMPARABLE, "every position is padding");
}

static void a_whole_kind_is_missing(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *failure, *rest;
    } rows[] = {
        {"logits", "no logits", "[!l]*"}, {"grads/", "no gradients", "l*"}, {"loss", "no loss", "[!l]*"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        w.actual = w.expected;
        world_drop(&w.actual, rows[i].prefix);
        w.options.only = NULL;
        world_expect(&w, CP_NOT_COMPARABLE);
        world_expect_failure(&w, rows[i].failure);
        w.options.only = rows[i].rest;
        world_expect(&w, CP_SAME);
        world_expect_note(&w, "not judged, as --only");
    }
}

static void logsumexp_and_target_logit_instead_of_logits(void **state)
{
    (void)state;
    static const int64_t labels[] = {1, 2, 3, 4, 5, 0, 1, CP_IGNORED};
    w.fixture.batch.labels = labels;
    const world_tensor *logits = world_expected(&w, "logits");
    world_tensor *sums = world_add(&w.actual, "logsumexp", 2, (int64_t[]){WORLD_B, WORLD_T});
    world_tensor *targets = world_add(&w.actual, "target_logit", 2, (int64_t[]){WORLD_B, WORLD_T});
    for (int i = 0; i < WORLD_B * WORLD_T; i++) {
        double sum = 0;
        for (int v = 0; v < WORLD_V; v++)
            sum += exp(logits->values[i * WORLD_V + v]);
        sums->values[i] = log(sum);
        bool predicts = i % WORLD_T < WORLD_T - 1 && labels[i + 1] != CP_IGNORED;
        targets->values[i] = predicts ? logits->values[i * WORLD_V + labels[i + 1]] : NAN;
    }
    world_expect(&w, CP_SAME); /* beside logits they are judged too */
    assert_int_equal(world_result(&w, "target_logit")->judged, 5);
    assert_int_equal(world_result(&w, "logsumexp")->judged, 7);
    world_drop(&w.actual, "logits");
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "actual.h5 has no logits: judged by their logsumexp and target_logit");
    world_actual(&w, "target_logit")->values[0] += 1e-9;
    world_expect_tensor(&w, "target_logit", CP_DIFFERENT, "times its limit");
    world_drop(&w.actual, "target_logit");
    world_expect_tensor(&w, "logits", CP_NOT_COMPARABLE, "missing from actual.h5");
}

static void token_losses_may_be_missing(void **state)
{
    (void)state;
    world_drop(&w.actual, "token_loss");
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "actual.h5 has no token losses: judged by loss and logits");
    w.options.only = "token_loss";
    world_expect_tensor(&w, "token_loss", CP_NOT_COMPARABLE, "missing");
}

static void an_expectation_is_missing(void **state)
{
    (void)state;
    world_drop(&w.expected, NORM);
    world_drop(&w.actual, NORM);
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "no gradient of model.norm.weight, which is trained");
}

static void only_some(void **state)
{
    (void)state;
    world_scale(world_actual(&w, NORM), 2);
    world_drop(&w.actual, HEAD);
    w.options.only = "grads/*layers.1.*";
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.count, 3);
    world_expect_note(&w, "loss, token losses, logits, 6 gradients");
    w.options.only = "*norm*";
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "times its limit");
    w.options.only = "*lm_head*";
    world_expect_tensor(&w, HEAD, CP_NOT_COMPARABLE, "missing");
    w.options.only = "grad/*";
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "--only \"grad/*\" matches no tensor of expected.h5");
}

/* A limit leans on its group, whether or not the group is judged. */
static void only_does_not_change_limits(void **state)
{
    (void)state;
    world_tensor *small = world_expected(&w, "grads/model.layers.0.self_attn.k_proj.weight");
    world_scale(small, 1e-9);
    world_expect(&w, CP_DIFFERENT);
    double limit = world_result(&w, small->name)->norm_limit;
    w.options.only = "*layers.0.*k_proj*";
    world_expect(&w, CP_DIFFERENT);
    assert_int_equal(w.result.count, 1);
    assert_true(world_result(&w, small->name)->norm_limit == limit);
    assert_true(limit > 1e-16);
}

static void another_fixture(void **state)
{
    (void)state;
    w.actual.declaration.fixture_id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee";
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "actual.h5 is of another fixture");
    assert_int_equal(w.result.count, 0);
    w.actual.declaration.fixture_id = "";
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "names no fixture");
    w.without_fixture = true;
    world_expect(&w, CP_NOT_COMPARABLE);
    w.expected.declaration.fixture_id = "";
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "neither side names its fixture");
}

static void the_dump_of_one_rank(void **state)
{
    (void)state;
    w.actual.declaration.cp_size = 2;
    world_expect(&w, CP_SAME);
    w.actual.declaration.cp_rank = 1;
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "rank 1 of 2");
}

/* ---- None ---- */

static void none_is_right_where_the_truth_is_zero(void **state)
{
    (void)state;
    w.actual.declaration.grad_absent = "model.norm.weight\n";
    world_drop(&w.actual, NORM);
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "declared None, but the expected gradient is not zero");
    world_scale(world_expected(&w, NORM), 0);
    world_expect(&w, CP_SAME);
    world_expected(&w, NORM)->values[1] = 1e-300; /* within any limit, and not zero */
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "declared None");
}

static void none_contradicts_a_tensor(void **state)
{
    (void)state;
    w.actual.declaration.grad_absent = "model.norm.weight\n";
    world_expect_tensor(&w, NORM, CP_NOT_COMPARABLE, "declared None");
}

static void none_of_nothing(void **state)
{
    (void)state;
    w.actual.declaration.grad_absent = "model.norm.bias\n";
    world_expect_tensor(&w, "grads/model.norm.bias", CP_NOT_COMPARABLE, "extra");
    w.actual.declaration.grad_absent = "model.rotary_emb.inv_freq\n";
    world_expect(&w, CP_SAME);
}

static void none_on_the_expected_side(void **state)
{
    (void)state;
    w.expected_is_dump = true;
    w.expected.declaration.grad_absent = "model.norm.weight\n";
    world_drop(&w.expected, NORM);
    world_expect(&w, CP_DIFFERENT);
    world_scale(world_actual(&w, NORM), 0);
    world_expect(&w, CP_SAME);
    world_drop(&w.actual, NORM);
    world_expect_tensor(&w, NORM, CP_NOT_COMPARABLE, "missing");
    w.actual.declaration.grad_absent = "model.norm.weight\n";
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "None on both sides");
}

/* ---- tied ---- */

static void a_tied_gradient_under_either_name(void **state)
{
    (void)state;
    world_tie(&w);
    world_expect(&w, CP_SAME);
    world_actual(&w, EMBEDDING)->name = HEAD;
    world_drop(&w.actual, "nothing");
    world_expect(&w, CP_SAME);
    for (size_t i = 0; i < w.actual.count; i++) {
        if (strcmp(w.actual.tensors[i].name, HEAD) == 0)
            w.actual.tensors[i].there = false;
    }
    world_expect_tensor(&w, EMBEDDING, CP_NOT_COMPARABLE, "missing");
}

static void a_tied_gradient_under_both_names(void **state)
{
    (void)state;
    world_tie(&w);
    world_tensor *head = world_actual(&w, HEAD);
    memcpy(head->values, world_actual(&w, EMBEDDING)->values, sizeof head->values);
    head->there = true;
    world_expect(&w, CP_SAME);
    head->values[2] += 1;
    world_expect_tensor(&w, HEAD, CP_DIFFERENT, "times its limit");
    assert_int_equal(world_result(&w, EMBEDDING)->verdict, CP_SAME);
    w.options.only = EMBEDDING; /* the same parameter by another name */
    world_expect(&w, CP_DIFFERENT);
}

/* ---- traces ---- */

static void traces_are_judged_where_both_have_them(void **state)
{
    (void)state;
    world_add(&w.expected, "trace/embed", 3, (int64_t[]){WORLD_B, WORLD_T, 2});
    world_add(&w.expected, "trace/final", 3, (int64_t[]){WORLD_B, WORLD_T, 2});
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "2 of the expected traces not in actual.h5");
    world_tensor *trace = world_add(&w.actual, "trace/embed", 3, (int64_t[]){WORLD_B, WORLD_T, 2});
    world_add(&w.actual, "trace/router", 1, (int64_t[]){3});
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "1 of the expected traces");
    world_expect_note(&w, "1 trace of actual.h5 not expected");
    trace->values[15] = NAN; /* padding */
    world_expect(&w, CP_SAME);
    trace->values[0] += 1e-6;
    world_expect_tensor(&w, "trace/embed", CP_DIFFERENT, "times its limit");
    w.options.only = "trace/*";
    world_expect_tensor(&w, "trace/final", CP_NOT_COMPARABLE, "missing");
}

/* ---- two dumps ---- */

static void two_dumps_without_a_batch(void **state)
{
    (void)state;
    w.without_fixture = true;
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "no batch: padding judged too");
    world_actual(&w, "logits")->values[WORLD_B * WORLD_T * WORLD_V - 1] += 1;
    world_expect_tensor(&w, "logits", CP_DIFFERENT, "times its limit");
    w.without_fixture = false;
    w.expected_is_dump = true;
    world_expect(&w, CP_SAME);
    world_expect_no_note(&w, "no batch");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int structure_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_same),
        TEST(a_missing_gradient),
        TEST(an_extra_gradient),
        TEST(a_gradient_of_a_buffer_or_a_frozen_weight_is_extra),
        TEST(an_unknown_name_at_the_root_is_extra),
        TEST(another_shape),
        TEST(transposed_logits),
        TEST(an_empty_tensor),
        TEST(nothing_to_compare),
        TEST(everything_is_padding),
        TEST(a_whole_kind_is_missing),
        TEST(logsumexp_and_target_logit_instead_of_logits),
        TEST(token_losses_may_be_missing),
        TEST(an_expectation_is_missing),
        TEST(only_some),
        TEST(only_does_not_change_limits),
        TEST(another_fixture),
        TEST(the_dump_of_one_rank),
        TEST(none_is_right_where_the_truth_is_zero),
        TEST(none_contradicts_a_tensor),
        TEST(none_of_nothing),
        TEST(none_on_the_expected_side),
        TEST(a_tied_gradient_under_either_name),
        TEST(a_tied_gradient_under_both_names),
        TEST(traces_are_judged_where_both_have_them),
        TEST(two_dumps_without_a_batch),
    };
    return cmocka_run_group_tests_name("structure", tests, NULL, NULL);
}

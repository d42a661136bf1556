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
    w.actual.declaration.cp_size = 2;
    w.actual.declaration.layout = "contiguous";
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static void expect_next(const char *first, const char *words)
{
    world_expect(&w, CP_DIFFERENT);
    assert_text_holds(w.result.next, "first difference in execution order: ");
    assert_text_holds(w.result.next, first);
    assert_text_holds(w.result.next, words);
}

static void scale_all(const char *part, double factor)
{
    for (size_t i = 0; i < w.actual.count; i++) {
        world_tensor *tensor = &w.actual.tensors[i];
        if (strncmp(tensor->name, "grads/", 6) == 0 && strstr(tensor->name, part))
            world_scale(tensor, factor);
    }
}

/* Something that is no multiple. */
static void bend_all(const char *part)
{
    for (size_t i = 0; i < w.actual.count; i++) {
        if (strncmp(w.actual.tensors[i].name, "grads/", 6) == 0 && strstr(w.actual.tensors[i].name, part))
            w.actual.tensors[i].values[0] += 0.125 + 0.01 * (double)i;
    }
}

static void one_factor_on_all_gradients(void **state)
{
    (void)state;
    static const struct {
        double factor;
        const char *words;
    } rows[] = {
        {2, "every gradient is 2 times the expected, the number of ranks: summed"},
        {0.5, "every gradient is 0.5 times the expected, 1 / the number of ranks: averaged"},
        {0.75, "every gradient is 0.75 times the expected: look at the loss's divisor"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        w.actual.count = w.expected.count;
        memcpy(w.actual.tensors, w.expected.tensors, sizeof w.actual.tensors);
        scale_all("", rows[i].factor);
        expect_next("grads/model.embed_tokens.weight", rows[i].words);
    }
}

static void almost_one_factor_is_none(void **state)
{
    (void)state;
    scale_all("", 2);
    scale_all("k_proj", 1.01);
    world_expect(&w, CP_DIFFERENT);
    assert_null(strstr(w.result.next, "times the expected"));
    assert_text_holds(w.result.next, "look at the backward pass and the reduction");
}

static void the_loss_and_all_gradients(void **state)
{
    (void)state;
    scale_all("", 2);
    world_scale(world_actual(&w, "loss"), 2);
    expect_next(
        "loss",
        "the loss and every gradient are 2 times the expected, the number of ranks: look at the loss's "
        "divisor");
}

static void spoil(int row, int position)
{
    world_actual(&w, "logits")->values[(row * WORLD_T + position) * WORLD_V] += 0.5;
}

static void logits_from_a_cut_on(void **state)
{
    (void)state;
    for (int row = 0; row < WORLD_B; row++) {
        for (int position = 2; position < WORLD_T; position++)
            spoil(row, position);
    }
    expect_next("logits", "right before position 2, where rank 1's shard begins, and wrong from there on");
    w.actual.declaration.layout = "zigzag";
    expect_next("logits", "right before position 2 and wrong from there on");
    spoil(0, 1); /* row 0 alone begins there */
    expect_next("logits", "look at the forward pass");
}

static void logits_of_whole_rows(void **state)
{
    (void)state;
    for (int position = 0; position < WORLD_T - 1; position++)
        spoil(1, position);
    expect_next("logits", "every position of 1 row is wrong and the other rows are right");
    w.documents[4] = w.documents[5] = -1; /* now it begins at position 2, and still is wrong altogether */
    w.fixture.batch.document_ids = w.documents;
    expect_next("logits", "every position of 1 row is wrong");
    spoil(0, 1);
    expect_next("logits", "look at the forward pass");
}

static void labels_shifted_inside_the_shard(void **state)
{
    (void)state;
    world_tensor *losses = world_actual(&w, "token_loss");
    losses->values[1] = 0;
    expect_next("token_loss", "only the last token of a shard");
    losses->values[0] = 0;
    expect_next("token_loss", "logits are right: look at the labels");
}

static void the_loss_alone(void **state)
{
    (void)state;
    world_scale(world_actual(&w, "loss"), 2);
    expect_next("loss", "token losses are right and the loss is 2 times the expected");
    world_drop(&w.actual, "token_loss");
    expect_next("loss", "logits are right and the loss is 2 times");
}

static void kinds_of_gradients(void **state)
{
    (void)state;
    static const struct {
        const char *part, *first, *words;
    } rows[] = {
        {"embed", "embed_tokens", "only the input embedding's gradient"},
        {"v_proj", "layers.0.self_attn.v_proj", "only gradients of keys and values"},
        {"q_proj", "layers.0.self_attn.q_proj", "only gradients of queries and keys"},
        {"lm_head", "lm_head.weight", "only the head's gradient"},
        {"model.norm", "model.norm.weight", "only norms' gradients"},
        {"layers.0", "layers.0.self_attn.k_proj", "wrong in layers 0 to 0 and right after"},
        {"layers.1", "layers.1.self_attn.k_proj", "look at the backward pass and the reduction"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(w.actual.tensors, w.expected.tensors, sizeof w.actual.tensors);
        bend_all(rows[i].part);
        expect_next(rows[i].first, rows[i].words);
        assert_text_holds(w.result.next, "the forward pass is right; ");
    }
}

static void a_factor_on_some_gradients(void **state)
{
    (void)state;
    scale_all("layers.1", 3);
    expect_next("layers.1", "every gradient that differs is 3 times the expected");
}

static void errors_of_the_size_of_rounding(void **state)
{
    (void)state;
    w.actual.declaration.compute_dtype = CP_F32;
    scale_all("layers.1", 1 + 1e-4);
    expect_next("layers.1", "rounding in float32 can be as large as this");
    scale_all("layers.1", 3);
    expect_next("layers.1", "every gradient that differs is 3 times the expected");
}

static void values_that_are_not_finite(void **state)
{
    (void)state;
    world_actual(&w, "logits")->values[0] = NAN;
    expect_next("logits", "look for a row that sees nothing");
}

static void what_cannot_be_compared(void **state)
{
    (void)state;
    world_drop(&w.actual, "grads/lm_head");
    world_scale(world_actual(&w, "loss"), 2);
    world_expect(&w, CP_NOT_COMPARABLE);
    assert_text_holds(w.result.next, "grads/lm_head.weight is missing from actual.h5");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int next_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_factor_on_all_gradients),
        TEST(almost_one_factor_is_none),
        TEST(the_loss_and_all_gradients),
        TEST(logits_from_a_cut_on),
        TEST(logits_of_whole_rows),
        TEST(labels_shifted_inside_the_shard),
        TEST(the_loss_alone),
        TEST(kinds_of_gradients),
        TEST(a_factor_on_some_gradients),
        TEST(errors_of_the_size_of_rounding),
        TEST(values_that_are_not_finite),
        TEST(what_cannot_be_compared),
    };
    return cmocka_run_group_tests_name("next", tests, NULL, NULL);
}

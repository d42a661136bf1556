#include "tests/judge/groups.h"
#include "tests/judge/world.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>

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

static void assert_integers(const int32_t *found, const int32_t *expected, int64_t count)
{
    assert_non_null(found);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(found[i], expected[i]);
}

static void short_rows_have_a_bin_for_each_position(void **state)
{
    (void)state;
    world_expect(&w, CP_SAME);
    const cp_bins *bins = &w.result.bins;
    assert_int_equal(bins->B, WORLD_B);
    assert_int_equal(bins->bins, WORLD_T);
    assert_int_equal(bins->width, 1);
    assert_int_equal(bins->ranks, 0);
    assert_null(bins->owner);
    assert_integers(bins->document, (const int32_t[]){0, 0, 0, 0, 0, 0, 0, CP_BIN_PADDING}, 8);
    assert_null(world_result(&w, "logits")->rank_share);
    assert_null(world_result(&w, "grads/model.norm.weight")->bin_errors);
    assert_null(world_result(&w, "loss")->bin_errors);
}

static void documents_are_counted_in_each_row(void **state)
{
    (void)state;
    static const int64_t ids[] = {7, 7, 3, 9, 2, 2, 2, -1};
    static const int64_t positions[] = {0, 1, 0, 1, 0, 0, 1, 2};
    w.fixture.batch.document_ids = ids;
    world_expect(&w, CP_SAME);
    assert_integers(w.result.bins.document, (const int32_t[]){0, 0, 1, 2, 0, 0, 0, CP_BIN_PADDING}, 8);
    w.fixture.batch.document_ids = NULL;
    w.fixture.batch.attention_mask = NULL;
    w.fixture.batch.position_ids = positions;
    world_expect(&w, CP_SAME);
    assert_integers(w.result.bins.document, (const int32_t[]){0, 0, 1, 1, 0, 1, 1, 1}, 8);
}

/* One file that says how it was sharded. */
static void a_layout_tells_which_rank_held_what(void **state)
{
    (void)state;
    w.actual.declaration.cp_size = 3;
    w.actual.declaration.layout = "contiguous";
    world_actual(&w, "logits")->values[3 * WORLD_V] += 3e-3; /* row 0: position 3 is rank 1's */
    world_actual(&w, "logits")->values[4 * WORLD_V] += 4e-3; /* row 1: position 0 is rank 0's */
    world_expect(&w, CP_DIFFERENT);
    const cp_bins *bins = &w.result.bins;
    assert_int_equal(bins->ranks, 3);
    assert_integers(bins->owner, (const int32_t[]){0, 0, 1, 1, 0, 0, 1, 1}, 8);
    assert_int_equal(bins->rank_tokens[0], 4);
    assert_int_equal(bins->rank_tokens[1], 3);
    assert_int_equal(bins->rank_tokens[2], 0);
    const cp_tensor_result *logits = world_result(&w, "logits");
    assert_near(logits->bin_errors[3], 3e-3, 1e-15);
    assert_near(logits->bin_errors[4], 4e-3, 1e-15);
    assert_near(logits->rank_share[0], 0.64, 1e-9);
    assert_near(logits->rank_share[1], 0.36, 1e-9);
    assert_near(logits->rank_share[2], 0, 0);
    w.actual.declaration.layout = "of somebody else";
    world_expect(&w, CP_DIFFERENT);
    assert_int_equal(w.result.bins.ranks, 0);
}

static void extreme_errors_have_their_share(void **state)
{
    (void)state;
    static const double sizes[] = {1e-300, 1e300};
    for (int i = 0; i < 2; i++) {
        w.actual.declaration.cp_size = 2;
        w.actual.declaration.layout = "contiguous";
        world_tensor *expected = world_expected(&w, "token_loss");
        world_tensor *actual = world_actual(&w, "token_loss");
        for (int t = 0; t < WORLD_B * WORLD_T; t++)
            expected->values[t] = actual->values[t] = 0;
        actual->values[1] = 3 * sizes[i];
        actual->values[2] = 4 * sizes[i];
        actual->values[3] = NAN;
        assert_ok(world_judge(&w));
        const cp_tensor_result *losses = world_result(&w, "token_loss");
        assert_near(losses->rank_share[0], 0.36, 1e-12);
        assert_near(losses->rank_share[1], 0.64, 1e-12);
        assert_true(isinf(losses->bin_errors[3]));
    }
}

/* More positions than bins: what is drawn is the worst of each. */
static void long_rows_share_bins(void **state)
{
    (void)state;
    enum { T = 5000, WIDTH = 3, BINS = 1667 };
    static double expected[T], actual[T];
    static int64_t ids[T], documents[T];
    for (int t = 0; t < T; t++) {
        expected[t] = actual[t] = 1 + t % 7;
        documents[t] = t < 2999 ? 0 : t < 4998 ? 1 : -1;
    }
    actual[3000] += 0.5; /* of the bin [3000,3002] */
    actual[3002] -= 0.25;
    actual[4999] = NAN; /* padding */
    cp_memory_tensor losses[2] = {{"token_loss", CP_VIEW(expected, CP_F64, 1, T), false},
                                  {"token_loss", CP_VIEW(actual, CP_F64, 1, T), false}};
    cp_declaration declaration = w.actual.declaration;
    declaration.cp_size = 2;
    declaration.layout = "contiguous";
    cp_source *sides[2];
    for (int i = 0; i < 2; i++)
        assert_ok(cp_source_memory(&sides[i], i ? "b" : "a", &declaration, &losses[i], 1));
    w.fixture.batch = (cp_batch){.B = 1, .T = T, .input_ids = ids, .document_ids = documents};
    w.fixture.weights = w.weights;
    w.options.only = "token_loss";
    assert_ok(cp_diff(&w.result, sides[0], sides[1], &w.fixture, &w.options));
    const cp_bins *bins = &w.result.bins;
    assert_int_equal(bins->width, WIDTH);
    assert_int_equal(bins->bins, BINS);
    const double *errors = world_result(&w, "token_loss")->bin_errors;
    assert_near(errors[1000], 0.5, 0);
    assert_near(errors[1001] + errors[999], 0, 0);
    assert_near(errors[BINS - 1], 0, 0);
    assert_integers(bins->document + 998, (const int32_t[]){0, CP_BIN_MIXED, 1}, 3);
    assert_integers(bins->document + BINS - 2, (const int32_t[]){1, CP_BIN_PADDING}, 2);
    assert_integers(bins->owner + 832, (const int32_t[]){0, CP_BIN_MIXED, 1}, 3); /* the cut is at 2500 */
    cp_source_close(sides[0]);
    cp_source_close(sides[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int spread_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(short_rows_have_a_bin_for_each_position),
        TEST(documents_are_counted_in_each_row),
        TEST(a_layout_tells_which_rank_held_what),
        TEST(extreme_errors_have_their_share),
        TEST(long_rows_share_bins),
    };
    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}

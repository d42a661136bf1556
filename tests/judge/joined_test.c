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

/* ---- replicas ---- */

static const int64_t HALVES[2][WORLD_B * 2] = {{0, 1, 0, 1}, {2, 3, 2, 3}};

/* Rows of the whole, as a contiguous shard holds them. */
static void cut(world_side *side, const world_side *whole, int rank)
{
    *side = *whole;
    side->declaration.cp_size = 2;
    side->declaration.cp_rank = rank;
    side->declaration.layout = "contiguous";
    side->declaration.B = WORLD_B;
    side->declaration.S = 2;
    side->declaration.token_index = HALVES[rank];
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "logits" : "token_loss";
        world_tensor *tensor = world_find(side, name);
        const world_tensor *source = world_find((world_side *)whole, name);
        int64_t width = world_count(source) / (WORLD_B * WORLD_T);
        tensor->extent[1] = 2;
        for (int64_t row = 0; row < WORLD_B * 2; row++)
            memcpy(tensor->values + row * width,
                   source->values + ((row / 2) * WORLD_T + HALVES[rank][row]) * width,
                   (size_t)width * sizeof *tensor->values);
    }
}

static void join_with(double factor)
{
    static world_side sides[2];
    cp_source *parts[2];
    for (int rank = 0; rank < 2; rank++)
        cut(&sides[rank], &w.actual, rank);
    world_scale(world_find(&sides[1], NORM), factor);
    for (int rank = 0; rank < 2; rank++)
        parts[rank] = world_source(&sides[rank], rank ? "rank-0001.h5" : "rank-0000.h5");
    assert_ok(cp_source_join(&w.judged, parts, 2, WORLD_B, WORLD_T));
}

static void replicas_that_differ_within_the_limits_are_noted(void **state)
{
    (void)state;
    join_with(1);
    world_expect(&w, CP_SAME);
    world_expect_no_note(&w, "own copies");
    join_with(1 + 1e-14);
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "the ranks' own copies of 1 tensor are not equal, but within the limits: "
                          "grads/model.norm.weight");
}

static void replicas_that_differ_beyond_them_are_different(void **state)
{
    (void)state;
    join_with(1 + 1e-6);
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "the ranks' own copies differ by 1.0e-06 of the norm");
    assert_text_holds(w.result.next, "the ranks' own copies of 1 gradient differ; ");
    join_with(NAN);
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "the ranks' own copies differ");
    world_scale(world_expected(&w, NORM), 0);
    world_scale(world_actual(&w, NORM), 0);
    join_with(NAN); /* beside a copy that is zero */
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "the ranks' own copies differ");
}

/* ---- ranks ---- */

static void parts_tell_which_rank_held_what(void **state)
{
    (void)state;
    world_actual(&w, "token_loss")->values[WORLD_T + 2] += 1; /* row 1, of rank 1 */
    join_with(1);
    world_expect(&w, CP_DIFFERENT);
    const cp_bins *bins = &w.result.bins;
    assert_int_equal(bins->ranks, 2);
    for (int i = 0; i < WORLD_B * WORLD_T; i++)
        assert_int_equal(bins->owner[i], i % WORLD_T / 2);
    assert_int_equal(bins->rank_tokens[0], 4);
    assert_int_equal(bins->rank_tokens[1], 3); /* and one of padding */
    const cp_tensor_result *losses = world_result(&w, "token_loss");
    assert_near(losses->rank_share[0], 0, 0);
    assert_near(losses->rank_share[1], 1, 0);
}

/* ---- logits of some positions ---- */

static void logits_of_some_positions(void **state)
{
    (void)state;
    static const int64_t index[2][2 * 2] = {{1, 0, 0, 1}, {0, 3}}; /* (row, position) */
    static world_side sides[2];
    cp_source *parts[2];
    const world_tensor *whole = world_expected(&w, "logits");
    for (int rank = 0; rank < 2; rank++) {
        world_side *side = &sides[rank];
        cut(side, &w.actual, rank);
        side->declaration.logits_index = index[rank];
        side->declaration.logits_rows = 2 - rank;
        world_tensor *logits = world_find(side, "logits");
        logits->dims = 2;
        logits->extent[0] = 2 - rank;
        logits->extent[1] = WORLD_V;
        for (int i = 0; i < 2 - rank; i++)
            memcpy(logits->values + i * WORLD_V,
                   whole->values + (index[rank][2 * i] * WORLD_T + index[rank][2 * i + 1]) * WORLD_V,
                   WORLD_V * sizeof *whole->values);
    }
    for (int wrong = 0; wrong < 2; wrong++) {
        world_find(&sides[1], "logits")->values[2] += wrong;
        for (int rank = 0; rank < 2; rank++)
            parts[rank] = world_source(&sides[rank], rank ? "rank-0001.h5" : "rank-0000.h5");
        assert_ok(cp_source_join(&w.judged, parts, 2, WORLD_B, WORLD_T));
        world_expect(&w, wrong ? CP_DIFFERENT : CP_SAME);
        assert_int_equal(world_result(&w, "logits")->judged, 3 * WORLD_V);
        world_expect_note(&w,
                          "keeps logits of 3 of 8 positions (logits_index): those of others are not judged");
    }
    assert_int_equal(world_result(&w, "logits")->worst_index[0], 0);
    assert_int_equal(world_result(&w, "logits")->worst_index[1], 3);
    assert_int_equal(world_result(&w, "logits")->worst_index[2], 2);
}

/* ---- blocks ---- */

/* Several blocks, and rows that begin inside them. */
static void large_tensors_are_streamed(void **state)
{
    (void)state;
    enum { B = 2, T = 300, V = 251, WHOLE = B * T * V };
    static double expected[WHOLE], actual[WHOLE];
    static uint8_t mask[B * T];
    static int64_t ids[B * T];
    for (int i = 0; i < WHOLE; i++)
        expected[i] = actual[i] = 1 + i % 7;
    for (int i = 0; i < B * T; i++)
        mask[i] = i % T < T - 1;
    actual[WHOLE - 1] = NAN;               /* padding */
    actual[(T - 1) * V] = 0;               /* the same */
    actual[(T + 270) * V + 13] += 0.5;     /* in the last block */
    actual[(T + 298) * V + V - 1] += 0.25; /* the last judged element */
    cp_memory_tensor logits[2] = {{"logits", CP_VIEW(expected, CP_F64, B, T, V), false},
                                  {"logits", CP_VIEW(actual, CP_F64, B, T, V), false}};
    cp_source *sides[2];
    for (int i = 0; i < 2; i++)
        assert_ok(cp_source_memory(&sides[i], i ? "b" : "a", &w.expected.declaration, &logits[i], 1));
    w.fixture.batch = (cp_batch){.B = B, .T = T, .input_ids = ids, .attention_mask = mask};
    w.fixture.weights = w.weights;
    w.options.only = "logits";
    assert_ok(cp_diff(&w.result, sides[0], sides[1], &w.fixture, &w.options));
    const cp_tensor_result *found = world_result(&w, "logits");
    assert_int_equal(found->verdict, CP_DIFFERENT);
    assert_int_equal(found->nonfinite_actual, 0);
    assert_int_equal(found->judged, B * (T - 1) * V);
    assert_int_equal(found->unjudged, B * V);
    assert_int_equal(found->over_limit, 2);
    assert_int_equal(found->bad_positions, 2);
    assert_int_equal(found->first_bad_position, 270);
    assert_int_equal(found->worst_index[0], 1);
    assert_int_equal(found->worst_index[1], 270);
    assert_int_equal(found->worst_index[2], 13);
    assert_near(found->error_norm, sqrt(0.3125), 1e-15);
    assert_int_equal(w.result.bins.width, 1);
    assert_near(found->bin_errors[T + 270], 0.5, 0);
    assert_near(found->bin_errors[T + 298], 0.25, 0);
    assert_near(found->bin_errors[T - 1], 0, 0); /* padding */
    for (int i = 0; i < B * T; i++)
        assert_true(found->bin_errors[i] == 0 || i == T + 270 || i == T + 298);
    cp_source_close(sides[0]);
    cp_source_close(sides[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int joined_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(replicas_that_differ_within_the_limits_are_noted),
        TEST(replicas_that_differ_beyond_them_are_different),
        TEST(parts_tell_which_rank_held_what),
        TEST(logits_of_some_positions),
        TEST(large_tensors_are_streamed),
    };
    return cmocka_run_group_tests_name("joined", tests, NULL, NULL);
}

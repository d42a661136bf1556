/* What was run: inputs of two ranks' dumps against the fixture. */
#include "tests/judge/groups.h"
#include "tests/judge/told.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

/* ---- inputs ---- */

static void nothing_told_is_nothing_said(void **state)
{
    (void)state;
    told_expect(CP_SAME);
    world_expect_no_note(&told_world, "what was run");
    assert_int_equal(told_world.result.count, told_world.actual.count);
}

static void the_same_run_is_noted(void **state)
{
    (void)state;
    tell("input_ids", told_world.input_ids);
    tell("position_ids", told_positions)[3] = 77; /* padding */
    tell("labels", told_labels);
    tell_weights(0, 0);
    tell_weights(1, 0);
    told_expect(CP_SAME);
    world_expect_note(&told_world,
                      "what was run is the fixture's: input_ids, position_ids, labels, 10 of 10 weights");
    assert_int_equal(told_world.result.count, told_world.actual.count);
}

static void positions_of_one_rank(void **state)
{
    (void)state;
    double *second = tell("position_ids", told_positions);
    for (int at = 0; at < WORLD_B * S; at++)
        second[at] = at % S;
    told_world.options.only = "logits"; /* what was run is compared all the same */
    told_expect_first(
        CP_DIFFERENT, "ran/position_ids",
        "inputs: position_ids differ at 3 of 7 real positions, all on rank 1, first (0,2): found 0, "
        "expected 2");
    assert_text_holds(told_world.result.next, "make inputs the same before you look at anything else");
}

static void positions_of_the_batch_come_first(void **state)
{
    (void)state;
    static const int64_t packed[TOKENS] = {0, 1, 0, 1, 0, 1, 2, 3};
    told_world.fixture.batch.position_ids = packed;
    tell("position_ids", told_positions);
    told_expect_first(
        CP_DIFFERENT, "ran/position_ids",
        "inputs: position_ids differ at 2 of 7 real positions, all on rank 1, first (0,2): found 2, "
        "expected 0");
}

static void one_row_stands_for_all(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        double *row = tell_array(rank, "position_ids", CP_I32, 2, CP_EXTENTS(1, S));
        row[0] = (double)told_token(rank, 0);
        row[1] = (double)told_token(rank, 1);
    }
    told_expect(CP_SAME);
    world_expect_note(&told_world, "what was run is the fixture's: position_ids");
    told_by[0].values[0][1] = 9;
    told_expect_first(
        CP_DIFFERENT, "ran/position_ids",
        "inputs: position_ids differ at 2 of 7 real positions, all on rank 0, first (0,1): found 9, "
        "expected 1");
}

static void all_ranks_wrong(void **state)
{
    (void)state;
    static const int64_t others[TOKENS] = {0, 5, 2, 5, 1, 2, 1, 3};
    tell("input_ids", others);
    told_expect_first(CP_DIFFERENT, "ran/input_ids",
                      "inputs: input_ids differ at 2 of 7 real positions, first (0,1): found 5, expected 1");
}

static void another_shape(void **state)
{
    (void)state;
    tell_array(0, "input_ids", CP_I64, 2, CP_EXTENTS(1, WORLD_B * S));
    told_expect_first(CP_NOT_COMPARABLE, "ran/input_ids",
                      "of shape [1,4] in rank-0000.h5, expected [2,2] as its tokens");
}

static void a_rank_that_tells_nothing(void **state)
{
    (void)state;
    double *out = tell_array(0, "input_ids", CP_I64, 2, CP_EXTENTS(WORLD_B, S));
    for (int at = 0; at < WORLD_B * S; at++)
        out[at] = (double)told_world.input_ids[told_token(0, at)];
    told_expect(CP_SAME);
    world_expect_note(&told_world, "input_ids (1 of 2 ranks)");
}

/* ---- labels ---- */

static void labels_in_all_forms(void **state)
{
    (void)state;
    static const int64_t rest[TOKENS] = {9, 1, 2, 0, 9, 2, 1, -100}; /* a row's first is never predicted */
    const struct {
        const char *name;
        const int64_t *values;
    } right[] = {
        {"labels", told_labels}, {"labels", rest}, {"shift_labels", told_targets}, {"labels", told_targets}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        memset(told_by, 0, sizeof told_by);
        tell(right[i].name, right[i].values);
        told_expect(CP_SAME);
        world_expect_note(&told_world, right[i].name);
    }
    memset(told_by, 0, sizeof told_by);
    tell("labels", told_positions); /* not looked at beside the shifted ones */
    tell("shift_labels", told_targets);
    told_expect(CP_SAME);
    told_world.fixture.batch.labels = NULL;
    told_world.fixture.batch.shift_labels = told_targets;
    told_expect(CP_SAME);
}

static void labels_shifted_inside_the_shard(void **state)
{
    (void)state;
    static const int64_t wrong[TOKENS] = {1, -100, 0, -100, 2, -100, -100, -100};
    tell("shift_labels", wrong);
    told_expect_first(
        CP_DIFFERENT, "ran/shift_labels",
        "inputs: shift_labels differ at 2 of 7 real positions, all on rank 0, first (0,1): found "
        "-100, expected 2");
}

static void a_wrong_label_is_its_holders(void **state)
{
    (void)state;
    tell("labels", told_labels)[0] = 5; /* (0,2), the target of (0,1) */
    told_expect_first(CP_DIFFERENT, "ran/labels",
                      "inputs: labels differ at 1 of 7 real positions, all on rank 1, first (0,1): found 5, "
                      "expected 2");
}

static double embeds[TOKENS * WORLD_C];

/* ---- embeddings ---- */

static void open_embeddings(double *rounded)
{
    told_world.fixture.batch.inputs_embeds = embeds;
    told_world.fixture.batch.C = WORLD_C;
    float narrow[TOKENS * WORLD_C];
    for (int i = 0; i < TOKENS * WORLD_C; i++) {
        embeds[i] = 0.1 + i / 7.0;
        narrow[i] = (float)embeds[i];
        rounded[i] = narrow[i];
    }
}

static void embeddings_within_their_rounding(void **state)
{
    (void)state;
    double rounded[TOKENS * WORLD_C];
    open_embeddings(rounded);
    for (int rank = 0; rank < RANKS; rank++) {
        double *out = tell_array(rank, "inputs_embeds", CP_F32, 3, CP_EXTENTS(WORLD_B, S, WORLD_C));
        for (int at = 0; at < WORLD_B * S * WORLD_C; at++)
            out[at] = rounded[told_token(rank, at / WORLD_C) * WORLD_C + at % WORLD_C];
    }
    told_expect(CP_SAME);
    world_expect_note(&told_world, "what was run is the fixture's: inputs_embeds");
    told_by[1].values[0][4] *= 1 + 0x1p-22;
    told_expect_first(
        CP_DIFFERENT, "ran/inputs_embeds",
        "inputs: inputs_embeds differ at 1 of 7 real positions, all on rank 1, first (0,3): found "
        "1.528571851, expected 1.528571429");
    told_by[0].items[0].tensor.dtype = told_by[1].items[0].tensor.dtype = CP_F64; /* then it is exact */
    told_expect(CP_DIFFERENT);
    assert_text_holds(told_world.result.tensors[0].reason, "differ at 7 of 7");
}

static void digests_of_embeddings(void **state)
{
    (void)state;
    double rounded[TOKENS * WORLD_C];
    open_embeddings(rounded);
    for (int narrow = 0; narrow < 2; narrow++) {
        memset(told_by, 0, sizeof told_by);
        for (int rank = 0; rank < RANKS; rank++) {
            double held[TOKENS * WORLD_C];
            size_t count = 0;
            for (int i = 0; i < TOKENS * WORLD_C; i++)
                if (i / WORLD_C % WORLD_T / S == rank && i / WORLD_C != PADDING)
                    held[count++] = narrow ? rounded[i] : embeds[i];
            tell_digest(rank, "inputs_embeds", held, count * sizeof *held);
        }
        told_world.actual.declaration.compute_dtype = CP_F64;
        told_expect(narrow ? CP_DIFFERENT : CP_SAME);
        told_world.actual.declaration.compute_dtype = CP_F32; /* that is what it was rounded to */
        told_expect(CP_SAME);
    }
}

static void an_input_that_the_fixture_lacks(void **state)
{
    (void)state;
    tell_array(0, "inputs_embeds", CP_F64, 3, CP_EXTENTS(WORLD_B, S, WORLD_C));
    told_expect(CP_SAME);
    world_expect_note(&told_world, "inputs_embeds: ran, and the fixture has none: not compared");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, told_open, told_close)

int ran_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_told_is_nothing_said),
        TEST(the_same_run_is_noted),
        TEST(positions_of_one_rank),
        TEST(positions_of_the_batch_come_first),
        TEST(one_row_stands_for_all),
        TEST(all_ranks_wrong),
        TEST(another_shape),
        TEST(a_rank_that_tells_nothing),
        TEST(labels_in_all_forms),
        TEST(labels_shifted_inside_the_shard),
        TEST(a_wrong_label_is_its_holders),
        TEST(embeddings_within_their_rounding),
        TEST(digests_of_embeddings),
        TEST(an_input_that_the_fixture_lacks),
    };
    return cmocka_run_group_tests_name("ran", tests, NULL, NULL);
}

/* What was run: digests, weights, and two dumps against each other. */
#include "tests/judge/groups.h"
#include "tests/judge/told.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

/* ---- digests ---- */

/* Of the real tokens of a rank, in order of token. */
static void tell_tokens(int rank, const char *name, const int64_t *values, int64_t change)
{
    int64_t bytes[TOKENS];
    size_t count = 0;
    for (int64_t token = 0; token < TOKENS; token++)
        if (token % WORLD_T / S == rank && token != PADDING)
            bytes[count++] = values[token] + change;
    tell_digest(rank, name, bytes, count * sizeof *bytes);
}

static void digests_of_inputs(void **state)
{
    (void)state;
    const struct {
        const char *name;
        const int64_t *values;
    } inputs[] = {{"input_ids", told_world.input_ids},
                  {"position_ids", told_positions},
                  {"labels", told_labels},
                  {"labels", told_targets},
                  {"shift_labels", told_targets}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int wrong = 0; wrong < 2; wrong++) {
            char name[64], words[128];
            memset(told_by, 0, sizeof told_by);
            tell_tokens(0, inputs[i].name, inputs[i].values, 0);
            tell_tokens(1, inputs[i].name, inputs[i].values, wrong);
            snprintf(name, sizeof name, "ran/%s", inputs[i].name);
            /* read as not shifted, targets are wrong on rank 0 already */
            snprintf(words, sizeof words,
                     "inputs: %s differ on rank %d: another digest over its real positions", inputs[i].name,
                     i == 3 ? 0 : 1);
            if (wrong)
                told_expect_first(CP_DIFFERENT, name, words);
            else
                told_expect(CP_SAME);
        }
}

/* ---- weights ---- */

static void weights_by_digest(void **state)
{
    (void)state;
    tell_weights(0, 0);
    tell_weights(1, 1);
    told_expect_first(CP_DIFFERENT, "ran/weights",
                      "weights: 9 of 10 match; the first that does not: model.embed_tokens.weight on rank 1");
    assert_text_holds(told_world.result.next, "make weights the same");
    memset(told_by, 0, sizeof told_by);
    tell_weights(0, told_world.fixture.weight_count);
    told_expect_first(CP_DIFFERENT, "ran/weights",
                      "weights: 0 of 10 match; the first that does not: model.embed_tokens.weight on rank 0");
}

static void weights_that_are_rounded_when_loaded(void **state)
{
    (void)state;
    static double third[WORLD_C];
    float narrow[WORLD_C];
    double rounded[WORLD_C];
    for (int i = 0; i < WORLD_C; i++)
        third[i] = 1.0 / 3 + i;
    cp_dtype_from_double(narrow, CP_F32, third, WORLD_C);
    cp_dtype_to_double(rounded, narrow, CP_F32, WORLD_C);
    world_weight(&told_world, "model.norm.weight")->tensor.data = third;
    tell_digest(0, "weights/model.norm.weight", rounded, sizeof rounded);
    told_expect(CP_DIFFERENT);
    told_world.actual.declaration.compute_dtype = CP_F32;
    told_expect(CP_SAME);
    world_expect_note(&told_world, "1 of 10 weights");
}

static void weights_as_arrays_and_unknown_ones(void **state)
{
    (void)state;
    double *norm = tell_array(0, "weights/model.norm.weight", CP_F64, 1, CP_EXTENTS(WORLD_C));
    tell_digest(0, "weights/odd", "", 0);
    told_expect(CP_SAME);
    world_expect_note(&told_world, "1 weight that ran is none of the fixture's, as odd: not compared");
    norm[1] = 1e-300;
    told_expect_first(CP_DIFFERENT, "ran/weights",
                      "weights: 0 of 1 match; the first that does not: model.norm.weight on rank 0");
}

/* ---- two dumps ---- */

static told alone;

/* A whole dump that tells, as the expected side. */
static cp_source *whole_dump(void)
{
    cp_source *whole = world_source(&told_world.expected, "truth.h5"), *joined;
    told_attach(whole, &alone);
    assert_ok(cp_source_join(&joined, &whole, 1, 0, 0));
    return joined;
}

static void judge_two(cp_verdict verdict, bool with_fixture)
{
    cp_source *expected = whole_dump(), *actual = told_join();
    told_world.fixture.weights = told_world.weights;
    told_world.fixture.config = told_world.config;
    told_world.options.only = "logits";
    cp_result_close(&told_world.result);
    assert_ok(cp_diff(&told_world.result, expected, actual, with_fixture ? &told_world.fixture : NULL,
                      &told_world.options));
    assert_int_equal(told_world.result.verdict, verdict);
    cp_source_close(expected);
    cp_source_close(actual);
}

static void tell_alone(const char *name, const int64_t *values)
{
    cp_ran *item = &alone.items[alone.count];
    *item = (cp_ran){.tensor = {.name = name, .dtype = CP_I64, .dims = 2, .extent = {WORLD_B, WORLD_T}}};
    for (int i = 0; i < TOKENS; i++)
        alone.values[alone.count][i] = (double)values[i];
    alone.count++;
}

static void two_dumps_against_each_other(void **state)
{
    (void)state;
    memset(&alone, 0, sizeof alone);
    double *second = tell("position_ids", told_positions);
    tell("shift_labels", told_targets);
    judge_two(CP_SAME, false);
    world_expect_no_note(&told_world, "what was run"); /* one side tells nothing */
    tell_alone("position_ids", told_positions);
    tell_alone("labels", told_labels);
    judge_two(CP_SAME, false);
    world_expect_note(&told_world, "what was run is the same on both sides: position_ids, shift_labels");
    second[3] = 9; /* padding, but nobody says so */
    judge_two(CP_DIFFERENT, false);
    assert_string_equal(told_world.result.tensors[0].reason,
                        "inputs: position_ids differ at 1 of 8 real positions, all on rank 1, first (1,3): "
                        "found 9, expected 3");
    judge_two(CP_SAME, true);
    alone.values[0][1] = 4;
    judge_two(CP_DIFFERENT, true);
    assert_string_equal(told_world.result.tensors[0].reason,
                        "truth.h5: inputs: position_ids differ at 1 of 7 real positions, first (0,1): found "
                        "4, expected 1");
}

static void weights_of_two_dumps(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        memset(told_by, 0, sizeof told_by);
        tell_weights(0, 0);
        alone = told_by[0];
        for (size_t i = 0; i < alone.count; i++)
            alone.items[i].digest = alone.digests[i];
        memset(told_by, 0, sizeof told_by);
        tell_weights(1, wrong ? 2 : 0);
        told_world.actual.declaration.compute_dtype = CP_F64;
        judge_two(wrong ? CP_DIFFERENT : CP_SAME, false);
        told_world.actual.declaration.compute_dtype = CP_F32;
        judge_two(CP_SAME, false); /* perhaps only rounded */
        world_expect_note(&told_world, wrong ? "weights: 8 of 10 match between two dtypes: not judged"
                                             : "10 of 10 weights");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, told_open, told_close)

int ran_digests_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(digests_of_inputs),
        TEST(weights_by_digest),
        TEST(weights_that_are_rounded_when_loaded),
        TEST(weights_as_arrays_and_unknown_ones),
        TEST(two_dumps_against_each_other),
        TEST(weights_of_two_dumps),
    };
    return cmocka_run_group_tests_name("ran_digests", tests, NULL, NULL);
}

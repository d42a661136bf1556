#include "harness/judge/limits.h"
#include "harness/judge/observations.h"

#include "tests/judge/groups.h"
#include "tests/judge/world.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static world w;
static cp_noise noise[WORLD_TENSORS];

static const char NORM[] = "grads/model.norm.weight";
static const char QUERIES[] = "grads/model.layers.0.self_attn.q_proj.weight";

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

static double norm_of(const world_tensor *tensor)
{
    double squares = 0;
    for (int64_t i = 0; i < world_count(tensor); i++)
        squares += tensor->values[i] * tensor->values[i];
    return sqrt(squares);
}

/* Every tensor has the noise `share` of its norm, and half of that in an element. */
static cp_calibration noise_of_share(cp_dtype dtype, double share)
{
    for (size_t i = 0; i < w.expected.count; i++) {
        const world_tensor *tensor = &w.expected.tensors[i];
        double norm = share * norm_of(tensor);
        noise[i] = (cp_noise){tensor->name, norm, 0, norm / 2, 0};
    }
    return (cp_calibration){.dtype = dtype, .runs = 24, .producer = "a test", .count = w.expected.count};
}

static void calibrate(cp_dtype dtype, double share)
{
    cp_calibration calibration = noise_of_share(dtype, share);
    w.fixture.calibrations = (cp_calibrations){0};
    cp_calibrations_set(&w.fixture.calibrations, calibration, noise);
    w.actual.declaration.compute_dtype = dtype;
}

/* After calibrate(); names are sorted then. */
static cp_noise *noise_named(const char *name)
{
    for (size_t i = 0; i < w.expected.count; i++)
        if (strcmp(noise[i].name, name) == 0)
            return &noise[i];
    fail_msg("no noise of %s", name);
    return NULL;
}

/* ---- limits ---- */

static void a_limit_is_the_factor_times_the_noise(void **state)
{
    (void)state;
    static const cp_dtype dtypes[] = {CP_F32, CP_BF16};
    for (size_t i = 0; i < 2; i++) {
        calibrate(dtypes[i], 1e-2);
        double norm = norm_of(world_expected(&w, NORM));
        world_actual(&w, NORM)->values[0] += 0.99 * CP_LIMIT_FACTOR * 0.5e-2 * norm;
        world_expect(&w, CP_SAME);
        const cp_tensor_result *tensor = world_result(&w, NORM);
        assert_near(tensor->norm_limit, CP_LIMIT_FACTOR * 1e-2 * norm, 1e-12);
        assert_near(tensor->element_limit, CP_LIMIT_FACTOR * 0.5e-2 * norm, 1e-12);
        assert_int_equal(w.result.limits, CP_LIMITS_CALIBRATED);
        assert_int_equal(w.result.limit_runs, 24);
        world_actual(&w, NORM)->values[0] += 0.02 * CP_LIMIT_FACTOR * 0.5e-2 * norm;
        world_expect_tensor(&w, NORM, CP_DIFFERENT, "times its limit");
        *world_actual(&w, NORM) = *world_expected(&w, NORM);
    }
}

static void float64_is_scaled_from_float32(void **state)
{
    (void)state;
    calibrate(CP_F32, 1e-6);
    w.actual.declaration.compute_dtype = CP_F64;
    world_scale(world_actual(&w, NORM), 1 + 0.9 * CP_LIMIT_FACTOR * 16e-6 / 536870912 / 2);
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.limits, CP_LIMITS_CALIBRATED);
    assert_near(world_result(&w, NORM)->norm_limit,
                CP_LIMIT_FACTOR * 16e-6 / 536870912 * norm_of(world_expected(&w, NORM)), 1e-25);
    world_scale(world_actual(&w, NORM), 1 + 1e-12);
    world_expect_tensor(&w, NORM, CP_DIFFERENT, "times its limit");

    /* float32 inside makes it float32 */
    w.actual.declaration.islands = true;
    world_expect(&w, CP_SAME);
    assert_near(world_result(&w, NORM)->norm_limit,
                CP_LIMIT_FACTOR * 1e-6 * norm_of(world_expected(&w, NORM)), 1e-15);
}

static void another_dtype_has_the_rule(void **state)
{
    (void)state;
    calibrate(CP_BF16, 1e-2);
    w.actual.declaration.compute_dtype = CP_F32;
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.limits, CP_LIMITS_UNCALIBRATED);
    assert_int_equal(w.result.limit_runs, 0);
    calibrate(CP_F32, 1e-6);
    w.actual.declaration.compute_dtype = CP_BF16;
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "no limits for bfloat16");
}

static void the_users_limits_come_before(void **state)
{
    (void)state;
    calibrate(CP_F32, 1e-6);
    w.options.user_limits = true;
    w.options.atol = 1e-3;
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.limits, CP_LIMITS_USER);
}

/* What cancels exactly in every replicate need not elsewhere. */
static void no_noise_leaves_some_roundings(void **state)
{
    (void)state;
    memset(world_expected(&w, QUERIES)->values, 0, sizeof world_expected(&w, QUERIES)->values);
    *world_actual(&w, QUERIES) = *world_expected(&w, QUERIES);
    calibrate(CP_F32, 1e-6);
    double group = fmax(norm_of(world_expected(&w, "grads/model.layers.0.self_attn.k_proj.weight")),
                        norm_of(world_expected(&w, "grads/model.layers.0.self_attn.v_proj.weight")));
    world_actual(&w, QUERIES)->values[1] = group * ldexp(3, -24);
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.blind, 0);
    world_actual(&w, QUERIES)->values[1] = group * ldexp(5, -24);
    world_expect_tensor(&w, QUERIES, CP_DIFFERENT, "times its limit");
    w.actual.declaration.compute_dtype = CP_F64;
    world_actual(&w, QUERIES)->values[1] = group * ldexp(3, -53);
    world_expect(&w, CP_SAME);
    world_actual(&w, QUERIES)->values[1] = group * ldexp(5, -53);
    world_expect_tensor(&w, QUERIES, CP_DIFFERENT, "times its limit");
}

/* Eight targets, one of them the last of a row and so none: six, divided by six. */
static void the_loss_is_judged_by_its_parts(void **state)
{
    (void)state;
    static const int64_t labels[] = {0, 1, 2, 3, 0, 1, 2, 3};
    w.fixture.batch.labels = labels;
    calibrate(CP_F32, 1e-6);
    cp_noise *loss = noise_named("loss"), *parts = noise_named("token_loss");
    loss->norm = loss->element = 1e-9;
    parts->norm = 1e-5;
    world_expect(&w, CP_SAME);
    assert_near(world_result(&w, "loss")->norm_limit, CP_LIMIT_FACTOR * (1e-9 + 1e-5 / sqrt(6)), 1e-16);
    w.fixture.batch.num_items_in_batch = 23;
    world_expect(&w, CP_SAME);
    assert_near(world_result(&w, "loss")->norm_limit, CP_LIMIT_FACTOR * (1e-9 + 1e-5 * sqrt(6) / 23), 1e-16);
    w.fixture.batch.labels = NULL;
    w.fixture.batch.num_items_in_batch = 0;
    world_expect(&w, CP_SAME);
    assert_near(world_result(&w, "loss")->norm_limit, CP_LIMIT_FACTOR_OF_ONE * 1e-9, 1e-20);
}

static void two_dumps_have_the_noise_of_both(void **state)
{
    (void)state;
    calibrate(CP_F32, 1e-6);
    w.expected_is_dump = true;
    double norm = norm_of(world_expected(&w, NORM));
    world_expect(&w, CP_SAME);
    w.expected.declaration.compute_dtype = CP_F32;
    world_expect(&w, CP_SAME);
    assert_near(world_result(&w, NORM)->norm_limit, 2 * CP_LIMIT_FACTOR * 1e-6 * norm, 1e-15);
    w.expected.declaration.compute_dtype = CP_F64;
    world_expect(&w, CP_SAME);
    assert_near(world_result(&w, NORM)->norm_limit, (1 + 16.0 / 536870912) * CP_LIMIT_FACTOR * 1e-6 * norm,
                1e-16);
}

/* ---- what cannot be seen ---- */

static void blindness_is_said_aloud(void **state)
{
    (void)state;
    calibrate(CP_BF16, 1e-2);
    noise_named(NORM)->norm = 0.21 / CP_LIMIT_FACTOR * norm_of(world_expected(&w, NORM));
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.blind, 1);
    assert_true(world_result(&w, NORM)->blind);
    assert_false(world_result(&w, QUERIES)->blind);
    world_expect_note(&w, "blind on 1 of 12: limits in bfloat16 are above 20 % of the norm; the first: "
                          "grads/model.norm.weight");
    noise_named(QUERIES)->norm = 0.21 / CP_LIMIT_FACTOR * norm_of(world_expected(&w, QUERIES));
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "blind on more than a tenth of the tensors");
    cp_trial_row row;
    cp_trial_judged(&row, &w.result);
    assert_int_equal(row.outcome, CP_TRIAL_REFUSED);
    assert_text_holds(row.sentence, "this step cannot be judged in bfloat16");

    /* what is different is seen, however much is not */
    world_scale(world_actual(&w, "logits"), 2);
    world_expect(&w, CP_DIFFERENT);
}

/* ---- limits of control runs ---- */

static void limits_of_a_file(void **state)
{
    (void)state;
    cp_limits_file file = {.path = "limits.h5", .fixture_id = w.fixture.id, .truth_dtype = CP_F64};
    cp_calibration calibration = noise_of_share(CP_BF16, 1e-2);
    calibration.rule = CP_CALIBRATED_BY_CONTROLS;
    calibration.runs = 8;
    cp_calibrations_set(&file.calibrations, calibration, noise);
    w.options.limits = &file;
    w.without_fixture = true;
    w.actual.declaration.compute_dtype = CP_BF16;
    world_expect(&w, CP_SAME);
    assert_int_equal(w.result.limits, CP_LIMITS_CONTROLS);
    assert_int_equal(w.result.limit_runs, 8);
    assert_near(world_result(&w, NORM)->norm_limit, 3e-2 * norm_of(world_expected(&w, NORM)), 1e-12);

    file.self_made = true;
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "self-made truth: consistency only");

    file.calibrations.of[0].count--; /* the last name */
    world_expect_tensor(&w, "token_loss", CP_NOT_COMPARABLE, "no limits for this tensor");
    file.calibrations.of[0].count++;

    w.actual.declaration.compute_dtype = CP_F32;
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "limits.h5 holds no limits for float32");

    w.actual.declaration.compute_dtype = CP_BF16;
    file.fixture_id = "f2";
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "limits.h5 is of another fixture: f2");
}

static void factors_of_few_and_many(void **state)
{
    (void)state;
    assert_near(cp_limit_factor(CP_CALIBRATED_BY_REPLICATES, 24), 1.5, 0);
    assert_near(cp_limit_factor(CP_CALIBRATED_BY_REPLICATES, 96), 1.5, 0);
    assert_near(cp_limit_factor(CP_CALIBRATED_BY_CONTROLS, 8), 3, 0);
    assert_near(cp_limit_factor(CP_CALIBRATED_BY_CONTROLS, 24), 2, 1e-15);
}

/* Below the noise of its own truth a file knows nothing. */
static void a_narrow_truth_gives_no_finer_limits(void **state)
{
    (void)state;
    cp_limits_file file = {.path = "limits.h5", .fixture_id = w.fixture.id, .truth_dtype = CP_F64};
    cp_calibrations_set(&file.calibrations, noise_of_share(CP_F32, 1e-6), noise);
    w.options.limits = &file;
    world_expect(&w, CP_SAME);
    file.truth_dtype = CP_F32;
    world_expect(&w, CP_NOT_COMPARABLE);
    world_expect_failure(&w, "limits.h5 holds no limits for float64");
}

static void a_truth_of_our_own_is_told(void **state)
{
    (void)state;
    w.fixture.truth = CP_SELF_MADE " computed by a test";
    world_expect(&w, CP_SAME);
    world_expect_note(&w, "self-made truth: consistency only");
    w.fixture.truth = "transformers";
    world_expect(&w, CP_SAME);
    world_expect_no_note(&w, "self-made");
}

/* ---- observations ---- */

/* `runs` runs whose final norm is off by `step` more each time. */
static void observe(cp_observations *seen, int64_t runs, double step)
{
    cp_source *truth = world_source(&w.expected, "truth");
    w.fixture.expected = truth;
    w.fixture.config = w.config;
    w.fixture.weights = w.weights;
    cp_observations_open(seen, truth, runs);
    for (int64_t run = 0; run < runs; run++) {
        world_actual(&w, NORM)->values[0] = world_expected(&w, NORM)->values[0] + step * (double)(run + 1);
        cp_source *actual = world_source(&w.actual, "run");
        assert_ok(cp_observations_add(seen, run, truth, actual, &w.fixture));
        cp_source_close(actual);
    }
    cp_source_close(truth);
}

static void the_largest_and_the_spread_are_kept(void **state)
{
    (void)state;
    cp_observations seen;
    cp_noise *found;
    size_t count;
    observe(&seen, 8, 0.125);
    assert_ok(cp_observations_noise(&found, &count, &seen, true));
    assert_int_equal(count, w.expected.count);
    size_t row = 0;
    while (strcmp(found[row].name, NORM) != 0)
        row++;
    assert_near(found[row].norm, 1, 1e-15);
    assert_near(found[row].element, 1, 1e-15);
    assert_near(found[row].norm_spread, 0.125 * sqrt(6), 1e-15); /* of 1 to 8: √6 */
    assert_near(found[row].element_spread, 0.125 * sqrt(6), 1e-15);
    assert_true(found[row + 1 < count ? row + 1 : 0].norm == 0);
    static const char *const labels[8] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    assert_ok(cp_observations_check_apart(&seen, labels));
    cp_sight sight = cp_observations_sight(&seen, CP_CALIBRATED_BY_CONTROLS);
    assert_int_equal(sight.judged, w.expected.count);
    assert_int_equal(sight.blind, 1);
    assert_string_equal(sight.loudest, NORM);
    free(found);
    cp_observations_close(&seen);
}

static void what_is_no_control_run_is_refused(void **state)
{
    (void)state;
    static const char *const labels[8] = {"a.h5", "b.h5", "", "", "", "", "", ""};
    cp_observations seen;
    cp_noise *found;
    size_t count;
    observe(&seen, 8, 0);
    assert_status(cp_observations_check_apart(&seen, labels), CP_INCOMPARABLE,
                  "a.h5 and b.h5 have the same errors");
    seen.norm[0] = NAN; /* one run has no loss */
    assert_status(cp_observations_noise(&found, &count, &seen, false), CP_INCOMPARABLE,
                  "expected in all of 8 runs, found in 7");
    for (int64_t run = 0; run < 8; run++)
        seen.norm[(size_t)run * seen.count] = NAN;
    assert_ok(cp_observations_noise(&found, &count, &seen, false));
    assert_int_equal(count, w.expected.count - 1);
    free(found);
    assert_status(cp_observations_noise(&found, &count, &seen, true), CP_INCOMPARABLE, "found in 0");

    cp_source *truth = world_source(&w.expected, "truth");
    world_actual(&w, NORM)->values[1] = NAN;
    cp_source *actual = world_source(&w.actual, "run.h5");
    assert_status(cp_observations_add(&seen, 0, truth, actual, NULL), CP_INCOMPARABLE,
                  "run.h5: makes no limits: grads/model.norm.weight: 1 of 3 values are not finite");
    cp_source_close(actual);
    cp_source_close(truth);
    cp_observations_close(&seen);
}

int calibrated_tests(void)
{
#define in_a_world(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest tests[] = {
        in_a_world(a_limit_is_the_factor_times_the_noise),
        in_a_world(float64_is_scaled_from_float32),
        in_a_world(another_dtype_has_the_rule),
        in_a_world(the_users_limits_come_before),
        in_a_world(no_noise_leaves_some_roundings),
        in_a_world(the_loss_is_judged_by_its_parts),
        in_a_world(two_dumps_have_the_noise_of_both),
        in_a_world(blindness_is_said_aloud),
        in_a_world(limits_of_a_file),
        cmocka_unit_test(factors_of_few_and_many),
        in_a_world(a_narrow_truth_gives_no_finer_limits),
        in_a_world(a_truth_of_our_own_is_told),
        in_a_world(the_largest_and_the_spread_are_kept),
        in_a_world(what_is_no_control_run_is_refused),
    };
    return cmocka_run_group_tests_name("calibrated", tests, NULL, NULL);
}

#include "harness/files/calibration.h"

#include "harness/files/fixture.h"
#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a sample fixture expects, in no order. */
static const char *const names[] = {"logits",     "grads/w",     "loss",
                                    "token_loss", "trace/embed", "grads/inputs_embeds"};
enum { NAMES = sizeof names / sizeof *names, ROOM = NAMES + 1 };

typedef struct sample_noise {
    cp_noise noise[ROOM];
    cp_calibration calibration;
} sample_noise;

/* Every number tells where it stands. */
static void fill(sample_noise *sample, cp_dtype dtype)
{
    for (int i = 0; i < NAMES; i++)
        sample->noise[i] = (cp_noise){names[i], i + 0.5, i + 0.25, i + 0.125, i};
    sample->calibration =
        (cp_calibration){.dtype = dtype, .runs = 24, .seed = 7, .producer = "a test", .count = NAMES};
}

static void calibrate(const char *path, sample_noise *sample)
{
    cp_calibrations all = {0};
    cp_calibrations_set(&all, sample->calibration, sample->noise);
    assert_ok(cp_fixture_calibrate(path, &all));
}

/* ---- what is written is read ------------------------------------------------------------------------------------- */

static void check_noise(const cp_calibration *calibration)
{
    assert_non_null(calibration);
    assert_int_equal(calibration->count, NAMES);
    for (int i = 0; i < NAMES; i++) {
        const cp_noise *noise = cp_calibration_noise(calibration, names[i]);
        assert_non_null(noise);
        assert_true(noise->norm == i + 0.5 && noise->norm_spread == i + 0.25);
        assert_true(noise->element == i + 0.125 && noise->element_spread == i);
    }
    assert_null(cp_calibration_noise(calibration, "grads/v"));
}

static void assert_same_bytes(const char *path, const unsigned char *bytes, size_t count)
{
    size_t now_count;
    unsigned char *now = sample_bytes(path, &now_count);
    assert_int_equal(now_count, count);
    assert_memory_equal(now, bytes, count);
    free(now);
}

static void a_fixture_keeps_it(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_noise bfloat16, float32;
    cp_fixture *fixture;
    sample_fixture_file(path, directory);
    odd_text(path, "/", "weather", "fine");
    odd_text(path, "/weights/w", "origin", "far");
    static const char *const many[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    for (int i = 0; i < 10; i++) /* more than HDF5 keeps with the object itself */
        odd_text(path, "/expected", many[i], "of varying length");
    assert_ok(cp_fixture_open(&fixture, path));
    assert_int_equal(fixture->calibrations.count, 0);
    assert_null(cp_calibration_of(&fixture->calibrations, CP_F32));
    char id[65];
    snprintf(id, sizeof id, "%s", fixture->id);
    fill(&bfloat16, CP_BF16);
    fill(&float32, CP_F32);
    cp_calibrations_set(&fixture->calibrations, bfloat16.calibration, bfloat16.noise);
    cp_calibrations_set(&fixture->calibrations, float32.calibration, float32.noise);
    assert_ok(cp_fixture_calibrate(path, &fixture->calibrations));
    cp_fixture_close(fixture);

    size_t count;
    unsigned char *bytes = sample_bytes(path, &count);
    assert_ok(cp_fixture_open(&fixture, path));
    assert_string_equal(fixture->id, id);
    assert_string_equal(fixture->truth, "a test");
    assert_int_equal(fixture->expected->count, 6);
    double loss;
    assert_ok(
        cp_source_read_all(fixture->expected, (size_t)cp_source_find(fixture->expected, "loss"), &loss));
    assert_true(loss == sample_value("loss", 0));
    const cp_calibrations *all = &fixture->calibrations;
    assert_int_equal(all->count, 2);
    assert_true(all->of[0].dtype == CP_F32 && all->of[1].dtype == CP_BF16);
    check_noise(cp_calibration_of(all, CP_F32));
    check_noise(cp_calibration_of(all, CP_BF16));
    assert_null(cp_calibration_of(all, CP_F64));
    assert_int_equal(all->of[0].rule, CP_CALIBRATED_BY_REPLICATES);
    assert_true(all->of[0].runs == 24 && all->of[0].seed == 7);
    assert_string_equal(all->of[0].producer, "a test");

    /* what cpeq does not know is still there, and the second time gives the same bytes as the first */
    cp_h5 *file;
    cp_pool pool = {0};
    const char *weather = "", *origin = "";
    bool found;
    assert_ok(cp_h5_open(&file, path));
    assert_ok(cp_h5_text(file, &pool, "/", "weather", &weather, &found));
    assert_ok(cp_h5_text(file, &pool, "/weights/w", "origin", &origin, &found));
    assert_string_equal(weather, "fine");
    assert_string_equal(origin, "far");
    cp_pool_close(&pool);
    assert_ok(cp_h5_close(file));
    assert_ok(cp_fixture_calibrate(path, all));
    assert_same_bytes(path, bytes, count);
    cp_fixture_close(fixture);
    free(bytes);
    test_remove_directory(directory);
}

static void a_file_of_limits_keeps_it(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_noise sample;
    fill(&sample, CP_F64);
    sample.calibration.rule = CP_CALIBRATED_BY_CONTROLS;
    cp_limits_file limits = {.fixture_id = "f1", .truth = "mine", .truth_dtype = CP_F32, .self_made = true};
    cp_calibrations_set(&limits.calibrations, sample.calibration, sample.noise);
    snprintf(path, sizeof path, "%s/limits.h5", directory);
    assert_ok(cp_limits_file_write(path, &limits));
    cp_limits_file *read;
    assert_ok(cp_limits_file_open(&read, path));
    assert_string_equal(read->path, path);
    assert_string_equal(read->fixture_id, "f1");
    assert_string_equal(read->truth, "mine");
    assert_true(read->truth_dtype == CP_F32 && read->self_made);
    assert_int_equal(read->calibrations.of[0].rule, CP_CALIBRATED_BY_CONTROLS);
    check_noise(cp_calibration_of(&read->calibrations, CP_F64));
    cp_limits_file_close(read);

    odd_text(path, "/", "truth_dtype", "int64");
    assert_status(cp_limits_file_open(&read, path), CP_BAD_INPUT, "attribute truth_dtype: expected float64");
    odd_text(path, "/", "truth_dtype", "float32");
    odd_remove(path, "/calibration/float64");
    assert_status(cp_limits_file_open(&read, path), CP_BAD_INPUT, "/calibration: expected the noise");
    odd_text(path, "/", "kind", "dump");
    assert_status(cp_limits_file_open(&read, path), CP_BAD_INPUT, "expected \"limits\", found \"dump\"");
    assert_null(read);
    test_remove_directory(directory);
}

/* ---- what is not as it should be --------------------------------------------------------------------------------- */

static void lacks_one(sample_noise *sample)
{
    sample->calibration.count--;
}
static void has_one_more(sample_noise *sample)
{
    sample->noise[sample->calibration.count++] = (cp_noise){.name = "grads/v"};
}
static void names_another(sample_noise *sample)
{
    sample->noise[sample->calibration.count++] = (cp_noise){.name = "aux_loss"};
}
static void has_one_twice(sample_noise *sample)
{
    sample->noise[sample->calibration.count++] = (cp_noise){.name = "loss"};
}
static void negative(sample_noise *sample)
{
    sample->noise[2].element = -1e-9;
}
static void not_a_number(sample_noise *sample)
{
    sample->noise[3].norm = NAN;
}
static void infinite(sample_noise *sample)
{
    sample->noise[0].norm_spread = INFINITY;
}
static void too_few_controls(sample_noise *sample)
{
    sample->calibration.rule = CP_CALIBRATED_BY_CONTROLS;
    sample->calibration.runs = CP_FEWEST_CONTROLS - 1;
}
static void too_few(sample_noise *sample)
{
    sample->calibration.runs = CP_FEWEST_REPLICATES - 1;
}

static const uint64_t TWO_ROWS[] = {2, 4};
static const double zeros[ROOM * 4];

static void another_rule(const char *path)
{
    odd_text(path, "/calibration/float32", "rule", "guess");
}
static void no_rule(const char *path)
{
    odd_no_attribute(path, "/calibration/float32", "rule");
}
static void no_runs(const char *path)
{
    odd_no_attribute(path, "/calibration/float32", "runs");
}
static void another_dtype(const char *path)
{
    odd_group(path, "/calibration/float16");
}
static void no_names(const char *path)
{
    odd_remove(path, "/calibration/float32/names");
}
static void names_are_numbers(const char *path)
{
    odd_remove(path, "/calibration/float32/names");
    odd_dataset(path, "/calibration/float32/names", ODD_F64, ODD_CONTIGUOUS, 2, TWO_ROWS, zeros);
}
static void no_noise(const char *path)
{
    odd_remove(path, "/calibration/float32/noise");
}
static void other_count(const char *path)
{
    odd_remove(path, "/calibration/float32/noise");
    odd_dataset(path, "/calibration/float32/noise", ODD_F64, ODD_CONTIGUOUS, 2, TWO_ROWS, zeros);
}
static void narrow_noise(const char *path)
{
    static const uint64_t extent[] = {NAMES, 4};
    odd_remove(path, "/calibration/float32/noise");
    odd_dataset(path, "/calibration/float32/noise", ODD_F32, ODD_CONTIGUOUS, 2, extent, zeros);
}
static void a_link(const char *path)
{
    odd_make_link(path, "/calibration/bfloat16", ODD_SOFT, "/calibration/float32");
}
static void no_group(const char *path)
{
    odd_remove(path, "/calibration");
    odd_dataset(path, "/calibration", ODD_F64, ODD_CONTIGUOUS, 2, TWO_ROWS, zeros);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*change)(sample_noise *sample);
        void (*spoil)(const char *path);
        const char *words;
    } cases[] = {
        {lacks_one, NULL, "grads/inputs_embeds has none"},
        {has_one_more, NULL, "noise of grads/v, which is not among the expected"},
        {names_another, NULL, "noise of aux_loss, which is not among the expected"},
        {has_one_twice, NULL, "loss is there twice"},
        {negative, NULL, "loss: expected finite numbers that are not negative, found -1e-09"},
        {not_a_number, NULL, "token_loss: expected finite numbers"},
        {infinite, NULL, "logits: expected finite numbers"},
        {too_few_controls, NULL, "attribute runs: expected 8 or more, found 7"},
        {too_few, NULL, "attribute runs: expected 24 or more, found 23"},
        {NULL, another_rule, "expected \"replicates\" or \"control runs\", found \"guess\""},
        {NULL, no_rule, "expected \"replicates\" or \"control runs\", found \"\""},
        {NULL, no_runs, "attribute runs: expected 24 or more, found 0"},
        {NULL, another_dtype, "/calibration/float16: expected float64, float32 or bfloat16"},
        {NULL, no_names, "/calibration/float32/names: expected a dataset, found nothing"},
        {NULL, names_are_numbers, "/calibration/float32/names: expected one string"},
        {NULL, no_noise, "/calibration/float32/noise: expected a dataset, found nothing"},
        {NULL, other_count, "expected float64 [6,4], one row a name, found float64 [2,4]"},
        {NULL, narrow_noise, "one row a name, found float32 [6,4]"},
        {NULL, a_link, "/calibration/bfloat16: expected the object itself, found a soft link"},
        {NULL, no_group, "/calibration: expected a group, found something else"},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_noise sample;
        fill(&sample, CP_F32);
        sample_fixture_file(path, directory);
        if (cases[i].change)
            cases[i].change(&sample);
        calibrate(path, &sample);
        if (cases[i].spoil)
            cases[i].spoil(path);
        cp_fixture *fixture;
        assert_status(cp_fixture_open(&fixture, path), CP_BAD_INPUT, cases[i].words);
        assert_text_holds(cp_error(), path);
    }
    test_remove_directory(directory);
}

/* A file that cannot be rewritten as it is stays as it was. */
static void links_are_not_copied(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_noise sample;
    cp_calibrations all = {0};
    fill(&sample, CP_F32);
    cp_calibrations_set(&all, sample.calibration, sample.noise);
    sample_fixture_file(path, directory);
    odd_group(path, "/circle");
    odd_make_link(path, "/circle/again", ODD_HARD, "/circle");
    assert_status(cp_fixture_calibrate(path, &all), CP_INTERNAL, "circle: cannot be written");
    odd_remove(path, "/circle/again");
    odd_make_link(path, "/elsewhere", ODD_EXTERNAL_LINK, "/etc");
    size_t count;
    unsigned char *bytes = sample_bytes(path, &count);
    assert_status(cp_fixture_calibrate(path, &all), CP_BAD_INPUT, "/elsewhere: expected the object itself");
    assert_same_bytes(path, bytes, count);
    free(bytes);
    test_remove_directory(directory);
}

int calibration_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixture_keeps_it),
        cmocka_unit_test(a_file_of_limits_keeps_it),
        cmocka_unit_test(refusals),
        cmocka_unit_test(links_are_not_copied),
    };
    return cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
}

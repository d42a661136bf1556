#include "harness/files/fixture.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the golden ones --------------------------------------------------------------------------------------------- */

static void golden_fixtures(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob(CPEQ_GOLDEN "/*/*.h5", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 100);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        cp_fixture *fixture;
        assert_ok(cp_fixture_open(&fixture, found.gl_pathv[i]));
        assert_non_null(fixture->config);
        assert_true(fixture->weight_count > 0);
        cp_fixture_close(fixture);
    }
    globfree(&found);
}

static void one_golden_fixture(void **state)
{
    (void)state;
    cp_fixture *fixture;
    assert_ok(cp_fixture_open(&fixture, CPEQ_GOLDEN "/llama/packed7.h5"));
    assert_string_equal(fixture->producer, "cpeq golden fixtures 1");
    assert_int_equal(fixture->batch.B, 1);
    assert_int_equal(fixture->batch.T, 7);
    assert_non_null(fixture->batch.input_ids);
    assert_null(fixture->batch.inputs_embeds);
    assert_null(fixture->batch.attention_mask);
    for (int t = 0; t < 7; t++)
        assert_int_equal(fixture->batch.document_ids[t], t < 3 ? 0 : 1);
    const cp_weight *weight = cp_fixture_weight(fixture, "lm_head.weight");
    assert_non_null(weight);
    assert_true(cp_tensor_has_shape(weight->tensor, 2, CP_EXTENTS(37, 16)));
    assert_int_equal(weight->tensor.dtype, CP_F32);
    assert_null(cp_fixture_weight(fixture, "lm_head"));
    assert_text_holds(fixture->order, "model.embed_tokens.weight\n");
    assert_text_holds(fixture->truth, "transformers");

    double token_loss[7], loss;
    assert_ok(
        cp_source_read_all(fixture->expected, (size_t)cp_source_find(fixture->expected, "loss"), &loss));
    assert_ok(cp_source_read_all(fixture->expected, (size_t)cp_source_find(fixture->expected, "token_loss"),
                                 token_loss));
    double sum = 0;
    int targets = 0;
    for (int t = 0; t < 7; t++) {
        sum += token_loss[t];
        targets += token_loss[t] != 0;
    }
    assert_near(sum / targets, loss, 1e-14);

    uint8_t mask[49];
    bool found;
    assert_ok(cp_fixture_mask(fixture, 0, mask, &found));
    assert_true(found);
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++)
            assert_int_equal(mask[i * 7 + j], j <= i && (i < 3) == (j < 3));
    assert_ok(cp_fixture_mask(fixture, 99, mask, &found));
    assert_false(found);
    cp_fixture_close(fixture);
    cp_fixture_close(NULL);
}

static void tied_and_embedded(void **state)
{
    (void)state;
    cp_fixture *fixture;
    assert_ok(cp_fixture_open(&fixture, CPEQ_GOLDEN "/llama_tied/embeds7.h5"));
    assert_string_equal(cp_fixture_weight(fixture, "model.embed_tokens.weight")->tied, "lm_head.weight\n");
    assert_non_null(fixture->batch.inputs_embeds);
    assert_int_equal(fixture->batch.C, 16);
    assert_int_equal(fixture->embeds_dtype, CP_F32);
    cp_fixture_close(fixture);
    assert_ok(cp_fixture_open(&fixture, CPEQ_GOLDEN "/llama/items7.h5"));
    assert_near(fixture->batch.num_items_in_batch, 23, 0);
    cp_fixture_close(fixture);
}

/* ---- written and read back --------------------------------------------------------------------------------------- */

static void assert_same_sources(const cp_source *a, const cp_source *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t t = 0; t < a->count; t++) {
        const cp_source_tensor *left = &a->tensors[t], *right = &b->tensors[t];
        assert_string_equal(left->name, right->name);
        assert_int_equal(left->dtype, right->dtype);
        assert_int_equal(left->dims, right->dims);
        size_t count = 1;
        for (int axis = 0; axis < left->dims; axis++) {
            assert_int_equal(left->extent[axis], right->extent[axis]);
            count *= (size_t)left->extent[axis];
        }
        double *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
        assert_ok(cp_source_read_all(a, t, x));
        assert_ok(cp_source_read_all(b, t, y));
        assert_memory_equal(x, y, count * sizeof *x);
        free(x);
        free(y);
    }
}

static void assert_same_file(const char *a, const char *b)
{
    size_t left_count, right_count;
    unsigned char *left = sample_bytes(a, &left_count), *right = sample_bytes(b, &right_count);
    assert_int_equal(left_count, right_count);
    assert_memory_equal(left, right, left_count);
    free(left);
    free(right);
}

static void golden_fixtures_survive_rewriting(void **state)
{
    (void)state;
    static const char *const names[] = {"llama/packed7.h5",      "llama/items7.h5", "llama/shifted7.h5",
                                        "llama_tied/embeds7.h5", "gemma2/full7.h5", "llama/left7.h5"};
    char *directory = test_new_directory();
    char first[CP_PATH_BYTES], second[CP_PATH_BYTES];
    snprintf(first, sizeof first, "%s/a.h5", directory);
    snprintf(second, sizeof second, "%s/b.h5", directory);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[CP_PATH_BYTES];
        snprintf(path, sizeof path, CPEQ_GOLDEN "/%s", names[i]);
        cp_fixture *golden, *again;
        assert_ok(cp_fixture_open(&golden, path));
        assert_ok(cp_fixture_write(first, golden));
        assert_ok(cp_fixture_open(&again, first));
        assert_string_equal(again->id, golden->id);
        assert_string_equal(again->config_text, golden->config_text);
        assert_string_equal(again->order, golden->order);
        assert_string_equal(again->truth, golden->truth);
        assert_string_equal(again->precision, golden->precision);
        assert_string_equal(again->producer, golden->producer);
        assert_int_equal(again->weight_count, golden->weight_count);
        for (size_t w = 0; w < golden->weight_count; w++) {
            assert_string_equal(again->weights[w].name, golden->weights[w].name);
            assert_string_equal(again->weights[w].tied, golden->weights[w].tied);
            assert_tensors_equal(again->weights[w].tensor, golden->weights[w].tensor);
        }
        assert_same_sources(again->expected, golden->expected);
        assert_ok(cp_fixture_write(second, again));
        assert_same_file(first, second);
        cp_fixture_close(golden);
        cp_fixture_close(again);
    }
    test_remove_directory(directory);
}

static void everything_is_kept(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], twice[CP_PATH_BYTES];
    sample_fixture_file(path, directory);
    cp_fixture *fixture;
    assert_ok(cp_fixture_open(&fixture, path));
    assert_string_equal(fixture->config_text, "{\"model_type\": \"llama\", \"név\": 1}");
    assert_int_equal(fixture->weight_count, 2);
    assert_string_equal(fixture->weights[0].name, "frozen");
    assert_string_equal(fixture->weights[0].role, "frozen");
    assert_int_equal(fixture->weights[0].tensor.dtype, CP_BF16);
    assert_string_equal(fixture->weights[1].tied, "w.again\nw.more\n");
    assert_string_equal(fixture->order, "w\ninputs_embeds\n");
    assert_near(fixture->batch.num_items_in_batch, 23, 0);
    assert_int_equal(fixture->items_dtype, CP_I64);
    assert_int_equal(fixture->batch.attention_mask[8], 0);
    assert_int_equal(fixture->batch.labels[9], -100);
    assert_string_equal(fixture->expected->declaration.fixture_id, fixture->id);
    double logits[SAMPLE_B * SAMPLE_T * SAMPLE_V];
    assert_ok(
        cp_source_read_all(fixture->expected, (size_t)cp_source_find(fixture->expected, "logits"), logits));
    for (int i = 0; i < SAMPLE_B * SAMPLE_T * SAMPLE_V; i++)
        assert_near(logits[i], sample_value("logits", i), 0);
    cp_fixture_close(fixture);

    char kind[CP_KIND_TEXT];
    assert_ok(cp_file_kind(kind, path));
    assert_string_equal(kind, "fixture");
    snprintf(twice, sizeof twice, "%s/first.h5", directory);
    assert_int_equal(rename(path, twice), 0);
    char *garbage = malloc(1 << 20); /* other memory to start from */
    memset(garbage, 0x5a, 1 << 20);
    free(garbage);
    sample_fixture_file(path, directory);
    assert_same_file(path, twice);
    test_remove_directory(directory);
}

/* ---- refusals: a good file, spoilt in one place ------------------------------------------------------------------- */

enum { TOKENS = SAMPLE_B * SAMPLE_T };
static const uint64_t rows[] = {SAMPLE_B, SAMPLE_T};
static const int64_t zeros[64];

static void replace(const char *path, const char *object, odd_type type, int dims, const uint64_t *extent)
{
    odd_remove(path, object);
    odd_dataset(path, object, type, ODD_CONTIGUOUS, dims, extent, zeros);
}

static void empty_file(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}
static void truncated(const char *path)
{
    assert_int_equal(truncate(path, 3000), 0);
}
static void header_alone(const char *path)
{
    assert_int_equal(truncate(path, 20), 0);
}
static void text_file(const char *path)
{
    FILE *file = fopen(path, "w");
    fputs("{}", file);
    fclose(file);
}
static void no_file(const char *path)
{
    assert_int_equal(unlink(path), 0);
}
static void foreign_file(const char *path)
{
    odd_foreign(path);
}
static void version_2(const char *path)
{
    odd_integer(path, "/", "format_version", 2);
}
static void version_in_words(const char *path)
{
    odd_text(path, "/", "format_version", "one");
}
static void version_missing(const char *path)
{
    odd_no_attribute(path, "/", "format_version");
}
static void another_kind(const char *path)
{
    odd_text(path, "/", "kind", "dump");
}
static void no_kind(const char *path)
{
    odd_no_attribute(path, "/", "kind");
}
static void another_format(const char *path)
{
    odd_text(path, "/", "format", "other");
}
static void kind_as_number(const char *path)
{
    odd_integer(path, "/", "kind", 1);
}
static void no_id(const char *path)
{
    odd_no_attribute(path, "/", "fixture_id");
}
static void stale_id(const char *path)
{
    const float other[SAMPLE_N] = {1, 2, 3, 5};
    odd_overwrite(path, "/weights/w", ODD_F32, other);
}
static void control_characters(const char *path)
{
    odd_text(path, "/", "producer", "a\x1b[2J");
}
static void no_batch(const char *path)
{
    odd_remove(path, "/batch");
}
static void batch_is_a_dataset(const char *path)
{
    odd_remove(path, "/batch");
    odd_dataset(path, "/batch", ODD_I64, ODD_CONTIGUOUS, 2, rows, zeros);
}
static void no_ids(const char *path)
{
    odd_remove(path, "/batch/input_ids");
}
static void ids_and_embeddings(const char *path)
{
    const uint64_t extent[] = {SAMPLE_B, SAMPLE_T, 2};
    odd_dataset(path, "/batch/inputs_embeds", ODD_F64, ODD_CONTIGUOUS, 3, extent, zeros);
}
static void no_labels(const char *path)
{
    odd_remove(path, "/batch/labels");
}
static void two_kinds_of_labels(const char *path)
{
    odd_dataset(path, "/batch/shift_labels", ODD_I64, ODD_CONTIGUOUS, 2, rows, zeros);
}
static void float_ids(const char *path)
{
    replace(path, "/batch/input_ids", ODD_F64, 2, rows);
}
static void boolean_mask(const char *path)
{
    replace(path, "/batch/attention_mask", ODD_ENUM, 2, rows);
}
static void wide_mask(const char *path)
{
    replace(path, "/batch/attention_mask", ODD_I64, 2, rows);
}
static void flat_labels(const char *path)
{
    const uint64_t extent[] = {TOKENS};
    replace(path, "/batch/labels", ODD_I64, 1, extent);
}
static void transposed_labels(const char *path)
{
    const uint64_t extent[] = {SAMPLE_T, SAMPLE_B};
    replace(path, "/batch/labels", ODD_I64, 2, extent);
}
static void no_tokens(const char *path)
{
    const uint64_t extent[] = {0, SAMPLE_T};
    replace(path, "/batch/attention_mask", ODD_U8, 2, extent);
}
static void no_items(const char *path)
{
    replace(path, "/batch/num_items_in_batch", ODD_I64, 0, NULL);
}
static void many_items(const char *path)
{
    replace(path, "/batch/num_items_in_batch", ODD_I64, 2, rows);
}
static void routes(const char *path)
{
    odd_dataset(path, "/batch/routes", ODD_I32, ODD_CONTIGUOUS, 2, rows, zeros);
}
static void half_weights(const char *path)
{
    const uint64_t extent[] = {SAMPLE_N};
    replace(path, "/weights/w", ODD_F16, 1, extent);
}
static void weight_is_a_group(const char *path)
{
    odd_group(path, "/weights/group");
}
static void odd_role(const char *path)
{
    odd_text(path, "/weights/w", "role", "spare");
}
static void config_is_no_json(const char *path)
{
    const char *text = "{";
    odd_remove(path, "/config");
    odd_dataset(path, "/config", ODD_STRING, ODD_CONTIGUOUS, 0, NULL, &text);
}
static void config_is_a_number(const char *path)
{
    replace(path, "/config", ODD_I64, 0, NULL);
}
static void config_is_a_list(const char *path)
{
    const char *const texts[] = {"{}", "{}"};
    const uint64_t extent[] = {2};
    odd_remove(path, "/config");
    odd_dataset(path, "/config", ODD_STRING, ODD_CONTIGUOUS, 1, extent, texts);
}
static void no_loss(const char *path)
{
    odd_remove(path, "/expected/loss");
}
static void many_losses(const char *path)
{
    replace(path, "/expected/loss", ODD_F64, 2, rows);
}
static void one_loss_in_a_list(const char *path)
{
    const uint64_t extent[] = {1};
    replace(path, "/expected/loss", ODD_F64, 1, extent);
}
static void integer_loss(const char *path)
{
    replace(path, "/expected/loss", ODD_I64, 0, NULL);
}
static void no_token_loss(const char *path)
{
    odd_remove(path, "/expected/token_loss");
}
static void wide_token_loss(const char *path)
{
    const uint64_t extent[] = {SAMPLE_B, SAMPLE_T, 1};
    replace(path, "/expected/token_loss", ODD_F64, 3, extent);
}
static void flat_logits(const char *path)
{
    const uint64_t extent[] = {TOKENS, SAMPLE_V};
    replace(path, "/expected/logits", ODD_F64, 2, extent);
}
static void logits_are_a_group(const char *path)
{
    odd_remove(path, "/expected/logits");
    odd_group(path, "/expected/logits");
}
static void no_gradient(const char *path)
{
    odd_remove(path, "/expected/grads/w");
}
static void no_gradients(const char *path)
{
    odd_remove(path, "/expected/grads");
}
static void short_gradient(const char *path)
{
    const uint64_t extent[] = {SAMPLE_N - 1};
    replace(path, "/expected/grads/w", ODD_F64, 1, extent);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(const char *path);
        const char *words;
        cp_status status;
    } cases[] = {
        {empty_file, "found an empty file", CP_BAD_INPUT},
        {truncated, "truncated, damaged", CP_BAD_INPUT},
        {header_alone, "expected an HDF5 file", CP_BAD_INPUT},
        {text_file, "expected an HDF5 file, found something else", CP_BAD_INPUT},
        {no_file, "No such file", CP_BAD_INPUT},
        {foreign_file, "attribute format: expected \"cpeq\", found \"\"", CP_BAD_INPUT},
        {version_2, "attribute format_version: expected 1, found 2", CP_BAD_INPUT},
        {version_in_words, "attribute format_version: expected one integer", CP_BAD_INPUT},
        {version_missing, "attribute format_version: expected 1, found 0", CP_BAD_INPUT},
        {another_kind, "attribute kind: expected \"fixture\", found \"dump\"", CP_BAD_INPUT},
        {no_kind, "attribute kind", CP_BAD_INPUT},
        {another_format, "attribute format: expected \"cpeq\", found \"other\"", CP_BAD_INPUT},
        {kind_as_number, "/: attribute kind: expected one string", CP_BAD_INPUT},
        {no_id, "attribute fixture_id: expected ", CP_BAD_INPUT},
        {stale_id, "(sha256 of config, weights and batch)", CP_BAD_INPUT},
        {control_characters, "attribute producer: expected UTF-8 without control characters", CP_BAD_INPUT},
        {no_batch, "/batch: expected a group", CP_BAD_INPUT},
        {batch_is_a_dataset, "/batch: expected a group", CP_BAD_INPUT},
        {no_ids, "/batch: expected input_ids or inputs_embeds, found neither", CP_BAD_INPUT},
        {ids_and_embeddings, "/batch: expected input_ids or inputs_embeds, found both", CP_BAD_INPUT},
        {no_labels, "/batch: expected labels or shift_labels, found neither", CP_BAD_INPUT},
        {two_kinds_of_labels, "/batch: expected labels or shift_labels, found both", CP_BAD_INPUT},
        {float_ids, "/batch/input_ids: expected int64, found float64 [2,5]", CP_BAD_INPUT},
        {boolean_mask, "/batch/attention_mask: expected float64, float32, ", CP_BAD_INPUT},
        {wide_mask, "/batch/attention_mask: expected uint8, found int64 [2,5]", CP_BAD_INPUT},
        {flat_labels, "/batch/labels: expected a shape [B,T], found int64 [10]", CP_BAD_INPUT},
        {transposed_labels, "/batch/labels: expected a shape [2,5] as the batch has it, found int64 [5,2]",
         CP_BAD_INPUT},
        {no_tokens, "/batch/attention_mask: expected a shape [B,T], found uint8 [0,5]", CP_BAD_INPUT},
        {no_items, "/batch/num_items_in_batch: expected a positive number, found 0", CP_BAD_INPUT},
        {many_items, "/batch/num_items_in_batch: expected one float64", CP_BAD_INPUT},
        {routes, "/batch/routes: this version does not read it", CP_REFUSED},
        {half_weights, "/weights/w: expected some numbers in float64, float32 or bfloat16, found float16 [4]",
         CP_BAD_INPUT},
        {weight_is_a_group, "/weights/group: expected a dataset, found a group", CP_BAD_INPUT},
        {odd_role, "/weights/w: attribute role: expected \"buffer\" or \"frozen\", found \"spare\"",
         CP_BAD_INPUT},
        {config_is_no_json, "/config", CP_BAD_INPUT},
        {config_is_a_number, "/config: expected one string", CP_BAD_INPUT},
        {config_is_a_list, "/config: expected one string", CP_BAD_INPUT},
        {no_loss, "/expected/loss: expected a result, found nothing", CP_BAD_INPUT},
        {many_losses, "/expected/loss: expected shape [], found [2,5]", CP_BAD_INPUT},
        {one_loss_in_a_list, "/expected/loss: expected shape [], found [1]", CP_BAD_INPUT},
        {integer_loss, "/expected/loss: expected floating-point numbers, found int64", CP_BAD_INPUT},
        {no_token_loss, "/expected/token_loss: expected a result", CP_BAD_INPUT},
        {wide_token_loss, "/expected/token_loss: expected shape [2,5], found [2,5,1]", CP_BAD_INPUT},
        {flat_logits, "/expected/logits: expected shape [2,5] and one extent more, found [10,3]",
         CP_BAD_INPUT},
        {logits_are_a_group, "/expected/logits: expected a dataset, found a group", CP_BAD_INPUT},
        {no_gradient, "/expected/grads/w: expected a result, found nothing", CP_BAD_INPUT},
        {no_gradients, "/expected/grads/w: expected a result, found nothing", CP_BAD_INPUT},
        {short_gradient, "/expected/grads/w: expected shape [4], found [3]", CP_BAD_INPUT},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_fixture_file(path, directory);
        cases[i].spoil(path);
        cp_fixture *fixture;
        assert_status(cp_fixture_open(&fixture, path), cases[i].status, cases[i].words);
        assert_text_holds(cp_error(), path);
        assert_null(fixture);
    }
    cp_fixture *fixture;
    assert_status(cp_fixture_open(&fixture, directory), CP_BAD_INPUT, "found a directory");
    test_remove_directory(directory);
}

/* What says nothing wrong is read. */
static void tied_name(const char *path)
{
    odd_make_link(path, "/expected/grads/w.more", ODD_HARD, "/expected/grads/w");
    odd_remove(path, "/expected/grads/w");
}
static void no_expectations(const char *path)
{
    odd_remove(path, "/expected");
}
static void unknown_parts(const char *path)
{
    odd_group(path, "/calibration");
    odd_make_link(path, "/calibration/soft", ODD_SOFT, "/weights");
    odd_text(path, "/", "weather", "fine");
    odd_group(path, "/expected/other");
}
static void fixed_text(const char *path)
{
    odd_fixed_text(path, "/", "kind", "fixture", 16);
    odd_fixed_text(path, "/", "format", "cpeq", 4);
}

static void acceptances(void **state)
{
    (void)state;
    void (*const changes[])(const char *path) = {tied_name, no_expectations, unknown_parts, fixed_text};
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        sample_fixture_file(path, directory);
        changes[i](path);
        cp_fixture *fixture;
        assert_ok(cp_fixture_open(&fixture, path));
        assert_int_equal(fixture->expected->count, changes[i] == no_expectations ? 0 : 6);
        cp_fixture_close(fixture);
    }
    test_remove_directory(directory);
}

static void expectations_that_are_not_finite(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_fixture_file(path, directory);
    double logits[SAMPLE_B * SAMPLE_T * SAMPLE_V] = {0};
    logits[SAMPLE_T * SAMPLE_V + 4] = NAN;
    odd_overwrite(path, "/expected/logits", ODD_F64, logits);
    cp_fixture *fixture;
    assert_ok(cp_fixture_open(&fixture, path));
    size_t tensor = (size_t)cp_source_find(fixture->expected, "logits");
    assert_ok(fixture->expected->read(fixture->expected, tensor, 0, SAMPLE_T * SAMPLE_V, logits));
    assert_status(cp_source_read_all(fixture->expected, tensor, logits), CP_BAD_INPUT,
                  "/expected/logits: expected finite numbers, found nan at [1,1,1]");
    char other[CP_PATH_BYTES];
    snprintf(other, sizeof other, "%s/other.h5", directory);
    assert_status(cp_fixture_write(other, fixture), CP_BAD_INPUT, "expected finite numbers");
    assert_int_not_equal(access(other, F_OK), 0); /* no half of a fixture */
    cp_fixture_close(fixture);
    test_remove_directory(directory);
}

int fixture_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_fixtures),    cmocka_unit_test(one_golden_fixture),
        cmocka_unit_test(tied_and_embedded),  cmocka_unit_test(golden_fixtures_survive_rewriting),
        cmocka_unit_test(everything_is_kept), cmocka_unit_test(refusals),
        cmocka_unit_test(acceptances),        cmocka_unit_test(expectations_that_are_not_finite),
    };
    return cmocka_run_group_tests_name("fixture", tests, NULL, NULL);
}

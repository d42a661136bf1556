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
                                        "llama_tied/embeds7.h5", "gemma2/full7.h5", "llama/left7.h5",
                                        "llama/micro7.h5"};
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

    double nan = NAN;
    const cp_memory_tensor loss = {"loss", CP_VIEW(&nan, CP_F64, 1), true};
    cp_declaration said = cp_declaration_whole();
    cp_source *run;
    assert_ok(cp_source_memory(&run, "run", &said, &loss, 1));
    cp_fixture built = sample_fixture(run);
    assert_status(cp_fixture_write(other, &built), CP_BAD_INPUT,
                  "run: /expected/loss: expected finite numbers");
    assert_int_not_equal(access(other, F_OK), 0);
    cp_source_close(run);
    test_remove_directory(directory);
}

int fixture_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_fixtures),    cmocka_unit_test(one_golden_fixture),
        cmocka_unit_test(tied_and_embedded),  cmocka_unit_test(golden_fixtures_survive_rewriting),
        cmocka_unit_test(everything_is_kept), cmocka_unit_test(expectations_that_are_not_finite),
    };
    return cmocka_run_group_tests_name("fixture", tests, NULL, NULL);
}

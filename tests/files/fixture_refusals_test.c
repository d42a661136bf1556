#include "harness/files/fixture.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <unistd.h>

/* A good fixture, spoilt in one place. */

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
static void short_labels(const char *path)
{
    const uint64_t extent[] = {SAMPLE_B, SAMPLE_T - 1};
    replace(path, "/batch/labels", ODD_I64, 2, extent);
}
static void microbatch_a_token(const char *path)
{
    odd_dataset(path, "/batch/microbatch", ODD_I64, ODD_CONTIGUOUS, 2, rows, zeros);
}
static void short_microbatch(const char *path)
{
    const uint64_t extent[] = {SAMPLE_B - 1};
    odd_dataset(path, "/batch/microbatch", ODD_I64, ODD_CONTIGUOUS, 1, extent, zeros);
}
static void float_groups(const char *path)
{
    const uint64_t extent[] = {SAMPLE_B};
    odd_dataset(path, "/batch/data_parallel", ODD_F64, ODD_CONTIGUOUS, 1, extent, zeros);
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
        {short_labels, "/batch/labels: expected a shape [2,5] as the batch has it, found int64 [2,4]",
         CP_BAD_INPUT},
        {microbatch_a_token, "/batch/microbatch: expected int64 [2], one a row, found int64 [2,5]",
         CP_BAD_INPUT},
        {short_microbatch, "/batch/microbatch: expected int64 [2], one a row, found int64 [1]", CP_BAD_INPUT},
        {float_groups, "/batch/data_parallel: expected int64 [2], one a row, found float64 [2]",
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
    odd_group(path, "/pictures");
    odd_make_link(path, "/pictures/soft", ODD_SOFT, "/weights");
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

int fixture_refusals_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals), cmocka_unit_test(acceptances)};
    return cmocka_run_group_tests_name("fixture refusals", tests, NULL, NULL);
}

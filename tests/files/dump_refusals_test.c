#include "harness/files/dump.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <math.h>

/* A good dump, spoilt in one place. */

static const uint64_t few[] = {3}, cube[] = {2, 2, 2}, pairs[] = {4, 2};
static const double zeros[8];

static void digest_kind(const char *path)
{
    odd_text(path, "/", "kind", "digest");
}
static void fixture_kind(const char *path)
{
    odd_text(path, "/", "kind", "fixture");
}
static void kept_of_whole(const char *path)
{
    odd_dataset(path, "/logits_index", ODD_I64, ODD_CONTIGUOUS, 2, pairs, zeros);
}
static void kept_in_threes(const char *path)
{
    odd_dataset(path, "/logits_index", ODD_I64, ODD_CONTIGUOUS, 1, few, zeros);
}
static void kept_of_nothing(const char *path)
{
    kept_of_whole(path);
    odd_remove(path, "/logits");
}
static void data_parallel(const char *path)
{
    odd_integer(path, "/", "dp_size", 2);
    odd_integer(path, "/", "dp_rank", 2);
}
static void odd_loss_kind(const char *path)
{
    odd_text(path, "/", "loss_kind", "average");
}
static void odd_gradients(const char *path)
{
    odd_text(path, "/", "gradients", "summed");
}
static void odd_dtype(const char *path)
{
    odd_text(path, "/", "compute_dtype", "float8_e4m3");
}
static void integer_dtype(const char *path)
{
    odd_text(path, "/", "compute_dtype", "int64");
}
static void odd_islands(const char *path)
{
    odd_text(path, "/", "islands", "float16");
}
static void local_mean_alone(const char *path)
{
    odd_text(path, "/", "loss_kind", "local_mean");
}
static void negative_count(const char *path)
{
    odd_integer(path, "/", "loss_count", -1);
}
static void rank_too_large(const char *path)
{
    odd_integer(path, "/", "cp_size", 2);
    odd_integer(path, "/", "cp_rank", 2);
}
static void no_ranks(const char *path)
{
    odd_integer(path, "/", "cp_size", 0);
}
static void real_size(const char *path)
{
    odd_real(path, "/", "cp_size", 2);
}
static void no_scale(const char *path)
{
    odd_integer(path, "/", "grad_scale", 0);
}
static void infinite_scale(const char *path)
{
    odd_real(path, "/", "grad_scale", INFINITY);
}
static void scale_in_words(const char *path)
{
    odd_text(path, "/", "grad_scale", "1");
}
static void rank_of_two(const char *path)
{
    odd_integer(path, "/", "cp_size", 2);
    odd_integer(path, "/", "cp_rank", 1);
}
static void rank_without_loss_kind(const char *path)
{
    rank_of_two(path);
    odd_no_attribute(path, "/", "loss_kind");
}
static void rank_without_gradients(const char *path)
{
    rank_of_two(path);
    odd_no_attribute(path, "/", "gradients");
}
static void rank_without_dtype(const char *path)
{
    rank_of_two(path);
    odd_no_attribute(path, "/", "compute_dtype");
}
static void float_index(const char *path)
{
    odd_dataset(path, "/token_index", ODD_F64, ODD_CONTIGUOUS, 1, few, zeros);
}
static void index_in_three_dimensions(const char *path)
{
    odd_dataset(path, "/token_index", ODD_I64, ODD_CONTIGUOUS, 3, cube, zeros);
}
static void index_of_other_rows(const char *path)
{
    odd_dataset(path, "/token_index", ODD_I64, ODD_CONTIGUOUS, 2, pairs, zeros);
    odd_dataset(path, "/batch_index", ODD_I64, ODD_CONTIGUOUS, 1, few, zeros);
}
static void index_is_a_group(const char *path)
{
    odd_group(path, "/token_index");
}
static void loss_is_a_group(const char *path)
{
    odd_remove(path, "/loss");
    odd_group(path, "/loss");
}
static void gradients_are_a_dataset(const char *path)
{
    odd_remove(path, "/grads");
    odd_dataset(path, "/grads", ODD_F64, ODD_CONTIGUOUS, 1, few, zeros);
}
static void integer_gradient(const char *path)
{
    odd_dataset(path, "/grads/odd", ODD_I64, ODD_CONTIGUOUS, 1, few, zeros);
}
static void text_result(const char *path)
{
    const char *text = "a";
    odd_dataset(path, "/remark", ODD_STRING, ODD_CONTIGUOUS, 0, NULL, &text);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(const char *path);
        cp_status status;
        const char *words;
    } cases[] = {
        {digest_kind, CP_INCOMPARABLE, "declares kind digest, which this version does not read"},
        {fixture_kind, CP_BAD_INPUT, "attribute kind: expected \"dump\", found \"fixture\""},
        {kept_of_whole, CP_BAD_INPUT, "/logits: shape [2,5,3], expected [4,V] as logits_index"},
        {kept_in_threes, CP_BAD_INPUT, "/logits_index: expected int64 [n,2], found [3]"},
        {kept_of_nothing, CP_INCOMPARABLE, "/logits_index: expected beside /logits, found alone"},
        {data_parallel, CP_BAD_INPUT, "attribute dp_rank: expected below dp_size 2, found 2"},
        {odd_loss_kind, CP_INCOMPARABLE,
         "declares loss_kind = \"average\", which this version does not know"},
        {odd_gradients, CP_INCOMPARABLE, "declares gradients = \"summed\""},
        {odd_dtype, CP_INCOMPARABLE, "declares compute_dtype = \"float8_e4m3\""},
        {integer_dtype, CP_INCOMPARABLE, "declares compute_dtype = \"int64\""},
        {odd_islands, CP_INCOMPARABLE, "declares islands = \"float16\""},
        {local_mean_alone, CP_INCOMPARABLE, "attribute loss_count: expected with loss_kind local_mean"},
        {negative_count, CP_BAD_INPUT, "attribute loss_count: expected at least 0, found -1"},
        {rank_too_large, CP_BAD_INPUT, "attribute cp_rank: expected below cp_size 2, found 2"},
        {no_ranks, CP_BAD_INPUT, "attribute cp_size: expected 1 to 2147483647, found 0"},
        {real_size, CP_BAD_INPUT, "attribute cp_size: expected one integer"},
        {no_scale, CP_BAD_INPUT, "attribute grad_scale: expected a positive number, found 0"},
        {infinite_scale, CP_BAD_INPUT, "attribute grad_scale: expected a positive number, found inf"},
        {scale_in_words, CP_BAD_INPUT, "attribute grad_scale: expected one number"},
        {rank_of_two, CP_INCOMPARABLE, "/token_index: expected in a dump of one rank, found nothing"},
        {rank_without_loss_kind, CP_INCOMPARABLE, "attribute loss_kind: expected in a dump of one rank"},
        {rank_without_gradients, CP_INCOMPARABLE, "attribute gradients: expected in a dump of one rank"},
        {rank_without_dtype, CP_INCOMPARABLE, "attribute compute_dtype: expected in a dump of one rank"},
        {float_index, CP_BAD_INPUT, "/token_index: expected int64 [S] or [B,S], found float64 [3]"},
        {index_in_three_dimensions, CP_BAD_INPUT,
         "/token_index: expected int64 [S] or [B,S], found int64 [2,2,2]"},
        {index_of_other_rows, CP_BAD_INPUT, "/batch_index: expected 4 rows as /token_index, found 3"},
        {index_is_a_group, CP_BAD_INPUT, "token_index: expected a dataset, found a group"},
        {loss_is_a_group, CP_BAD_INPUT, "loss: expected a dataset, found a group"},
        {gradients_are_a_dataset, CP_BAD_INPUT, "/grads: expected a group"},
        {integer_gradient, CP_BAD_INPUT, "/grads/odd: expected floating-point numbers, found int64"},
        {text_result, CP_BAD_INPUT, "/remark: expected float64, float32, "},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_dump(path, directory);
        cases[i].spoil(path);
        cp_source *source;
        assert_status(cp_dump_open(&source, path), cases[i].status, cases[i].words);
        assert_text_holds(cp_error(), path);
        assert_null(source);
    }
    test_remove_directory(directory);
}

static void extras_are_tensors_and_strangers_are_ignored(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    odd_group(path, "/ran");
    odd_group(path, "/theirs");
    odd_text(path, "/", "torch", "2.13");
    odd_dataset(path, "/odd", ODD_F32, ODD_CONTIGUOUS, 1, few, zeros);
    odd_dataset(path, "/grads/odd.weight", ODD_F32, ODD_CONTIGUOUS, 1, few, zeros);
    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    assert_int_equal(source->count, 8);
    assert_true(cp_source_find(source, "odd") >= 0);
    assert_true(cp_source_find(source, "grads/odd.weight") >= 0);
    cp_source_close(source);
    test_remove_directory(directory);
}

/* Logits of some positions that are none of the batch, or one twice. */
static void kept_positions(void **state)
{
    (void)state;
    static const struct {
        int64_t index[4];
        const char *words; /* NULL: they join */
    } rows[] = {{{0, 1, 1, 4}, NULL},
                {{0, 1, 0, 1}, "/logits_index: token 1 of row 0 is also in "},
                {{0, 1, 2, 0}, "/logits_index: row 2, token 0, expected one of 2 rows and 5 tokens"},
                {{0, 1, 0, -1}, "/logits_index: row 0, token -1, expected one of"}};
    static const uint64_t two[] = {2, 2}, kept[] = {2, SAMPLE_V};
    static const int64_t labels[SAMPLE_B * SAMPLE_T];
    static const cp_batch batch = {.B = SAMPLE_B, .T = SAMPLE_T, .labels = labels};
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    const char *paths = path;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double values[] = {1, 2, 3, 4, 5, 6};
        double read[SAMPLE_B * SAMPLE_T * SAMPLE_V];
        cp_source *source;
        sample_dump(path, directory);
        odd_remove(path, "/logits");
        odd_dataset(path, "/logits", ODD_F64, ODD_CONTIGUOUS, 2, kept, values);
        odd_dataset(path, "/logits_index", ODD_I64, ODD_CONTIGUOUS, 2, two, rows[i].index);
        if (rows[i].words) {
            assert_status(cp_dumps_open(&source, &paths, 1, &batch, NULL), CP_INCOMPARABLE, rows[i].words);
            continue;
        }
        assert_ok(cp_dumps_open(&source, &paths, 1, &batch, NULL));
        size_t logits = (size_t)cp_source_find(source, "logits");
        assert_int_equal(source->tensors[logits].dims, 3);
        assert_ok(cp_source_read_all(source, logits, read));
        assert_true(isnan(read[0]) && read[SAMPLE_V] == 1 && read[9 * SAMPLE_V + 2] == 6);
        assert_int_equal(cp_join_kept(source)[1] + cp_join_kept(source)[9], 2);
        cp_source_close(source);
    }
    test_remove_directory(directory);
}

int dump_refusals_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals), cmocka_unit_test(kept_positions),
                                       cmocka_unit_test(extras_are_tensors_and_strangers_are_ignored)};
    return cmocka_run_group_tests_name("dump refusals", tests, NULL, NULL);
}

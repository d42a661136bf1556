/* /ran as files hold it. */
#include "harness/files/dump.h"
#include "harness/files/ran.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TOKENS = SAMPLE_B * SAMPLE_T, C = 2 };

static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const uint64_t rows[] = {SAMPLE_B, SAMPLE_T, C};

static void text(const char *path, const char *object, const char *value)
{
    const char *const values[] = {value};
    odd_dataset(path, object, ODD_STRING, ODD_CONTIGUOUS, 0, NULL, values);
}

static void members(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    int32_t positions[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        positions[i] = 100 + i;
    const float w[3] = {1, 2, 3};
    odd_group(path, "/ran");
    odd_group(path, "/ran/weights");
    odd_dataset(path, "/ran/position_ids", ODD_I32, ODD_PACKED, 2, rows, positions);
    odd_dataset(path, "/ran/odd", ODD_RECORD, ODD_NEVER_WRITTEN, 1, rows, NULL);
    odd_dataset(path, "/ran/weights/module.w", ODD_F32, ODD_CONTIGUOUS, 1, (const uint64_t[]){3}, w);
    text(path, "/ran/input_ids", digest);
    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    assert_int_equal(source->ran_count, 3);
    assert_int_equal(cp_ran_find(source, "odd"), -1);
    assert_string_equal(source->notes,
                        "/ran/odd is an input that this version does not know: not compared\n");
    assert_string_equal(source->ran[cp_ran_find(source, "input_ids")].digest, digest);

    double values[TOKENS];
    int64_t item = cp_ran_find(source, "position_ids");
    assert_null(source->ran[item].digest);
    assert_true(cp_ran_fits(&source->ran[item], SAMPLE_B, SAMPLE_T, 0));
    assert_false(cp_ran_fits(&source->ran[item], SAMPLE_B + 1, SAMPLE_T, 0));
    assert_false(cp_ran_fits(&source->ran[item], SAMPLE_B, SAMPLE_T - 1, 0));
    assert_false(cp_ran_fits(&source->ran[item], SAMPLE_B, SAMPLE_T, 1));
    assert_ok(source->read_ran(source, (size_t)item, 3, 4, values));
    assert_near(values[0], 103, 0);
    assert_near(values[3], 106, 0);
    item = cp_ran_find(source, "weights/w"); /* without its wrapper's prefix */
    assert_ok(source->read_ran(source, (size_t)item, 0, 3, values));
    assert_near(values[2], 3, 0);
    cp_source_close(source);
    test_remove_directory(directory);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void ran_is_a_dataset(const char *path)
{
    odd_dataset(path, "/ran", ODD_F64, ODD_CONTIGUOUS, 1, (const uint64_t[]){1}, (const double[]){1});
}
static void weights_are_a_dataset(const char *path)
{
    odd_group(path, "/ran");
    text(path, "/ran/weights", digest);
}
static void an_input_is_a_group(const char *path)
{
    odd_group(path, "/ran");
    odd_group(path, "/ran/position_ids");
}
static void ids_are_floats(const char *path)
{
    odd_group(path, "/ran");
    odd_dataset(path, "/ran/input_ids", ODD_F64, ODD_CONTIGUOUS, 1, (const uint64_t[]){1},
                (const double[]){1});
}
static void embeddings_are_integers(const char *path)
{
    odd_group(path, "/ran");
    odd_dataset(path, "/ran/inputs_embeds", ODD_I64, ODD_CONTIGUOUS, 1, (const uint64_t[]){1},
                (const int64_t[]){1});
}
static void labels_are_records(const char *path)
{
    odd_group(path, "/ran");
    odd_dataset(path, "/ran/labels", ODD_RECORD, ODD_NEVER_WRITTEN, 1, rows, NULL);
}
static void a_weight_of_integers(const char *path)
{
    weights_are_a_dataset(path);
    odd_remove(path, "/ran/weights");
    odd_group(path, "/ran/weights");
    odd_dataset(path, "/ran/weights/w", ODD_I64, ODD_CONTIGUOUS, 1, (const uint64_t[]){1},
                (const int64_t[]){1});
}
static void a_short_digest(const char *path)
{
    odd_group(path, "/ran");
    text(path, "/ran/labels", digest + 1);
}
static void another_alphabet(const char *path)
{
    odd_group(path, "/ran");
    text(path, "/ran/labels", "0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF");
}
static void a_link(const char *path)
{
    odd_group(path, "/ran");
    odd_make_link(path, "/ran/labels", ODD_SOFT, "/loss");
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*change)(const char *path);
        const char *words;
    } cases[] = {
        {ran_is_a_dataset, "/ran: expected a group"},
        {weights_are_a_dataset, "/ran/weights: expected a group"},
        {an_input_is_a_group, "/ran/position_ids: expected a dataset, found a group"},
        {ids_are_floats, "/ran/input_ids: expected integers or a digest, found float64"},
        {embeddings_are_integers,
         "/ran/inputs_embeds: expected floating-point numbers or a digest, found int64"},
        {labels_are_records, "/ran/labels"},
        {a_weight_of_integers, "/ran/weights/w: expected floating-point numbers or a digest, found int64"},
        {a_short_digest, "/ran/labels: expected numbers, or a sha256 in 64 small hexadecimal digits"},
        {another_alphabet, "/ran/labels: expected numbers, or a sha256"},
        {a_link, "link"},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_dump(path, directory);
        cases[i].change(path);
        cp_source *source;
        assert_status(cp_dump_open(&source, path), CP_BAD_INPUT, cases[i].words);
        assert_null(source);
    }
    test_remove_directory(directory);
}

/* ---- over ranks -------------------------------------------------------------------------------------------------- */

enum { RANKS = 2 };

/* Striped, in falling order; rows are swapped on rank 1, and each ends with padding. */
static void write_ranks(const char *directory)
{
    static const int64_t tokens[RANKS][TOKENS] = {{4, 2, 0, -1, -1, 4, 2, 0, -1, -1},
                                                  {3, 1, -1, -1, -1, 3, 1, -1, -1, -1}};
    static const int64_t order[RANKS][SAMPLE_B] = {{0, 1}, {1, 0}};
    for (int rank = 0; rank < RANKS; rank++) {
        cp_declaration said = cp_declaration_whole();
        said.cp_size = RANKS;
        said.cp_rank = rank;
        said.dtype_declared = true;
        said.B = SAMPLE_B;
        said.S = SAMPLE_T;
        said.token_index = tokens[rank];
        said.batch_index = order[rank];
        char path[CP_PATH_BYTES];
        snprintf(path, sizeof path, "%s/rank-%04d.h5", directory, rank);
        cp_source *source = sample_source(&said);
        assert_ok(cp_dump_write(path, source));
        cp_source_close(source);
        odd_group(path, "/ran");
        int64_t ids[TOKENS];
        double embeds[TOKENS * C];
        for (int at = 0; at < TOKENS; at++) {
            ids[at] = 10 * order[rank][at / SAMPLE_T] + tokens[rank][at];
            for (int c = 0; c < C; c++)
                embeds[at * C + c] = (double)ids[at] + 0.25 * c;
        }
        odd_dataset(path, "/ran/input_ids", ODD_I64, ODD_CONTIGUOUS, 2, rows, ids);
        odd_dataset(path, "/ran/inputs_embeds", ODD_F64, ODD_CONTIGUOUS, 3, rows, embeds);
        if (rank == 1) /* one row for all, and on this rank alone */
            odd_dataset(path, "/ran/position_ids", ODD_I64, ODD_CONTIGUOUS, 2,
                        (const uint64_t[]){1, SAMPLE_T}, tokens[rank]);
    }
}

static void tokens_in_global_order(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    const char *const paths[] = {directory};
    write_ranks(directory);
    cp_source *joined;
    assert_ok(cp_dumps_open(&joined, paths, 1, NULL, NULL));
    for (int64_t first = 0; first < TOKENS; first++)
        for (int64_t count = 0; first + count <= TOKENS; count++) {
            double ids[TOKENS], embeds[TOKENS * C], positions[TOKENS];
            int32_t owner[TOKENS], holder[TOKENS], again[TOKENS];
            assert_ok(cp_ran_read(joined, "input_ids", first, count, 1, ids, owner));
            assert_ok(cp_ran_read(joined, "inputs_embeds", first, count, C, embeds, again));
            assert_ok(cp_ran_read(joined, "position_ids", first, count, 1, positions, holder));
            for (int64_t i = 0; i < count; i++) {
                int64_t b = (first + i) / SAMPLE_T, t = (first + i) % SAMPLE_T;
                assert_int_equal(owner[i], t % 2);
                assert_int_equal(again[i], t % 2);
                assert_near(ids[i], (double)(10 * b + t), 0);
                assert_near(embeds[i * C + 1], (double)(10 * b + t) + 0.25, 0);
                assert_int_equal(holder[i], t % 2 ? 1 : -1);
                assert_near(t % 2 ? positions[i] : (double)t, (double)t, 0);
            }
        }
    cp_source_close(joined);
    test_remove_directory(directory);
}

int ran_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(members), cmocka_unit_test(refusals),
                                       cmocka_unit_test(tokens_in_global_order)};
    return cmocka_run_group_tests_name("ran", tests, NULL, NULL);
}

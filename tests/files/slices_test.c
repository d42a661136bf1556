#include "harness/files/dump.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 4, COLUMNS = 3, ALL = ROWS * COLUMNS, RANKS = 3 };

/* A rank's box of a [4,3] matrix whose element (i, j) is 10 i + j. */
typedef struct box {
    int offset[2], extent[2];
    bool replicated;
} box;

static void write_rank(char path[CP_PATH_BYTES], const char *directory, int rank, const char *gradients)
{
    static int64_t tokens[2][SAMPLE_B * SAMPLE_T]; /* rank 0 has all of them */
    for (int i = 0; i < SAMPLE_B * SAMPLE_T; i++) {
        tokens[0][i] = i % SAMPLE_T;
        tokens[1][i] = -1;
    }
    cp_declaration said = cp_declaration_whole();
    said.dtype_declared = true;
    said.cp_size = RANKS;
    said.cp_rank = rank;
    said.B = SAMPLE_B;
    said.S = SAMPLE_T;
    said.token_index = tokens[rank > 0];
    cp_source *source = sample_source(&said);
    snprintf(path, CP_PATH_BYTES, "%s/rank-%d.h5", directory, rank);
    assert_ok(cp_dump_write(path, source));
    cp_source_close(source);
    odd_text(path, "/", "gradients", gradients);
    odd_remove(path, "/grads/w");
    odd_remove(path, "/grads/inputs_embeds");
}

static void write_box(const char *path, const box *part, const int *whole)
{
    double values[ALL];
    const uint64_t shape[] = {(uint64_t)part->extent[0], (uint64_t)part->extent[1]};
    for (int i = 0; i < part->extent[0] * part->extent[1]; i++)
        values[i] = 10 * (part->offset[0] + i / part->extent[1]) + part->offset[1] + i % part->extent[1];
    odd_dataset(path, "/grads/w", ODD_F64, ODD_CONTIGUOUS, 2, shape, values);
    odd_integers(path, "/grads/w", "global_shape", whole, 2);
    odd_integers(path, "/grads/w", "offset", part->offset, 2);
    if (part->replicated)
        odd_truth(path, "/grads/w", "replicated", true);
}

static cp_status open_boxes(cp_source **joined, const char *directory, const box *boxes,
                            const char *gradients)
{
    static const int whole[] = {ROWS, COLUMNS};
    char paths[RANKS][CP_PATH_BYTES];
    const char *list[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        write_rank(paths[rank], directory, rank, gradients);
        write_box(paths[rank], &boxes[rank], whole);
        list[rank] = paths[rank];
    }
    return cp_dumps_open(joined, list, RANKS, NULL, NULL);
}

static void slices_make_a_tensor(void **state)
{
    (void)state;
    static const box rows[][RANKS] = {
        {{{0, 0}, {2, 3}, false}, {{2, 0}, {1, 3}, false}, {{3, 0}, {1, 3}, false}},
        {{{0, 0}, {4, 1}, false}, {{0, 1}, {4, 2}, false}, {{4, 0}, {0, 3}, false}}, /* one has nothing */
        {{{0, 0}, {3, 2}, false}, {{0, 2}, {3, 1}, false}, {{3, 0}, {1, 3}, false}},
        {{{0, 0}, {2, 3}, true}, {{2, 0}, {2, 3}, false}, {{0, 0}, {2, 3}, true}}, /* two have the same */
    };
    char *directory = test_new_directory();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cp_source *joined;
        assert_ok(open_boxes(&joined, directory, rows[i], "reduced"));
        int64_t found = cp_source_find(joined, "grads/w");
        assert_int_equal(joined->tensors[found].extent[0], ROWS);
        assert_int_equal(joined->tensors[found].extent[1], COLUMNS);
        for (int64_t step = 1; step <= ALL; step++) {
            double values[ALL] = {0};
            for (int64_t first = 0; first < ALL; first += step)
                assert_ok(joined->read(joined, (size_t)found, first, ALL - first < step ? ALL - first : step,
                                       values + first));
            for (int k = 0; k < ALL; k++)
                assert_near(values[k], 10 * (k / COLUMNS) + k % COLUMNS, 0);
        }
        double difference;
        assert_ok(cp_join_replicas(joined, (size_t)found, &difference));
        assert_near(difference, 0, 0);
        cp_source_close(joined);
    }
    test_remove_directory(directory);
}

static void copies_of_a_slice_are_compared(void **state)
{
    (void)state;
    static const box boxes[] = {{{0, 0}, {2, 3}, true}, {{2, 0}, {2, 3}, false}, {{0, 0}, {2, 3}, true}};
    static const double other[6] = {0, 1, 2, 10, 11, 13};
    char *directory = test_new_directory();
    char last[CP_PATH_BYTES];
    cp_source *joined;
    assert_ok(open_boxes(&joined, directory, boxes, "reduced"));
    cp_source_close(joined);
    snprintf(last, sizeof last, "%s/rank-2.h5", directory);
    odd_overwrite(last, "/grads/w", ODD_F64, other);
    const char *folder = directory;
    double difference;
    assert_ok(cp_dumps_open(&joined, &folder, 1, NULL, NULL));
    assert_ok(cp_join_replicas(joined, (size_t)cp_source_find(joined, "grads/w"), &difference));
    assert_true(difference > 0.01 && difference < 0.1);
    cp_source_close(joined);
    test_remove_directory(directory);
}

static void slices_that_make_none(void **state)
{
    (void)state;
    static const struct {
        box boxes[RANKS];
        const char *gradients;
        cp_status status;
        const char *words;
    } rows[] = {
        {{{{0, 0}, {2, 3}, false}, {{2, 0}, {1, 3}, false}, {{4, 0}, {0, 3}, false}},
         "reduced",
         CP_INCOMPARABLE,
         "/grads/w: 3 of its 12 elements are on no rank"},
        {{{{0, 0}, {2, 3}, false}, {{1, 0}, {3, 3}, false}, {{4, 0}, {0, 3}, false}},
         "reduced",
         CP_INCOMPARABLE,
         "a slice that overlaps with that of"},
        {{{{0, 0}, {2, 3}, true}, {{2, 0}, {2, 3}, false}, {{0, 0}, {2, 3}, false}},
         "reduced",
         CP_INCOMPARABLE,
         "declared replicated in each"},
        {{{{0, 0}, {2, 3}, false}, {{3, 0}, {2, 3}, false}, {{2, 0}, {1, 3}, false}},
         "reduced",
         CP_BAD_INPUT,
         "axis 0: 2 from 3 on, expected to lie in 4 of global_shape"},
        {{{{0, 0}, {2, 3}, false}, {{2, 0}, {1, 3}, false}, {{3, 0}, {1, 3}, false}},
         "partial",
         CP_INCOMPARABLE,
         "a slice of gradients that are partial, expected reduced ones"},
    };
    char *directory = test_new_directory();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cp_source *joined;
        assert_status(open_boxes(&joined, directory, rows[i].boxes, rows[i].gradients), rows[i].status,
                      rows[i].words);
        assert_null(joined);
    }
    test_remove_directory(directory);
}

static const int ROW[] = {SAMPLE_N}, NONE[] = {0}, PAIR[] = {SAMPLE_N, 1};

static void no_offset(const char *path)
{
    odd_integers(path, "/grads/w", "global_shape", ROW, 1);
}
static void no_shape(const char *path)
{
    odd_integers(path, "/grads/w", "offset", NONE, 1);
}
static void other_axes(const char *path)
{
    odd_integers(path, "/grads/w", "global_shape", PAIR, 2);
}
static void in_words(const char *path)
{
    odd_text(path, "/grads/w", "global_shape", "[4]");
}
static void replicated_whole(const char *path)
{
    odd_truth(path, "/grads/w", "replicated", true);
}
static void sliced_loss(const char *path)
{
    odd_integers(path, "/token_loss", "global_shape", (int[]){2, 5}, 2);
    odd_integers(path, "/token_loss", "offset", (int[]){0, 0}, 2);
}

static void declarations_that_are_none(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(const char *path);
        cp_status status;
        const char *words;
    } rows[] = {
        {no_offset, CP_BAD_INPUT, "/grads/w: attribute offset: expected beside global_shape, found nothing"},
        {no_shape, CP_BAD_INPUT, "/grads/w: attribute global_shape: expected beside offset"},
        {other_axes, CP_BAD_INPUT, "attribute global_shape: expected 1 integers, found 2"},
        {in_words, CP_BAD_INPUT, "attribute global_shape: expected a list of at most"},
        {replicated_whole, CP_INCOMPARABLE, "declares attribute replicated of what is no slice"},
        {sliced_loss, CP_INCOMPARABLE, "which is read of parameters' gradients alone"},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cp_source *source;
        sample_dump(path, directory);
        rows[i].spoil(path);
        assert_status(cp_dump_open(&source, path), rows[i].status, rows[i].words);
        assert_text_holds(cp_error(), path);
    }
    test_remove_directory(directory);
}

int slices_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_make_a_tensor), cmocka_unit_test(copies_of_a_slice_are_compared),
        cmocka_unit_test(slices_that_make_none), cmocka_unit_test(declarations_that_are_none)};
    return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}

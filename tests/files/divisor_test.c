/* What a loss that the ranks did not divide is divided by: golden fixtures, whose loss is known. */
#include "harness/files/dump.h"
#include "harness/files/fixture.h"
#include "harness/files/targets.h"

#include "tests/files/groups.h"
#include "tests/support/support.h"

#include <stdio.h>

enum { RANKS = 2, S = 4, MOST = 2 * 7 };

static const int64_t token_index[RANKS][2 * S] = {{0, 1, 2, 3, 0, 1, 2, 3}, {4, 5, 6, -1, 4, 5, 6, -1}};

/* One rank's sum of token losses and its targets, by hand. */
typedef struct shard {
    double sum;
    int64_t targets;
} shard;

static shard shard_of(const cp_fixture *fixture, int rank)
{
    double token_loss[MOST];
    const cp_source *expected = fixture->expected;
    assert_ok(cp_source_read_all(expected, (size_t)cp_source_find(expected, "token_loss"), token_loss));
    shard out = {0};
    for (int64_t b = 0; b < fixture->batch.B; b++)
        for (int64_t t = rank * S; t < (rank + 1) * S && t < 7; t++) {
            out.sum += token_loss[b * 7 + t];
            out.targets += token_loss[b * 7 + t] != 0;
        }
    return out;
}

static double loss_of(const cp_source *source)
{
    double loss;
    assert_ok(cp_source_read_all(source, (size_t)cp_source_find(source, "loss"), &loss));
    return loss;
}

/* `count` is what the rank declares, −1: nothing. */
static void write_rank(const char *directory, const cp_fixture *fixture, int rank, cp_loss_kind kind,
                       int64_t count)
{
    shard mine = shard_of(fixture, rank);
    double divisor = cp_batch_divisor(&fixture->batch);
    const double losses[CP_LOSS_KINDS] = {
        [CP_LOSS_GLOBAL] = loss_of(fixture->expected),
        [CP_LOSS_SHARE] = mine.sum / divisor,
        [CP_LOSS_MEAN] = RANKS * mine.sum / divisor,
        [CP_LOSS_PARTIAL_SUM] = mine.sum,
        [CP_LOSS_LOCAL_MEAN] = mine.sum / (double)mine.targets,
    };
    double loss = losses[kind];
    const cp_memory_tensor tensor = {"loss", CP_VIEW(&loss, CP_F64, 1), true};
    cp_declaration said = cp_declaration_whole();
    said.cp_size = RANKS;
    said.cp_rank = rank;
    said.dtype_declared = true;
    said.loss_kind = kind;
    said.loss_count = count;
    said.B = fixture->batch.B;
    said.S = S;
    said.token_index = token_index[rank];
    char path[CP_PATH_BYTES];
    snprintf(path, sizeof path, "%s/rank-%04d.h5", directory, rank);
    cp_source *source;
    assert_ok(cp_source_memory(&source, "rank", &said, &tensor, 1));
    assert_ok(cp_dump_write(path, source));
    cp_source_close(source);
}

typedef enum declared { COUNTED, NOT_DECLARED, MISCOUNTED } declared;

static void write_ranks(const char *directory, const cp_fixture *fixture, cp_loss_kind kind, declared how)
{
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t targets = shard_of(fixture, rank).targets;
        const int64_t counts[] = {[COUNTED] = targets, [NOT_DECLARED] = -1, [MISCOUNTED] = targets + 1};
        write_rank(directory, fixture, rank, kind, counts[how]);
    }
}

static const char *const goldens[] = {CPEQ_GOLDEN "/llama/items7.h5", CPEQ_GOLDEN "/llama/packed7.h5"};
static const double divisors[] = {23, 5}; /* num_items_in_batch, and targets */
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static void the_fixtures_divisor(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    const char *const paths[] = {directory};
    for (int g = 0; g < GOLDENS; g++) {
        cp_fixture *fixture;
        assert_ok(cp_fixture_open(&fixture, goldens[g]));
        assert_near(cp_batch_divisor(&fixture->batch), divisors[g], 0);
        for (int kind = 0; kind < CP_LOSS_KINDS; kind++)
            for (int how = COUNTED; how <= MISCOUNTED; how++) {
                if (kind == CP_LOSS_LOCAL_MEAN && how != COUNTED)
                    continue; /* there loss_count is a weight, which no fixture knows */
                write_ranks(directory, fixture, (cp_loss_kind)kind, (declared)how);
                cp_source *joined;
                assert_ok(cp_dumps_open(&joined, paths, 1, &fixture->batch, NULL));
                assert_near(loss_of(joined), loss_of(fixture->expected), 1e-14);
                cp_source_close(joined);
            }
        cp_fixture_close(fixture);
    }
    test_remove_directory(directory);
}

/* Where no batch is known the dumps' own count is all there is. */
static void without_a_fixture(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    const char *const paths[] = {directory};
    const double targets[GOLDENS] = {11, 5};
    for (int g = 0; g < GOLDENS; g++) {
        cp_fixture *fixture;
        cp_source *joined;
        assert_ok(cp_fixture_open(&fixture, goldens[g]));
        write_ranks(directory, fixture, CP_LOSS_PARTIAL_SUM, COUNTED);
        assert_ok(cp_dumps_open(&joined, paths, 1, NULL, NULL));
        assert_near(loss_of(joined), loss_of(fixture->expected) * divisors[g] / targets[g], 1e-14);
        cp_source_close(joined);

        double loss;
        write_ranks(directory, fixture, CP_LOSS_PARTIAL_SUM, NOT_DECLARED);
        assert_ok(cp_dumps_open(&joined, paths, 1, NULL, NULL));
        assert_status(cp_source_read_all(joined, 0, &loss), CP_INCOMPARABLE, "neither loss_count nor");
        cp_source_close(joined);
        write_ranks(directory, fixture, CP_LOSS_LOCAL_MEAN, NOT_DECLARED);
        assert_status(cp_dumps_open(&joined, paths, 1, NULL, NULL), CP_INCOMPARABLE, "attribute loss_count");
        cp_fixture_close(fixture);
    }
    test_remove_directory(directory);
}

/* Both ways to hold labels, and a row's ends. */
static void targets(void **state)
{
    (void)state;
    const int64_t labels[] = {5, 6, -100, 7, 8, 9}, shifted[] = {6, -100, 5, 8, 9, 4};
    const cp_batch batches[] = {{.B = 2, .T = 3, .labels = labels},
                                {.B = 2, .T = 3, .shift_labels = shifted}};
    const int64_t expected[2][6] = {{6, -100, -100, 8, 9, -100}, {6, -100, 5, 8, 9, 4}};
    for (int i = 0; i < 2; i++) {
        for (int64_t at = 0; at < 6; at++)
            assert_int_equal(cp_batch_target(&batches[i], at / 3, at % 3), expected[i][at]);
        assert_near(cp_batch_divisor(&batches[i]), i ? 5 : 3, 0);
    }
}

int divisor_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_fixtures_divisor),
                                       cmocka_unit_test(without_a_fixture), cmocka_unit_test(targets)};
    return cmocka_run_group_tests_name("divisor", tests, NULL, NULL);
}

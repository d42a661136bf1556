/* Every exchange while ranks are late and while one of them fails. */
#include "tests/parallel/disturbed.h"
#include "tests/parallel/groups.h"

#include <stdio.h>
#include <string.h>

static const cp_exchange_rules right = {0};

static const cp_exchange_spec exchanges[] = {
    {.kind = CP_EXCHANGE_ULYSSES},  {.kind = CP_EXCHANGE_ALLGATHER}, {.kind = CP_EXCHANGE_RING},
    {CP_EXCHANGE_USP, 2, 2, false}, {CP_EXCHANGE_USP, 2, 2, true},
};

enum { EXCHANGES = sizeof exchanges / sizeof *exchanges };

static void open_world(world *w, uint64_t seed)
{
    static const world_shape shape = {4, 8, 2, 2, 2, {3, 1, 0, 4}, 0, 1};
    world_open_kind(w, &shape, &(world_kind){.dtype = CP_F64, .sinks = true, .shuffled = true}, seed);
    w->rules = right;
}

static void assert_same(const world *w, const world_tensors *expected)
{
    char text[CP_EXCHANGE_TEXT];
    const world_tensors *a = &w->sharded;
    const cp_tensor x[] = {a->o, a->dq, a->dk, a->dv, w->shares};
    const cp_tensor y[] = {expected->o, expected->dq, expected->dk, expected->dv, expected->dsink};
    for (int i = 0; i < 5; i++) {
        if (memcmp(x[i].data, y[i].data, cp_tensor_bytes(x[i])) != 0)
            print_error("%s, tensor %d: other bits\n", cp_exchange_text(&w->exchange, text), i);
        assert_memory_equal(x[i].data, y[i].data, cp_tensor_bytes(x[i]));
    }
}

/* The results of a run that nobody disturbs, in memory of their own; dsink is every rank's share. */
static world_tensors run_undisturbed(world *w)
{
    world_run_threads(w, &right);
    world_tensors results = w->sharded;
    results.dsink = CP_TAKE(&w->arena, CP_F64, w->shape.P, w->shape.H);
    memcpy(results.dsink.data, w->shares.data, cp_tensor_bytes(w->shares));
    return results;
}

static void late_ranks_change_no_bit(void **state)
{
    (void)state;
    enum { SEEDS = 50 };
    uint64_t seed = test_seed();
    for (int i = 0; i < EXCHANGES; i++) {
        world w;
        open_world(&w, seed);
        w.exchange = exchanges[i];
        world_tensors expected = run_undisturbed(&w);
        for (uint64_t delays = 1; delays <= SEEDS; delays++) {
            disturbance late = {.world = &w, .delays = seed + 1000 * delays};
            assert_ok(world_try_threads(&w, disturbed_body, &late));
            assert_same(&w, &expected);
        }
        world_close(&w);
    }
}

/* Wherever in the exchange a rank fails, all end with its sentence, and what they held is freed. */
static void a_failing_rank_ends_all(void **state)
{
    (void)state;
    for (int i = 0; i < EXCHANGES; i++) {
        world w;
        open_world(&w, test_seed());
        w.exchange = exchanges[i];
        disturbance none = {.world = &w};
        assert_ok(world_try_threads(&w, disturbed_body, &none));
        for (int rank = 0; rank < w.shape.P; rank++) {
            char sentence[64];
            snprintf(sentence, sizeof sentence, "rank %d: weights.h5: a: not finite", rank);
            assert_true(none.moves[rank] >= 4);
            for (int move = 1; move <= none.moves[rank]; move++) {
                disturbance failing = {.world = &w, .failing_rank = rank, .move = move};
                assert_status(world_try_threads(&w, disturbed_body, &failing), CP_BAD_INPUT, sentence);
            }
        }
        world_close(&w);
    }
}

int run_disturbed_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_ranks_change_no_bit),
        cmocka_unit_test(a_failing_rank_ends_all),
    };
    return cmocka_run_group_tests_name("disturbed", tests, NULL, NULL);
}

/* ---- over MPI ---------------------------------------------------------------------------------------------------- */

int fail_exchange_over_mpi(const char *name)
{
    world w;
    open_world(&w, 1);
    if (cp_exchange_parse(&w.exchange, name) == CP_OK) {
        disturbance none = {.world = &w};
        if (world_try_threads(&w, disturbed_body, &none) == CP_OK) {
            disturbance failing = {.world = &w, .failing_rank = 2, .move = none.moves[2] / 2};
            cp_mpi_run(w.shape.P, disturbed_body, &failing);
        }
    }
    fprintf(stderr, "the job went on after rank 2 failed in %s: %s\n", name, cp_error());
    return 1;
}

/* The exchanges that bring keys to queries, allgather and ring, against the local mixer on the whole; their wrong rules
 * against what these say, computed by hand. */
#include "tests/parallel/groups.h"
#include "tests/parallel/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const cp_exchange_rules right = {0};

/* {P, H, K, V, B, tokens, window, leading}: every P, heads that are no multiple of it, ragged and empty shards, more
 * ranks than tokens. */
static const world_shape shapes[] = {
    {1, 4, 2, 2, 2, {7}, 0, 2},
    {2, 3, 1, 1, 2, {4, 4}, 0, 1},
    {2, 4, 2, 2, 1, {0, 9}, 3, 0},
    {3, 2, 2, 1, 2, {2, 0, 5}, 3, 1},
    {3, 4, 2, 2, 1, {70, 1, 65}, 20, 0},
    {4, 6, 3, 2, 2, {2, 2, 2, 2}, 0, 3},
    {4, 1, 1, 1, 3, {1, 4, 0, 2}, 4, 0},
    {4, 4, 4, 4, 2, {3, 3, 3, 3}, 4, 0},
    {5, 3, 3, 3, 2, {1, 2, 3, 4, 5}, 0, 2},
    {6, 4, 2, 2, 1, {1, 0, 0, 0, 1, 0}, 0, 0},
    {7, 5, 1, 1, 2, {2, 2, 2, 2, 2, 2, 2}, 5, 1},
    {8, 2, 1, 2, 2, {1, 1, 1, 1, 1, 1, 1, 1}, 3, 0},
    {8, 4, 2, 2, 1, {0, 9, 1, 1, 0, 3, 1, 1}, 1, 0},
    {8, 2, 2, 2, 2, {4, 4, 4, 4, 4, 4, 4, 4}, 9, 5},
    {16, 2, 1, 1, 1, {1, 1, 2, 1, 0, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1}, 6, 0},
    {64, 1, 1, 1, 1, {1, 1, 1, 1, 0, 1, 1, 1, 2, 1, 1, 1}, 0, 0},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static const cp_exchange_kind exchanges[] = {CP_EXCHANGE_ALLGATHER, CP_EXCHANGE_RING};

enum { EXCHANGES = sizeof exchanges / sizeof *exchanges };

static void assert_results(const world *w, double relative)
{
    const world_tensors *a = &w->sharded, *e = &w->unsharded;
    const cp_tensor actual[] = {a->o, a->dq, a->dk, a->dv, a->dsink};
    const cp_tensor expected[] = {e->o, e->dq, e->dk, e->dv, e->dsink};
    static const char *const names[] = {"o", "dq", "dk", "dv", "dsink"};
    for (int i = 0; i < (w->kind.sinks ? 5 : 4); i++) {
        test_verdict verdict = test_compare_tensors(actual[i], expected[i], 0, relative);
        if (verdict.fails)
            print_error("%s of %s, form %d, P %d, H %d, K %d, B %d, %s: ", names[i],
                        cp_exchange_name(w->exchange.kind), w->form, w->shape.P, (int)w->shape.H,
                        (int)w->shape.K, (int)w->shape.B, w->kind.shuffled ? "shuffled" : "contiguous");
        assert_verdict(verdict);
    }
}

typedef void check_world(world *w);

/* Every exchange, with every form, on every kind of layout. */
static void in_every_way(const world_shape *shape, world_kind kind, uint64_t seed, check_world *check)
{
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        world w;
        kind.shuffled = shuffled;
        world_open_kind(&w, shape, &kind, seed);
        for (int e = 0; e < EXCHANGES; e++)
            for (int form = 0; form < CP_ATTENTION_FORMS; form++) {
                w.exchange = (cp_exchange_spec){.kind = exchanges[e]};
                w.form = (cp_attention_form)form;
                world_run_threads(&w, &right);
                check(&w);
            }
        world_close(&w);
    }
}

static void near_in_double(world *w)
{
    assert_results(w, 1e-12);
}

static void equals_the_whole(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i++)
        in_every_way(&shapes[i], (world_kind){.dtype = CP_F64, .sinks = i % 2 == 1}, seed + (uint64_t)i,
                     near_in_double);
}

static void near_in_float(world *w)
{
    assert_results(w, 1e-5);
}

static void equals_the_whole_in_float(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i += 3)
        in_every_way(&shapes[i], (world_kind){.dtype = CP_F32, .sinks = i % 2 == 0}, seed + (uint64_t)i,
                     near_in_float);
}

int run_passing_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_whole),
        cmocka_unit_test(equals_the_whole_in_float),
    };
    return cmocka_run_group_tests_name("allgather and ring", tests, NULL, NULL);
}

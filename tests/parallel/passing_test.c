/* The exchanges that bring keys to queries, allgather and ring, against the local mixer on the whole; their wrong rules
 * against what these say, computed by hand. */
#include "base/rng.h"
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

/* Every exchange, with every form. */
static void in_every_form(world *w, check_world *check)
{
    for (int e = 0; e < EXCHANGES; e++)
        for (int form = 0; form < CP_ATTENTION_FORMS; form++) {
            w->exchange = (cp_exchange_spec){.kind = exchanges[e]};
            w->form = (cp_attention_form)form;
            world_run_threads(w, &right);
            check(w);
        }
}

/* On every kind of layout, too. */
static void in_every_way(const world_shape *shape, world_kind kind, uint64_t seed, check_world *check)
{
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        world w;
        kind.shuffled = shuffled;
        world_open_kind(&w, shape, &kind, seed);
        in_every_form(&w, check);
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

/* Keys in the order of the row and one call: the forward is bitwise the unsharded one. */
static void gathered_forward_has_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i++)
        for (int shuffled = 0; shuffled < 2; shuffled++) {
            world w;
            const world_kind kind = {.dtype = CP_F64, .sinks = true, .shuffled = shuffled};
            world_open_kind(&w, &shapes[i], &kind, seed + (uint64_t)i);
            w.exchange.kind = CP_EXCHANGE_ALLGATHER;
            world_run_threads(&w, &right);
            assert_tensors_equal(w.sharded.o, w.unsharded.o);
            world_close(&w);
        }
}

/* ---- exactly ----------------------------------------------------------------------------------------------------- */

static double *at(cp_tensor tensor, int64_t b, int64_t i, int64_t h)
{
    return (double *)tensor.data + b * tensor.stride[0] + i * tensor.stride[1] + h * tensor.stride[2];
}

/* A key that the query sees; −1: it sees none. */
static int64_t choose_key(const world *w, int64_t b, int64_t i, cp_rng rng, uint64_t number)
{
    int64_t T = w->layout.T, begin = cp_rng_below(rng, number, (uint64_t)T);
    for (int64_t n = 0; n < T; n++)
        if (cp_visible(&w->visibility, b, i, (begin + n) % T))
            return (begin + n) % T;
    return -1;
}

/* Scores −1000 (j − σ)² for a key σ of each query's choice: exp of all others is 0, so o is its value, dv the sum of
 * what is asked of it, and dq and dk are 0, all of them exactly. Writes what must come out into `unsharded`. */
static void point(world *w, uint64_t seed)
{
    const double steep = 2000; /* halved by the scale */
    world_tensors *t = &w->unsharded;
    cp_rng rng = cp_rng_named(seed, "choices");
    int64_t B = w->layout.B, T = w->layout.T, H = w->shape.H, number = 0;
    cp_tensor_zero(t->o);
    cp_tensor_zero(t->dq);
    cp_tensor_zero(t->dk);
    cp_tensor_zero(t->dv);
    for (int64_t n = 0; n < B * T * w->shape.K; n++)
        memcpy(at(t->k, n / (T * w->shape.K), n / w->shape.K % T, n % w->shape.K),
               (double[]){(double)(n / w->shape.K % T), pow((double)(n / w->shape.K % T), 2), 1, 0},
               4 * sizeof(double));
    for (int64_t n = 0; n < B * T * H; n++) {
        int64_t b = n / (T * H), i = n / H % T, h = n % H, width = t->v.extent[3];
        int64_t key = choose_key(w, b, i, rng, (uint64_t)number++);
        double s = (double)(key < 0 ? 0 : key);
        memcpy(at(t->q, b, i, h), (double[]){2 * steep * s, -steep, -steep * s * s, 0}, 4 * sizeof(double));
        for (int64_t d = 0; key >= 0 && d < width; d++) {
            at(t->o, b, i, h)[d] = at(t->v, b, key, w->attend.value_head[h])[d];
            at(t->dv, b, key, w->attend.value_head[h])[d] += at(t->dout, b, i, h)[d];
        }
    }
}

static void exact(world *w)
{
    assert_results(w, 0);
}

static void moves_exactly(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i++)
        for (int shuffled = 0; shuffled < 2; shuffled++) {
            world w;
            const world_kind kind = {.dtype = CP_F64, .integers = true, .shuffled = shuffled};
            world_open_kind(&w, &shapes[i], &kind, seed + (uint64_t)i);
            point(&w, seed);
            in_every_form(&w, exact);
            world_close(&w);
        }
}

/* ---- wrong rules ------------------------------------------------------------------------------------------------- */

/* Bits of a wrong_rule: where it shows. */
enum { O = 1, DQ = 2, DK = 4 };

typedef struct wrong_rule {
    cp_exchange_kind exchange;
    cp_exchange_rules rules;
    int shows;
} wrong_rule;

static const wrong_rule wrong_rules[] = {
    {CP_EXCHANGE_ALLGATHER, {.gather_backward = CP_GATHER_BACKWARD_SLICE}, DK},
    {CP_EXCHANGE_ALLGATHER, {.gather_backward = CP_GATHER_BACKWARD_DOUBLED}, DK},
    {CP_EXCHANGE_ALLGATHER, {.gather_backward = CP_GATHER_BACKWARD_NONE}, DK},
    {CP_EXCHANGE_RING, {.merge = CP_MERGE_AVERAGE}, O | DQ | DK},
    {CP_EXCHANGE_RING, {.merge = CP_MERGE_LOG2_MIXED}, O | DQ | DK},
    {CP_EXCHANGE_RING, {.merge = CP_MERGE_NO_MAXIMUM}, 0}, /* scores are small */
    {CP_EXCHANGE_RING, {.merge = CP_MERGE_INF_FROM_EMPTY}, O | DQ | DK},
    {CP_EXCHANGE_RING, {.sinks.sink = CP_SINK_ONCE_PER_BLOCK}, O | DQ | DK},
    {CP_EXCHANGE_RING, {.sinks.sink = CP_SINK_DROPPED}, O | DQ | DK},
    {CP_EXCHANGE_ALLGATHER, {.sinks.sink = CP_SINK_DROPPED}, O | DQ | DK},
    {CP_EXCHANGE_RING, {.ring.backward_kv = CP_RING_BACKWARD_KV_FIRST}, DQ | DK},
    {CP_EXCHANGE_RING, {.ring.backward_kv = CP_RING_BACKWARD_KV_FORWARD_ORDER}, DQ | DK},
    {CP_EXCHANGE_RING, {.ring.backward_stats = CP_RING_BACKWARD_STATS_BLOCK_LSE}, DQ | DK},
    {CP_EXCHANGE_RING, {.ring.backward_stats = CP_RING_BACKWARD_STATS_BLOCK_DELTA}, DQ | DK},
    {CP_EXCHANGE_RING, {.ring.dkv_return = CP_DKV_RETURN_DROPPED}, DK},
    {CP_EXCHANGE_RING, {.ring.dkv_return = CP_DKV_RETURN_OVERWRITTEN}, DK},
    {CP_EXCHANGE_RING, {.ring.dkv_return = CP_DKV_RETURN_WRONG_RANK}, DK},
    {CP_EXCHANGE_RING, {.ring.accumulate_dtype = CP_ACCUMULATE_BFLOAT16}, O | DQ | DK},
};

enum { WRONG_RULES = sizeof wrong_rules / sizeof *wrong_rules };

static bool differ(cp_tensor a, cp_tensor b)
{
    return test_compare_tensors(a, b, 0, 1e-5).fails;
}

/* Shards of several lengths, a window that ends inside them, sinks. */
static const world_shape telling = {4, 4, 2, 2, 2, {3, 5, 4, 4}, 7, 0};
static const world_kind telling_kind = {.dtype = CP_F64, .sinks = true};

static void wrong_rules_show(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < WRONG_RULES; i++) {
        const wrong_rule *wrong = &wrong_rules[i];
        world w;
        world_open_kind(&w, &telling, &telling_kind, seed);
        w.exchange.kind = wrong->exchange;
        world_run_threads(&w, &wrong->rules);
        const world_tensors *a = &w.sharded, *e = &w.unsharded;
        int shows =
            (differ(a->o, e->o) ? O : 0) | (differ(a->dq, e->dq) ? DQ : 0) | (differ(a->dk, e->dk) ? DK : 0);
        if (shows != wrong->shows)
            print_error("rule %d shows in %d\n", i, shows);
        assert_int_equal(shows, wrong->shows);
        world_close(&w);
    }
}

static void run_with(world *w, cp_exchange_kind exchange, cp_exchange_rules rules, uint64_t seed)
{
    world_open_kind(w, &telling, &telling_kind, seed);
    w->exchange.kind = exchange;
    world_run_threads(w, &rules);
}

/* What is lost on the way home is lost in both exchanges; what comes twice is twice as much. */
static void gradients_of_wrong_returns(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    world slice, dropped, doubled, none;
    run_with(&slice, CP_EXCHANGE_ALLGATHER, (cp_exchange_rules){.gather_backward = CP_GATHER_BACKWARD_SLICE},
             seed);
    run_with(&dropped, CP_EXCHANGE_RING, (cp_exchange_rules){.ring.dkv_return = CP_DKV_RETURN_DROPPED}, seed);
    run_with(&doubled, CP_EXCHANGE_ALLGATHER,
             (cp_exchange_rules){.gather_backward = CP_GATHER_BACKWARD_DOUBLED}, seed);
    run_with(&none, CP_EXCHANGE_ALLGATHER, (cp_exchange_rules){.gather_backward = CP_GATHER_BACKWARD_NONE},
             seed);
    assert_tensors_near(slice.sharded.dk, dropped.sharded.dk, 0, 1e-12);
    assert_tensors_near(slice.sharded.dv, dropped.sharded.dv, 0, 1e-12);
    const double *twice = doubled.sharded.dk.data, *once = doubled.unsharded.dk.data,
                 *zero = none.sharded.dk.data;
    for (int64_t n = 0; n < cp_tensor_count(none.sharded.dk); n++) {
        assert_near(twice[n], 2 * once[n], 1e-11);
        assert_true(zero[n] == 0);
    }
    world_close(&slice);
    world_close(&dropped);
    world_close(&doubled);
    world_close(&none);
}

int run_passing_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_whole),
        cmocka_unit_test(equals_the_whole_in_float),
        cmocka_unit_test(gathered_forward_has_the_same_bits),
        cmocka_unit_test(moves_exactly),
        cmocka_unit_test(wrong_rules_show),
        cmocka_unit_test(gradients_of_wrong_returns),
    };
    return cmocka_run_group_tests_name("allgather and ring", tests, NULL, NULL);
}

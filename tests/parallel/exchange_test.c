/* Ulysses against the local mixer on the whole. */
#include "tests/parallel/groups.h"
#include "tests/parallel/world.h"

static const cp_exchange_rules right = {0};

/* {P, H, K, V, B, tokens, window, leading}: every P, heads that divide, that are replicated, that do neither; shards
 * that are equal, ragged and empty. */
static const world_shape shapes[] = {
    {1, 4, 2, 2, 2, {7}, 0, 2},
    {2, 4, 2, 2, 2, {4, 4}, 0, 1},
    {2, 24, 6, 6, 1, {3, 5}, 0, 0},
    {3, 24, 6, 6, 2, {2, 0, 5}, 3, 1},
    {3, 12, 5, 5, 2, {3, 1, 3}, 0, 0},
    {4, 24, 6, 6, 2, {2, 2, 2, 2}, 0, 3},
    {4, 12, 5, 5, 1, {1, 4, 0, 2}, 4, 0},
    {4, 8, 1, 1, 2, {2, 2, 2, 2}, 0, 0},
    {4, 8, 3, 3, 2, {3, 1, 2, 2}, 0, 2},
    {4, 4, 2, 2, 3, {2, 1, 1, 2}, 2, 1},
    {4, 4, 4, 4, 2, {2, 2, 2, 2}, 0, 0},
    {4, 4, 1, 4, 1, {2, 2, 1, 1}, 0, 0},
    {6, 24, 6, 6, 1, {1, 2, 1, 2, 1, 2}, 0, 0},
    {6, 12, 5, 3, 2, {1, 1, 0, 2, 1, 1}, 0, 1},
    {8, 24, 6, 6, 2, {1, 1, 1, 1, 1, 1, 1, 1}, 3, 0},
    {8, 8, 3, 3, 1, {0, 2, 1, 1, 0, 3, 1, 1}, 0, 0},
    {8, 8, 1, 1, 2, {1, 1, 1, 1, 1, 1, 1, 1}, 0, 2},
    {12, 24, 6, 6, 1, {1, 2, 1, 1, 0, 1, 1, 1, 2, 1, 1, 1}, 0, 0},
    {12, 12, 5, 5, 2, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 5, 1},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void describe(const world_shape *shape, const char *what)
{
    print_error("%s, P %d, H %d, K %d, V %d, B %d: ", what, shape->P, (int)shape->H, (int)shape->K,
                (int)shape->V, (int)shape->B);
}

static void assert_results(const world *w, double relative)
{
    const world_tensors *a = &w->sharded, *e = &w->unsharded;
    const cp_tensor actual[] = {a->o, a->dq, a->dk, a->dv}, expected[] = {e->o, e->dq, e->dk, e->dv};
    static const char *const names[] = {"o", "dq", "dk", "dv"};
    for (int i = 0; i < 4; i++) {
        test_verdict verdict = test_compare_tensors(actual[i], expected[i], 0, relative);
        if (verdict.fails)
            describe(&w->shape, names[i]);
        assert_verdict(verdict);
    }
}

static void equals_the_whole(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i++) {
        world w;
        world_open(&w, &shapes[i], CP_F64, false, seed + (uint64_t)i);
        world_run_threads(&w, &right);
        assert_results(&w, 1e-12);
        world_close(&w);
    }
}

static void equals_the_whole_in_float(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i += 3) {
        world w;
        world_open(&w, &shapes[i], CP_F32, false, seed + (uint64_t)i);
        world_run_threads(&w, &right);
        assert_results(&w, 1e-5);
        world_close(&w);
    }
}

/* The same queries, keys and order of keys: the forward is bitwise the unsharded one. */
static void forward_has_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i++) {
        world w;
        world_open(&w, &shapes[i], CP_F64, false, seed + (uint64_t)i);
        world_run_threads(&w, &right);
        test_verdict verdict = test_compare_bitwise(w.sharded.o, w.unsharded.o);
        if (verdict.fails)
            describe(&w.shape, "o");
        assert_verdict(verdict);
        world_close(&w);
    }
}

/* Where a token sees itself alone, o is v and dv the sum of what is asked of it: movement, exact in integers. */
static void moves_exactly(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < SHAPES; i++) {
        world_shape shape = shapes[i];
        shape.window = 1;
        shape.leading = 0;
        world w;
        world_open(&w, &shape, CP_F64, true, seed + (uint64_t)i);
        world_run_threads(&w, &right);
        assert_results(&w, 0);
        world_close(&w);
    }
}

/* ---- wrong rules ------------------------------------------------------------------------------------------------- */

typedef struct wrong_rule {
    cp_exchange_rules rules;
    bool forward; /* shows in o; else in gradients alone */
} wrong_rule;

static const wrong_rule wrong_rules[] = {
    {{.alltoall_layout = CP_ALLTOALL_BATCH_SEQUENCE}, true},
    {{.alltoall_layout = CP_ALLTOALL_RANK_HEAD}, true},
    {{.alltoall_layout = CP_ALLTOALL_STRIDES_IGNORED}, true},
    {{.heads.gqa_map = CP_GQA_MAP_MODULO}, true},
    {{.heads.gqa_map = CP_GQA_MAP_REPLICA_ORDER}, true},
    {{.heads.gqa_grad = CP_GQA_GRAD_ONE}, false},
    {{.heads.gqa_grad = CP_GQA_GRAD_MEAN}, false},
};

enum { WRONG_RULES = sizeof wrong_rules / sizeof *wrong_rules };

/* Two rows, two tokens and two query heads a rank, heads that are replicated. */
static const world_shape telling = {4, 8, 2, 2, 2, {2, 2, 2, 2}, 0, 0};

static void wrong_rules_show(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int i = 0; i < WRONG_RULES; i++) {
        world w;
        world_open(&w, &telling, CP_F64, false, seed);
        world_run_threads(&w, &wrong_rules[i].rules);
        double forward = world_difference(w.sharded.o, w.unsharded.o);
        double backward = world_difference(w.sharded.dk, w.unsharded.dk);
        if (!(backward > 1e-3) || (forward > 1e-3) != wrong_rules[i].forward)
            print_error("rule %d: o differs by %g, dk by %g\n", i, forward, backward);
        assert_true(backward > 1e-3);
        assert_int_equal(forward > 1e-3, wrong_rules[i].forward);
        world_close(&w);
    }
}

static double dot(cp_tensor a, cp_tensor b)
{
    const double *x = a.data, *y = b.data;
    double sum = 0;
    for (int64_t n = 0; n < cp_tensor_count(a); n++)
        sum += x[n] * y[n];
    return sum;
}

/* The backward of a wrong forward is that forward's: where o is linear in v, o · dout = v · dv. */
static void wrong_rules_go_back_the_way_they_came(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    world_shape shape = telling;
    shape.window = 1;
    for (int i = 0; i < WRONG_RULES; i++) {
        world w;
        world_open(&w, &shape, CP_F64, true, seed);
        world_run_threads(&w, &wrong_rules[i].rules);
        bool adjoint = dot(w.sharded.o, w.unsharded.dout) == dot(w.unsharded.v, w.sharded.dv);
        assert_int_equal(adjoint, wrong_rules[i].forward);
        world_close(&w);
    }
}

/* ---- names and refusals ------------------------------------------------------------------------------------------ */

static void refuses_what_cannot_run(void **state)
{
    (void)state;
    const cp_exchange_spec local = {.kind = CP_EXCHANGE_LOCAL}, ulysses = {.kind = CP_EXCHANGE_ULYSSES};
    cp_exchange_spec spec;
    assert_ok(cp_exchange_parse(&spec, "ulysses"));
    assert_int_equal(spec.kind, CP_EXCHANGE_ULYSSES);
    assert_string_equal(cp_exchange_name(CP_EXCHANGE_LOCAL), "local");
    assert_status(cp_exchange_parse(&spec, "gossip"), CP_BAD_USAGE,
                  "no 'gossip'; there are local, ulysses, allgather, ring");
    assert_ok(cp_exchange_check(&local, 1, 4, 2));
    assert_status(cp_exchange_check(&local, 2, 4, 2), CP_REFUSED, "2 ranks");
    assert_ok(cp_exchange_check(&ulysses, 4, 4, 3));
    assert_status(cp_exchange_check(&ulysses, 3, 4, 2), CP_REFUSED, "4 heads are no multiple of 3 ranks");
}

int run_exchange_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_whole),          cmocka_unit_test(equals_the_whole_in_float),
        cmocka_unit_test(forward_has_the_same_bits), cmocka_unit_test(moves_exactly),
        cmocka_unit_test(wrong_rules_show),          cmocka_unit_test(wrong_rules_go_back_the_way_they_came),
        cmocka_unit_test(refuses_what_cannot_run),
    };
    return cmocka_run_group_tests_name("ulysses", tests, NULL, NULL);
}

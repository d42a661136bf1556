/* usp against the local mixer on the whole: every factorisation, both orders, tokens anywhere. */
#include "tests/parallel/groups.h"
#include "tests/parallel/world.h"

#include <string.h>

static const cp_exchange_rules right = {0};

/* {P, H, K, V, B, tokens, window, leading}: H is a multiple of every P's factors, or of some. */
static const world_shape shapes[] = {
    {1, 4, 2, 2, 2, {5}, 0, 1},
    {4, 4, 2, 2, 2, {2, 2, 2, 2}, 0, 1},
    {4, 8, 3, 3, 2, {3, 0, 1, 5}, 3, 0},
    {6, 12, 4, 2, 2, {1, 2, 0, 2, 1, 3}, 0, 2},
    {6, 6, 6, 1, 1, {2, 2, 2, 2, 2, 2}, 4, 0},
    {8, 8, 2, 2, 2, {1, 2, 1, 2, 1, 2, 1, 2}, 0, 0},
    {8, 24, 6, 6, 1, {0, 3, 1, 0, 0, 2, 1, 1}, 5, 1},
    {12, 12, 4, 4, 2, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 3},
    {12, 24, 5, 5, 1, {2, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0}, 0, 0},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef void world_action(world *w, double relative);

static void describe(const world *w)
{
    char text[CP_EXCHANGE_TEXT];
    print_error("%s, H %d, K %d, B %d, %s: ", cp_exchange_text(&w->exchange, text), (int)w->shape.H,
                (int)w->shape.K, (int)w->shape.B, w->kind.shuffled ? "shuffled" : "contiguous");
}

static void assert_whole(const world *w, double relative)
{
    const world_tensors *a = &w->sharded, *e = &w->unsharded;
    const cp_tensor actual[] = {a->o, a->dq, a->dk, a->dv, a->dsink};
    const cp_tensor expected[] = {e->o, e->dq, e->dk, e->dv, e->dsink};
    for (int i = 0; i < 4 + w->kind.sinks; i++) {
        test_verdict verdict = test_compare_tensors(actual[i], expected[i], 0, relative);
        if (verdict.fails)
            describe(w);
        assert_verdict(verdict);
    }
}

static void run_and_compare(world *w, double relative)
{
    world_run_threads(w, &right);
    assert_whole(w, relative);
}

/* Every mesh that the shape allows. */
static void each_mesh(world *w, world_action *act, double relative)
{
    for (int U = 1; U <= w->shape.P; U++)
        for (int order = 0; order < 2 && w->shape.P % U == 0 && w->shape.H % U == 0; order++) {
            w->exchange = (cp_exchange_spec){CP_EXCHANGE_USP, U, w->shape.P / U, order == 1};
            act(w, relative);
        }
}

static void each_world(const world_kind *kind, const world_shape *list, int count, world_action *act,
                       double relative)
{
    uint64_t seed = test_seed();
    for (int i = 0; i < count; i++)
        for (int form = 0; form < CP_ATTENTION_FORMS; form++) {
            world w;
            world_kind other = *kind;
            other.shuffled = (i + form) % 2 == 0;
            world_open_kind(&w, &list[i], &other, seed + (uint64_t)i);
            w.form = (cp_attention_form)form;
            each_mesh(&w, act, relative);
            world_close(&w);
        }
}

static void equals_the_whole(void **state)
{
    (void)state;
    each_world(&(world_kind){.dtype = CP_F64, .sinks = true}, shapes, SHAPES, run_and_compare, 1e-12);
}

static void equals_the_whole_in_float(void **state)
{
    (void)state;
    each_world(&(world_kind){.dtype = CP_F32, .sinks = true}, shapes, 4, run_and_compare, 1e-5);
}

/* Where a token sees itself alone, o is v and dv the sum of what is asked of it: movement, exact in integers. */
static void moves_exactly(void **state)
{
    (void)state;
    world_shape alone[SHAPES];
    memcpy(alone, shapes, sizeof alone);
    for (int i = 0; i < SHAPES; i++) {
        alone[i].window = 1;
        alone[i].leading = 0;
    }
    each_world(&(world_kind){.dtype = CP_F64, .integers = true}, alone, SHAPES, run_and_compare, 0);
}

/* Ranks that hold nothing, and more ranks than tokens. */
static void runs_on_many_ranks(void **state)
{
    (void)state;
    static const cp_exchange_spec meshes[] = {{.kind = CP_EXCHANGE_ULYSSES},
                                              {CP_EXCHANGE_USP, 1, 64, false},
                                              {CP_EXCHANGE_USP, 8, 8, false},
                                              {CP_EXCHANGE_USP, 16, 4, true},
                                              {CP_EXCHANGE_USP, 64, 1, false}};
    world_shape many = {.P = 64, .H = 64, .K = 2, .V = 2, .B = 2};
    for (int rank = 0; rank < many.P; rank += 5)
        many.tokens[rank] = 1 + rank % 2;
    world w;
    world_open_kind(&w, &many, &(world_kind){.dtype = CP_F64, .sinks = true, .shuffled = true}, test_seed());
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        w.exchange = meshes[i];
        run_and_compare(&w, 1e-12);
    }
    world_close(&w);
}

/* ---- the ends of the family -------------------------------------------------------------------------------------- */

static bool same_bits(const world_tensors *a, const world_tensors *b)
{
    const cp_tensor x[] = {a->o, a->dq, a->dk, a->dv, a->dsink}, y[] = {b->o, b->dq, b->dk, b->dv, b->dsink};
    for (int i = 0; i < 5; i++)
        if (memcmp(x[i].data, y[i].data, cp_tensor_bytes(x[i])) != 0)
            return false;
    return true;
}

/* Bit for bit, where the local order of tokens is ascending, as a group's is. */
static void one_row_of_a_mesh_is_the_exchange_itself(void **state)
{
    (void)state;
    for (int i = 1; i < SHAPES; i++) {
        world w;
        world_open_kind(&w, &shapes[i], &(world_kind){.dtype = CP_F64, .sinks = true}, test_seed());
        const int P = w.shape.P;
        for (int ring = 0; ring < 2; ring++) {
            if (!ring && w.shape.H % P != 0)
                continue;
            w.exchange = (cp_exchange_spec){.kind = ring ? CP_EXCHANGE_RING : CP_EXCHANGE_ULYSSES};
            world_run_threads(&w, &right);
            world_tensors alone = w.sharded;
            w.exchange = (cp_exchange_spec){CP_EXCHANGE_USP, ring ? 1 : P, ring ? P : 1, i % 2 == 1};
            world_run_threads(&w, &right);
            if (!same_bits(&w.sharded, &alone))
                describe(&w);
            assert_true(same_bits(&w.sharded, &alone));
        }
        world_close(&w);
    }
}

/* ---- wrong rules ------------------------------------------------------------------------------------------------- */

typedef struct wrong_rule {
    cp_exchange_rules rules;
    bool o, dk, dsink; /* where it shows */
} wrong_rule;

static const wrong_rule wrong_rules[] = {
    {{.alltoall_layout = CP_ALLTOALL_BATCH_SEQUENCE}, true, true, true},
    {{.alltoall_layout = CP_ALLTOALL_RANK_HEAD}, true, true, true},
    {{.alltoall_layout = CP_ALLTOALL_STRIDES_IGNORED}, true, true, true},
    {{.heads.gqa_map = CP_GQA_MAP_MODULO}, true, true, true},
    {{.heads.gqa_map = CP_GQA_MAP_REPLICA_ORDER}, true, true, true},
    {{.heads.gqa_grad = CP_GQA_GRAD_ONE}, false, true, false},
    {{.heads.gqa_grad = CP_GQA_GRAD_MEAN}, false, true, false},
    {{.sinks.sink = CP_SINK_DROPPED}, true, true, true},
    {{.sinks.sink = CP_SINK_RANK0_SLICE}, true, true, true},
    {{.sinks.sink_grad = CP_SINK_GRAD_OWN_ONLY}, false, false, true},
    {{.sinks.sink_grad = CP_SINK_GRAD_SUMMED_AGAIN}, false, false, true},
};

/* Two rows, two tokens and two query heads a rank, heads that are replicated: alone and in a mesh. */
static void wrong_rules_show(void **state)
{
    (void)state;
    static const world_shape telling = {8, 8, 2, 2, 2, {2, 2, 2, 2, 2, 2, 2, 2}, 0, 0};
    static const cp_exchange_spec mesh = {CP_EXCHANGE_USP, 4, 2, false};
    world w;
    world_open_kind(&w, &telling, &(world_kind){.dtype = CP_F64, .sinks = true}, test_seed());
    w.exchange = mesh;
    for (size_t i = 0; i < sizeof wrong_rules / sizeof *wrong_rules; i++) {
        const wrong_rule *wrong = &wrong_rules[i];
        world_run_threads(&w, &wrong->rules);
        const bool shows[] = {world_difference(w.sharded.o, w.unsharded.o) > 1e-3,
                              world_difference(w.sharded.dk, w.unsharded.dk) > 1e-3,
                              world_difference(w.sharded.dsink, w.unsharded.dsink) > 1e-3};
        const bool expected[] = {wrong->o, wrong->dk, wrong->dsink};
        for (int t = 0; t < 3; t++) {
            if (shows[t] != expected[t])
                print_error("rule %zu, tensor %d: ", i, t);
            assert_int_equal(shows[t], expected[t]);
        }
    }
    world_close(&w);
}

/* What stays of the sinks' gradients, from the right ones. */
static void wrong_sink_gradients_are_what_they_say(void **state)
{
    (void)state;
    static const world_shape shape = {6, 12, 4, 4, 1, {2, 2, 2, 2, 2, 2}, 0, 0};
    static const cp_exchange_spec mesh = {CP_EXCHANGE_USP, 3, 2, true};
    world w;
    world_open_kind(&w, &shape, &(world_kind){.dtype = CP_F64, .sinks = true}, test_seed());
    w.exchange = mesh;
    double expected[2][12];
    for (int h = 0; h < 12; h++) {
        double whole = ((const double *)w.unsharded.dsink.data)[h];
        expected[0][h] = h < 4 ? whole : 0;
        expected[1][h] = 3 * whole;
    }
    world_run_threads(&w, &(cp_exchange_rules){.sinks.sink_grad = CP_SINK_GRAD_OWN_ONLY});
    assert_verdict(test_compare(w.sharded.dsink.data, expected[0], 12, 0, 1e-12));
    world_run_threads(&w, &(cp_exchange_rules){.sinks.sink_grad = CP_SINK_GRAD_SUMMED_AGAIN});
    assert_verdict(test_compare(w.sharded.dsink.data, expected[1], 12, 0, 1e-12));
    world_close(&w);
}

int run_usp_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_whole),
        cmocka_unit_test(equals_the_whole_in_float),
        cmocka_unit_test(moves_exactly),
        cmocka_unit_test(runs_on_many_ranks),
        cmocka_unit_test(one_row_of_a_mesh_is_the_exchange_itself),
        cmocka_unit_test(wrong_rules_show),
        cmocka_unit_test(wrong_sink_gradients_are_what_they_say),
    };
    return cmocka_run_group_tests_name("usp", tests, NULL, NULL);
}

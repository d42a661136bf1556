#include "harness/parallel/heads.h"
#include "tests/parallel/groups.h"
#include "tests/support/support.h"

typedef struct shape {
    int P;
    int64_t H, K;
} shape;

static const shape shapes[] = {{1, 4, 2},  {2, 4, 2},  {4, 4, 2},  {4, 4, 4},  {2, 24, 6},  {3, 24, 6},
                               {4, 24, 6}, {8, 24, 6}, {3, 12, 5}, {4, 12, 5}, {12, 12, 5}, {4, 8, 3},
                               {8, 8, 3},  {8, 8, 1},  {6, 12, 4}, {4, 12, 3}};

enum { SHAPES = sizeof shapes / sizeof *shapes, MOST_HEADS = 24 };

static void floor_table(int32_t *reads, const shape *s)
{
    for (int64_t h = 0; h < s->H; h++)
        reads[h] = (int32_t)(h * s->K / s->H);
}

static cp_head_plan planned(const shape *s, cp_head_rules rules, cp_arena *arena)
{
    int32_t reads[MOST_HEADS];
    floor_table(reads, s);
    cp_head_plan plan;
    cp_head_plan_make(&plan, &rules, s->P, s->H, s->K, reads, arena);
    return plan;
}

/* The head that query head h reads, by way of what its rank received. */
static int32_t read_through(const cp_head_plan *plan, int64_t h)
{
    int64_t own = plan->H / plan->P;
    int rank = (int)(h / own);
    int32_t at = plan->local[rank][h % own];
    assert_true(at >= 0 && at < plan->received[rank]);
    return plan->head[rank][at];
}

static int replicas_of(const cp_head_plan *plan, int32_t head)
{
    int count = 0;
    for (int rank = 0; rank < plan->P; rank++)
        for (int64_t n = 0; n < plan->received[rank]; n++)
            count += plan->head[rank][n] == head;
    return count;
}

static double total_weight(const cp_head_plan *plan, int32_t head)
{
    double total = 0;
    for (int rank = 0; rank < plan->P; rank++)
        for (int64_t n = 0; n < plan->received[rank]; n++)
            total += plan->head[rank][n] == head ? plan->weight[rank][n] : 0;
    return total;
}

/* A rank receives exactly what its query heads read, once, in ascending order. */
static void assert_received_is_read(const cp_head_plan *plan)
{
    int64_t own = plan->H / plan->P;
    for (int rank = 0; rank < plan->P; rank++)
        for (int64_t n = 0; n < plan->received[rank]; n++) {
            bool read = false;
            for (int64_t h = 0; h < own; h++)
                read = read || plan->local[rank][h] == n;
            assert_true(read);
            assert_true(n == 0 || plan->head[rank][n] > plan->head[rank][n - 1]);
        }
}

static void right_heads_are_the_models(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        cp_arena arena = cp_arena_growing();
        cp_head_plan plan = planned(&shapes[i], (cp_head_rules){0}, &arena);
        int32_t reads[MOST_HEADS];
        floor_table(reads, &shapes[i]);
        for (int64_t h = 0; h < shapes[i].H; h++)
            assert_int_equal(read_through(&plan, h), reads[h]);
        assert_received_is_read(&plan);
        for (int32_t head = 0; head < shapes[i].K; head++)
            assert_near(total_weight(&plan, head), replicas_of(&plan, head), 0);
        cp_arena_close(&arena);
    }
}

/* lcm(6,4) = 12 replicas for 24 query heads: floor reads 0 0 0 0 1 …, interleaved replicas 0 0 1 1 2 2 … */
static void wrong_maps_follow_their_formulas(void **state)
{
    (void)state;
    static const int64_t replicas_6_4 = 12, replicas_5_3 = 15;
    const shape a = {4, 24, 6}, b = {3, 12, 5};
    cp_arena arena = cp_arena_growing();
    cp_head_plan modulo = planned(&a, (cp_head_rules){.gqa_map = CP_GQA_MAP_MODULO}, &arena);
    cp_head_plan order = planned(&a, (cp_head_rules){.gqa_map = CP_GQA_MAP_REPLICA_ORDER}, &arena);
    cp_head_plan odd = planned(&b, (cp_head_rules){.gqa_map = CP_GQA_MAP_REPLICA_ORDER}, &arena);
    for (int64_t h = 0; h < a.H; h++) {
        assert_int_equal(read_through(&modulo, h), h % 6);
        assert_int_equal(read_through(&order, h), h * replicas_6_4 / 24 % 6);
    }
    cp_head_plan odd_modulo = planned(&b, (cp_head_rules){.gqa_map = CP_GQA_MAP_MODULO}, &arena);
    for (int64_t h = 0; h < b.H; h++) {
        assert_int_equal(read_through(&odd, h), h * replicas_5_3 / 12 % 5);
        assert_int_equal(read_through(&odd_modulo, h), h % 5); /* rank 1 reads 4 0 1 2 */
    }
    assert_received_is_read(&modulo);
    assert_received_is_read(&order);
    assert_received_is_read(&odd_modulo);
    cp_arena_close(&arena);
}

static bool maps_differ(const cp_head_plan *a, const cp_head_plan *b)
{
    for (int64_t h = 0; h < a->H; h++)
        if (read_through(a, h) != read_through(b, h))
            return true;
    return false;
}

/* The equivalents that the decisions name are just these. */
static void wrong_maps_differ_where_they_can(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        cp_arena arena = cp_arena_growing();
        cp_head_plan right = planned(s, (cp_head_rules){0}, &arena);
        cp_head_plan modulo = planned(s, (cp_head_rules){.gqa_map = CP_GQA_MAP_MODULO}, &arena);
        cp_head_plan order = planned(s, (cp_head_rules){.gqa_map = CP_GQA_MAP_REPLICA_ORDER}, &arena);
        assert_int_equal(maps_differ(&right, &modulo), s->K > 1 && s->K < s->H);
        assert_int_equal(maps_differ(&right, &order), s->K > 1 && s->K % s->P != 0);
        cp_arena_close(&arena);
    }
}

static void gradients_of_replicas(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        cp_arena arena = cp_arena_growing();
        cp_head_plan one = planned(s, (cp_head_rules){.gqa_grad = CP_GQA_GRAD_ONE}, &arena);
        cp_head_plan mean = planned(s, (cp_head_rules){.gqa_grad = CP_GQA_GRAD_MEAN}, &arena);
        for (int32_t head = 0; head < s->K; head++) {
            assert_near(total_weight(&one, head), replicas_of(&one, head) > 0, 0);
            assert_near(total_weight(&mean, head), replicas_of(&mean, head) > 0, 1e-15);
        }
        for (int64_t n = 0; n < one.received[0]; n++)
            assert_near(one.weight[0][n], 1, 0); /* the lowest rank's */
        cp_arena_close(&arena);
    }
}

int run_heads_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_heads_are_the_models),
        cmocka_unit_test(wrong_maps_follow_their_formulas),
        cmocka_unit_test(wrong_maps_differ_where_they_can),
        cmocka_unit_test(gradients_of_replicas),
    };
    return cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}

/* The plans as integers: every unit is followed from the tokens of its rank over the wire to the heads of another. */
#include "harness/parallel/alltoall.h"
#include "tests/parallel/groups.h"
#include "tests/parallel/world.h"

#include <stdlib.h>
#include <string.h>

static const world_shape shapes[] = {
    {1, 4, 2, 2, 2, {5}, 0, 0},
    {2, 4, 2, 2, 2, {4, 4}, 0, 0},
    {3, 24, 6, 6, 2, {2, 0, 5}, 0, 0},
    {4, 12, 5, 5, 3, {1, 4, 0, 2}, 0, 0},
    {4, 8, 1, 1, 1, {2, 2, 2, 2}, 0, 0},
    {4, 4, 2, 2, 2, {1, 1, 1, 1}, 0, 0},
    {8, 8, 3, 3, 2, {2, 2, 2, 2, 2, 2, 2, 2}, 0, 0},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* One tensor's plans of all ranks. */
typedef struct plans {
    cp_arena arena;
    cp_layout layout;
    cp_head_plan heads;
    cp_alltoall_plan plan[WORLD_RANKS];
    cp_alltoall_tensor tensor;
} plans;

static void open_plans(plans *p, const world_shape *s, cp_alltoall_rule rule, cp_alltoall_tensor tensor)
{
    *p = (plans){.arena = cp_arena_growing(), .tensor = tensor};
    world_layout(&p->layout, s->P, s->B, s->tokens, &p->arena);
    int32_t reads[24];
    for (int64_t h = 0; h < s->H; h++)
        reads[h] = (int32_t)(h * s->K / s->H);
    cp_head_rules rules = {0};
    if (tensor == CP_ALLTOALL_OUTPUT)
        cp_head_plan_own(&p->heads, s->P, s->H, &p->arena);
    else
        cp_head_plan_make(&p->heads, &rules, s->P, s->H, s->K, reads, &p->arena);
    for (int rank = 0; rank < s->P; rank++)
        cp_alltoall_plan_make(&p->plan[rank], rule, tensor, &p->layout, rank, &p->heads, &p->arena);
}

/* One side as a table: for each unit of each piece, its place in the local tensor. Every unit of every piece is
 * written exactly once, inside the tensor. [P][piece]; freed by free_table. */
static int64_t **open_table(const cp_wire_side *side, int P)
{
    int64_t **table = calloc((size_t)P, sizeof *table);
    for (int peer = 0; peer < P; peer++) {
        table[peer] = malloc((size_t)(side->piece[peer] + 1) * sizeof **table);
        memset(table[peer], 0xff, (size_t)(side->piece[peer] + 1) * sizeof **table);
    }
    for (int64_t i = 0; i < side->count; i++) {
        const cp_block *block = &side->block[i];
        assert_true(block->count == 1 ||
                    (block->local_step >= block->length && block->wire_step >= block->length));
        for (int64_t n = 0; n < block->count * block->length; n++) {
            int64_t row = n / block->length, at = n % block->length;
            int64_t wire = block->wire + row * block->wire_step + at;
            int64_t local = block->local + row * block->local_step + at;
            assert_true(wire >= 0 && wire < side->piece[block->peer]);
            assert_true(local >= 0 && local < side->units);
            assert_int_equal(table[block->peer][wire], -1);
            table[block->peer][wire] = local;
        }
    }
    for (int peer = 0; peer < P; peer++)
        for (int64_t n = 0; n < side->piece[peer]; n++)
            assert_true(table[peer][n] >= 0);
    return table;
}

static void free_table(int64_t **table, int P)
{
    for (int peer = 0; peer < P; peer++)
        free(table[peer]);
    free(table);
}

/* What a unit of a rank's tokens tensor is: its row, global token and head. */
static int64_t identity(const plans *p, int rank, int64_t local)
{
    int64_t K = p->heads.K, S = p->layout.tokens[rank], token = local / K;
    return ((token / S) * p->layout.T + p->layout.index[rank][token]) * K + local % K;
}

/* What stands at a unit of the heads tensor of `rank`, where everything is right. */
static int64_t right_at(const plans *p, int rank, int64_t local)
{
    int64_t N = p->heads.received[rank];
    return local / N * p->heads.K + p->heads.head[rank][local % N];
}

/* How many units of the heads tensors do not hold what they should, going from tokens to heads. Each place of a heads
 * tensor is written once, by the piece that the other end means. */
static int64_t misplaced(const plans *p)
{
    int P = p->layout.P;
    int64_t wrong = 0;
    for (int to = 0; to < P; to++) {
        int64_t units = p->plan[to].heads.units, written = 0;
        int64_t *found = malloc((size_t)(units + 1) * sizeof *found);
        memset(found, 0xff, (size_t)(units + 1) * sizeof *found);
        int64_t **arrival = open_table(&p->plan[to].heads, P);
        for (int from = 0; from < P; from++) {
            int64_t **departure = open_table(&p->plan[from].tokens, P);
            assert_int_equal(p->plan[from].tokens.piece[to], p->plan[to].heads.piece[from]);
            for (int64_t n = 0; n < p->plan[to].heads.piece[from]; n++) {
                int64_t place = arrival[from][n];
                assert_int_equal(found[place], -1);
                found[place] = identity(p, from, departure[to][n]);
                written++;
            }
            free_table(departure, P);
        }
        assert_int_equal(written, units);
        for (int64_t n = 0; n < units; n++)
            wrong += found[n] != right_at(p, to, n);
        free(found);
        free_table(arrival, P);
    }
    return wrong;
}

static void right_plans_put_everything_in_its_place(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int tensor = 0; tensor < 2; tensor++) {
            plans p;
            open_plans(&p, &shapes[i], CP_ALLTOALL_HEADS_SEQUENCE, (cp_alltoall_tensor)tensor);
            assert_int_equal(misplaced(&p), 0);
            cp_arena_close(&p.arena);
        }
}

static bool holds_two_tokens(const world_shape *s)
{
    for (int rank = 0; rank < s->P; rank++)
        if (s->B * s->tokens[rank] > 1)
            return true;
    return false;
}

/* Wrong plans move every unit to some place, differ from the right one where they can, and nowhere else. */
static void wrong_plans_are_permutations_that_differ(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        const world_shape *s = &shapes[i];
        const struct {
            cp_alltoall_rule rule;
            cp_alltoall_tensor tensor;
            bool differs;
        } cases[] = {
            {CP_ALLTOALL_BATCH_SEQUENCE, CP_ALLTOALL_INPUT, s->B > 1 && s->P > 1},
            {CP_ALLTOALL_BATCH_SEQUENCE, CP_ALLTOALL_OUTPUT, false},
            {CP_ALLTOALL_RANK_HEAD, CP_ALLTOALL_INPUT, false},
            {CP_ALLTOALL_RANK_HEAD, CP_ALLTOALL_OUTPUT, s->H > s->P && s->P > 1},
            {CP_ALLTOALL_STRIDES_IGNORED, CP_ALLTOALL_INPUT, s->P > 1 && holds_two_tokens(s)},
            {CP_ALLTOALL_STRIDES_IGNORED, CP_ALLTOALL_OUTPUT, false},
        };
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            plans p;
            open_plans(&p, s, cases[c].rule, cases[c].tensor);
            int64_t wrong = misplaced(&p);
            if ((wrong > 0) != cases[c].differs)
                print_error("shape %d, rule %d: %d misplaced\n", i, (int)cases[c].rule, (int)wrong);
            assert_int_equal(wrong > 0, cases[c].differs);
            cp_arena_close(&p.arena);
        }
    }
}

/* [1,2,(2,1)] on rank 0 of 2: pieces are t0h0 t1h0 | t0h1 t1h1, and t0h0 t0h1 | t1h0 t1h1 where strides are ignored. */
static void strides_that_are_ignored(void **state)
{
    (void)state;
    const world_shape s = {2, 2, 2, 2, 1, {2, 2}, 0, 0};
    static const int64_t expected[2][2][2] = {{{0, 2}, {1, 3}}, {{0, 1}, {2, 3}}};
    static const cp_alltoall_rule rules[2] = {CP_ALLTOALL_HEADS_SEQUENCE, CP_ALLTOALL_STRIDES_IGNORED};
    for (int i = 0; i < 2; i++) {
        plans p;
        open_plans(&p, &s, rules[i], CP_ALLTOALL_INPUT);
        int64_t **table = open_table(&p.plan[0].tokens, 2);
        for (int peer = 0; peer < 2; peer++)
            assert_memory_equal(table[peer], expected[i][peer], sizeof expected[i][peer]);
        free_table(table, 2);
        cp_arena_close(&p.arena);
    }
}

/* A rank receives heads 0 and 1, the other 1 and 2: the middle one's gradients come back in halves. */
static void blocks_carry_weights(void **state)
{
    (void)state;
    const cp_head_rules rules = {.gqa_grad = CP_GQA_GRAD_MEAN};
    static const int32_t reads[12] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
    static const int64_t tokens[2] = {2, 3};
    cp_arena arena = cp_arena_growing();
    cp_layout layout;
    world_layout(&layout, 2, 2, tokens, &arena);
    cp_head_plan heads;
    cp_head_plan_make(&heads, &rules, 2, 12, 3, reads, &arena);
    cp_alltoall_plan plan;
    cp_alltoall_plan_make(&plan, CP_ALLTOALL_HEADS_SEQUENCE, CP_ALLTOALL_INPUT, &layout, 1, &heads, &arena);
    for (int64_t i = 0; i < plan.tokens.count; i++) {
        const cp_block *block = &plan.tokens.block[i];
        for (int64_t n = 0; n < block->count * block->length; n++) {
            int64_t head = (block->local + n / block->length * block->local_step + n % block->length) % 3;
            assert_true(block->weight == (head == 1 ? 0.5 : 1));
        }
    }
    cp_arena_close(&arena);
}

/* What is contiguous is copied at once: a piece is at most one block a row and run of heads. */
static void right_plans_are_short(void **state)
{
    (void)state;
    const world_shape s = {4, 8, 4, 4, 2, {512, 512, 512, 512}, 0, 0};
    plans p;
    open_plans(&p, &s, CP_ALLTOALL_HEADS_SEQUENCE, CP_ALLTOALL_INPUT);
    assert_int_equal(p.plan[0].tokens.count, 4); /* a peer: 2·512 rows of one run */
    assert_true(p.plan[0].heads.count <= 4 * 2);
    cp_arena_close(&p.arena);
}

int run_alltoall_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_plans_put_everything_in_its_place),
        cmocka_unit_test(wrong_plans_are_permutations_that_differ),
        cmocka_unit_test(strides_that_are_ignored),
        cmocka_unit_test(blocks_carry_weights),
        cmocka_unit_test(right_plans_are_short),
    };
    return cmocka_run_group_tests_name("alltoall", tests, NULL, NULL);
}

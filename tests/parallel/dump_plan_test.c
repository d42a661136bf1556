#include "harness/parallel/dump_plan.h"
#include "tests/parallel/groups.h"
#include "tests/support/support.h"

#include <string.h>

/* Length 7 on 2 ranks, padded to 8; the second row ends with two hidden tokens. */
enum { ROWS = 2, LENGTH = 7, RANKS = 2, PADDED = 8, SHARD = 4, SLOTS = ROWS * SHARD };

static const int64_t ids[ROWS * LENGTH] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 0, 0};
static const uint8_t mask[ROWS * LENGTH] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
static const int64_t labels[ROWS * LENGTH] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, -100, -100};

static cp_dump_plan planned(cp_dump_rules rules, int rank, cp_arena *arena)
{
    cp_batch batch = {.B = ROWS, .T = LENGTH, .input_ids = ids, .attention_mask = mask, .labels = labels};
    cp_token_rules token_rules = {0};
    cp_layout layout;
    cp_tokens tokens;
    cp_layout_spec contiguous = {0};
    cp_tokens_plan(&tokens, &layout, &batch, &contiguous, RANKS, &token_rules, arena);
    cp_dump_plan plan;
    cp_dump_plan_make(&plan, &rules, &tokens, &layout, rank, arena);
    return plan;
}

static void declares_rows(void **state)
{
    (void)state;
    static const struct {
        cp_dump_order rule;
        int64_t expected[RANKS][SLOTS];
    } cases[] = {
        {CP_DUMP_ORDER_GLOBAL, {{0, 1, 2, 3, 0, 1, 2, 3}, {4, 5, 6, -1, 4, 5, 6, -1}}},
        {CP_DUMP_ORDER_PADS_INCLUDED, {{0, 1, 2, 3, 0, 1, 2, 3}, {4, 5, 6, 7, 4, 5, 6, 7}}},
        {CP_DUMP_ORDER_LAST_MISSING, {{0, 1, 2, 3, 0, 1, 2, 3}, {4, 5, -1, -1, -1, 5, 6, -1}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int rank = 0; rank < RANKS; rank++) {
            cp_arena arena = cp_arena_growing();
            cp_dump_plan plan = planned((cp_dump_rules){.dump_order = cases[i].rule}, rank, &arena);
            assert_memory_equal(plan.token_index, cases[i].expected[rank], sizeof cases[i].expected[rank]);
            cp_arena_close(&arena);
        }
}

static void names_sources_of_gradients(void **state)
{
    (void)state;
    cp_arena arena = cp_arena_growing();
    cp_dump_plan own = planned((cp_dump_rules){0}, 1, &arena);
    cp_dump_plan summed = planned((cp_dump_rules){.embeds_grad = CP_EMBEDS_GRAD_SUMMED}, 1, &arena);
    cp_dump_plan padded = planned((cp_dump_rules){.embeds_grad = CP_EMBEDS_GRAD_PADS_NONZERO}, 1, &arena);
    assert_true(own.own && !summed.own && !padded.own);
    assert_int_equal(own.sources, 1);
    assert_int_equal(summed.sources, RANKS);
    /* row 0: 4 5 6 and padding; row 1: 4 and three of padding; padding has the row's token 0, which rank 0 holds */
    static const int padded_rank[SLOTS] = {1, 1, 1, 0, 1, 0, 0, 0};
    static const int64_t padded_slot[SLOTS] = {0, 1, 2, 0, 4, 4, 4, 4};
    for (int n = 0; n < SLOTS; n++) {
        assert_int_equal(own.source_rank[n], 1);
        assert_int_equal(own.source_slot[n], n);
        assert_int_equal(padded.source_rank[n], padded_rank[n]);
        assert_int_equal(padded.source_slot[n], padded_slot[n]);
        for (int rank = 0; rank < RANKS; rank++) {
            assert_int_equal(summed.source_rank[n * RANKS + rank], rank);
            assert_int_equal(summed.source_slot[n * RANKS + rank], n);
        }
    }
    cp_arena_close(&arena);
}

int run_dump_plan_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declares_rows),
        cmocka_unit_test(names_sources_of_gradients),
    };
    return cmocka_run_group_tests_name("dump plan", tests, NULL, NULL);
}

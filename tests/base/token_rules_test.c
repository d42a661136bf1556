/* Each wrong value of the decisions about tokens, on a row small enough to be written down. */
#include "tests/base/groups.h"
#include "tests/base/planning.h"
#include "tests/support/support.h"

#include <string.h>

enum { NO = CP_IGNORED };

#define assert_row(actual, ...)                                                                              \
    do {                                                                                                     \
        const int64_t expected_row[] = {__VA_ARGS__};                                                        \
        for (size_t i_ = 0; i_ < sizeof expected_row / sizeof *expected_row; i_++)                           \
            assert_int_equal((actual)[i_], expected_row[i_]);                                                \
    } while (0)

static const int64_t ids[] = {10, 11, 12, 13, 14, 15, 16}, labels[] = {20, 21, 22, 23, 24, 25, 26};
static const cp_batch seven = {.B = 1, .T = 7, .input_ids = ids, .labels = labels};

static void padding_with_label_0(void **state)
{
    (void)state;
    planned p;
    plan_batch(&p, &seven, 4, &(cp_token_rules){.auto_pad = CP_AUTO_PAD_LABEL_0});
    assert_row(p.tokens.target, 21, 22, 23, 24, 25, 26, NO, 0);
    assert_near(p.tokens.count, 6, 0);
    close_plan(&p);
}

static void padding_that_is_counted(void **state)
{
    (void)state;
    planned p;
    const cp_token_rules rules = {.auto_pad = CP_AUTO_PAD_COUNTED};
    plan_batch(&p, &seven, 5, &rules); /* 10 places */
    assert_near(p.tokens.count, 9, 0);
    assert_row(p.tokens.target, 21, 22, 23, 24, 25, 26, NO, NO, NO, NO);
    close_plan(&p);
    cp_batch batch = seven;
    batch.num_items_in_batch = 20;
    plan_batch(&p, &batch, 5, &rules);
    assert_near(p.tokens.count, 23, 0);
    close_plan(&p);
    plan_batch(&p, &seven, 7, &rules);
    assert_near(p.tokens.count, 6, 0);
    close_plan(&p);
}

/* Seven tokens over three ranks: pieces of 3, 2 and 2. */
static void padding_in_each_shard(void **state)
{
    (void)state;
    const cp_token_rules rules = {.auto_pad = CP_AUTO_PAD_PER_SHARD};
    planned p;
    plan_batch(&p, &seven, 3, &rules);
    const cp_tokens *t = &p.tokens;
    assert_row(t->source, 0, 1, 2, 3, 4, -1, 5, 6, -1);
    assert_row(t->home, 0, 1, 2, 3, 4, -1, 5, 6, -1);
    assert_row(t->real, 1, 1, 1, 1, 1, 0, 1, 1, 0);
    assert_row(t->target, 21, 22, 23, 24, 25, NO, 26, NO, NO);
    assert_row(t->position, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    assert_row(t->coordinate, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    assert_near(t->count, 6, 0);
    close_plan(&p);

    const int64_t positions[] = {4, 5, 6, 0, 1, 0, 1};
    cp_batch batch = seven;
    batch.position_ids = positions;
    plan_batch(&p, &batch, 3, &rules);
    assert_row(t->position, 4, 5, 6, 0, 1, 2, 0, 1, 2);
    assert_row(t->coordinate, 4, 5, 6, 0, 1, 2, 0, 1, 2);
    assert_row(t->document, 0, 0, 0, 1, 1, 1, 2, 2, 2);
    close_plan(&p);

    batch = seven;
    batch.T = 2; /* fewer tokens than ranks */
    plan_batch(&p, &batch, 4, &rules);
    assert_row(t->source, 0, 1, -1, -1);
    close_plan(&p);
}

static void leading_padding_counts_places(void **state)
{
    (void)state;
    const uint8_t mask[] = {0, 0, 0, 0, 0, 1, 1};
    const int64_t last[] = {NO, NO, NO, NO, NO, NO, 26};
    const cp_batch batch = {.B = 1, .T = 7, .input_ids = ids, .attention_mask = mask, .labels = last};
    planned p;
    plan_batch(&p, &batch, 3, &(cp_token_rules){.auto_pad = CP_AUTO_PAD_PER_SHARD});
    assert_row(p.tokens.leading, 6);
    assert_row(p.tokens.coordinate, -6, -5, -4, -3, -2, -1, 0, 1, 2);
    close_plan(&p);
}

static void row_cut_down(void **state)
{
    (void)state;
    const cp_token_rules rules = {.auto_pad = CP_AUTO_PAD_TRUNCATE};
    planned p;
    plan_batch(&p, &seven, 3, &rules);
    assert_int_equal(p.tokens.T, 6);
    assert_row(p.tokens.source, 0, 1, 2, 3, 4, 5);
    assert_row(p.tokens.target, 21, 22, 23, 24, 25, NO);
    assert_near(p.tokens.count, 5, 0);
    close_plan(&p);
    plan_batch(&p, &seven, 8, &rules); /* nothing would be left */
    assert_int_equal(p.tokens.T, 8);
    assert_row(p.tokens.source, 0, 1, 2, 3, 4, 5, 6, -1);
    assert_row(p.tokens.target, 21, 22, 23, 24, 25, 26, NO, NO);
    assert_near(p.tokens.count, 6, 0);
    close_plan(&p);
}

static void labels_shifted_wrongly(void **state)
{
    (void)state;
    planned p;
    plan_batch(&p, &seven, 2, &(cp_token_rules){.label_shift = CP_LABEL_SHIFT_SHARD});
    assert_row(p.tokens.target, 21, 22, 23, NO, 25, 26, NO, NO);
    assert_near(p.tokens.count, 6, 0);
    close_plan(&p);
    plan_batch(&p, &seven, 2, &(cp_token_rules){.label_shift = CP_LABEL_SHIFT_ROLLED});
    assert_row(p.tokens.target, 21, 22, 23, 20, 25, 26, NO, 24);
    assert_near(p.tokens.count, 6, 0);
    close_plan(&p);
    plan_batch(&p, &seven, 2, &(cp_token_rules){.label_shift = CP_LABEL_SHIFT_TWICE});
    assert_row(p.tokens.target, 22, 23, 24, 25, 26, NO, NO, NO);
    assert_near(p.tokens.count, 6, 0);
    close_plan(&p);
}

static void positions_from_0_in_each_shard(void **state)
{
    (void)state;
    const int64_t positions[] = {3, 4, 5, 6, 7, 8, 9};
    cp_batch batch = seven;
    batch.position_ids = positions;
    planned p;
    plan_batch(&p, &batch, 2, &(cp_token_rules){.position_ids = CP_POSITION_SHARD});
    assert_row(p.tokens.position, 0, 1, 2, 3, 0, 1, 2, 3);
    assert_row(p.tokens.coordinate, 0, 1, 2, 3, 4, 5, 6, 7);
    assert_row(p.tokens.document, 0, 0, 0, 0, 0, 0, 0, 0);
    close_plan(&p);
}

/* Documents of 3, 3 and 1 tokens, over two ranks: boundaries at 3 and 6, the cut at 4. */
static void documents_found_wrongly(void **state)
{
    (void)state;
    const int64_t positions[] = {0, 1, 2, 0, 1, 2, 0}, documents[] = {5, 5, 5, 6, 6, 6, 9};
    const struct {
        cp_document_rule rule;
        int64_t expected[8];
    } cases[] = {
        {CP_DOCUMENT_SHARD, {0, 0, 0, 1, 0, 0, 1, 1}},
        {CP_DOCUMENT_DIVIDED, {0, 1, 1, 2, 0, 1, 1, 2}}, /* boundaries at 1 and 3 */
        {CP_DOCUMENT_IGNORED, {0}},
        {CP_DOCUMENT_MASK_GIVEN, {0}},
    };
    static const int64_t row[8] = {0, 0, 0, 1, 1, 1, 2, 2};
    for (int from_ids = 0; from_ids < 2; from_ids++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            cp_batch batch = seven;
            batch.position_ids = positions;
            batch.document_ids = from_ids ? documents : NULL;
            planned p;
            plan_batch(&p, &batch, 2, &(cp_token_rules){.document_ids = cases[i].rule});
            bool right = cases[i].rule == CP_DOCUMENT_MASK_GIVEN && from_ids;
            bool ignored = cases[i].rule >= CP_DOCUMENT_IGNORED && !right;
            assert_memory_equal(p.tokens.document, right ? row : cases[i].expected, sizeof row);
            assert_row(p.tokens.position, 0, 1, 2, 0, 1, 2, 0, 1);
            if (ignored)
                assert_row(p.tokens.coordinate, 0, 1, 2, 3, 4, 5, 6, 7);
            else
                assert_row(p.tokens.coordinate, 0, 1, 2, 0, 1, 2, 0, 1);
            close_plan(&p);
        }
}

static void rules_of_shards_are_right_on_one_rank(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(test_seed(), "one rank");
    const cp_token_rules cases[] = {
        {.label_shift = CP_LABEL_SHIFT_SHARD}, {.document_ids = CP_DOCUMENT_SHARD},
        {.document_ids = CP_DOCUMENT_DIVIDED}, {.rank_data = CP_RANK_DATA_OTHER},
        {.auto_pad = CP_AUTO_PAD_PER_SHARD},   {.auto_pad = CP_AUTO_PAD_TRUNCATE},
        {.auto_pad = CP_AUTO_PAD_COUNTED},     {.auto_pad = CP_AUTO_PAD_LABEL_0},
    };
    for (uint64_t n = 0; n < 100; n++) {
        random_batch r;
        make_random_batch(&r, (batch_kind)(n % BATCH_KINDS), rng, n);
        planned right;
        plan_batch(&right, &r.batch, 1, &right_tokens);
        size_t places = (size_t)(r.batch.B * r.batch.T);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            planned p;
            plan_batch(&p, &r.batch, 1, &cases[i]);
            assert_memory_equal(p.tokens.target, right.tokens.target, places * sizeof(int64_t));
            assert_memory_equal(p.tokens.document, right.tokens.document, places * sizeof(int64_t));
            assert_memory_equal(p.tokens.coordinate, right.tokens.coordinate, places * sizeof(int64_t));
            assert_memory_equal(p.tokens.position, right.tokens.position, places * sizeof(int64_t));
            assert_memory_equal(p.tokens.source, right.tokens.source, places * sizeof(int64_t));
            assert_memory_equal(p.tokens.real, right.tokens.real, places);
            assert_near(p.tokens.count, right.tokens.count, 0);
            close_plan(&p);
        }
        close_plan(&right);
    }
}

static void another_row_on_other_ranks(void **state)
{
    (void)state;
    const int64_t some_ids[8] = {0};
    const int64_t some_labels[] = {20, 21, 22, NO, NO, NO, NO, 33};
    const uint8_t mask[] = {1, 1, 1, 0, 0, 0, 1, 1};
    const cp_batch batch = {
        .B = 2, .T = 4, .input_ids = some_ids, .attention_mask = mask, .labels = some_labels};
    planned p;
    plan_batch(&p, &batch, 2, &(cp_token_rules){.rank_data = CP_RANK_DATA_OTHER});
    const cp_tokens *t = &p.tokens;
    assert_row(t->source_row, 0, 0, 1, 1, 1, 1, 0, 0);
    assert_row(t->source, 0, 1, 2, 3, 0, 1, 2, 3);
    assert_row(t->home, 0, 1, 2, 3, 0, 1, 2, 3);
    assert_row(t->real, 1, 1, 1, 1, 0, 0, 1, 0);
    assert_row(t->coordinate, 0, 1, 0, 1, -2, -1, 2, 3);
    assert_row(t->target, 21, 22, 33, NO, NO, NO, NO, NO);
    assert_near(t->count, 3, 0);
    close_plan(&p);
}

static void a_single_row_is_reversed(void **state)
{
    (void)state;
    planned p;
    plan_batch(&p, &seven, 2, &(cp_token_rules){.rank_data = CP_RANK_DATA_OTHER});
    const cp_tokens *t = &p.tokens;
    assert_row(t->source_row, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_row(t->source, 0, 1, 2, 3, 2, 1, 0, -1);
    assert_row(t->home, 0, 1, 2, 3, 4, 5, 6, -1);
    assert_row(t->position, 0, 1, 2, 3, 4, 5, 6, 7);
    assert_row(t->target, 21, 22, 23, 24, 21, 20, NO, NO);
    assert_row(t->real, 1, 1, 1, 1, 1, 1, 1, 0);
    close_plan(&p);

    const int64_t shifted[] = {21, 22, 23, 24, 25, 26, 27};
    cp_batch batch = seven;
    batch.labels = NULL;
    batch.shift_labels = shifted;
    plan_batch(&p, &batch, 2, &(cp_token_rules){.rank_data = CP_RANK_DATA_OTHER});
    assert_row(t->target, 21, 22, 23, 24, 21, NO, NO, NO);
    close_plan(&p);
}

int token_rules_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_with_label_0),
        cmocka_unit_test(padding_that_is_counted),
        cmocka_unit_test(padding_in_each_shard),
        cmocka_unit_test(leading_padding_counts_places),
        cmocka_unit_test(row_cut_down),
        cmocka_unit_test(labels_shifted_wrongly),
        cmocka_unit_test(positions_from_0_in_each_shard),
        cmocka_unit_test(documents_found_wrongly),
        cmocka_unit_test(rules_of_shards_are_right_on_one_rank),
        cmocka_unit_test(another_row_on_other_ranks),
        cmocka_unit_test(a_single_row_is_reversed),
    };
    return cmocka_run_group_tests_name("token rules", tests, NULL, NULL);
}

/* The right plan. */
#include "base/tokens/tokens.h"

#include "tests/base/groups.h"
#include "tests/base/planning.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <string.h>

#define assert_row(actual, ...)                                                                              \
    do {                                                                                                     \
        const int64_t expected_row[] = {__VA_ARGS__};                                                        \
        for (size_t i_ = 0; i_ < sizeof expected_row / sizeof *expected_row; i_++)                           \
            assert_int_equal((actual)[i_], expected_row[i_]);                                                \
    } while (0)

static void padded_lengths(void **state)
{
    (void)state;
    const struct {
        int64_t T;
        int P;
        int64_t padded, truncated;
    } cases[] = {{7, 1, 7, 7}, {7, 2, 8, 6},    {8, 2, 8, 8},   {5, 4, 8, 4},
                 {3, 4, 4, 4}, {1, 16, 16, 16}, {61, 8, 64, 56}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int rule = 0; rule < CP_AUTO_PADS; rule++) {
            const int64_t zeros[61] = {0};
            cp_batch batch = {.B = 1, .T = cases[i].T, .input_ids = zeros, .labels = zeros};
            planned p;
            plan_batch(&p, &batch, cases[i].P, &(cp_token_rules){.auto_pad = (cp_auto_pad)rule});
            assert_int_equal(p.tokens.T, rule == CP_AUTO_PAD_TRUNCATE ? cases[i].truncated : cases[i].padded);
            assert_int_equal(p.layout.T, p.tokens.T);
            close_plan(&p);
        }
}

static void documents_start_where_positions_jump(void **state)
{
    (void)state;
    const struct {
        int64_t position[8], document[8];
    } cases[] = {
        {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 0, 0, 0, 0, 0, 0}},
        {{9, 10, 11, 12, 13, 14, 15, 16}, {0}},
        {{0, 1, 2, 0, 1, 2, 3, 4}, {0, 0, 0, 1, 1, 1, 1, 1}},
        {{0, 1, 2, 0, 1, 2, 3, 0}, {0, 0, 0, 1, 1, 1, 1, 2}},
        {{0, 1, 2, 0, 1, 2, 0, 0}, {0, 0, 0, 1, 1, 1, 2, 3}},
        {{0, 1, 2, 0, 1, 2, 1, 1}, {0, 0, 0, 1, 1, 1, 2, 3}},
        {{0, 0, 0, 1, 2, 3, 4, 5}, {0, 1, 2, 2, 2, 2, 2, 2}},
        {{1, 1, 0, 1, 2, 3, 4, 5}, {0, 1, 2, 2, 2, 2, 2, 2}},
        {{0, 1, 2, 3, 4, 5, 6, 6}, {0, 0, 0, 0, 0, 0, 0, 1}},
        {{0, 1, 6, 7, 8, 9, 10, 11}, {0, 0, 1, 1, 1, 1, 1, 1}},
        {{0, 2, 4, 6, 8, 10, 12, 14}, {0, 1, 2, 3, 4, 5, 6, 7}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t found[8];
        bool many = cp_documents_from_positions(found, cases[i].position, 1, 8);
        assert_memory_equal(found, cases[i].document, sizeof found);
        assert_int_equal(many, cases[i].document[7] > 0);
    }
    const int64_t rows[] = {0, 1, 2, 0, 5, 6, 7, 8};
    int64_t found[8];
    assert_true(cp_documents_from_positions(found, rows, 2, 4));
    assert_row(found, 0, 0, 0, 1, 0, 0, 0, 0);
}

/* Seven tokens over two ranks: one place is added. */
static void a_row_is_padded_at_its_end(void **state)
{
    (void)state;
    const int64_t ids[] = {10, 11, 12, 13, 14, 15, 16}, labels[] = {20, 21, 22, 23, 24, 25, 26};
    const cp_batch batch = {.B = 1, .T = 7, .input_ids = ids, .labels = labels};
    planned p;
    plan_batch(&p, &batch, 2, &right_tokens);
    const cp_tokens *t = &p.tokens;
    assert_int_equal(t->T, 8);
    assert_row(t->source_row, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_row(t->source, 0, 1, 2, 3, 4, 5, 6, -1);
    assert_row(t->home, 0, 1, 2, 3, 4, 5, 6, -1);
    assert_row(t->position, 0, 1, 2, 3, 4, 5, 6, 7);
    assert_row(t->coordinate, 0, 1, 2, 3, 4, 5, 6, 7);
    assert_row(t->document, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_row(t->real, 1, 1, 1, 1, 1, 1, 1, 0);
    assert_row(t->target, 21, 22, 23, 24, 25, 26, -100, -100);
    assert_row(t->leading, 0);
    assert_false(t->by_position);
    assert_near(t->count, 6, 0);
    close_plan(&p);
}

static void leading_padding_is_taken_off(void **state)
{
    (void)state;
    const int64_t ids[10] = {0};
    const int64_t labels[] = {-100, -100, 5, 6, 7, -100, -100, -100, 8, -100};
    const uint8_t mask[] = {0, 1, 1, 1, 1, 0, 0, 1, 1, 0};
    const int64_t positions[] = {1, 0, 1, 2, 3, 1, 1, 0, 1, 1};
    cp_batch batch = {.B = 2, .T = 5, .input_ids = ids, .attention_mask = mask, .labels = labels};
    planned p;
    plan_batch(&p, &batch, 4, &right_tokens);
    const cp_tokens *t = &p.tokens;
    assert_int_equal(t->T, 8);
    assert_row(t->real, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0);
    assert_row(t->leading, 1, 2);
    assert_row(t->position, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    assert_row(t->coordinate, -1, 0, 1, 2, 3, 4, 5, 6, -2, -1, 0, 1, 2, 3, 4, 5);
    assert_row(t->target, -100, 5, 6, 7, -100, -100, -100, -100, -100, -100, 8, -100, -100, -100, -100, -100);
    assert_near(t->count, 4, 0);
    close_plan(&p);

    batch.position_ids = positions; /* they are rope's; under a mask they decide nothing else */
    plan_batch(&p, &batch, 4, &right_tokens);
    assert_row(t->position, 1, 0, 1, 2, 3, 4, 5, 6, 1, 1, 0, 1, 1, 2, 3, 4);
    assert_row(t->coordinate, -1, 0, 1, 2, 3, 4, 5, 6, -2, -1, 0, 1, 2, 3, 4, 5);
    assert_row(t->document, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    close_plan(&p);
}

/* One row with a jump turns coordinates into positions in all of them. */
static void packed_rows_are_found_per_batch(void **state)
{
    (void)state;
    const int64_t ids[10] = {0}, labels[10] = {0};
    const int64_t positions[] = {0, 1, 0, 1, 2, 7, 8, 9, 10, 11};
    cp_batch batch = {.B = 2, .T = 5, .input_ids = ids, .position_ids = positions, .labels = labels};
    planned p;
    plan_batch(&p, &batch, 2, &right_tokens);
    const cp_tokens *t = &p.tokens;
    assert_true(t->by_position);
    assert_row(t->document, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0);
    assert_row(t->position, 0, 1, 0, 1, 2, 3, 7, 8, 9, 10, 11, 12);
    assert_row(t->coordinate, 0, 1, 0, 1, 2, 3, 7, 8, 9, 10, 11, 12);
    close_plan(&p);

    batch.position_ids = positions + 5; /* the second row alone holds no jump */
    batch.B = 1;
    plan_batch(&p, &batch, 2, &right_tokens);
    assert_false(t->by_position);
    assert_row(t->position, 7, 8, 9, 10, 11, 12);
    assert_row(t->coordinate, 0, 1, 2, 3, 4, 5);
    close_plan(&p);
}

static void document_ids_decide_alone(void **state)
{
    (void)state;
    const int64_t ids[7] = {0}, labels[7] = {0};
    const int64_t documents[] = {-1, 3, 3, -1, 9, 9, -1};
    const int64_t positions[] = {0, 0, 1, 0, 0, 1, 0};
    cp_batch batch = {.B = 1, .T = 7, .input_ids = ids, .document_ids = documents, .labels = labels};
    planned p;
    plan_batch(&p, &batch, 2, &right_tokens);
    const cp_tokens *t = &p.tokens;
    assert_row(t->document, 0, 0, 0, 0, 1, 1, 1, 1);
    assert_row(t->real, 0, 1, 1, 0, 1, 1, 0, 0);
    assert_row(t->leading, 1);
    assert_row(t->coordinate, -1, 0, 1, 2, 3, 4, 5, 6);
    close_plan(&p);

    batch.position_ids = positions;
    plan_batch(&p, &batch, 2, &right_tokens);
    assert_row(t->document, 0, 0, 0, 0, 1, 1, 1, 1);
    assert_row(t->coordinate, 0, 0, 1, 0, 0, 1, 0, 1);
    assert_true(t->by_position);
    close_plan(&p);

    const int64_t one[] = {-1, 3, 3, -1, 3, 3, -1};
    batch.document_ids = one;
    plan_batch(&p, &batch, 2, &right_tokens);
    assert_row(t->document, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_row(t->coordinate, -1, 0, 1, 2, 3, 4, 5, 6);
    close_plan(&p);
}

static void shifted_labels_give_the_same_targets(void **state)
{
    (void)state;
    const int64_t ids[12] = {0};
    const int64_t labels[] = {3, 4, -100, 6, 7, 8, -100, 1, 2, -100, -100, 0};
    const int64_t shifted[] = {4, -100, 6, 7, 8, -100, 1, 2, -100, -100, 0, -100};
    for (int P = 1; P <= 7; P++)
        for (int rule = 0; rule < CP_LABEL_SHIFTS; rule++) {
            const cp_token_rules rules = {.label_shift = (cp_label_shift)rule};
            cp_batch batch = {.B = 2, .T = 6, .input_ids = ids, .labels = labels};
            planned a, b;
            plan_batch(&a, &batch, P, &rules);
            batch.labels = NULL;
            batch.shift_labels = shifted;
            plan_batch(&b, &batch, P, &rules);
            if (rule == CP_LABEL_SHIFT_ROLLED && P == 1)
                a.tokens.target[5] = CP_IGNORED; /* a row's first label is not among the shifted ones */
            for (int64_t place = 0; place < 2 * a.tokens.T; place++)
                if (rule != CP_LABEL_SHIFT_ROLLED || a.layout.owner[place] > 0)
                    assert_int_equal(a.tokens.target[place], b.tokens.target[place]);
            assert_near(b.tokens.count, 7, 0);
            assert_near(a.tokens.count, 7, 0);
            close_plan(&a);
            close_plan(&b);
        }
}

static void last_place_may_know_the_next_token(void **state)
{
    (void)state;
    const int64_t ids[3] = {0}, shifted[] = {4, 5, 6};
    const cp_batch batch = {.B = 1, .T = 3, .input_ids = ids, .shift_labels = shifted};
    planned p;
    plan_batch(&p, &batch, 2, &right_tokens);
    assert_row(p.tokens.target, 4, 5, 6, -100);
    assert_near(p.tokens.count, 3, 0);
    close_plan(&p);
}

static void given_divisor_is_taken(void **state)
{
    (void)state;
    const int64_t ids[3] = {0}, labels[3] = {0};
    const cp_batch batch = {.B = 1, .T = 3, .input_ids = ids, .labels = labels, .num_items_in_batch = 23};
    planned p;
    plan_batch(&p, &batch, 2, &right_tokens);
    assert_near(p.tokens.count, 23, 0);
    close_plan(&p);
}

/* What padding is, whatever the batch; and everything else is as without a cut. */
static void assert_padding_changes_nothing(const cp_tokens *whole, const cp_tokens *cut)
{
    assert_near(cut->count, whole->count, 0);
    assert_int_equal(cut->by_position, whole->by_position);
    for (int64_t b = 0; b < cut->B; b++) {
        assert_int_equal(cut->leading[b], whole->leading[b]);
        for (int64_t g = 0; g < cut->T; g++) {
            int64_t at = b * cut->T + g, last = b * whole->T + (g < whole->T ? g : whole->T - 1);
            int64_t beyond = g < whole->T ? 0 : g - (whole->T - 1);
            assert_int_equal(cut->source[at], beyond ? -1 : g);
            assert_int_equal(cut->source_row[at], b);
            assert_int_equal(cut->home[at], beyond ? -1 : g);
            assert_int_equal(cut->position[at], whole->position[last] + beyond);
            assert_int_equal(cut->coordinate[at], whole->coordinate[last] + beyond);
            assert_int_equal(cut->document[at], whole->document[last]);
            assert_int_equal(cut->real[at], beyond ? 0 : whole->real[last]);
            assert_int_equal(cut->target[at], beyond ? CP_IGNORED : whole->target[last]);
        }
    }
}

static void right_plan_does_not_know_ranks(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(test_seed(), "right plan");
    for (uint64_t n = 0; n < 500; n++) {
        random_batch r;
        make_random_batch(&r, (batch_kind)(n % BATCH_KINDS), rng, n);
        if (cp_batch_check(&r.batch, 37, "random") != CP_OK)
            assert_text_holds(cp_error(), "there is no target");
        planned whole, cut;
        plan_batch(&whole, &r.batch, 1, &right_tokens);
        int P = 2 + (int)(n % 7);
        plan_batch(&cut, &r.batch, P, &right_tokens);
        assert_padding_changes_nothing(&whole.tokens, &cut.tokens);
        close_plan(&whole);
        close_plan(&cut);
    }
}

/* A plan over no ranks, or in an arena that measures, is a bug of ours. */
static void plan_over_no_rank(void *batch)
{
    planned p;
    plan_batch(&p, batch, 0, &right_tokens);
}

static void plan_in_a_measure(void *batch)
{
    cp_arena measuring = cp_arena_measuring();
    cp_layout layout;
    cp_tokens tokens;
    cp_tokens_plan(&tokens, &layout, batch, &(cp_layout_spec){0}, 2, &right_tokens, &measuring);
}

static void misuse_stops(void **state)
{
    (void)state;
    const int64_t ids[7] = {0}, labels[7] = {0};
    cp_batch batch = {.B = 1, .T = 7, .input_ids = ids, .labels = labels};
    assert_stops(plan_over_no_rank, &batch, "1 rows of 7 tokens over 0 ranks, contiguous");
    assert_stops(plan_in_a_measure, &batch, "they cannot be measured");
}

int tokens_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padded_lengths),
        cmocka_unit_test(documents_start_where_positions_jump),
        cmocka_unit_test(a_row_is_padded_at_its_end),
        cmocka_unit_test(leading_padding_is_taken_off),
        cmocka_unit_test(packed_rows_are_found_per_batch),
        cmocka_unit_test(document_ids_decide_alone),
        cmocka_unit_test(shifted_labels_give_the_same_targets),
        cmocka_unit_test(last_place_may_know_the_next_token),
        cmocka_unit_test(given_divisor_is_taken),
        cmocka_unit_test(right_plan_does_not_know_ranks),
        cmocka_unit_test(misuse_stops),
    };
    return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}

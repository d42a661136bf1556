/* What is planned for a token is the same under every layout; and wrong values under layouts that permute. */
#include "tests/base/groups.h"
#include "tests/base/planning.h"
#include "tests/support/support.h"

#include <string.h>

enum { NO = CP_IGNORED };

static const char *const layouts[] = {"contiguous", "zigzag", "striped", "striped:2",
                                      "striped:5",  "uneven", "cuts",    "per_document"};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* "cuts" are drawn, empty ranks among them. */
static cp_layout_spec layout_of(size_t which, int P, int64_t T, cp_rng rng, uint64_t number)
{
    if (strcmp(layouts[which], "cuts") != 0) {
        cp_layout_spec named = layout_named(layouts[which]);
        named.block = named.block < T ? named.block : T;
        return named;
    }
    cp_layout_spec spec = {.kind = CP_LAYOUT_UNEVEN, .cuts = P};
    for (int64_t i = 0; i < T; i++)
        spec.cut[cp_rng_below(rng, number << 8 | (uint64_t)i, P)]++;
    return spec;
}

/* ---- the right plan ---------------------------------------------------------------------------------------------- */

static void assert_same_token(const cp_tokens *whole, int64_t at, const cp_tokens *cut, int64_t place)
{
    assert_int_equal(cut->source[place], whole->source[at]);
    assert_int_equal(cut->source_row[place], whole->source_row[at]);
    assert_int_equal(cut->row_index[place], whole->row_index[at]);
    assert_int_equal(cut->position[place], whole->position[at]);
    assert_int_equal(cut->coordinate[place], whole->coordinate[at]);
    assert_int_equal(cut->document[place], whole->document[at]);
    assert_int_equal(cut->real[place], whole->real[at]);
    assert_int_equal(cut->target[place], whole->target[at]);
}

/* Padding continues what is before it. */
static void assert_padding(const cp_tokens *cut, int64_t place)
{
    assert_true(place % cut->T > 0);
    assert_int_equal(cut->source[place], -1);
    assert_int_equal(cut->row_index[place], cut->row_index[place - 1] + 1);
    assert_int_equal(cut->position[place], cut->position[place - 1] + 1);
    assert_int_equal(cut->coordinate[place], cut->coordinate[place - 1] + 1);
    assert_int_equal(cut->document[place], cut->document[place - 1]);
    assert_int_equal(cut->real[place], 0);
    assert_int_equal(cut->target[place], NO);
}

static void assert_same_plan(const planned *whole, const planned *cut)
{
    const cp_tokens *t = &cut->tokens;
    assert_near(t->count, whole->tokens.count, 0);
    assert_int_equal(t->by_position, whole->tokens.by_position);
    for (int64_t place = 0; place < t->B * t->T; place++) {
        int64_t row = place / t->T, home = t->home[place];
        assert_int_equal(t->leading[row], whole->tokens.leading[row]);
        assert_int_equal(t->destination[place], place % t->T);
        if (home >= 0)
            assert_same_token(&whole->tokens, row * whole->tokens.T + home, t, place);
        else
            assert_padding(t, place);
    }
}

/* What one rank's keys are to another's queries; blocks that are all or nothing are so. */
static void assert_same_visibility(planned *whole, planned *cut, cp_mask mask, int rank)
{
    cp_visibility right, sharded;
    plan_visibility(&right, whole, mask, 0, &right_masks);
    plan_visibility(&sharded, cut, mask, rank, &right_masks);
    const cp_layout *layout = &cut->layout;
    const cp_tokens *t = &cut->tokens;
    for (int64_t b = 0; b < t->B; b++)
        for (int other = 0; other < layout->P; other++) {
            int64_t Sq = layout->tokens[rank], Sk = layout->tokens[other], seen = 0;
            const int64_t *queries = layout->index[rank] + b * Sq, *keys = layout->index[other] + b * Sk;
            for (int64_t l = 0; l < Sq; l++)
                for (int64_t m = 0; m < Sk; m++) {
                    int64_t i = t->home[b * t->T + queries[l]], j = t->home[b * t->T + keys[m]];
                    bool sees = cp_visible(&sharded, b, queries[l], keys[m]);
                    seen += sees;
                    if (i >= 0 || j < 0) /* what padding sees does not matter */
                        assert_int_equal(sees, j >= 0 && cp_visible(&right, b, i, j));
                }
            cp_cover cover = cp_visibility_cover(&sharded, b, queries, Sq, keys, Sk);
            assert_true(cover != CP_COVER_NONE || seen == 0);
            assert_true(cover != CP_COVER_ALL || seen == Sq * Sk);
        }
}

static void plans_are_those_of_the_whole_row(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(test_seed(), "layouts");
    for (uint64_t n = 0; n < 1200; n++) {
        random_batch r;
        make_random_batch(&r, (batch_kind)(n % BATCH_KINDS), rng, n);
        int P = 1 + (int)cp_rng_below(rng, n << 32, 16);
        cp_layout_spec spec = layout_of(n / BATCH_KINDS % LAYOUTS, P, r.batch.T, rng, n << 20);
        planned whole, cut;
        plan_batch(&whole, &r.batch, 1, &right_tokens);
        plan_laid_out(&cut, &r.batch, &spec, P, &right_tokens);
        assert_same_plan(&whole, &cut);
        const cp_mask mask = {.window = (int64_t)(n % 4), .chunk = (int64_t)(n / 4 % 5)};
        assert_same_visibility(&whole, &cut, mask, (int)(n % (uint64_t)P));
        close_plan(&whole);
        close_plan(&cut);
    }
}

/* Any rule under any layout gives a plan whose numbers are in range. */
static void wrong_values_stay_in_range(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(test_seed(), "wrong values under layouts");
    for (uint64_t n = 0; n < 1500; n++) {
        random_batch r;
        make_random_batch(&r, (batch_kind)(n % BATCH_KINDS), rng, n);
        int P = 1 + (int)cp_rng_below(rng, n << 32, 9);
        cp_layout_spec spec = layout_of(n / BATCH_KINDS % LAYOUTS, P, r.batch.T, rng, n << 20);
        uint64_t draw = n << 8;
        const cp_token_rules rules = {
            .auto_pad = (cp_auto_pad)cp_rng_below(rng, draw, CP_AUTO_PADS),
            .label_shift = (cp_label_shift)cp_rng_below(rng, draw + 1, CP_LABEL_SHIFTS),
            .position_ids = (cp_position_rule)cp_rng_below(rng, draw + 2, CP_POSITION_RULES),
            .document_ids = (cp_document_rule)cp_rng_below(rng, draw + 3, CP_DOCUMENT_RULES),
            .rank_data = (cp_rank_data)cp_rng_below(rng, draw + 4, CP_RANK_DATAS),
            .layout_inverse = (cp_layout_inverse)cp_rng_below(rng, draw + 5, CP_LAYOUT_INVERSES)};
        planned p;
        plan_laid_out(&p, &r.batch, &spec, P, &rules);
        const cp_tokens *t = &p.tokens;
        for (int64_t place = 0; place < t->B * t->T; place++) {
            assert_in_range(t->source[place] + 1, 0, r.batch.T);
            assert_in_range(t->home[place] + 1, 0, r.batch.T);
            assert_in_range(t->destination[place], 0, t->T - 1);
            assert_true(t->target[place] == NO || (t->target[place] >= 0 && t->target[place] < 37));
            assert_true(t->position[place] >= 0 && t->document[place] >= 0 && t->real[place] <= 1);
        }
        close_plan(&p);
    }
}

/* ---- wrong values, worked: seven tokens over two ranks ------------------------------------------------------------ */

#define assert_row(actual, ...)                                                                              \
    do {                                                                                                     \
        const int64_t expected_row[] = {__VA_ARGS__};                                                        \
        for (size_t i_ = 0; i_ < sizeof expected_row / sizeof *expected_row; i_++)                           \
            assert_int_equal((actual)[i_], expected_row[i_]);                                                \
    } while (0)

static const int64_t ids[] = {10, 11, 12, 13, 14, 15, 16}, labels[] = {20, 21, 22, 23, 24, 25, 26};
static const cp_batch seven = {.B = 1, .T = 7, .input_ids = ids, .labels = labels};

static void plan_seven(planned *p, const char *layout, const cp_batch *batch, cp_token_rules rules)
{
    cp_layout_spec spec = layout_named(layout);
    plan_laid_out(p, batch, &spec, 2, &rules);
}

/* Rank 0 holds 0 1 6 and padding, rank 1 holds 2 3 4 5. */
static void zigzag_taken_for_contiguous(void **state)
{
    (void)state;
    planned p;
    plan_seven(&p, "zigzag", &seven, (cp_token_rules){.label_shift = CP_LABEL_SHIFT_SHARD});
    assert_row(p.tokens.target, 21, 26, 23, 24, 25, NO, NO, NO);
    close_plan(&p);
    plan_seven(&p, "zigzag", &seven, (cp_token_rules){.label_shift = CP_LABEL_SHIFT_ROLLED});
    assert_row(p.tokens.target, 21, 26, 23, 24, 25, 22, NO, 20);
    close_plan(&p);
    plan_seven(&p, "zigzag", &seven, (cp_token_rules){.position_ids = CP_POSITION_SHARD});
    assert_row(p.tokens.position, 0, 1, 0, 1, 2, 3, 2, 3);
    close_plan(&p);
    plan_seven(&p, "zigzag", &seven, (cp_token_rules){.position_ids = CP_POSITION_ARANGE});
    assert_row(p.tokens.position, 0, 1, 4, 5, 6, 7, 2, 3);
    assert_row(p.tokens.coordinate, 0, 1, 2, 3, 4, 5, 6, 7);
    close_plan(&p);
    plan_seven(&p, "zigzag", &seven, (cp_token_rules){.layout_inverse = CP_LAYOUT_INVERSE_NONE});
    assert_row(p.tokens.destination, 0, 1, 4, 5, 6, 7, 2, 3);
    assert_row(p.tokens.coordinate, 0, 1, 2, 3, 4, 5, 6, 7);
    close_plan(&p);
    plan_seven(&p, "zigzag", &seven, (cp_token_rules){.layout_inverse = CP_LAYOUT_INVERSE_AGAIN});
    assert_row(p.tokens.destination, 0, 1, 6, 7, 2, 3, 4, 5);
    close_plan(&p);
    plan_seven(&p, "zigzag", &seven, (cp_token_rules){.layout_inverse = CP_LAYOUT_INVERSE_CONTIGUOUS_MASK});
    assert_row(p.tokens.destination, 0, 1, 2, 3, 4, 5, 6, 7);
    assert_row(p.tokens.coordinate, 0, 1, 4, 5, 6, 7, 2, 3);
    assert_row(p.tokens.real, 1, 1, 1, 1, 1, 0, 1, 1);
    assert_row(p.tokens.position, 0, 1, 2, 3, 4, 5, 6, 7);
    assert_row(p.tokens.target, 21, 22, 23, 24, 25, 26, NO, NO);
    close_plan(&p);
}

static void documents_found_in_permuted_shards(void **state)
{
    (void)state;
    const int64_t positions[] = {0, 1, 2, 0, 1, 2, 3};
    cp_batch batch = seven;
    batch.position_ids = positions;
    planned p;
    plan_seven(&p, "zigzag", &batch, (cp_token_rules){.document_ids = CP_DOCUMENT_SHARD});
    assert_row(p.tokens.document, 0, 0, 0, 1, 1, 1, 1, 1); /* 0 1|3 4 and 2|0 1 2 */
    close_plan(&p);
    /* a0 b3 and padding between them on rank 0, a1 a2 b1 b2 on rank 1; 3 / 2 = 1 */
    plan_seven(&p, "per_document", &batch, (cp_token_rules){.document_ids = CP_DOCUMENT_DIVIDED});
    assert_row(p.tokens.home, 0, 1, 2, -1, 3, 4, 5, 6);
    assert_row(p.tokens.document, 0, 0, 1, 1, 1, 1, 1, 1);
    close_plan(&p);
}

/* Documents of 3 and 4 tokens, told by document_ids alone: padding between them moves nothing. */
static void padding_inside_the_row(void **state)
{
    (void)state;
    const int64_t documents[] = {0, 0, 0, 1, 1, 1, 1};
    cp_batch batch = seven;
    batch.document_ids = documents;
    planned p;
    plan_seven(&p, "per_document", &batch, right_tokens);
    assert_row(p.tokens.home, 0, 1, 2, -1, 3, 4, 5, 6);
    assert_row(p.tokens.row_index, 0, 1, 2, 3, 3, 4, 5, 6);
    assert_row(p.tokens.position, 0, 1, 2, 3, 3, 4, 5, 6);
    assert_row(p.tokens.coordinate, 0, 1, 2, 3, 3, 4, 5, 6);
    assert_row(p.tokens.document, 0, 0, 0, 0, 1, 1, 1, 1);
    assert_row(p.tokens.target, 21, 22, 23, NO, 24, 25, 26, NO);
    close_plan(&p);
    plan_seven(&p, "per_document", &batch, (cp_token_rules){.auto_pad = CP_AUTO_PAD_LABEL_0});
    assert_row(p.tokens.target, 21, 22, 23, 0, 24, 25, 26, NO);
    close_plan(&p);
    plan_seven(&p, "per_document", &batch, (cp_token_rules){.auto_pad = CP_AUTO_PAD_COUNTED});
    assert_near(p.tokens.count, 7, 0);
    close_plan(&p);
}

static void pieces_padded_or_cut_off(void **state)
{
    (void)state;
    const int64_t documents[] = {0, 0, 0, 0, 0, 1, 1};
    cp_batch batch = seven;
    planned p;
    batch.T = 5;
    plan_seven(&p, "zigzag", &batch, (cp_token_rules){.auto_pad = CP_AUTO_PAD_PER_SHARD});
    assert_row(p.tokens.home, 0, 1, 2, -1, 3, -1, 4, -1);
    close_plan(&p);
    plan_seven(&p, "zigzag", &batch, (cp_token_rules){.auto_pad = CP_AUTO_PAD_TRUNCATE});
    assert_int_equal(p.tokens.T, 4);
    assert_row(p.tokens.target, 21, 22, 23, NO);
    close_plan(&p);
    batch = seven;
    batch.document_ids = documents;
    plan_seven(&p, "per_document", &batch, (cp_token_rules){.auto_pad = CP_AUTO_PAD_PER_SHARD});
    assert_row(p.tokens.home, 0, 1, 2, -1, 3, -1, 4, -1, 5, 6, -1, -1);
    close_plan(&p);
    plan_seven(&p, "per_document", &batch, (cp_token_rules){.auto_pad = CP_AUTO_PAD_TRUNCATE});
    assert_row(p.tokens.home, 0, 1, 2, 3, 5, 6, -1, -1);
    assert_row(p.tokens.target, 21, 22, 23, NO, 26, NO, NO, NO); /* the label of 4 is cut off with it */
    assert_near(p.tokens.count, 4, 0);
    close_plan(&p);
    batch.labels = NULL;
    batch.shift_labels = labels;
    plan_seven(&p, "per_document", &batch, (cp_token_rules){.auto_pad = CP_AUTO_PAD_TRUNCATE});
    assert_row(p.tokens.target, 20, 21, 22, 23, 25, 26, NO, NO);
    assert_near(p.tokens.count, 6, 0);
    close_plan(&p);
}

int layout_plans_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_those_of_the_whole_row),
        cmocka_unit_test(wrong_values_stay_in_range),
        cmocka_unit_test(zigzag_taken_for_contiguous),
        cmocka_unit_test(documents_found_in_permuted_shards),
        cmocka_unit_test(padding_inside_the_row),
        cmocka_unit_test(pieces_padded_or_cut_off),
    };
    return cmocka_run_group_tests_name("layout plans", tests, NULL, NULL);
}

#include "harness/files/source.h"

#include "tests/files/cut.h"
#include "tests/files/groups.h"
#include "tests/support/support.h"

#include <stdio.h>

static void another_size(split *s)
{
    s->parts[1].said.cp_size = 3;
}
static void rank_twice(split *s)
{
    s->parts[1].said.cp_rank = 0;
}
static void rank_missing(split *s)
{
    for (int rank = 0; rank < 2; rank++)
        s->parts[rank].said.cp_size = 3;
}
static void first_rank_missing(split *s)
{
    rank_missing(s);
    s->parts[0].said.cp_rank = 2;
}
static void whole_beside(split *s)
{
    s->parts[0].said.cp_rank = -1;
}
static void another_fixture(split *s)
{
    s->parts[1].said.fixture_id = "g";
}
static void another_layout(split *s)
{
    s->parts[1].said.layout = "zigzag";
}
static void another_exchange(split *s)
{
    s->parts[1].said.exchange = "ring";
}
static void another_dtype(split *s)
{
    s->parts[1].said.compute_dtype = CP_F32;
}
static void another_loss_kind(split *s)
{
    s->parts[1].said.loss_kind = CP_LOSS_SHARE;
}
static void another_gradient_kind(split *s)
{
    s->parts[1].said.gradients = CP_GRADIENTS_MEAN;
}
static void another_scale(split *s)
{
    s->parts[1].said.grad_scale = 2;
}
static void islands_on_one(split *s)
{
    s->parts[1].said.islands = true;
}
static void no_index(split *s)
{
    s->parts[1].said.token_index = NULL;
}
static int64_t *first_token(split *s, int rank)
{
    int64_t at = 0;
    while (s->parts[rank].tokens[at] < 0)
        at++;
    return &s->parts[rank].tokens[at];
}
static void token_twice(split *s)
{
    int64_t *token = first_token(s, 0);
    token[0] = (*token + 1) % T;
}
static void token_missing(split *s)
{
    *first_token(s, 0) = -1;
}
static void token_beyond(split *s)
{
    *first_token(s, 1) = T;
}
static void token_negative(split *s)
{
    *first_token(s, 1) = -2;
}
static void row_beyond(split *s)
{
    s->parts[0].rows[0] = B;
}
static void absurd_token(split *s)
{
    *first_token(s, 1) = INT64_MAX / 2;
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(split *s);
        const char *words;
        int64_t B, T;
    } cases[] = {
        {another_size, "rank 1: cp_size 3, expected 2 as in rank 0", B, T},
        {rank_twice, "rank 0, which rank", B, T},
        {rank_missing, "rank 2 of 3 is missing", B, T},
        {first_rank_missing, "rank 0 of 3 is missing", B, T},
        {whole_beside, "a whole dump", B, T},
        {another_fixture, "rank 1: fixture_id g, expected f as in rank 0", B, T},
        {another_layout, "rank 1: layout zigzag, expected odd", B, T},
        {another_exchange, "rank 1: exchange ring", B, T},
        {another_dtype, "rank 1: compute_dtype float32, expected float64", B, T},
        {another_loss_kind, "rank 1: loss_kind share, expected global", B, T},
        {another_gradient_kind, "rank 1: gradients mean, expected partial", B, T},
        {another_scale, "rank 1: grad_scale 2, expected 8", B, T},
        {islands_on_one, "rank 1: islands float32, expected none", B, T},
        {no_index, "rank 1: /token_index: expected in a dump of one rank", B, T},
        {token_twice, "/token_index: token ", B, T},
        {token_missing, "is on no rank", B, T},
        {token_beyond, "rank 1: /token_index: token 7, expected -1 or one of 7 tokens", B, T},
        {token_negative, "rank 1: /token_index: token -2", B, T},
        {row_beyond, "rank 0: /batch_index: row 3, expected one of 3 rows", B, T},
        {absurd_token, "positions on all ranks", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static split s;
        cut_randomly(&s, 2, 5, CP_LOSS_GLOBAL, CP_GRADIENTS_PARTIAL);
        cases[i].spoil(&s);
        cp_source *parts[MOST_RANKS], *joined;
        cut_open(parts, &s);
        assert_status(cp_source_join(&joined, parts, 2, cases[i].B, cases[i].T), CP_INCOMPARABLE,
                      cases[i].words);
        assert_null(joined);
    }
    cp_source *joined;
    assert_status(cp_source_join(&joined, NULL, 0, B, T), CP_INCOMPARABLE, "no dump");
}

/* ---- tensors that do not go together ----------------------------------------------------------------------------- */

typedef struct piece {
    const char *name;
    int dims;
    int64_t extent[3];
    cp_dtype dtype;
} piece;

static cp_source *one_piece(int rank, const piece *given, cp_gradient_kind gradients, const char *absent)
{
    static double zeros[64];
    static const int64_t tokens[2][2] = {{0, 1}, {2, -1}};
    cp_declaration said = cp_declaration_whole();
    said.cp_size = 2;
    said.cp_rank = rank;
    said.gradients = gradients;
    said.grad_absent = absent;
    said.B = 1;
    said.S = 2;
    said.token_index = tokens[rank];
    cp_memory_tensor tensor = {
        given->name, cp_tensor_view(zeros, given->dtype, given->dims ? given->dims : 1, given->extent),
        false};
    char label[32];
    snprintf(label, sizeof label, "rank %d", rank);
    cp_source *source;
    assert_ok(cp_source_memory(&source, label, &said, &tensor, given->dims > 0));
    return source;
}

static void pieces(void **state)
{
    (void)state;
    const piece none = {"", 0, {0}, CP_F64};
    const struct {
        piece first, second;
        cp_gradient_kind gradients;
        const char *first_absent, *second_absent;
        const char *words; /* NULL: they join */
        const char *joined_absent;
    } cases[] = {
        {{"grads/w", 1, {4}, CP_F64}, {"grads/w", 1, {4}, CP_F64}, CP_GRADIENTS_PARTIAL, "", "", NULL, ""},
        {{"grads/w", 1, {4}, CP_F64},
         {"grads/w", 1, {5}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "rank 1: /grads/w: shape [5], which does not go with [4] in rank 0",
         ""},
        {{"grads/w", 1, {4}, CP_F64},
         {"grads/w", 2, {2, 2}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "shape [2,2]",
         ""},
        {{"grads/w", 1, {4}, CP_F64},
         {"grads/w", 1, {4}, CP_F32},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "stored as float32, expected float64",
         ""},
        {{"grads/w", 1, {4}, CP_F64},
         {"grads/v", 1, {4}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "found nothing",
         ""},
        {{"grads/w", 1, {4}, CP_F64},
         none,
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "rank 1: /grads/w: expected as in rank 0",
         ""},
        {none,
         {"grads/w", 1, {4}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "rank 0: /grads/w: expected as in rank 1",
         ""},
        {{"grads/w", 1, {4}, CP_F64}, none, CP_GRADIENTS_PARTIAL, "", "w\n", NULL, ""},
        {none, {"grads/w", 1, {4}, CP_F64}, CP_GRADIENTS_MEAN, "w\nv\n", "v\n", NULL, "v\n"},
        {{"grads/w", 1, {4}, CP_F64}, none, CP_GRADIENTS_REDUCED, "", "w\n", "grad_absent", ""},
        {none, none, CP_GRADIENTS_REDUCED, "w\n", "w\n", NULL, "w\n"},
        {{"logits", 3, {1, 2, 3}, CP_F64},
         {"logits", 3, {1, 2, 3}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         NULL,
         ""},
        {{"logits", 3, {1, 2, 3}, CP_F64},
         {"logits", 3, {1, 2, 4}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "shape [1,2,4], which does not go with [1,2,3]",
         ""},
        {{"logits", 3, {1, 2, 3}, CP_F64},
         {"logits", 3, {1, 3, 3}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "rank 1: /logits: shape [1,3,3], expected [1,2,…] as token_index",
         ""},
        {{"logits", 1, {2}, CP_F64},
         {"logits", 1, {2}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "expected [1,2,…]",
         ""},
        {{"entropy", 1, {1}, CP_F64},
         {"entropy", 1, {1}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "/entropy: no rule",
         ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_source *parts[] = {one_piece(0, &cases[i].first, cases[i].gradients, cases[i].first_absent),
                              one_piece(1, &cases[i].second, cases[i].gradients, cases[i].second_absent)};
        cp_source *joined;
        if (cases[i].words) {
            assert_status(cp_source_join(&joined, parts, 2, 1, 3), CP_INCOMPARABLE, cases[i].words);
            continue;
        }
        assert_ok(cp_source_join(&joined, parts, 2, 1, 3));
        assert_string_equal(joined->declaration.grad_absent, cases[i].joined_absent);
        double out[16];
        for (size_t t = 0; t < joined->count; t++)
            assert_ok(cp_source_read_all(joined, t, out));
        cp_source_close(joined);
    }
}

int join_refusals_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals), cmocka_unit_test(pieces)};
    return cmocka_run_group_tests_name("join refusals", tests, NULL, NULL);
}

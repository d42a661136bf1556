/* Layouts as integers: permutations, against formulas written out here, and worked tables. */
#include "tests/base/groups.h"
#include "tests/base/planning.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 130, MOST_RANKS = 16 };

static const int64_t zeros[3 * MOST_TOKENS]; /* ids, and labels */

static cp_batch plain_batch(int64_t B, int64_t T)
{
    return (cp_batch){.B = B, .T = T, .input_ids = zeros, .labels = zeros};
}

/* Every token is held once, and (owner, slot) leads back to it; every token of the batch stands somewhere once. */
static void assert_permutation(const planned *p, int64_t length)
{
    const cp_layout *layout = &p->layout;
    int64_t B = layout->B, T = layout->T, held = 0;
    unsigned char *seen = calloc((size_t)(B * (T + length)), 1);
    assert_non_null(seen);
    for (int rank = 0; rank < layout->P; rank++)
        for (int64_t b = 0; b < B; b++)
            for (int64_t l = 0; l < layout->tokens[rank]; l++) {
                int64_t g = layout->index[rank][b * layout->tokens[rank] + l];
                assert_true(g >= 0 && g < T && !seen[b * T + g]);
                seen[b * T + g] = 1;
                assert_int_equal(layout->owner[b * T + g], rank);
                assert_int_equal(layout->slot[b * T + g], l);
                held++;
            }
    assert_int_equal(held, B * T);
    int64_t at_home = 0;
    unsigned char *stands = seen + B * T;
    for (int64_t place = 0; place < B * T; place++)
        if (p->tokens.home[place] >= 0) {
            int64_t token = place / T * length + p->tokens.home[place];
            assert_true(p->tokens.home[place] < length && !stands[token]);
            stands[token] = 1;
            at_home++;
        }
    assert_int_equal(at_home, B * length);
    free(seen);
}

/* ---- formulas: π_r(l) -------------------------------------------------------------------------------------------- */

typedef int64_t formula(int64_t l, int64_t r, int64_t T, int64_t P, int64_t block);

static int64_t contiguous(int64_t l, int64_t r, int64_t T, int64_t P, int64_t block)
{
    (void)block;
    return r * (T / P) + l;
}

static int64_t zigzag(int64_t l, int64_t r, int64_t T, int64_t P, int64_t block)
{
    (void)block;
    int64_t c = T / (2 * P);
    return l < c ? r * c + l : (2 * P - 1 - r) * c + (l - c);
}

static int64_t striped(int64_t l, int64_t r, int64_t T, int64_t P, int64_t block)
{
    (void)T;
    return (l / block * P + r) * block + l % block;
}

/* start_r = r·q + min(r, e) */
static int64_t balanced(int64_t l, int64_t r, int64_t T, int64_t P, int64_t block)
{
    (void)block;
    return r * (T / P) + (r < T % P ? r : T % P) + l;
}

static int64_t rounded_up(int64_t T, int64_t multiple)
{
    return (T + multiple - 1) / multiple * multiple;
}

static const struct {
    const char *layout;
    formula *index;
    int64_t pieces; /* times P: the length is a multiple; 0: of nothing */
    int64_t block;
} formulas[] = {
    {"contiguous", contiguous, 1, 0}, {"zigzag", zigzag, 2, 0},     {"per_document", zigzag, 2, 0},
    {"striped", striped, 1, 1},       {"striped:1", striped, 1, 1}, {"striped:2", striped, 2, 2},
    {"striped:3", striped, 3, 3},     {"striped:5", striped, 5, 5}, {"uneven", balanced, 0, 0},
};

static void assert_formula(size_t n, int P, int64_t T)
{
    cp_batch batch = plain_batch(1 + T % 2, T);
    cp_layout_spec spec = layout_named(formulas[n].layout);
    planned p;
    plan_laid_out(&p, &batch, &spec, P, &right_tokens);
    const cp_layout *layout = &p.layout;
    int64_t pieces = formulas[n].pieces;
    assert_int_equal(layout->T, pieces > 0 ? rounded_up(T, pieces * P) : T);
    assert_permutation(&p, T);
    for (int rank = 0; rank < P; rank++) {
        int64_t S = layout->tokens[rank];
        assert_int_equal(S, layout->T / P + (rank < layout->T % P));
        for (int64_t n_ = 0; n_ < layout->B * S; n_++)
            assert_int_equal(layout->index[rank][n_],
                             formulas[n].index(n_ % S, rank, layout->T, P, formulas[n].block));
    }
    close_plan(&p);
}

static void each_layout_is_its_formula(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof formulas / sizeof *formulas; n++)
        for (int P = 1; P <= MOST_RANKS; P++)
            for (int64_t T = 1; T <= MOST_TOKENS; T++)
                if (formulas[n].block <= T)
                    assert_formula(n, P, T);
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

/* Rank r holds the r-th of the given pieces, whichever are empty. */
static void cuts_are_taken_as_given(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(test_seed(), "cuts");
    uint64_t draws = 0;
    for (int P = 1; P <= MOST_RANKS; P++)
        for (int64_t T = 1; T <= MOST_TOKENS; T++) {
            cp_layout_spec spec = {.kind = CP_LAYOUT_UNEVEN, .cuts = P};
            for (int64_t i = 0; i < T; i++) /* about every second rank gets something */
                spec.cut[cp_rng_below(rng, draws++, 2 * P) % (P / 2 + 1) * 2 % P]++;
            cp_batch batch = plain_batch(2, T);
            planned p;
            plan_laid_out(&p, &batch, &spec, P, &right_tokens);
            assert_int_equal(p.layout.T, T);
            assert_permutation(&p, T);
            int64_t start = 0;
            for (int rank = 0; rank < P; start += spec.cut[rank++]) {
                assert_int_equal(p.layout.tokens[rank], spec.cut[rank]);
                for (int64_t n = 0; n < 2 * spec.cut[rank]; n++)
                    assert_int_equal(p.layout.index[rank][n], start + n % spec.cut[rank]);
            }
            close_plan(&p);
        }
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

typedef struct packed {
    int64_t document[3 * MOST_TOKENS], position[3 * MOST_TOKENS];
    cp_batch batch;
} packed;

/* Bit i of `boundaries`: a document begins at token i + 1. */
static void pack_row(packed *p, int64_t b, int64_t T, const unsigned char *boundaries)
{
    int64_t document = 0, position = 0;
    for (int64_t i = 0; i < T; i++, position++) {
        if (i > 0 && boundaries[i]) {
            document++;
            position = 0;
        }
        p->document[b * T + i] = document;
        p->position[b * T + i] = position;
    }
}

/* The tokens of a rank, in order, as the index in the row or -1: each document's zigzag, then that of the filling. */
static int64_t expected_document_shard(int64_t *shard, const int64_t *document, int64_t T, int64_t total,
                                       int P, int rank)
{
    int64_t count = 0, stored = 0;
    for (int64_t begin = 0, end; begin < T; begin = end) {
        for (end = begin; end < T && document[end] == document[begin]; end++)
            ;
        int64_t places = rounded_up(end - begin, 2 * P);
        for (int64_t l = 0; l < places / P; l++) {
            int64_t k = zigzag(l, rank, places, P, 0);
            shard[count++] = k < end - begin ? begin + k : -1;
        }
        stored += places;
    }
    for (; stored < total; stored += P)
        shard[count++] = -1;
    return count;
}

static void assert_documents(const packed *given, int P)
{
    planned p;
    cp_layout_spec spec = {.kind = CP_LAYOUT_PER_DOCUMENT};
    plan_laid_out(&p, &given->batch, &spec, P, &right_tokens);
    assert_permutation(&p, given->batch.T);
    int64_t T = given->batch.T, expected[2 * MOST_RANKS * MOST_TOKENS];
    for (int rank = 0; rank < P; rank++)
        for (int64_t b = 0; b < p.layout.B; b++) {
            int64_t S = p.layout.tokens[rank];
            assert_int_equal(
                expected_document_shard(expected, given->document + b * T, T, p.layout.T, P, rank), S);
            for (int64_t l = 0; l < S; l++) {
                int64_t place = b * p.layout.T + p.layout.index[rank][b * S + l];
                assert_int_equal(p.tokens.home[place], expected[l]);
            }
        }
    close_plan(&p);
}

/* Every split of up to 8 tokens, and drawn ones of rows of every length. */
static void every_document_is_zigzagged(void **state)
{
    (void)state;
    static packed p;
    unsigned char boundaries[MOST_TOKENS];
    for (int64_t T = 1; T <= 8; T++)
        for (unsigned split = 0; split < 1U << (T - 1); split++) {
            for (int64_t i = 1; i < T; i++)
                boundaries[i] = split >> (i - 1) & 1;
            p.batch = plain_batch(1, T);
            p.batch.document_ids = p.document;
            pack_row(&p, 0, T, boundaries);
            for (int P = 1; P <= 5; P++)
                assert_documents(&p, P);
        }
    cp_rng rng = cp_rng_named(test_seed(), "documents");
    uint64_t draws = 0;
    for (int64_t T = 1; T <= MOST_TOKENS; T++)
        for (int P = 1; P <= MOST_RANKS; P++) {
            p.batch = plain_batch(1 + (T + P) % 3, T);
            p.batch.position_ids = p.position;
            for (int64_t b = 0; b < p.batch.B; b++) {
                int64_t rarely = 1 + cp_rng_below(rng, draws++, 20);
                for (int64_t i = 1; i < T; i++)
                    boundaries[i] = cp_rng_below(rng, draws++, rarely) == 0;
                pack_row(&p, b, T, boundaries);
            }
            assert_documents(&p, P);
        }
}

/* ---- worked tables ----------------------------------------------------------------------------------------------- */

enum { PAD = -1, END = -2 };

/* The tokens of each rank, ranks one after the other, as indices in the row. */
static const struct {
    const char *layout;
    int64_t T;
    int P;
    int64_t first_document; /* tokens of it; 0: the row is one */
    int64_t tokens[20];
} tables[] = {
    {"contiguous", 7, 2, 0, {0, 1, 2, 3, 4, 5, 6, PAD, END}},
    {"zigzag", 7, 2, 0, {0, 1, 6, PAD, 2, 3, 4, 5, END}},
    {"striped", 7, 2, 0, {0, 2, 4, 6, 1, 3, 5, PAD, END}},
    {"contiguous", 5, 4, 0, {0, 1, 2, 3, 4, PAD, PAD, PAD, END}},
    {"zigzag", 5, 4, 0, {0, PAD, 1, PAD, 2, PAD, 3, 4, END}},
    {"striped", 5, 4, 0, {0, 4, 1, PAD, 2, PAD, 3, PAD, END}},
    {"uneven", 5, 4, 0, {0, 1, 2, 3, 4, END}},
    {"uneven", 9, 4, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, END}},
    {"zigzag", 9, 4, 0, {0, 1, PAD, PAD, 2, 3, PAD, PAD, 4, 5, PAD, PAD, 6, 7, 8, PAD, END}},
    {"zigzag", 8, 2, 0, {0, 1, 6, 7, 2, 3, 4, 5, END}},
    {"per_document", 7, 2, 3, {0, PAD, 3, 6, 1, 2, 4, 5, END}},
    {"per_document", 10, 2, 7, {0, 1, 6, PAD, 7, PAD, 2, 3, 4, 5, 8, 9, END}},
    {"contiguous", 7, 2, 3, {0, 1, 2, 3, 4, 5, 6, PAD, END}},
    {"zigzag", 7, 2, 3, {0, 1, 6, PAD, 2, 3, 4, 5, END}},
    {"striped:2", 7, 2, 0, {0, 1, 4, 5, 2, 3, 6, PAD, END}},
    {"uneven:3:0:4", 7, 3, 0, {0, 1, 2, 3, 4, 5, 6, END}},
};

static void worked_tables(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof tables / sizeof *tables; n++) {
        int64_t document[10];
        cp_batch batch = plain_batch(1, tables[n].T);
        for (int64_t i = 0; i < batch.T; i++)
            document[i] = tables[n].first_document > 0 && i >= tables[n].first_document;
        batch.document_ids = document;
        cp_layout_spec spec = layout_named(tables[n].layout);
        planned p;
        plan_laid_out(&p, &batch, &spec, tables[n].P, &right_tokens);
        const int64_t *expected = tables[n].tokens;
        for (int rank = 0; rank < tables[n].P; rank++)
            for (int64_t l = 0; l < p.layout.tokens[rank]; l++)
                assert_int_equal(p.tokens.home[p.layout.index[rank][l]], *expected++);
        assert_int_equal(*expected, END);
        close_plan(&p);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void names_are_read_back(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"contiguous", "contiguous"},     {"zigzag", "zigzag"},
        {"striped", "striped"},           {"striped:1", "striped"},
        {"striped:12", "striped:12"},     {"uneven", "uneven"},
        {"uneven:7", "uneven:7"},         {"uneven:3:1:0", "uneven:3:1:0"},
        {"uneven:3,1,0", "uneven:3:1:0"}, {"per_document", "per_document"},
    };
    char text[CP_LAYOUT_TEXT];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        cp_layout_spec spec = layout_named(names[n][0]);
        assert_string_equal(cp_layout_text(&spec, text), names[n][1]);
    }
    for (int kind = 0; kind < CP_LAYOUT_KINDS; kind++)
        assert_int_equal(layout_named(cp_layout_name((cp_layout_kind)kind)).kind, kind);
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const unknown[] = {"spiral", "", "zig", "zigzagged", ":4", "Zigzag", "striped4"};
    static const char *const wrong[] = {
        "striped:",   "striped:0",    "striped:x",      "striped:2:2", "striped:-1",       "zigzag:2",
        "zigzag:",    "contiguous:1", "per_document:2", "uneven:",     "uneven:3:",        "uneven:3::1",
        "uneven:3;1", "uneven:,3",    "uneven:-1",      "uneven: 3",   "uneven:3000000000"};
    cp_layout_spec spec;
    for (size_t n = 0; n < sizeof unknown / sizeof *unknown; n++)
        assert_status(cp_layout_parse(&spec, unknown[n]), CP_BAD_USAGE,
                      "there are contiguous, zigzag, striped[:block], uneven[:tokens of each rank], "
                      "per_document");
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++)
        assert_status(cp_layout_parse(&spec, wrong[n]), CP_BAD_USAGE, wrong[n]);
    char many[512] = "uneven:0";
    for (int n = 1; n < CP_LAYOUT_CUTS; n++)
        strcat(many, ":1");
    assert_ok(cp_layout_parse(&spec, many));
    assert_int_equal(spec.cuts, CP_LAYOUT_CUTS);
    assert_status(cp_layout_parse(&spec, strcat(many, ":1")), CP_BAD_USAGE, "at most 64 ranks");
}

static void cuts_must_fit(void **state)
{
    (void)state;
    cp_layout_spec spec = layout_named("uneven:3:1:0");
    assert_ok(cp_layout_check(&spec, 3, 4));
    cp_layout_spec striped = {.kind = CP_LAYOUT_STRIPED, .block = 5};
    assert_ok(cp_layout_check(&striped, 4, 5));
    assert_status(cp_layout_check(&striped, 4, 4), CP_REFUSED, "blocks of 5 tokens, the row has 4");
    assert_status(cp_layout_check(&spec, 2, 4), CP_REFUSED, "tokens of 3 ranks, expected those of 2");
    assert_status(cp_layout_check(&spec, 3, 5), CP_REFUSED,
                  "uneven:3:1:0: 4 tokens in all, expected the row's 5");
    for (int kind = 0; kind < CP_LAYOUT_KINDS; kind++)
        assert_ok(cp_layout_check(&(cp_layout_spec){.kind = (cp_layout_kind)kind}, 64, 1));
}

static void plan_with_cuts_of_another_row(void *unused)
{
    (void)unused;
    cp_batch batch = plain_batch(1, 5);
    cp_layout_spec spec = layout_named("uneven:3:1");
    planned p;
    plan_laid_out(&p, &batch, &spec, 2, &right_tokens);
}

static void unchecked_cuts_stop(void **state)
{
    (void)state;
    assert_stops(plan_with_cuts_of_another_row, NULL, "1 rows of 5 tokens over 2 ranks, uneven");
}

int layout_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layout_is_its_formula),
        cmocka_unit_test(cuts_are_taken_as_given),
        cmocka_unit_test(every_document_is_zigzagged),
        cmocka_unit_test(worked_tables),
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(cuts_must_fit),
        cmocka_unit_test(unchecked_cuts_stop),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}

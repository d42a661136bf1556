#include "base/rng.h"
#include "tests/files/groups.h"
#include "tests/support/support.h"

#include "harness/files/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole run of small integers, cut over ranks token by token, so that joining must give it back exactly. */
enum { B = 3, T = 7, V = 5, N = 6, MOST_RANKS = 4, MOST_LOCAL = T + 2 };

typedef struct part {
    int64_t tokens[B * MOST_LOCAL], rows[B];
    int64_t S;
    double loss, token_loss[B * MOST_LOCAL], logits[B * MOST_LOCAL * V], embeds[B * MOST_LOCAL * 2], w[N];
    float narrow[B * MOST_LOCAL * V];
    cp_declaration said;
} part;

typedef struct split {
    int ranks;
    part parts[MOST_RANKS];
} split;

static double token_loss_of(int64_t b, int64_t t)
{
    return (double)(10 * b + t);
}

static double logit_of(int64_t b, int64_t t, int64_t v)
{
    return (double)(1000 * b + 10 * t + v);
}

static const double SCALE = 8; /* of the gradients */

static void fill_part(split *s, int rank, int owner[B][T], cp_loss_kind loss_kind, cp_gradient_kind gradients)
{
    part *p = &s->parts[rank];
    int64_t most = 0;
    for (int64_t b = 0; b < B; b++) {
        int64_t held = 0;
        for (int64_t t = 0; t < T; t++)
            held += owner[b][t] == rank;
        most = held > most ? held : most;
    }
    p->S = most + 1; /* at least one position of padding */
    double sum = 0;
    int64_t targets = 0;
    for (int64_t b = 0; b < B; b++) {
        int64_t row = B - 1 - b; /* rows in another order too */
        p->rows[b] = row;
        int64_t t = -1;
        for (int64_t i = 0; i < p->S; i++) {
            int64_t at = b * p->S + i;
            for (t++; t < T && owner[row][t] != rank; t++)
                ;
            bool real = t < T;
            p->tokens[at] = real ? t : -1;
            p->token_loss[at] = real ? token_loss_of(row, t) : NAN;
            for (int64_t v = 0; v < V; v++)
                p->logits[at * V + v] = p->narrow[at * V + v] = real ? (float)logit_of(row, t, v) : NAN;
            for (int64_t c = 0; c < 2; c++)
                p->embeds[at * 2 + c] = real ? SCALE * (token_loss_of(row, t) + (double)c) : NAN;
            sum += real ? token_loss_of(row, t) : 0;
            targets += real;
        }
    }
    const double losses[CP_LOSS_KINDS] = {[CP_LOSS_GLOBAL] = 64,
                                          [CP_LOSS_SHARE] = rank + 1,
                                          [CP_LOSS_PARTIAL_SUM] = sum,
                                          [CP_LOSS_LOCAL_MEAN] = targets ? sum / (double)targets : NAN};
    p->loss = losses[loss_kind];
    for (int64_t i = 0; i < N; i++)
        p->w[i] = SCALE * (gradients == CP_GRADIENTS_REDUCED ? (double)i : (double)(i + 100 * rank));
    p->said = (cp_declaration){.fixture_id = "f",
                               .layout = "odd",
                               .cp_size = s->ranks,
                               .cp_rank = rank,
                               .dp_size = 1,
                               .dtype_declared = true,
                               .loss_kind = loss_kind,
                               .loss_count = targets,
                               .gradients = gradients,
                               .grad_scale = SCALE,
                               .B = B,
                               .S = p->S,
                               .token_index = p->tokens,
                               .batch_index = p->rows};
}

static cp_source *part_source(part *p)
{
    const cp_memory_tensor tensors[] = {
        {"loss", CP_VIEW(&p->loss, CP_F64, 1), true},
        {"token_loss", CP_VIEW(p->token_loss, CP_F64, B, p->S), false},
        {"logits", CP_VIEW(p->logits, CP_F64, B, p->S, V), false},
        {"grads/inputs_embeds", CP_VIEW(p->embeds, CP_F64, B, p->S, 2), false},
        {"grads/w", CP_VIEW(p->w, CP_F64, N), false},
        {"trace/embed", CP_VIEW(p->narrow, CP_F32, B, p->S, V), false},
        {"trace/grad.embed", CP_VIEW(p->embeds, CP_F64, B, p->S, 2), false},
    };
    char label[32];
    snprintf(label, sizeof label, "rank %d", p->said.cp_rank);
    cp_source *source;
    assert_ok(cp_source_memory(&source, label, &p->said, tensors, sizeof tensors / sizeof *tensors));
    return source;
}

/* Owners at random; every rank may be left without tokens in a row, or at all. */
static void split_randomly(split *s, int ranks, uint64_t seed, cp_loss_kind loss_kind,
                           cp_gradient_kind gradients)
{
    cp_rng rng = cp_rng_named(seed, "owners");
    int owner[B][T];
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < T; t++)
            owner[b][t] = (int)cp_rng_below(rng, (uint64_t)(b * T + t), ranks);
    s->ranks = ranks;
    for (int rank = 0; rank < ranks; rank++)
        fill_part(s, rank, owner, loss_kind, gradients);
}

static void open_parts(cp_source **sources, split *s)
{
    for (int i = 0; i < s->ranks; i++) /* in no order */
        sources[i] = part_source(&s->parts[(i + 1) % s->ranks]);
}

static double *read_named(const cp_source *source, const char *name, int64_t count)
{
    int64_t index = cp_source_find(source, name);
    assert_true(index >= 0);
    double *out = malloc((size_t)count * sizeof *out);
    assert_ok(cp_source_read_all(source, (size_t)index, out));
    return out;
}

static void assert_rows(const cp_source *joined)
{
    double *loss = read_named(joined, "token_loss", B * T), *logits = read_named(joined, "logits", B * T * V);
    double *embeds = read_named(joined, "grads/inputs_embeds", B * T * 2);
    double *trace = read_named(joined, "trace/embed", B * T * V);
    double *grad = read_named(joined, "trace/grad.embed", B * T * 2);
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < T; t++) {
            assert_near(loss[b * T + t], token_loss_of(b, t), 0);
            for (int64_t v = 0; v < V; v++) {
                assert_near(logits[(b * T + t) * V + v], logit_of(b, t, v), 0);
                assert_near(trace[(b * T + t) * V + v], logit_of(b, t, v), 0);
            }
            assert_near(embeds[(b * T + t) * 2 + 1], token_loss_of(b, t) + 1, 0);
            assert_near(grad[(b * T + t) * 2], token_loss_of(b, t), 0);
        }
    free(loss);
    free(logits);
    free(embeds);
    free(trace);
    free(grad);
}

/* Every way of asking for a piece gives what the whole has there. */
static void assert_pieces(const cp_source *joined, const char *name, int64_t count)
{
    double *whole = read_named(joined, name, count), *piece = malloc((size_t)count * sizeof *piece);
    size_t tensor = (size_t)cp_source_find(joined, name);
    for (int64_t first = 0; first <= count; first++)
        for (int64_t length = 0; first + length <= count; length += 3) {
            assert_ok(joined->read(joined, tensor, first, length, piece));
            assert_memory_equal(piece, whole + first, (size_t)length * sizeof *piece);
        }
    free(whole);
    free(piece);
}

static void rows_and_kinds(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    double all = 0;
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < T; t++)
            all += token_loss_of(b, t);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        for (int kind = 0; kind < CP_LOSS_KINDS * CP_GRADIENT_KINDS; kind++) {
            static split s;
            cp_loss_kind loss_kind = (cp_loss_kind)(kind % CP_LOSS_KINDS);
            cp_gradient_kind gradients = (cp_gradient_kind)(kind / CP_LOSS_KINDS);
            split_randomly(&s, ranks, seed + (uint64_t)kind, loss_kind, gradients);
            cp_source *parts[MOST_RANKS], *joined;
            open_parts(parts, &s);
            assert_ok(cp_source_join(&joined, parts, (size_t)ranks, B, T));
            assert_int_equal(joined->declaration.cp_rank, -1);
            assert_int_equal(joined->declaration.cp_size, ranks);
            assert_null(joined->declaration.token_index);
            assert_int_equal(joined->declaration.loss_count, B * T);
            assert_rows(joined);
            assert_pieces(joined, "logits", B * T * V);

            const double losses[CP_LOSS_KINDS] = {[CP_LOSS_GLOBAL] = 64,
                                                  [CP_LOSS_SHARE] = ranks * (ranks + 1) / 2.0,
                                                  [CP_LOSS_PARTIAL_SUM] = all / (B * T),
                                                  [CP_LOSS_LOCAL_MEAN] = all / (B * T)};
            double *loss = read_named(joined, "loss", 1), *w = read_named(joined, "grads/w", N);
            assert_near(loss[0], losses[loss_kind], 1e-13);
            for (int64_t i = 0; i < N; i++) {
                double sum = (double)(i * ranks) + 100.0 * ranks * (ranks - 1) / 2;
                const double values[CP_GRADIENT_KINDS] = {[CP_GRADIENTS_REDUCED] = (double)i,
                                                          [CP_GRADIENTS_PARTIAL] = sum,
                                                          [CP_GRADIENTS_MEAN] = sum / ranks};
                assert_near(w[i], values[gradients], 1e-13);
            }
            free(loss);
            free(w);
            cp_source_close(joined);
        }
    }
}

static void divisor_of_the_fixture(void **state)
{
    (void)state;
    for (int declared = 0; declared < 2; declared++) {
        static split s;
        split_randomly(&s, 2, 1, CP_LOSS_PARTIAL_SUM, CP_GRADIENTS_PARTIAL);
        s.parts[1].said.loss_count = declared ? s.parts[1].said.loss_count : -1;
        cp_source *parts[MOST_RANKS], *joined;
        open_parts(parts, &s);
        assert_ok(cp_source_join(&joined, parts, 2, B, T));
        size_t loss = (size_t)cp_source_find(joined, "loss");
        double value;
        if (!declared)
            assert_status(cp_source_read_all(joined, loss, &value), CP_INCOMPARABLE, "loss_count");
        cp_join_divide(joined, 2);
        assert_ok(cp_source_read_all(joined, loss, &value));
        assert_near(value, (s.parts[0].loss + s.parts[1].loss) / 2, 0);
        cp_source_close(joined);
    }
}

static void sums_in_rank_order(void **state)
{
    (void)state;
    static split s;
    split_randomly(&s, 3, 1, CP_LOSS_GLOBAL, CP_GRADIENTS_PARTIAL);
    for (int rank = 0; rank < 3; rank++)
        s.parts[rank].said.grad_scale = 1;
    s.parts[0].w[0] = 1e16; /* (1e16 + 1) - 1e16 is 0, any other order gives 1 */
    s.parts[1].w[0] = 1;
    s.parts[2].w[0] = -1e16;
    cp_source *parts[MOST_RANKS], *joined;
    open_parts(parts, &s);
    assert_ok(cp_source_join(&joined, parts, 3, B, T));
    double *w = read_named(joined, "grads/w", N);
    assert_near(w[0], 0, 0);
    free(w);
    cp_source_close(joined);
}

static void replicas(void **state)
{
    (void)state;
    for (int gradients = 0; gradients < CP_GRADIENT_KINDS; gradients++) {
        static split s;
        split_randomly(&s, 3, 1, CP_LOSS_GLOBAL, (cp_gradient_kind)gradients);
        for (int rank = 0; rank < 3; rank++)
            for (int i = 0; i < N; i++)
                s.parts[rank].w[i] = i == 0 ? 3 : i == 1 ? 4 : 0;
        s.parts[2].w[5] = 0.5; /* a tenth of the norm */
        cp_source *parts[MOST_RANKS], *joined;
        open_parts(parts, &s);
        assert_ok(cp_source_join(&joined, parts, 3, 0, 0));
        double difference;
        assert_ok(cp_join_replicas(joined, (size_t)cp_source_find(joined, "grads/w"), &difference));
        assert_near(difference, gradients == CP_GRADIENTS_REDUCED ? 0.1 : 0, 1e-15);
        assert_ok(cp_join_replicas(joined, (size_t)cp_source_find(joined, "loss"), &difference));
        assert_near(difference, 0, 0);
        s.parts[1].w[0] = NAN;
        assert_ok(cp_join_replicas(joined, (size_t)cp_source_find(joined, "grads/w"), &difference));
        assert_true(gradients != CP_GRADIENTS_REDUCED || isinf(difference));
        cp_source_close(joined);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

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
        split_randomly(&s, 2, 5, CP_LOSS_GLOBAL, CP_GRADIENTS_PARTIAL);
        cases[i].spoil(&s);
        cp_source *parts[MOST_RANKS], *joined;
        open_parts(parts, &s);
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
        {{"aux_loss", 1, {1}, CP_F64},
         {"aux_loss", 1, {1}, CP_F64},
         CP_GRADIENTS_PARTIAL,
         "",
         "",
         "/aux_loss: no rule",
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

/* Longer than the blocks in which ranks are added. */
static void long_gradients(void **state)
{
    (void)state;
    enum { LONG = 20000 };
    double *values = malloc(LONG * sizeof *values), *out = malloc(LONG * sizeof *out);
    for (int i = 0; i < LONG; i++)
        values[i] = i;
    static const int64_t tokens[2][1] = {{0}, {1}};
    cp_source *parts[2], *joined;
    for (int rank = 0; rank < 2; rank++) {
        cp_declaration said = cp_declaration_whole();
        said.cp_size = 2;
        said.cp_rank = rank;
        said.gradients = CP_GRADIENTS_PARTIAL;
        said.B = said.S = 1;
        said.token_index = tokens[rank];
        cp_memory_tensor tensor = {"grads/w", CP_VIEW(values, CP_F64, LONG), false};
        assert_ok(cp_source_memory(&parts[rank], "rank", &said, &tensor, 1));
    }
    assert_ok(cp_source_join(&joined, parts, 2, 1, 2));
    assert_ok(cp_source_read_all(joined, 0, out));
    for (int i = 0; i < LONG; i++)
        assert_near(out[i], 2.0 * i, 0);
    cp_source_close(joined);
    free(values);
    free(out);
}

static void a_whole_dump_passes_through(void **state)
{
    (void)state;
    double embeds[6] = {1, 2, 3, 4, 5, 6}, w[2] = {3, 5}, loss = 7;
    const cp_memory_tensor tensors[] = {{"trace/embed", CP_VIEW(embeds, CP_F64, 1, 3, 2), false},
                                        {"grads/w", CP_VIEW(w, CP_F64, 2), false},
                                        {"aux_loss", CP_VIEW(&loss, CP_F64, 1), true},
                                        {"odd", CP_VIEW(w, CP_F64, 2), false}};
    const int64_t backwards[3] = {2, 1, 0};
    for (int permuted = 0; permuted < 2; permuted++) {
        cp_declaration said = cp_declaration_whole();
        said.cp_size = 4; /* information only */
        said.grad_scale = 2;
        said.B = permuted;
        said.S = 3 * permuted;
        said.token_index = permuted ? backwards : NULL;
        cp_source *whole, *joined;
        assert_ok(cp_source_memory(&whole, "whole", &said, tensors, 4));
        assert_ok(cp_source_join(&joined, &whole, 1, 1, 3));
        assert_string_equal(joined->label, "whole");
        double *trace = read_named(joined, "trace/embed", 6), *grad = read_named(joined, "grads/w", 2);
        assert_near(trace[0], permuted ? 5 : 1, 0);
        assert_near(trace[5], permuted ? 2 : 6, 0);
        assert_near(grad[1], 2.5, 0);
        free(trace);
        free(grad);
        cp_source_close(joined);
    }
}

int join_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_kinds),     cmocka_unit_test(divisor_of_the_fixture),
        cmocka_unit_test(sums_in_rank_order), cmocka_unit_test(replicas),
        cmocka_unit_test(refusals),           cmocka_unit_test(pieces),
        cmocka_unit_test(long_gradients),     cmocka_unit_test(a_whole_dump_passes_through),
    };
    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}

#include "tests/files/cut.h"
#include "tests/files/groups.h"
#include "tests/support/support.h"

#include "harness/files/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            assert_near(loss[b * T + t], cut_token_loss(b, t), 0);
            for (int64_t v = 0; v < V; v++) {
                assert_near(logits[(b * T + t) * V + v], cut_logit(b, t, v), 0);
                assert_near(trace[(b * T + t) * V + v], cut_logit(b, t, v), 0);
            }
            assert_near(embeds[(b * T + t) * 2 + 1], cut_token_loss(b, t) + 1, 0);
            assert_near(grad[(b * T + t) * 2], cut_token_loss(b, t), 0);
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
            all += cut_token_loss(b, t);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        for (int kind = 0; kind < CP_LOSS_KINDS * CP_GRADIENT_KINDS; kind++) {
            static split s;
            cp_loss_kind loss_kind = (cp_loss_kind)(kind % CP_LOSS_KINDS);
            cp_gradient_kind gradients = (cp_gradient_kind)(kind / CP_LOSS_KINDS);
            cut_randomly(&s, ranks, seed + (uint64_t)kind, loss_kind, gradients);
            cp_source *parts[MOST_RANKS], *joined;
            cut_open(parts, &s);
            assert_ok(cp_source_join(&joined, parts, (size_t)ranks, B, T));
            assert_int_equal(joined->declaration.cp_rank, -1);
            assert_int_equal(joined->declaration.cp_size, ranks);
            assert_null(joined->declaration.token_index);
            assert_int_equal(joined->declaration.loss_count, B * T);
            assert_rows(joined);
            assert_pieces(joined, "logits", B * T * V);

            const double losses[CP_LOSS_KINDS] = {[CP_LOSS_GLOBAL] = 64,
                                                  [CP_LOSS_SHARE] = ranks * (ranks + 1) / 2.0,
                                                  [CP_LOSS_MEAN] = (ranks + 1) / 2.0,
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
        cut_randomly(&s, 2, 1, CP_LOSS_PARTIAL_SUM, CP_GRADIENTS_PARTIAL);
        s.parts[1].said.loss_count = declared ? s.parts[1].said.loss_count : -1;
        cp_source *parts[MOST_RANKS], *joined;
        cut_open(parts, &s);
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
    cut_randomly(&s, 3, 1, CP_LOSS_GLOBAL, CP_GRADIENTS_PARTIAL);
    for (int rank = 0; rank < 3; rank++)
        s.parts[rank].said.grad_scale = 1;
    s.parts[0].w[0] = 1e16; /* (1e16 + 1) - 1e16 is 0, any other order gives 1 */
    s.parts[1].w[0] = 1;
    s.parts[2].w[0] = -1e16;
    cp_source *parts[MOST_RANKS], *joined;
    cut_open(parts, &s);
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
        cut_randomly(&s, 3, 1, CP_LOSS_GLOBAL, (cp_gradient_kind)gradients);
        for (int rank = 0; rank < 3; rank++)
            for (int i = 0; i < N; i++)
                s.parts[rank].w[i] = i == 0 ? 3 : i == 1 ? 4 : 0;
        s.parts[2].w[5] = 0.5; /* a tenth of the norm */
        cp_source *parts[MOST_RANKS], *joined;
        cut_open(parts, &s);
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
        cmocka_unit_test(long_gradients),     cmocka_unit_test(a_whole_dump_passes_through),
    };
    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}

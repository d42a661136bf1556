#include "harness/parallel/dump_plan.h"
#include "harness/parallel/loss_plan.h"
#include "harness/parallel/shard.h"
#include "tests/parallel/groups.h"
#include "tests/support/support.h"

#include <string.h>

/* Length 7 on 2 ranks, padded to 8; the second row begins with two hidden tokens. */
enum { ROWS = 2, LENGTH = 7, RANKS = 2, PADDED = 8, SHARD = 4, WIDTH = 3 };

#define N CP_IGNORED

static const int64_t ids[ROWS * LENGTH] = {1, 2, 3, 4, 5, 6, 7, 0, 0, 13, 14, 15, 16, 17};
static const uint8_t mask[ROWS * LENGTH] = {1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1};
static const int64_t labels[ROWS * LENGTH] = {1, 2, 3, 4, 5, 6, 7, N, N, N, 14, 15, 16, 17};

typedef struct fixture {
    cp_arena arena;
    double embeddings[ROWS * LENGTH * WIDTH];
    cp_batch batch;
    cp_layout layout;
    cp_tokens tokens;
} fixture;

static void open_fixture(fixture *f, bool with_embeddings)
{
    memset(f, 0, sizeof *f);
    f->arena = cp_arena_growing();
    for (int n = 0; n < ROWS * LENGTH * WIDTH; n++)
        f->embeddings[n] = n + 0.5;
    f->batch = (cp_batch){.B = ROWS, .T = LENGTH, .input_ids = ids, .attention_mask = mask, .labels = labels};
    if (with_embeddings) {
        f->batch.input_ids = NULL;
        f->batch.inputs_embeds = f->embeddings;
        f->batch.C = WIDTH;
    }
    cp_token_rules rules = {0};
    cp_layout_spec contiguous = {0};
    cp_tokens_plan(&f->tokens, &f->layout, &f->batch, &contiguous, RANKS, &rules, &f->arena);
}

static void assert_integers(cp_tensor tensor, const int64_t *expected)
{
    assert_true(cp_tensor_has_shape(tensor, 2, CP_EXTENTS(ROWS, SHARD)));
    assert_memory_equal(tensor.data, expected, ROWS * SHARD * sizeof *expected);
}

static void cuts_ids(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, false);
    cp_shard shard;
    cp_shard_cut(&shard, &f.batch, &f.tokens, &f.layout, 1, 9, CP_F64, &f.arena);
    assert_int_equal(shard.B, ROWS);
    assert_int_equal(shard.S, SHARD);
    assert_false(cp_tensor_given(shard.embeddings));
    assert_integers(shard.index, (const int64_t[]){4, 5, 6, 7, 4, 5, 6, 7});
    assert_integers(shard.ids, (const int64_t[]){5, 6, 7, 9, 15, 16, 17, 9});
    assert_integers(shard.position, (const int64_t[]){4, 5, 6, 7, 4, 5, 6, 7});
    assert_integers(shard.target, (const int64_t[]){6, 7, N, N, 16, 17, N, N});
    cp_shard_cut(&shard, &f.batch, &f.tokens, &f.layout, 0, 9, CP_F64, &f.arena);
    assert_integers(shard.ids, (const int64_t[]){1, 2, 3, 4, 0, 0, 13, 14});
    cp_arena_close(&f.arena);
}

static void cuts_embeddings(void **state)
{
    (void)state;
    static const cp_dtype dtypes[] = {CP_F64, CP_F32};
    fixture f;
    open_fixture(&f, true);
    for (int i = 0; i < 2; i++) {
        cp_shard shard;
        cp_shard_cut(&shard, &f.batch, &f.tokens, &f.layout, 1, 9, dtypes[i], &f.arena);
        assert_false(cp_tensor_given(shard.ids));
        assert_int_equal(shard.embeddings.dtype, dtypes[i]);
        double expected[ROWS * SHARD * WIDTH] = {0};
        for (int row = 0; row < ROWS; row++)
            memcpy(expected + row * SHARD * WIDTH, f.embeddings + (row * LENGTH + SHARD) * WIDTH,
                   (LENGTH - SHARD) * WIDTH * sizeof *expected);
        assert_tensors_near(shard.embeddings, CP_VIEW(expected, CP_F64, ROWS, SHARD, WIDTH), 0, 0);
    }
    cp_arena_close(&f.arena);
}

static void measures_what_it_takes(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, true);
    cp_arena measuring = cp_arena_measuring(), arena;
    cp_shard planned, shard;
    cp_shard_cut(&planned, &f.batch, &f.tokens, &f.layout, 0, 9, CP_F32, &measuring);
    assert_null(planned.embeddings.data);
    assert_ok(cp_arena_open(&arena, measuring.peak));
    cp_shard_cut(&shard, &f.batch, &f.tokens, &f.layout, 0, 9, CP_F32, &arena);
    assert_int_equal(arena.peak, measuring.peak);
    cp_arena_close(&arena);
    cp_arena_close(&f.arena);
}

/* ---- the two plans that move numbers ------------------------------------------------------------------------------ */

typedef struct job {
    fixture *fixture;
    cp_loss_rules loss;
    cp_dump_rules dump;
    double reported[RANKS];
    double gradient[RANKS][ROWS * SHARD * 1];
} job;

static void body(cp_comm *comm, void *context)
{
    job *j = context;
    const fixture *f = j->fixture;
    int rank = cp_comm_rank(comm);
    cp_arena plans = cp_arena_growing(), arena;
    cp_check(cp_arena_open(&arena, 1 << 16) == CP_OK, "%s", cp_error());
    cp_loss_plan loss;
    cp_dump_plan dump;
    cp_batch_plan split;
    cp_batch_plan_make(&split, &f->batch, 1, 1, &plans);
    cp_loss_plan_make(&loss, &j->loss, &f->batch, &f->tokens, &f->layout, &split, &plans);
    cp_dump_plan_make(&dump, &j->dump, &f->tokens, &f->layout, rank, &plans);
    const double sum = rank == 0 ? 30 : 12;
    j->reported[rank] = cp_loss_reported(&loss, comm, &sum, &arena);
    for (int n = 0; n < ROWS * SHARD; n++)
        j->gradient[rank][n] = 10 * rank + n;
    cp_embeds_grad_apply(&dump, CP_VIEW(j->gradient[rank], CP_F64, ROWS, SHARD, 1), comm, &f->layout,
                         cp_ops_of(CP_F64), &arena);
    cp_arena_close(&arena);
    cp_arena_close(&plans);
}

/* Rank 0 has 4 + 2 targets with losses of 30, rank 1 has 2 + 2 with 12. */
static void reports_a_loss(void **state)
{
    (void)state;
    static const struct {
        cp_loss_rules rules;
        double expected[RANKS];
    } cases[] = {
        {{0}, {4.2, 4.2}},
        {{.reported_loss = CP_REPORTED_LOSS_LOCAL}, {5, 3}},
        {{.reported_loss = CP_REPORTED_LOSS_TIMES_P}, {8.4, 8.4}},
        {{.loss_count = CP_LOSS_COUNT_PER_RANK}, {4, 4}},
        {{.loss_count = CP_LOSS_COUNT_DIVIDED_BY_P}, {2.1, 2.1}},
    };
    fixture f;
    open_fixture(&f, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j = {.fixture = &f, .loss = cases[i].rules};
        assert_ok(cp_threads_run(RANKS, body, &j));
        assert_verdict(test_compare(j.reported, cases[i].expected, RANKS, 1e-15, 1e-15));
    }
    cp_arena_close(&f.arena);
}

static void places_gradients_of_the_inputs(void **state)
{
    (void)state;
    static const struct {
        cp_embeds_grad rule;
        double expected[RANKS][ROWS * SHARD];
    } cases[] = {
        {CP_EMBEDS_GRAD_OWN, {{0, 1, 2, 3, 4, 5, 6, 7}, {10, 11, 12, 13, 14, 15, 16, 17}}},
        {CP_EMBEDS_GRAD_SUMMED, {{10, 12, 14, 16, 18, 20, 22, 24}, {10, 12, 14, 16, 18, 20, 22, 24}}},
        {CP_EMBEDS_GRAD_PADS_NONZERO, {{0, 1, 2, 3, 6, 6, 6, 7}, {10, 11, 12, 0, 14, 15, 16, 6}}},
    };
    fixture f;
    open_fixture(&f, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job j = {.fixture = &f, .dump.embeds_grad = cases[i].rule};
        assert_ok(cp_threads_run(RANKS, body, &j));
        for (int rank = 0; rank < RANKS; rank++)
            assert_verdict(test_compare(j.gradient[rank], cases[i].expected[rank], ROWS * SHARD, 0, 0));
    }
    cp_arena_close(&f.arena);
}

int run_shard_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_ids),
        cmocka_unit_test(cuts_embeddings),
        cmocka_unit_test(measures_what_it_takes),
        cmocka_unit_test(reports_a_loss),
        cmocka_unit_test(places_gradients_of_the_inputs),
    };
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}

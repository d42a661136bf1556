#include "harness/parallel/loss_plan.h"
#include "harness/parallel/reduce.h"
#include "tests/parallel/groups.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

/* Length 5 on 4 ranks, padded to 8: 2, 2, 0 and 0 targets; rank 2 holds the last token, which has none. */
enum { LENGTH = 5, RANKS = 4, PADDED = 8, TARGETS = 4, LABELS = 5, PADS = 3 };

static const int64_t ids[LENGTH] = {1, 2, 3, 4, 5};

typedef struct fixture {
    cp_arena arena;
    cp_batch batch;
    cp_layout layout;
    cp_tokens tokens;
    cp_batch_plan split;
} fixture;

static void open_fixture(fixture *f, double items)
{
    *f = (fixture){.arena = cp_arena_growing()};
    f->batch = (cp_batch){.B = 1, .T = LENGTH, .input_ids = ids, .labels = ids, .num_items_in_batch = items};
    cp_token_rules rules = {0};
    cp_layout_spec contiguous = {0};
    cp_tokens_plan(&f->tokens, &f->layout, &f->batch, &contiguous, RANKS, &rules, &f->arena);
    cp_batch_plan_make(&f->split, &f->batch, 1, 1, &f->arena);
}

typedef struct loss_case {
    const char *name;
    cp_loss_rules rules;
    double items;            /* num_items_in_batch */
    double weight;           /* of ranks 0 and 1 in the loss */
    double backward;         /* their factor */
    double reduce, reported; /* of ranks 2 and 3: weight of gradients, and in the loss */
} loss_case;

#define N TARGETS

static const loss_case cases[] = {
    {"right", {0}, 0, 1.0 / N, 1.0 / N, 1, 0},
    {"right, items", {0}, 10, 0.1, 0.1, 1, 0},
    {"per_rank", {.loss_count = CP_LOSS_COUNT_PER_RANK}, 0, 1.0 / 8, 1.0 / 8, 1, 0},
    {"per_rank, items", {.loss_count = CP_LOSS_COUNT_PER_RANK}, 10, 1.0 / 8, 1.0 / 8, 1, 0},
    {"pads_counted", {.loss_count = CP_LOSS_COUNT_PADS_COUNTED}, 0, 1.0 / (N + PADS), 1.0 / (N + PADS), 1, 0},
    {"pads_counted, items", {.loss_count = CP_LOSS_COUNT_PADS_COUNTED}, 10, 1.0 / 13, 1.0 / 13, 1, 0},
    {"before_shift", {.loss_count = CP_LOSS_COUNT_BEFORE_SHIFT}, 0, 1.0 / LABELS, 1.0 / LABELS, 1, 0},
    {"before_shift, items", {.loss_count = CP_LOSS_COUNT_BEFORE_SHIFT}, 10, 1.0 / LABELS, 1.0 / LABELS, 1, 0},
    {"divided_by_p", {.loss_count = CP_LOSS_COUNT_DIVIDED_BY_P}, 0, 1.0 / 16, 1.0 / 16, 1, 0},
    {"local", {.loss_count = CP_LOSS_COUNT_LOCAL}, 0, 1, 1, 1, 0},
    {"local, items", {.loss_count = CP_LOSS_COUNT_LOCAL}, 10, 0.4, 0.4, 1, 0},
    {"skipped", {.empty_shard = CP_EMPTY_SHARD_SKIPPED}, 0, 1.0 / N, 1.0 / N, 0, 0},
    {"nan", {.empty_shard = CP_EMPTY_SHARD_NAN}, 0, 1.0 / N, 1.0 / N, NAN, NAN},
    {"times_p", {.backward_scale = CP_BACKWARD_SCALE_TIMES_P}, 0, 1.0 / N, 1, 1, 0},
    {"divided", {.backward_scale = CP_BACKWARD_SCALE_DIVIDED_BY_P}, 0, 1.0 / N, 1.0 / 16, 1, 0},
    {"reported", {.reported_loss = CP_REPORTED_LOSS_TIMES_P}, 0, 1, 1.0 / N, 1, 0},
};

static void assert_number(double actual, double expected, const char *name)
{
    bool same = isnan(expected) ? isnan(actual) : fabs(actual - expected) <= 1e-15;
    if (!same)
        print_error("%s: %.17g, expected %.17g\n", name, actual, expected);
    assert_true(same);
}

static void follows_its_formulas(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const loss_case *c = &cases[i];
        fixture f;
        open_fixture(&f, c->items);
        cp_loss_plan plan;
        cp_loss_plan_make(&plan, &c->rules, &f.batch, &f.tokens, &f.layout, &f.split, &f.arena);
        assert_memory_equal(plan.targets, ((const int64_t[]){2, 2, 0, 0}), RANKS * sizeof(int64_t));
        for (int rank = 0; rank < RANKS; rank++) {
            bool empty = rank >= 2;
            assert_number(plan.reduce[rank], empty ? c->reduce : 1, c->name);
            for (int by = 0; by < RANKS; by++)
                assert_number(plan.reported[by * RANKS + rank], empty ? c->reported : c->weight, c->name);
            if (!empty)
                assert_number(plan.backward[rank], c->backward, c->name);
        }
        cp_arena_close(&f.arena);
    }
}

static void local_loss_is_the_ranks_own(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, 0);
    cp_loss_rules rules = {.reported_loss = CP_REPORTED_LOSS_LOCAL};
    cp_loss_plan plan;
    cp_loss_plan_make(&plan, &rules, &f.batch, &f.tokens, &f.layout, &f.split, &f.arena);
    for (int rank = 0; rank < RANKS; rank++)
        for (int other = 0; other < RANKS; other++)
            assert_number(plan.reported[rank * RANKS + other], rank == other && rank < 2 ? 0.5 : 0, "local");
    cp_arena_close(&f.arena);
}

/* ---- the loss of experts ----------------------------------------------------------------------------------------- */

static const struct {
    cp_loss_rules rules;
    bool own, padding;
    double loss, reported;
    double backward[RANKS];
} balance_cases[] = {
    {{0}, false, false, 1, 1, {1, 1, 1, 1}},
    {{.moe_statistics = CP_MOE_STATISTICS_SHARD_MEAN}, true, false, 0.25, 1, {0.25, 0.25, 0.25, 0.25}},
    {{.moe_statistics = CP_MOE_STATISTICS_PADS_COUNTED}, false, true, 1, 1, {1, 1, 1, 1}},
    {{.moe_scale = CP_MOE_SCALE_LOCAL_COUNT}, false, false, 1, 1, {0.5, 0.5, 0, 0}},
    {{.moe_scale = CP_MOE_SCALE_TIMES_COUNT}, false, false, 1, 1, {N, N, N, N}},
    {{.moe_scale = CP_MOE_SCALE_DIVIDED_BY_P}, false, false, 1, 1, {0.25, 0.25, 0.25, 0.25}},
    {{.backward_scale = CP_BACKWARD_SCALE_TIMES_P}, false, false, 1, 1, {4, 4, 4, 4}},
    {{.reported_loss = CP_REPORTED_LOSS_TIMES_P}, false, false, 1, 4, {1, 1, 1, 1}},
    {{.loss_count = CP_LOSS_COUNT_PER_RANK}, false, false, 1, 1, {1, 1, 1, 1}},
};

static void plans_the_loss_of_experts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof balance_cases / sizeof *balance_cases; i++) {
        fixture f;
        open_fixture(&f, 0);
        cp_loss_plan plan;
        cp_loss_plan_make(&plan, &balance_cases[i].rules, &f.batch, &f.tokens, &f.layout, &f.split, &f.arena);
        assert_int_equal(plan.balance.own, balance_cases[i].own);
        assert_int_equal(plan.balance.padding, balance_cases[i].padding);
        assert_number(plan.balance.loss, balance_cases[i].loss, "balance");
        assert_number(plan.balance.reported, balance_cases[i].reported, "balance, reported");
        for (int rank = 0; rank < RANKS; rank++)
            assert_number(plan.balance.backward[rank], balance_cases[i].backward[rank], "balance, backward");
        cp_arena_close(&f.arena);
    }
}

/* ---- weights of gradients ---------------------------------------------------------------------------------------- */

enum { OTHER, NORM, EMBEDDING, HEAD, BIAS, TIED, SINK, CLASSES };

typedef struct reduce_case {
    int groups;
    cp_reduce_rules rules;
    unsigned classes;     /* those that are touched, as bits */
    double weight[RANKS]; /* theirs; the others have 1 everywhere */
} reduce_case;

static const reduce_case reduce_cases[] = {
    {1, {0}, 0, {1, 1, 1, 1}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_NONE}, (1 << CLASSES) - 1, {1, 0, 0, 0}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_MEAN}, (1 << CLASSES) - 1, {0.25, 0.25, 0.25, 0.25}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_TWICE}, (1 << CLASSES) - 1, {4, 4, 4, 4}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_SKIP_NORMS}, 1 << NORM, {1, 0, 0, 0}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_SKIP_EMBEDDINGS}, 1 << EMBEDDING | 1 << TIED, {1, 0, 0, 0}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_SKIP_HEAD}, 1 << HEAD, {1, 0, 0, 0}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_SKIP_BIASES}, 1 << BIAS, {1, 0, 0, 0}},
    {1, {.grad_reduce = CP_GRAD_REDUCE_WRONG_GROUP}, (1 << CLASSES) - 1, {1, 0, 1, 0}},
    {2, {.grad_reduce = CP_GRAD_REDUCE_CP_ONLY}, (1 << CLASSES) - 1, {1, 1, 0, 0}},
    {2, {.grad_reduce = CP_GRAD_REDUCE_DP_ONLY}, (1 << CLASSES) - 1, {1, 0, 1, 0}},
    {1, {.tied_embedding = CP_TIED_EMBEDDING_TWICE}, 1 << TIED, {2, 2, 2, 2}},
};

static void weighs_gradients(void **state)
{
    (void)state;
    static const cp_parameter_class classes[CLASSES] = {
        CP_PARAMETER_OTHER, CP_PARAMETER_NORM, CP_PARAMETER_EMBEDDING, CP_PARAMETER_HEAD,
        CP_PARAMETER_BIAS,  CP_PARAMETER_TIED, CP_PARAMETER_SINK};
    const double shares[RANKS] = {1, 1, NAN, 1};
    assert_int_equal(CP_PARAMETER_CLASSES, CLASSES);
    for (size_t i = 0; i < sizeof reduce_cases / sizeof *reduce_cases; i++) {
        const reduce_case *c = &reduce_cases[i];
        cp_arena arena = cp_arena_growing();
        cp_reduce_plan plan;
        cp_reduce_plan_make(&plan, &c->rules, RANKS / c->groups, c->groups, shares, &arena);
        for (int group = 0; group < CLASSES; group++)
            for (int rank = 0; rank < RANKS; rank++) {
                double expected = c->classes >> group & 1 ? c->weight[rank] : 1;
                bool shared = rank == 2 && expected != 0; /* a share of NaN, unless the rank is left out */
                assert_number(plan.weight[classes[group]][rank], shared ? NAN : expected, "weight");
            }
        cp_arena_close(&arena);
    }
}

int run_loss_plan_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_formulas),
        cmocka_unit_test(local_loss_is_the_ranks_own),
        cmocka_unit_test(plans_the_loss_of_experts),
        cmocka_unit_test(weighs_gradients),
    };
    return cmocka_run_group_tests_name("loss plan", tests, NULL, NULL);
}

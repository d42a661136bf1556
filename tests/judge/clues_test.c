#include "tests/judge/groups.h"
#include "tests/judge/world.h"
#include "tests/support/support.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static world w;

static int open_world(void **state)
{
    (void)state;
    world_open(&w);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static void expect_next(const char *words)
{
    world_expect(&w, CP_DIFFERENT);
    assert_text_holds(w.result.next, words);
}

static bool is_gradient(const world_tensor *tensor)
{
    return strncmp(tensor->name, "grads/", 6) == 0;
}

static void scale_all(const char *part, double factor)
{
    for (size_t i = 0; i < w.actual.count; i++)
        if (is_gradient(&w.actual.tensors[i]) && strstr(w.actual.tensors[i].name, part))
            world_scale(&w.actual.tensors[i], factor);
}

static void bend(const char *part)
{
    for (size_t i = 0; i < w.actual.count; i++)
        if (is_gradient(&w.actual.tensors[i]) && strstr(w.actual.tensors[i].name, part))
            w.actual.tensors[i].values[0] += 0.125 + 0.01 * (double)i;
}

/* ---- what gradients would be right as ---- */

static void the_weights_instead_of_gradients(void **state)
{
    (void)state;
    static double values[WORLD_TENSORS][WORLD_ROOM];
    for (size_t i = 0; i < w.fixture.weight_count; i++) {
        cp_weight *weight = &w.weights[i];
        char name[CP_RESULT_NAME];
        snprintf(name, sizeof name, "grads/%s", weight->name);
        weight->tensor.data = values[i];
        cp_rng rng = cp_rng_named(2, name);
        for (int k = 0; k < WORLD_ROOM; k++)
            values[i][k] = cp_rng_normal(rng, (uint64_t)k);
        if (!weight->role[0])
            memcpy(world_actual(&w, name)->values, values[i], sizeof values[i]);
    }
    expect_next("the gradients that differ are the weights themselves");
    world_actual(&w, "grads/model.norm.weight")->values[0] += 1;
    world_expect(&w, CP_DIFFERENT);
    assert_null(strstr(w.result.next, "weights themselves"));
}

static void transposed_matrices(void **state)
{
    (void)state;
    for (size_t i = 0; i < w.actual.count; i++) {
        world_tensor *tensor = &w.actual.tensors[i];
        if (!strstr(tensor->name, "v_proj"))
            continue;
        const world_tensor whole = *tensor;
        for (int k = 0; k < WORLD_C * WORLD_C; k++)
            tensor->values[k] = whole.values[k % WORLD_C * WORLD_C + k / WORLD_C];
    }
    expect_next("2 of the first 2 gradients that differ are each the expected one the other way round");
    assert_text_holds(w.result.next, "it would be the same if name_map said transpose");
    /* A matrix whose shape tells it. */
    world_tensor *head = world_actual(&w, "grads/lm_head.weight");
    head->extent[0] = WORLD_C;
    head->extent[1] = WORLD_V;
    world_expect_tensor(&w, head->name, CP_NOT_COMPARABLE, "expected [6,3], the other way round");
}

/* ---- parts of two ranks ---- */

static const int64_t HALVES[2][WORLD_B * 2] = {{0, 1, 0, 1}, {2, 3, 2, 3}};
static world_side sides[2];

/* Two ranks, whose gradients are a random part of the right ones and the rest. */
static void cut(cp_gradient_kind declared)
{
    for (int rank = 0; rank < 2; rank++) {
        world_side *side = &sides[rank];
        *side = w.actual;
        side->declaration.cp_size = 2;
        side->declaration.cp_rank = rank;
        side->declaration.gradients = declared;
        side->declaration.B = WORLD_B;
        side->declaration.S = 2;
        side->declaration.token_index = HALVES[rank];
        side->declaration.loss_count = rank == 0 ? 4 : 1;
        for (size_t t = 0; t < side->count; t++) {
            world_tensor *tensor = &side->tensors[t];
            const world_tensor *whole = &w.actual.tensors[t];
            int64_t width = world_count(whole) / (WORLD_B * WORLD_T);
            cp_rng rng = cp_rng_named(3, tensor->name);
            for (int64_t i = 0; is_gradient(tensor) && i < world_count(tensor); i++) {
                double share = whole->values[i] == 0 ? 0 : cp_rng_normal(rng, (uint64_t)i);
                tensor->values[i] = rank == 0 ? share : whole->values[i] - share;
            }
            if (is_gradient(tensor) || tensor->dims < 2)
                continue;
            tensor->extent[1] = 2;
            for (int64_t row = 0; row < WORLD_B * 2; row++)
                memcpy(tensor->values + row * width,
                       whole->values + (row / 2 * WORLD_T + HALVES[rank][row]) * width,
                       (size_t)width * sizeof *whole->values);
        }
    }
}

static void scale_part(int rank, double factor)
{
    for (size_t t = 0; t < sides[rank].count; t++)
        if (is_gradient(&sides[rank].tensors[t]))
            world_scale(&sides[rank].tensors[t], factor);
}

static void join(void)
{
    cp_source *parts[2];
    for (int rank = 0; rank < 2; rank++)
        parts[rank] = world_source(&sides[rank], rank ? "rank-0001.h5" : "rank-0000.h5");
    assert_ok(cp_source_join(&w.judged, parts, 2, WORLD_B, WORLD_T));
}

static void another_kind_of_gradients(void **state)
{
    (void)state;
    static const struct {
        cp_gradient_kind declared;
        double first, second; /* what the ranks' parts are multiplied by */
        const char *words;    /* NULL: same */
    } rows[] = {
        {CP_GRADIENTS_PARTIAL, 1, 1, NULL},
        {CP_GRADIENTS_MEAN, 2, 2, NULL},
        {CP_GRADIENTS_REDUCED, 1, 1,
         "the sum of the ranks' gradients is right, so each has its own part alone: it would be the same if "
         "gradients = \"partial\" were declared"},
        {CP_GRADIENTS_REDUCED, 2, 2,
         "the mean of the ranks' gradients is right: it would be the same if gradients = \"mean\" were "
         "declared"},
        {CP_GRADIENTS_MEAN, 1, 1, "it would be the same if gradients = \"partial\" were declared"},
        {CP_GRADIENTS_PARTIAL, 2, 2, "it would be the same if gradients = \"mean\" were declared"},
        {CP_GRADIENTS_PARTIAL, 1, 2, "the error is +1.00 × rank 1's part as it should be: it is in 2 times"},
        {CP_GRADIENTS_MEAN, 2, 1, "the error is -0.50 × rank 1's part as it should be: it is in 0.5 times"},
        {CP_GRADIENTS_PARTIAL, 0, 1, "rank 0's part of all gradients that differ is zero: it is left out"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cut(rows[i].declared);
        scale_part(0, rows[i].first);
        scale_part(1, rows[i].second);
        join();
        if (rows[i].words)
            expect_next(rows[i].words);
        else
            world_expect(&w, CP_SAME);
    }
}

static void reduced_gradients_said_to_be_parts(void **state)
{
    (void)state;
    cut(CP_GRADIENTS_PARTIAL);
    for (size_t t = 0; t < w.actual.count; t++)
        if (is_gradient(&w.actual.tensors[t]))
            sides[0].tensors[t] = sides[1].tensors[t] = w.actual.tensors[t];
    join();
    expect_next(
        "all ranks have the same gradients, which are reduced already: it would be the same if gradients = "
        "\"reduced\" were declared");
}

/* Beside reduced gradients what each rank had before; what was reduced is so many times the first's, and the second's. */
static void keep_parts(double first, double second)
{
    static char names[WORLD_TENSORS][CP_RESULT_NAME];
    cut(CP_GRADIENTS_REDUCED);
    const size_t count = sides[0].count;
    for (size_t t = 0; t < count; t++) {
        if (!is_gradient(&sides[0].tensors[t]))
            continue;
        snprintf(names[t], sizeof names[t], "grads_partial/%s", sides[0].tensors[t].name + strlen("grads/"));
        double reduced[WORLD_ROOM] = {0};
        for (int rank = 0; rank < 2; rank++)
            for (int64_t i = 0; i < WORLD_ROOM; i++)
                reduced[i] += (rank == 0 ? first : second) * sides[rank].tensors[t].values[i];
        for (int rank = 0; rank < 2; rank++) {
            world_tensor *whole = &sides[rank].tensors[t];
            world_tensor *part = world_add(&sides[rank], names[t], whole->dims, whole->extent);
            memcpy(part->values, whole->values, sizeof part->values);
            memcpy(whole->values, reduced, sizeof reduced);
        }
    }
}

static void gradients_before_their_reduction(void **state)
{
    (void)state;
    static const struct {
        double first, second;
        const char *words; /* NULL: same */
    } rows[] = {
        {1, 1, NULL},
        {0.5, 0.5,
         "so the reduction is wrong: they are the mean of the ranks' gradients, not the sum: 1/2 of it"},
        {2, 2, "they are 2 times the ranks' sum: it was added up once more"},
        {0.75, 0.75, "they are 0.75 times the ranks' sum"},
        {1, 2, "rank 1's part is in them 2 times"},
        {0, 1, "they are rank 1's own: they were not reduced"},
        {3, 4, "they are a sum of the ranks' gradients, but not with the factor 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        keep_parts(rows[i].first, rows[i].second);
        join();
        if (rows[i].words)
            expect_next(rows[i].words);
        else
            world_expect(&w, CP_SAME);
    }
}

static void gradients_that_were_wrong_before(void **state)
{
    (void)state;
    keep_parts(1, 1);
    world_find(&sides[1], "grads_partial/lm_head.weight")->values[1] += 0.5;
    join();
    expect_next("grads_partial/lm_head.weight, before any reduction over ranks; ");
    keep_parts(1, 1);
    world_find(&sides[0], "grads/lm_head.weight")->values[1] += 0.5;
    world_find(&sides[1], "grads/lm_head.weight")->values[1] += 0.5;
    join();
    expect_next("so the reduction is wrong: they are no sum of the ranks' gradients");
}

/* All of them, or none. */
static void gradients_before_their_reduction_are_missing(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        keep_parts(1, 1);
        for (int rank = 0; rank < 1 + both; rank++)
            world_drop(&sides[rank], "grads_partial/lm_head.weight");
        cp_source *parts[2];
        for (int rank = 0; rank < 2; rank++)
            parts[rank] = world_source(&sides[rank], rank ? "rank-0001.h5" : "rank-0000.h5");
        if (both == 0) {
            assert_status(cp_source_join(&w.judged, parts, 2, WORLD_B, WORLD_T), CP_INCOMPARABLE,
                          "/grads_partial/lm_head.weight: expected as in");
            w.judged = NULL;
            continue;
        }
        assert_ok(cp_source_join(&w.judged, parts, 2, WORLD_B, WORLD_T));
        world_expect(&w, CP_NOT_COMPARABLE);
        assert_text_holds(w.result.next, "grads_partial/lm_head.weight is missing from rank-0000.h5");
    }
}

static void another_kind_of_loss(void **state)
{
    (void)state;
    double loss = world_actual(&w, "loss")->values[0];
    cut(CP_GRADIENTS_PARTIAL);
    world_find(&sides[0], "loss")->values[0] = 0.75 * loss;
    world_find(&sides[1], "loss")->values[0] = 0.25 * loss;
    join();
    expect_next("it would be the same if loss_kind = \"share\" were declared, and not \"global\"");
    world_find(&sides[1], "loss")->values[0] = 1.25 * loss;
    join();
    expect_next("it would be the same if loss_kind = \"mean\" were declared, and not \"global\"");
}

/* ---- factors ---- */

static void a_factor_that_grows_with_depth(void **state)
{
    (void)state;
    scale_all("layers.1", 1.5);
    scale_all("layers.0", 1.5 * 1.5);
    scale_all("embed", 1.5 * 1.5);
    expect_next("gradients of a layer are 1.5 times more than the expected ones for each layer above it");
}

static void rounding_of_another_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < w.actual.count; i++) {
        world_tensor *tensor = &w.actual.tensors[i];
        for (int64_t k = 0; is_gradient(tensor) && k < world_count(tensor); k++)
            tensor->values[k] *= 1 + (k % 2 ? 0x1p-9 : -0x1p-10);
    }
    expect_next("no larger than rounding to bfloat16: look at the type in which they are reduced");
}

/* ---- where the backward pass goes wrong ---- */

static void the_attention_of_a_layer(void **state)
{
    (void)state;
    static const struct {
        const char *spoilt[2], *words;
    } rows[] = {
        {{"layers.1.self_attn.k_proj", "layers.1.self_attn.v_proj"},
         "down to the attention of layer 1, and wrong from there on: there gradients of keys and values are "
         "wrong, "
         "and those of queries are right: look at how the exchange brings dk and dv back"},
        {{"layers.1.self_attn.q_proj", "layers.1.self_attn.k_proj"},
         "there gradients of queries and keys are wrong, and others are right: look at the backward of "
         "scores"},
        {{"layers.1.self_attn.v_proj", "layers.1.self_attn.v_proj"}, "there gradients of values are wrong"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        w.actual = w.expected;
        bend("layers.0");
        bend("embed_tokens");
        for (int k = 0; k < 2; k++)
            bend(rows[i].spoilt[k]);
        expect_next(rows[i].words);
    }
}

static void everything_but_the_reduction(void **state)
{
    (void)state;
    const int64_t shape[] = {WORLD_B, WORLD_T, WORLD_C};
    for (int side = 0; side < 2; side++) {
        world_tensor *embeds = world_add(side ? &w.actual : &w.expected, "grads/inputs_embeds", 3, shape);
        memset(embeds->values + 7 * WORLD_C, 0, WORLD_C * sizeof *embeds->values);
    }
    bend("proj");
    bend("model.norm");
    expect_next(
        "the gradient of inputs_embeds is right, which all of the backward pass went into: look at the "
        "reduction");
    w.actual = w.expected;
    scale_all("weight", 0.5);
    w.actual.declaration.cp_size = 2;
    expect_next(
        "every parameter's gradient is 0.5 times the expected, 1 / the number of ranks, and that of the "
        "input embeddings, which is never reduced, is right");
    w.actual = w.expected;
    world_actual(&w, "grads/inputs_embeds")->values[0] += 1;
    expect_next("only the gradient of inputs_embeds is wrong: each rank has its own rows");
    w.actual = w.expected;
    world_actual(&w, "grads/inputs_embeds")->values[7 * WORLD_C] = 1;
    expect_next("only the gradient of inputs_embeds is wrong, at padding");
}

/* ---- where along the rows ---- */

/* Positions of both rows, "x" where logits are wrong. */
static void expect_positions(const char *wrong, const char *words)
{
    world_tensor *logits = world_actual(&w, "logits");
    memcpy(logits->values, world_expected(&w, "logits")->values, sizeof logits->values);
    for (int i = 0; i < WORLD_B * WORLD_T; i++)
        if (wrong[i] == 'x')
            logits->values[i * WORLD_V] += 0.5;
    expect_next(words);
}

static void places_of_logits(void **state)
{
    (void)state;
    static const int64_t documents[] = {0, 0, 1, 1, 0, 0, 0, -1};
    memcpy(w.documents, documents, sizeof documents);
    w.fixture.batch.document_ids = w.documents;
    expect_positions(".x.x..x.", "only last tokens of documents are wrong");
    expect_positions(".x......", "only last tokens of documents are wrong");
    expect_positions("...x....", "look at ");
    assert_null(strstr(w.result.next, "last tokens of documents"));
    expect_positions("..x.....", "only first tokens of later documents are wrong");
    expect_positions("......x.", "only tokens beside padding are wrong");
    expect_positions("..xx....",
                     "right before position 2, where a document begins, and wrong from there on: look at "
                     "what tells documents apart");
    expect_positions("....xxx.", "are right (only rows with padding are wrong): look at padding");
    expect_positions("x.xxx.x.", "the first token of a row, which sees itself alone, is wrong");
    expect_positions("x.xxx.x.", "at what parts in which it sees nothing bring to a merge");
    assert_null(strstr(w.result.next, "not at cuts"));
    expect_positions(".xxx..x.", "; the first wrong position is 1 of row 0");
    w.actual.declaration.cp_size = 2;
    w.actual.declaration.layout = "zigzag"; /* rank 0 has the ends */
    expect_positions("x..xx...", "all positions of rank 0 are wrong, and those of other ranks are right");
    expect_positions("x..x....", "positions of rank 0 alone are wrong");
    expect_positions(".xxx.xx.",
                     "right before position 1, where rank 1's shard begins, and wrong from there on");
}

static void windows(void **state)
{
    (void)state;
    static const char WINDOW[] = "{\"sliding_window\": 2}";
    cp_json_close(w.config);
    assert_ok(cp_json_parse(&w.config, WINDOW, strlen(WINDOW), "config"));
    expect_positions("..xx..x.",
                     "right before position 2, where the sliding window of 2 begins to hide keys,");
}

/* ---- losses ---- */

static void counts_of_targets(void **state)
{
    (void)state;
    static const int64_t labels[] = {1, 1, 1, 1, 1, 1, 1, CP_IGNORED}; /* 5 targets */
    w.fixture.batch.labels = labels;
    scale_all("", 5. / 7);
    world_scale(world_actual(&w, "loss"), 5. / 7);
    expect_next(
        "the loss and every gradient are 0.7143 times the expected, as if divided by 7 and not by 5 (labels "
        "before they are shifted, or all real tokens): look at the loss's divisor; it would be the same if "
        "they were multiplied by 1.4");
    w.actual = w.expected;
    world_scale(world_actual(&w, "loss"), 5. / 8);
    expect_next(
        "as if divided by 8 and not by 5 (all positions), with right gradients: look at what is reported");
    w.actual = w.expected;
    const double *losses = world_expected(&w, "token_loss")->values;
    double rows[] = {(losses[0] + losses[1] + losses[2]) / 3, (losses[4] + losses[5]) / 2};
    world_expected(&w, "loss")->values[0] = (3 * rows[0] + 2 * rows[1]) / 5;
    world_actual(&w, "loss")->values[0] = (rows[0] + rows[1]) / 2;
    expect_next("the loss is the mean of the means of 2 groups of rows");
    w.actual.declaration.cp_size = 2;
    w.actual.declaration.layout = "contiguous";
    double first = (losses[0] + losses[1] + losses[4] + losses[5]) / 4, second = losses[2];
    world_actual(&w, "loss")->values[0] = (first + second) / 2;
    expect_next("the loss is the mean of the ranks' own means");
    world_actual(&w, "loss")->values[0] = second;
    expect_next("the loss is rank 1's own mean");
    world_actual(&w, "loss")->values[0] = 4 * first / 5;
    expect_next("the loss is rank 0's own share");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int clues_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_weights_instead_of_gradients),
        TEST(transposed_matrices),
        TEST(another_kind_of_gradients),
        TEST(reduced_gradients_said_to_be_parts),
        TEST(gradients_before_their_reduction),
        TEST(gradients_that_were_wrong_before),
        TEST(gradients_before_their_reduction_are_missing),
        TEST(another_kind_of_loss),
        TEST(a_factor_that_grows_with_depth),
        TEST(rounding_of_another_type),
        TEST(the_attention_of_a_layer),
        TEST(everything_but_the_reduction),
        TEST(places_of_logits),
        TEST(windows),
        TEST(counts_of_targets),
    };
    return cmocka_run_group_tests_name("clues", tests, NULL, NULL);
}

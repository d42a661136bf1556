#include "tests/judge/world.h"

#include "base/rng.h"
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

static const char ID[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char UNTIED[] = "{\"tie_word_embeddings\": false, \"pad_token_id\": 3}";
static const char TIED[] = "{\"tie_word_embeddings\": true}";

static const struct {
    const char *name;
    int dims;
    int64_t extent[CP_MAX_DIMS];
} SHAPES[] = {
    {"loss", 0, {0}},
    {"token_loss", 2, {WORLD_B, WORLD_T}},
    {"logits", 3, {WORLD_B, WORLD_T, WORLD_V}},
    {"grads/model.embed_tokens.weight", 2, {WORLD_V, WORLD_C}},
    {"grads/model.layers.0.self_attn.q_proj.weight", 2, {WORLD_C, WORLD_C}},
    {"grads/model.layers.0.self_attn.k_proj.weight", 2, {WORLD_C, WORLD_C}},
    {"grads/model.layers.0.self_attn.v_proj.weight", 2, {WORLD_C, WORLD_C}},
    {"grads/model.layers.1.self_attn.q_proj.weight", 2, {WORLD_C, WORLD_C}},
    {"grads/model.layers.1.self_attn.k_proj.weight", 2, {WORLD_C, WORLD_C}},
    {"grads/model.layers.1.self_attn.v_proj.weight", 2, {WORLD_C, WORLD_C}},
    {"grads/model.norm.weight", 1, {WORLD_C}},
    {"grads/lm_head.weight", 2, {WORLD_V, WORLD_C}},
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

int64_t world_count(const world_tensor *tensor)
{
    int64_t count = 1;
    for (int axis = 0; axis < tensor->dims; axis++)
        count *= tensor->extent[axis];
    return count;
}

world_tensor *world_add(world_side *side, const char *name, int dims, const int64_t *extent)
{
    assert_true(side->count < WORLD_TENSORS);
    world_tensor *tensor = &side->tensors[side->count++];
    *tensor = (world_tensor){.name = name, .dims = dims, .there = true, .stored = CP_F64};
    if (dims > 0)
        memcpy(tensor->extent, extent, (size_t)dims * sizeof *extent);
    assert_true(world_count(tensor) <= WORLD_ROOM);
    cp_rng rng = cp_rng_named(1, name);
    for (int64_t i = 0; i < world_count(tensor); i++)
        tensor->values[i] = cp_rng_normal(rng, (uint64_t)i);
    return tensor;
}

static void add_weight(world *w, const char *name, const char *role, int dims, const int64_t *extent)
{
    static double nothing[WORLD_ROOM];
    w->weights[w->fixture.weight_count++] =
        (cp_weight){name, "", role, cp_tensor_view(nothing, CP_F64, dims, extent)};
}

static void open_batch(world *w)
{
    static const int64_t ids[] = {0, 1, 2, 0, 1, 2, 1, 3};
    memcpy(w->input_ids, ids, sizeof ids);
    for (int i = 0; i < WORLD_B * WORLD_T; i++) {
        w->mask[i] = i != WORLD_B * WORLD_T - 1;
        w->documents[i] = w->mask[i] ? 0 : -1;
    }
    w->fixture.batch =
        (cp_batch){.B = WORLD_B, .T = WORLD_T, .input_ids = w->input_ids, .attention_mask = w->mask};
}

void world_open(world *w)
{
    *w = (world){.fixture = {.path = "fixture.h5", .id = ID, .order = ""}};
    assert_ok(cp_json_parse(&w->config, UNTIED, strlen(UNTIED), "config"));
    open_batch(w);
    for (int i = 0; i < SHAPE_COUNT; i++)
        world_add(&w->expected, SHAPES[i].name, SHAPES[i].dims, SHAPES[i].extent);
    for (int i = 3; i < SHAPE_COUNT; i++)
        add_weight(w, SHAPES[i].name + strlen("grads/"), "", SHAPES[i].dims, SHAPES[i].extent);
    add_weight(w, "model.rotary_emb.inv_freq", "buffer", 1, (int64_t[]){2});
    world_tensor *embedding = world_expected(w, "grads/model.embed_tokens.weight");
    memset(embedding->values + 4 * WORLD_C, 0, 2 * WORLD_C * sizeof *embedding->values);
    w->expected.declaration = cp_declaration_whole();
    w->expected.declaration.fixture_id = ID;
    w->expected.declaration.dtype_declared = true;
    w->actual = w->expected;
}

void world_close(world *w)
{
    cp_result_close(&w->result);
    cp_json_close(w->config);
}

world_tensor *world_find(world_side *side, const char *name)
{
    for (size_t i = 0; i < side->count; i++) {
        if (strcmp(side->tensors[i].name, name) == 0)
            return &side->tensors[i];
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

world_tensor *world_expected(world *w, const char *name)
{
    return world_find(&w->expected, name);
}

world_tensor *world_actual(world *w, const char *name)
{
    return world_find(&w->actual, name);
}

void world_drop(world_side *side, const char *prefix)
{
    for (size_t i = 0; i < side->count; i++) {
        if (strncmp(side->tensors[i].name, prefix, strlen(prefix)) == 0)
            side->tensors[i].there = false;
    }
}

void world_scale(world_tensor *tensor, double factor)
{
    for (int64_t i = 0; i < world_count(tensor); i++)
        tensor->values[i] *= factor;
}

cp_weight *world_weight(world *w, const char *name)
{
    for (size_t i = 0; i < w->fixture.weight_count; i++) {
        if (strcmp(w->weights[i].name, name) == 0)
            return &w->weights[i];
    }
    fail_msg("no weight %s", name);
    return NULL;
}

void world_tie(world *w)
{
    cp_json_close(w->config);
    assert_ok(cp_json_parse(&w->config, TIED, strlen(TIED), "config"));
    world_drop(&w->expected, "grads/lm_head");
    world_drop(&w->actual, "grads/lm_head");
    world_weight(w, "model.embed_tokens.weight")->tied = "lm_head.weight\n";
    cp_weight *head = world_weight(w, "lm_head.weight");
    *head = w->weights[--w->fixture.weight_count];
}

void world_attention(world *w)
{
    static const struct {
        const char *name;
        int dims;
        int64_t extent[CP_MAX_DIMS];
    } shapes[] = {
        {"out", 4, {WORLD_B, WORLD_T, 2, 2}}, {"lse", 3, {WORLD_B, WORLD_T, 2}},
        {"dq", 4, {WORLD_B, WORLD_T, 2, 2}},  {"dk", 4, {WORLD_B, WORLD_T, 1, 2}},
        {"dv", 4, {WORLD_B, WORLD_T, 1, 2}},  {"dsink", 1, {2}},
    };
    w->expected.count = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        world_add(&w->expected, shapes[i].name, shapes[i].dims, shapes[i].extent);
    w->expected.declaration.attention = true;
    w->actual = w->expected;
    cp_json_close(w->config);
    w->config = NULL;
    w->fixture.weight_count = 0;
    w->fixture.attention = &w->attention;
    w->fixture.batch.input_ids = NULL;
}

/* Values in the stored type; the source's tensors live as long as the process (they are a few bytes). */
static cp_memory_tensor memory_of(world_tensor *tensor, void **stored)
{
    static const int64_t one[] = {1};
    int dims = tensor->dims > 0 ? tensor->dims : 1;
    const int64_t *extent = tensor->dims > 0 ? tensor->extent : one;
    void *values = tensor->values;
    if (tensor->stored != CP_F64) {
        values = *stored = malloc(WORLD_ROOM * sizeof(double));
        cp_dtype_from_double(values, tensor->stored, tensor->values, (size_t)world_count(tensor));
    }
    return (cp_memory_tensor){tensor->name, cp_tensor_view(values, tensor->stored, dims, extent),
                              tensor->dims == 0};
}

static cp_source *source_of(world_side *side, const char *label, void **stored)
{
    cp_memory_tensor memory[WORLD_TENSORS];
    size_t count = 0;
    for (size_t i = 0; i < side->count; i++) {
        if (side->tensors[i].there)
            memory[count++] = memory_of(&side->tensors[i], &stored[i]);
    }
    cp_source *source = NULL;
    assert_ok(cp_source_memory(&source, label, &side->declaration, memory, count));
    return source;
}

cp_source *world_source(world_side *side, const char *label)
{
    void *none[WORLD_TENSORS] = {NULL};
    cp_source *source = source_of(side, label, none);
    for (int i = 0; i < WORLD_TENSORS; i++)
        assert_null(none[i]); /* float64 only: nobody would free it */
    return source;
}

cp_status world_judge(world *w)
{
    void *stored[2][WORLD_TENSORS] = {{NULL}};
    cp_result_close(&w->result);
    cp_source *expected = source_of(&w->expected, "expected.h5", stored[0]);
    cp_source *actual = w->judged ? w->judged : source_of(&w->actual, "actual.h5", stored[1]);
    w->fixture.config = w->config;
    w->fixture.weights = w->weights;
    w->fixture.expected = w->expected_is_dump ? NULL : expected;
    cp_status status =
        cp_diff(&w->result, expected, actual, w->without_fixture ? NULL : &w->fixture, &w->options);
    cp_source_close(expected);
    cp_source_close(actual);
    w->judged = NULL;
    for (int i = 0; i < 2 * WORLD_TENSORS; i++)
        free(stored[i / WORLD_TENSORS][i % WORLD_TENSORS]);
    return status;
}

void world_expect(world *w, cp_verdict verdict)
{
    assert_ok(world_judge(w));
    if (w->result.verdict == verdict)
        return;
    for (size_t i = 0; i < w->result.count; i++)
        print_error("%s: %s\n", w->result.tensors[i].name, w->result.tensors[i].reason);
    for (size_t i = 0; i < w->result.failure_count; i++)
        print_error("why: %s\n", w->result.failures[i]);
    fail_msg("%s, expected %s", cp_verdict_name(w->result.verdict), cp_verdict_name(verdict));
}

const cp_tensor_result *world_result(const world *w, const char *name)
{
    for (size_t i = 0; i < w->result.count; i++) {
        if (strcmp(w->result.tensors[i].name, name) == 0)
            return &w->result.tensors[i];
    }
    fail_msg("%s is not in the result", name);
    return NULL;
}

void world_expect_tensor(world *w, const char *name, cp_verdict verdict, const char *words)
{
    world_expect(w, verdict);
    const cp_tensor_result *tensor = world_result(w, name);
    assert_int_equal(tensor->verdict, verdict);
    assert_text_holds(tensor->reason, words);
}

static bool holds(char *const *sentences, size_t count, const char *words)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(sentences[i], words))
            return true;
    }
    return false;
}

void world_expect_note(const world *w, const char *words)
{
    if (!holds(w->result.notes, w->result.note_count, words))
        fail_msg("no note holds \"%s\"", words);
}

void world_expect_no_note(const world *w, const char *words)
{
    if (holds(w->result.notes, w->result.note_count, words))
        fail_msg("a note holds \"%s\"", words);
}

void world_expect_failure(const world *w, const char *words)
{
    if (!holds(w->result.failures, w->result.failure_count, words))
        fail_msg("no failure holds \"%s\"; the first: %s", words,
                 w->result.failure_count > 0 ? w->result.failures[0] : "none");
}

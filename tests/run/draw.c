#include "tests/run/draw.h"

#include "models/models.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 11, PADDING_ID = 3 };

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

draw_stream draw_open(uint64_t seed, const char *name, int64_t number)
{
    char text[64];
    snprintf(text, sizeof text, "%s %" PRId64, name, number);
    return (draw_stream){cp_rng_named(seed, text), 0};
}

int64_t draw_below(draw_stream *stream, int64_t bound)
{
    return cp_rng_below(stream->rng, stream->next++, bound);
}

int64_t draw_between(draw_stream *stream, int64_t least, int64_t most)
{
    return least + draw_below(stream, most - least + 1);
}

bool draw_chance(draw_stream *stream, int64_t in)
{
    return draw_below(stream, in) == 0;
}

/* ---- a configuration --------------------------------------------------------------------------------------------- */

static bool has(const cp_json *config, const char *name)
{
    return cp_json_member(config, name) != NULL;
}

static void set_if_there(cp_json *config, const char *name, int64_t value)
{
    if (has(config, name))
        cp_json_set_integer(config, name, value);
}

static void set_sizes(cp_json *config, draw_stream *stream)
{
    static const int64_t heads[] = {1, 2, 3, 4, 6, 8, 12};
    int64_t H = heads[draw_below(stream, sizeof heads / sizeof *heads)];
    int64_t K = draw_between(stream, 1, H);
    while (H % K != 0)
        K--;
    cp_json_set_integer(config, "num_attention_heads", H);
    cp_json_set_integer(config, "num_key_value_heads", K);
    /* A norm over one or two elements leaves next to nothing of a gradient but its rounding. */
    cp_json_set_integer(config, "head_dim", 2 * draw_between(stream, 3, 4));
    cp_json_set_integer(config, "hidden_size", H * draw_between(stream, (7 + H) / H, H > 6 ? 2 : 16 / H));
    cp_json_set_integer(config, "vocab_size", VOCABULARY);
    set_if_there(config, "intermediate_size", draw_between(stream, 4, 9));
    set_if_there(config, "intermediate_size_mlp", draw_between(stream, 4, 9));
    set_if_there(config, "sliding_window", draw_between(stream, 1, 7));
    set_if_there(config, "attention_chunk_size", draw_between(stream, 1, 6));
    set_if_there(config, "query_pre_attn_scalar", draw_between(stream, 4, 12));
}

/* Of the kinds of layer that the example has. */
static void set_layers(cp_json *config, draw_stream *stream)
{
    const cp_json *kinds = cp_json_member(config, "layer_types");
    int64_t L = draw_between(stream, 1, 3);
    cp_json_set_integer(config, "num_hidden_layers", L);
    if (has(config, "no_rope_layers")) {
        cp_json *ropes = cp_json_new_array();
        for (int64_t n = 0; n < L; n++)
            cp_json_append_integer(ropes, draw_below(stream, 2));
        cp_json_set(config, "no_rope_layers", ropes);
    }
    if (!kinds || cp_json_kind_of(kinds) != CP_JSON_ARRAY)
        return;
    cp_json *types = cp_json_new_array();
    for (int64_t n = 0; n < L; n++)
        cp_json_append_string(types, cp_json_string(cp_json_element(
                                         kinds, (size_t)draw_below(stream, (int64_t)cp_json_size(kinds)))));
    cp_json_set(config, "layer_types", types);
}

static void set_flags(cp_json *config, draw_stream *stream)
{
    static const char *const flags[] = {"attention_bias",          "mlp_bias",
                                        "tie_word_embeddings",     "use_qk_norm",
                                        "attn_temperature_tuning", "output_router_logits"};
    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++) {
        bool set = draw_chance(stream, 2);
        if (has(config, flags[n]))
            cp_json_set_bool(config, flags[n], set);
    }
}

static char *draw_config(draw_stream *stream)
{
    int64_t families = 0;
    while (cp_models_family((size_t)families))
        families++;
    const char *example = cp_models_example(cp_models_family((size_t)draw_below(stream, families)));
    cp_json *parsed;
    assert_ok(cp_json_parse(&parsed, example, strlen(example), "example"));
    cp_json *config = cp_json_copy(parsed);
    set_sizes(config, stream);
    set_layers(config, stream);
    set_flags(config, stream);
    char *text = cp_json_text(config);
    cp_json_close(config);
    cp_json_close(parsed);
    return text;
}

/* ---- a batch ------------------------------------------------------------------------------------------------------ */

enum documents { WHOLE, BY_IDS, BY_POSITIONS, BY_BOTH, DOCUMENT_KINDS };
enum padding { NO_PADDING, LEFT, RIGHT, BOTH, PADDING_KINDS };

typedef struct row {
    int64_t left, right; /* padding */
} row;

static int64_t *integers(draw_case *drawn, int64_t count)
{
    return cp_arena_take(&drawn->memory, (size_t)count * sizeof(int64_t));
}

static row draw_row(draw_stream *stream, int padding, int64_t T)
{
    row r = {0};
    if (padding == LEFT || padding == BOTH)
        r.left = draw_below(stream, T);
    if (padding == RIGHT || padding == BOTH)
        r.right = draw_below(stream, T - r.left);
    return r;
}

static void draw_documents(draw_case *drawn, draw_stream *stream, int kind, const row *rows)
{
    cp_batch *batch = &drawn->fixture.batch;
    int64_t B = batch->B, T = batch->T, first = draw_below(stream, 5);
    int64_t *ids = integers(drawn, B * T), *positions = integers(drawn, B * T);
    for (int64_t b = 0; b < B; b++) {
        int64_t number = 0, position = 0;
        for (int64_t i = 0; i < T; i++) {
            bool real = i >= rows[b].left && i < T - rows[b].right;
            if (real && i > rows[b].left && draw_chance(stream, 4)) {
                number++;
                position = 0;
            }
            ids[b * T + i] = real ? number : -1;
            positions[b * T + i] = kind == WHOLE ? first + i : real ? position++ : i;
        }
    }
    if (kind == BY_IDS || kind == BY_BOTH)
        batch->document_ids = ids;
    if (kind == BY_POSITIONS || kind == BY_BOTH || (kind == WHOLE && draw_chance(stream, 4)))
        batch->position_ids = positions;
}

static void draw_mask(draw_case *drawn, const row *rows)
{
    cp_batch *batch = &drawn->fixture.batch;
    uint8_t *mask = cp_arena_take(&drawn->memory, (size_t)(batch->B * batch->T));
    for (int64_t n = 0; n < batch->B * batch->T; n++)
        mask[n] =
            n % batch->T >= rows[n / batch->T].left && n % batch->T < batch->T - rows[n / batch->T].right;
    batch->attention_mask = mask;
}

static void draw_targets(draw_case *drawn, draw_stream *stream, const row *rows)
{
    cp_batch *batch = &drawn->fixture.batch;
    bool shifted = draw_chance(stream, 4);
    int64_t prompt = draw_chance(stream, 3) ? draw_below(stream, batch->T) : 0, T = batch->T;
    int64_t ignored = draw_between(stream, 2, 9);
    int64_t *labels = integers(drawn, batch->B * T);
    for (int64_t n = 0; n < batch->B * T; n++) {
        int64_t i = n % T, left = rows[n / T].left, end = T - rows[n / T].right;
        bool target =
            i < end && i >= (shifted ? left : left + 1) && i >= prompt && !draw_chance(stream, ignored);
        labels[n] = target ? draw_below(stream, VOCABULARY) : CP_IGNORED;
    }
    *(shifted ? &batch->shift_labels : &batch->labels) = labels;
    if (draw_chance(stream, 5))
        batch->num_items_in_batch = (double)draw_between(stream, 1, 40);
}

static void draw_tokens(draw_case *drawn, draw_stream *stream, int64_t C)
{
    cp_batch *batch = &drawn->fixture.batch;
    int64_t count = batch->B * batch->T;
    if (draw_chance(stream, 4)) {
        double *embeds = cp_arena_take(&drawn->memory, (size_t)(count * C) * sizeof *embeds);
        for (int64_t n = 0; n < count * C; n++)
            embeds[n] = cp_rng_normal(stream->rng, stream->next++);
        batch->inputs_embeds = embeds;
        batch->C = C;
        return;
    }
    int64_t *ids = integers(drawn, count);
    for (int64_t n = 0; n < count; n++)
        ids[n] = draw_below(stream, VOCABULARY);
    batch->input_ids = ids;
}

/* Numbers below `count` of each row; not all need be there. */
static const int64_t *draw_numbers(draw_case *drawn, draw_stream *stream, int64_t count)
{
    int64_t *out = integers(drawn, drawn->fixture.batch.B);
    for (int64_t b = 0; b < drawn->fixture.batch.B; b++)
        out[b] = draw_below(stream, count);
    return out;
}

/* A balancing loss of experts is one of all tokens: no micro-batches then. */
static void try_batch(draw_case *drawn, draw_stream *stream, int64_t C, bool balanced)
{
    cp_batch *batch = &drawn->fixture.batch;
    *batch = (cp_batch){.B = draw_between(stream, 1, 4), .T = draw_between(stream, 1, 14)};
    int documents = (int)draw_below(stream, DOCUMENT_KINDS), padding = (int)draw_below(stream, PADDING_KINDS);
    if (documents == BY_POSITIONS)
        padding = NO_PADDING;
    row rows[4];
    for (int64_t b = 0; b < batch->B; b++)
        rows[b] = draw_row(stream, padding, batch->T);
    draw_tokens(drawn, stream, C);
    draw_documents(drawn, stream, documents, rows);
    if (padding != NO_PADDING && (!batch->document_ids || draw_chance(stream, 2)))
        draw_mask(drawn, rows);
    draw_targets(drawn, stream, rows);
    if (draw_chance(stream, 4) && !balanced)
        batch->microbatch = draw_numbers(drawn, stream, batch->B);
    if (draw_chance(stream, 4))
        batch->data_parallel = draw_numbers(drawn, stream, 3);
    snprintf(drawn->batch, sizeof drawn->batch,
             "B %" PRId64 " T %" PRId64 " documents %d padding %d%s%s%s%s%s", batch->B, batch->T, documents,
             padding, batch->inputs_embeds ? " embeddings" : "", batch->shift_labels ? " shift_labels" : "",
             batch->num_items_in_batch > 0 ? " num_items" : "", batch->microbatch ? " microbatch" : "",
             batch->data_parallel ? " data_parallel" : "");
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

void draw_model(draw_case *drawn, uint64_t seed, int64_t number)
{
    draw_stream stream = draw_open(seed, "model", number);
    *drawn = (draw_case){.memory = cp_arena_growing(), .config = draw_config(&stream)};
    cp_json *config;
    cp_weight *weights;
    cp_program *program;
    assert_ok(cp_json_parse(&config, drawn->config, strlen(drawn->config), "drawn"));
    assert_ok(cp_models_build(&program, config, "drawn"));
    int64_t C = program->C;
    bool balanced = program->balance.given;
    cp_program_close(program);
    drawn->fixture = (cp_fixture){.path = "drawn",
                                  .id = "drawn",
                                  .producer = "",
                                  .config_text = drawn->config,
                                  .config = config,
                                  .order = "",
                                  .truth = "",
                                  .precision = ""};
    assert_ok(cp_make_weights(&weights, &drawn->fixture.weight_count, drawn->config, "drawn",
                              seed + (uint64_t)number));
    drawn->fixture.weights = weights;
    do /* a batch may be without a target */
        try_batch(drawn, &stream, C, balanced);
    while (cp_batch_check(&drawn->fixture.batch, VOCABULARY, "drawn") != CP_OK);
    assert_ok(cp_model_open(&drawn->model, &drawn->fixture));
}

void draw_close(draw_case *drawn)
{
    cp_model_close(drawn->model);
    cp_make_weights_close((cp_weight *)(uintptr_t)drawn->fixture.weights, drawn->fixture.weight_count);
    cp_json_close((cp_json *)(uintptr_t)drawn->fixture.config);
    cp_arena_close(&drawn->memory);
    free(drawn->config);
}

/* ---- ways --------------------------------------------------------------------------------------------------------- */

static void draw_layout(cp_layout_spec *layout, draw_stream *stream, int P, int64_t T)
{
    *layout = (cp_layout_spec){.kind = (cp_layout_kind)draw_below(stream, CP_LAYOUT_KINDS)};
    if (layout->kind == CP_LAYOUT_STRIPED)
        layout->block = draw_between(stream, 1, 3);
    if (layout->kind != CP_LAYOUT_UNEVEN || draw_chance(stream, 3))
        return;
    layout->cuts = P;
    for (int64_t token = 0; token < T; token++)
        layout->cut[draw_below(stream, P)]++;
}

/* usp: a factorisation of P and a mesh order, or left to cp_exchange_settled. */
static void draw_exchange(cp_exchange_spec *exchange, draw_stream *stream, int P)
{
    *exchange = (cp_exchange_spec){.kind = (cp_exchange_kind)draw_below(stream, CP_EXCHANGE_KINDS)};
    if (exchange->kind != CP_EXCHANGE_USP || draw_chance(stream, 4))
        return;
    exchange->ulysses = (int)draw_between(stream, 1, P);
    while (P % exchange->ulysses != 0)
        exchange->ulysses--;
    exchange->ring = P / exchange->ulysses;
    exchange->ring_inner = draw_chance(stream, 2);
}

static void try_way(cp_run_options *options, draw_stream *stream, const cp_batch *batch)
{
    enum { MOST = 9, MANY = 16, MOST_RANKS = 12 };
    *options = (cp_run_options){.P = (int)draw_between(stream, 1, MOST),
                                .D = (int)draw_between(stream, 0, 3),
                                .M = batch->microbatch ? 0 : (int)draw_between(stream, 0, 3),
                                .dtype = CP_F64};
    if (draw_chance(stream, 20))
        options->P = MANY;
    if (options->P * options->D > MOST_RANKS)
        options->D = 0;
    draw_exchange(&options->exchange, stream, options->P);
    options->attention = (cp_attention_form)draw_below(stream, CP_ATTENTION_FORMS);
    options->matmul = draw_chance(stream, 4) ? CP_MATMUL_ORDERED : CP_MATMUL_BLAS;
    options->recompute = draw_chance(stream, 4);
    options->trace = draw_chance(stream, 4);
    draw_layout(&options->layout, stream, options->P, batch->T);
}

static void describe(char text[DRAW_TEXT], const cp_run_options *options)
{
    char exchange[CP_EXCHANGE_TEXT], layout[CP_LAYOUT_TEXT];
    snprintf(text, DRAW_TEXT, "P %d D %d M %d %s %.100s form %d%s%s%s", options->P, options->D, options->M,
             cp_exchange_text(&options->exchange, exchange), cp_layout_text(&options->layout, layout),
             (int)options->attention, options->matmul == CP_MATMUL_ORDERED ? " ordered" : "",
             options->recompute ? " recomputed" : "", options->trace ? " traced" : "");
}

void draw_way(cp_run_options *options, char text[DRAW_TEXT], const draw_case *drawn, uint64_t seed,
              int64_t number)
{
    draw_stream stream = draw_open(seed, "way", number);
    do
        try_way(options, &stream, &drawn->fixture.batch);
    while (cp_run_check(drawn->model, options) == CP_REFUSED);
    describe(text, options);
}

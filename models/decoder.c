#include "models/decoder.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cp_activation activation;
} activations[] = {
    {"silu", CP_ACT_SILU},          {"swish", CP_ACT_SILU},
    {"gelu", CP_ACT_GELU},          {"gelu_pytorch_tanh", CP_ACT_GELU_TANH},
    {"gelu_new", CP_ACT_GELU_TANH}, {"relu", CP_ACT_RELU},
};

static cp_status read_activation(cp_decoder *decoder, const cp_config *config,
                                 const cp_decoder_defaults *defaults)
{
    const char *name;
    CP_TRY(cp_config_string(&name, config, defaults->activation, defaults->activation_default));
    for (size_t n = 0; n < sizeof activations / sizeof *activations; n++)
        if (strcmp(activations[n].name, name) == 0) {
            decoder->activation = activations[n].activation;
            return CP_OK;
        }
    return cp_fail(CP_REFUSED, "%s: %s '%s' is not known to the reference", config->where,
                   defaults->activation, name);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Fields that would change the step and that no builder reads. Dropout by its ending, since families name it freely. */
static cp_status refuse_unknown(const cp_config *config)
{
    static const char *const must_be_off[] = {"use_bidirectional_attention", "quantization_config",
                                              "is_encoder_decoder", "chunk_size_feed_forward"};
    void *at = NULL;
    const char *name;
    for (const cp_json *value; (value = cp_json_next(config->json, &at, &name)) != NULL;) {
        cp_json_kind kind = cp_json_kind_of(value);
        bool off = kind == CP_JSON_NULL || (kind == CP_JSON_BOOL && !cp_json_bool(value)) ||
                   ((kind == CP_JSON_INTEGER || kind == CP_JSON_REAL) && cp_json_real(value) == 0);
        if (off)
            continue;
        if (ends_with(name, "dropout") || ends_with(name, "_pdrop"))
            return cp_fail(CP_REFUSED, "%s: %s is not zero: the reference has no dropout", config->where,
                           name);
        for (size_t m = 0; m < sizeof must_be_off / sizeof *must_be_off; m++)
            if (strcmp(name, must_be_off[m]) == 0)
                return cp_fail(CP_REFUSED, "%s: %s is set, which the reference does not know", config->where,
                               name);
    }
    return CP_OK;
}

/* A size that may be null: 0 means "derived", and so does `absent` 0. */
static cp_status read_derived(int64_t *out, const cp_config *config, const char *name, int64_t absent,
                              int64_t null)
{
    if (null < 0)
        return cp_config_size(out, config, name, absent);
    return cp_config_size_or_null(out, config, name, absent, null);
}

static cp_status read_heads(cp_decoder *decoder, const cp_config *config, const cp_decoder_defaults *defaults)
{
    CP_TRY(cp_config_size(&decoder->H, config, "num_attention_heads", defaults->H));
    CP_TRY(read_derived(&decoder->K, config, "num_key_value_heads", defaults->K, defaults->K_null));
    CP_TRY(read_derived(&decoder->D, config, "head_dim", defaults->D, defaults->D_null));
    if (decoder->K == 0)
        decoder->K = decoder->H;
    if (decoder->H % decoder->K != 0)
        return cp_fail(CP_BAD_INPUT,
                       "%s: num_attention_heads %" PRId64
                       " is not a multiple of num_key_value_heads %" PRId64,
                       config->where, decoder->H, decoder->K);
    if ((defaults->divides || decoder->D == 0) && decoder->C % decoder->H != 0)
        return cp_fail(CP_BAD_INPUT,
                       "%s: hidden_size %" PRId64 " is not a multiple of num_attention_heads %" PRId64,
                       config->where, decoder->C, decoder->H);
    if (decoder->D == 0)
        decoder->D = decoder->C / decoder->H;
    if (decoder->D % 2 != 0)
        return cp_fail(CP_BAD_INPUT, "%s: head_dim %" PRId64 " is odd, and rope turns pairs", config->where,
                       decoder->D);
    return CP_OK;
}

/* Sizes whose products, in bytes and over all layers, stay far inside 64 bits. */
static cp_status check_sizes(const cp_decoder *decoder, const cp_config *config, const char *feed_forward)
{
    enum { LARGEST = 1 << 24, LARGEST_HEAD = 1 << 16 };
    const struct {
        const char *name;
        int64_t size, largest;
    } sizes[] = {{"vocab_size", decoder->V, LARGEST},
                 {"hidden_size", decoder->C, LARGEST},
                 {feed_forward, decoder->F, LARGEST},
                 {"head_dim", decoder->D, LARGEST_HEAD},
                 {"num_attention_heads", decoder->H, LARGEST / decoder->D},
                 {"num_hidden_layers", decoder->L, CP_DECODER_LAYERS}};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        if (sizes[n].size > sizes[n].largest)
            return cp_fail(CP_REFUSED, "%s: %s %" PRId64 ": the reference takes up to %" PRId64 " here",
                           config->where, sizes[n].name, sizes[n].size, sizes[n].largest);
    return CP_OK;
}

static cp_status read_padding(cp_decoder *decoder, const cp_config *config, int64_t absent)
{
    CP_TRY(cp_config_integer_or_null(&decoder->padding_id, config, "pad_token_id", absent, -1));
    if (cp_config_field(config, "pad_token_id") == NULL && decoder->padding_id < 0)
        return CP_OK;
    if (decoder->padding_id < 0) /* torch.nn.Embedding counts from the end */
        decoder->padding_id += decoder->V;
    if (decoder->padding_id < 0 || decoder->padding_id >= decoder->V)
        return cp_fail(CP_BAD_INPUT, "%s: pad_token_id is outside the vocabulary of %" PRId64, config->where,
                       decoder->V);
    return CP_OK;
}

cp_status cp_decoder_read(cp_decoder *decoder, const cp_config *config, const char *family,
                          const cp_decoder_defaults *defaults)
{
    *decoder = (cp_decoder){.family = family, .embed_scale = 1, .norm = CP_NORM_WEIGHT, .mlp = "mlp"};
    CP_TRY(refuse_unknown(config));
    CP_TRY(cp_config_size(&decoder->V, config, "vocab_size", defaults->V));
    CP_TRY(cp_config_size(&decoder->C, config, "hidden_size", defaults->C));
    CP_TRY(cp_config_size(&decoder->F, config, defaults->feed_forward, defaults->F));
    CP_TRY(cp_config_size(&decoder->L, config, "num_hidden_layers", defaults->L));
    CP_TRY(read_heads(decoder, config, defaults));
    CP_TRY(check_sizes(decoder, config, defaults->feed_forward));
    CP_TRY(read_padding(decoder, config, defaults->padding_id));
    CP_TRY(read_activation(decoder, config, defaults));
    CP_TRY(cp_config_bool(&decoder->tied, config, "tie_word_embeddings", defaults->tied));
    CP_TRY(cp_config_real(&decoder->epsilon, config, "rms_norm_eps", defaults->epsilon));
    if (!(decoder->epsilon >= 0 && isfinite(decoder->epsilon)))
        return cp_fail(CP_BAD_INPUT, "%s: rms_norm_eps is %g, expected a number from 0", config->where,
                       decoder->epsilon);
    decoder->scale = 1 / sqrt((double)decoder->D);
    return CP_OK;
}

cp_status cp_decoder_window(int64_t *window, const cp_config *config)
{
    return cp_config_size_or_null(window, config, "sliding_window", 4096, 0);
}

cp_status cp_decoder_layer_type(const char **type, const cp_config *config, const cp_decoder *decoder,
                                int64_t layer, const char *const *known)
{
    const cp_json *list;
    *type = NULL;
    CP_TRY(cp_config_list(&list, config, "layer_types", decoder->L));
    if (!list)
        return CP_OK;
    const cp_json *word = cp_json_element(list, (size_t)layer);
    if (cp_json_kind_of(word) != CP_JSON_STRING)
        return cp_fail(CP_BAD_INPUT, "%s: layer_types[%" PRId64 "] is %s, expected a string", config->where,
                       layer, cp_json_kind_name(cp_json_kind_of(word)));
    *type = cp_json_string(word);
    for (; *known; known++)
        if (strcmp(*known, *type) == 0)
            return CP_OK;
    return cp_fail(CP_REFUSED, "%s: layer_types[%" PRId64 "] '%s' is not known to the reference for %s",
                   config->where, layer, *type, decoder->family);
}

cp_status cp_decoder_slide(cp_decoder *decoder, const cp_config *config, int64_t layer, int64_t window)
{
    if (window == 0)
        return cp_fail(CP_REFUSED,
                       "%s: layer %" PRId64 " slides, and the configuration has no sliding_window",
                       config->where, layer);
    decoder->layers[layer].mask.window = window;
    return CP_OK;
}

/* ---- building -------------------------------------------------------------------------------------------------- */

typedef struct builder {
    const cp_decoder *decoder;
    cp_program *program;
    int64_t layer;
    int rope[CP_DECODER_ROPES];
    int temperature;
} builder;

static int norm(builder *b, int in, const char *name)
{
    int weight = cp_program_parameter(b->program, CP_PARAMETER_NORM, b->decoder->C, 0,
                                      "model.layers.%" PRId64 ".%s.weight", b->layer, name);
    return cp_program_norm(b->program, in, weight, b->decoder->norm, b->decoder->epsilon);
}

static int linear(builder *b, int in, const char *block, const char *name, int64_t rows, int64_t columns,
                  bool biased)
{
    int weight = cp_program_parameter(b->program, CP_PARAMETER_OTHER, rows, columns,
                                      "model.layers.%" PRId64 ".%s.%s.weight", b->layer, block, name);
    int bias = biased ? cp_program_parameter(b->program, CP_PARAMETER_BIAS, rows, 0,
                                             "model.layers.%" PRId64 ".%s.%s.bias", b->layer, block, name)
                      : -1;
    return cp_program_linear(b->program, in, weight, bias);
}

static int head_norm(builder *b, int in, const char *name)
{
    int weight = cp_program_parameter(b->program, CP_PARAMETER_NORM, b->decoder->D, 0,
                                      "model.layers.%" PRId64 ".self_attn.%s.weight", b->layer, name);
    return cp_program_norm(b->program, in, weight, b->decoder->norm, b->decoder->epsilon);
}

/* A projection of queries or keys with all that happens to it before the scores. */
static int query_or_key(builder *b, int in, const char *projection, const char *norm_name, int64_t heads)
{
    const cp_decoder *decoder = b->decoder;
    const cp_decoder_layer *layer = &decoder->layers[b->layer];
    int x = linear(b, in, "self_attn", projection, heads * decoder->D, decoder->C, decoder->qkv_bias);
    x = cp_program_view(b->program, x, heads, decoder->D);
    if (decoder->qk_norm == CP_QK_NORM_BEFORE_ROPE)
        x = head_norm(b, x, norm_name);
    if (layer->rope >= 0)
        x = cp_program_rotate(b->program, x, b->rope[layer->rope]);
    if (decoder->qk_norm == CP_QK_NORM_AFTER_ROPE && layer->rope >= 0)
        x = cp_program_norm(b->program, x, -1, CP_NORM_PLAIN, decoder->epsilon);
    return x;
}

static int attention(builder *b, int in)
{
    const cp_decoder *decoder = b->decoder;
    const cp_decoder_layer *layer = &decoder->layers[b->layer];
    int q = query_or_key(b, in, "q_proj", "q_norm", decoder->H);
    if (layer->tempered)
        q = cp_program_temper(b->program, q, b->temperature);
    int k = query_or_key(b, in, "k_proj", "k_norm", decoder->K);
    int v = linear(b, in, "self_attn", "v_proj", decoder->K * decoder->D, decoder->C, decoder->qkv_bias);
    v = cp_program_view(b->program, v, decoder->K, decoder->D);
    int mask = cp_program_mask(b->program, layer->mask);
    b->program->layer_mask[b->layer] = mask;
    int sink = decoder->sinks ? cp_program_parameter(b->program, CP_PARAMETER_SINK, decoder->H, 0,
                                                     "model.layers.%" PRId64 ".self_attn.sinks", b->layer)
                              : -1;
    int o = cp_program_attention(b->program, q, k, v, sink, (int)b->layer, mask, decoder->scale,
                                 decoder->softcap);
    o = cp_program_view(b->program, o, 0, decoder->H * decoder->D);
    return linear(b, o, "self_attn", "o_proj", decoder->C, decoder->H * decoder->D, decoder->o_bias);
}

static int mlp(builder *b, int in)
{
    const cp_decoder *decoder = b->decoder;
    int gate = linear(b, in, decoder->mlp, "gate_proj", decoder->F, decoder->C, decoder->mlp_bias);
    int up = linear(b, in, decoder->mlp, "up_proj", decoder->F, decoder->C, decoder->mlp_bias);
    int x = cp_program_gate(b->program, gate, up, decoder->activation);
    return linear(b, x, decoder->mlp, "down_proj", decoder->C, decoder->F, decoder->mlp_bias);
}

/* A stack of one matrix an expert, and of their biases where they have any. */
static void stack(int parameters[2], builder *b, const char *name, int64_t out, int64_t in)
{
    const cp_decoder_experts *experts = &b->decoder->experts;
    bool transposed = experts->form.transposed;
    parameters[0] =
        cp_program_stack(b->program, experts->count, transposed ? in : out, transposed ? out : in, in,
                         "model.layers.%" PRId64 ".%s.experts.%s", b->layer, b->decoder->mlp, name);
    parameters[1] = experts->biased ? cp_program_parameter(b->program, CP_PARAMETER_BIAS, experts->count, out,
                                                           "model.layers.%" PRId64 ".%s.experts.%s_bias",
                                                           b->layer, b->decoder->mlp, name)
                                    : -1;
}

static int experts(builder *b, int in)
{
    const cp_decoder *decoder = b->decoder;
    const cp_decoder_experts *experts = &decoder->experts;
    int logits = linear(b, in, decoder->mlp, experts->router, experts->count, decoder->C, experts->biased);
    int weights = cp_program_router(b->program, logits, experts->chosen);
    int parameters[4];
    stack(&parameters[0], b, "gate_up_proj", 2 * decoder->F, decoder->C);
    stack(&parameters[2], b, "down_proj", decoder->C, decoder->F);
    return cp_program_experts(b->program, in, weights, parameters, experts->form);
}

/* x + f(norm(x)), or x + norm(f(norm(x))). transformers calls the second norm of a plain block
 * post_attention_layernorm, and so the one after attention in a sandwich. */
static int layer(builder *b, int hidden_states)
{
    bool sandwich = b->decoder->sandwich;
    int x = attention(b, norm(b, hidden_states, "input_layernorm"));
    if (sandwich)
        x = norm(b, x, "post_attention_layernorm");
    hidden_states = cp_program_add(b->program, hidden_states, x);
    x = norm(b, hidden_states, sandwich ? "pre_feedforward_layernorm" : "post_attention_layernorm");
    x = b->decoder->experts.count ? experts(b, x) : mlp(b, x);
    if (sandwich)
        x = norm(b, x, "post_feedforward_layernorm");
    return cp_program_add(b->program, hidden_states, x);
}

static void sizes(cp_program *program, const cp_decoder *decoder)
{
    program->C = decoder->C;
    program->F = decoder->F;
    program->V = decoder->V;
    program->L = decoder->L;
    program->H = decoder->H;
    program->K = decoder->K;
    program->D = decoder->D;
    program->E = decoder->experts.count;
    program->balance = decoder->experts.balance;
    program->padding_id = decoder->padding_id;
    program->layer_mask = calloc((size_t)decoder->L, sizeof *program->layer_mask);
    program->key_head = calloc((size_t)decoder->H, sizeof *program->key_head);
    cp_check(program->layer_mask && program->key_head, "no memory for %" PRId64 " layers", decoder->L);
    for (int64_t h = 0; h < decoder->H; h++)
        program->key_head[h] = (int32_t)(h * decoder->K / decoder->H);
}

static void tables(builder *b)
{
    const cp_decoder *decoder = b->decoder;
    double *frequency = calloc((size_t)decoder->D / 2, sizeof *frequency);
    cp_check(frequency, "no memory for a rope of %" PRId64, decoder->D);
    for (int r = 0; r < decoder->rope_count; r++) {
        cp_rope_frequencies(frequency, decoder->D / 2, &decoder->ropes[r]);
        b->rope[r] = cp_program_rope(b->program, frequency, decoder->D / 2,
                                     cp_rope_attention_scaling(&decoder->ropes[r]), decoder->rope_layout);
    }
    free(frequency);
    if (decoder->temperature_floor > 0)
        b->temperature =
            cp_program_temperature(b->program, decoder->temperature_scale, decoder->temperature_floor);
}

static int head(builder *b, int hidden_states, int embedding)
{
    const cp_decoder *decoder = b->decoder;
    int final_norm = cp_program_parameter(b->program, CP_PARAMETER_NORM, decoder->C, 0, "model.norm.weight");
    int x = cp_program_norm(b->program, hidden_states, final_norm, decoder->norm, decoder->epsilon);
    cp_program_trace(b->program, x, "final");
    int weight = embedding;
    if (decoder->tied)
        cp_program_tie(b->program, embedding, "lm_head.weight");
    else
        weight =
            cp_program_parameter(b->program, CP_PARAMETER_HEAD, decoder->V, decoder->C, "lm_head.weight");
    return cp_program_head(b->program, x, weight, decoder->final_softcap);
}

cp_program *cp_decoder_program(const cp_decoder *decoder)
{
    builder b = {.decoder = decoder, .program = cp_program_open(decoder->family)};
    sizes(b.program, decoder);
    tables(&b);
    int embedding = cp_program_parameter(b.program, CP_PARAMETER_EMBEDDING, decoder->V, decoder->C,
                                         "model.embed_tokens.weight");
    int hidden_states = cp_program_embed(b.program, embedding, decoder->embed_scale);
    cp_program_trace(b.program, hidden_states, "embed");
    for (b.layer = 0; b.layer < decoder->L; b.layer++) {
        cp_program_segment(b.program);
        hidden_states = layer(&b, hidden_states);
        cp_program_trace(b.program, hidden_states, "layer.%" PRId64 ".out", b.layer);
    }
    cp_program_segment(b.program);
    head(&b, hidden_states, embedding);
    cp_program_finish(b.program);
    return b.program;
}

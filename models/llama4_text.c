/* transformers/models/llama4 (text), dense layers */
#include "models/families.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* An integer of a list that stands for yes or no. */
static cp_status read_flag(bool *out, const cp_config *config, const char *name, const cp_json *list,
                           int64_t i)
{
    const cp_json *value = cp_json_element(list, (size_t)i);
    if (cp_json_kind_of(value) != CP_JSON_INTEGER)
        return cp_fail(CP_BAD_INPUT, "%s: %s[%" PRId64 "] is %s, expected an integer", config->where, name, i,
                       cp_json_kind_name(cp_json_kind_of(value)));
    *out = cp_json_integer(value) != 0;
    return CP_OK;
}

/* no_rope_layers: 1 means that the layer HAS rope. An empty list counts as absent. */
static cp_status read_rope_layers(cp_decoder *decoder, const cp_config *config)
{
    int64_t interval;
    const cp_json *list = cp_config_field(config, "no_rope_layers");
    CP_TRY(cp_config_size(&interval, config, "no_rope_layer_interval", 4));
    if (list && cp_json_kind_of(list) == CP_JSON_ARRAY && cp_json_size(list) == 0)
        list = NULL;
    if (list)
        CP_TRY(cp_config_list(&list, config, "no_rope_layers", decoder->L));
    for (int64_t i = 0; i < decoder->L; i++) {
        bool has_rope = (i + 1) % interval != 0;
        if (list)
            CP_TRY(read_flag(&has_rope, config, "no_rope_layers", list, i));
        decoder->layers[i].rope = has_rope ? 0 : -1;
    }
    return CP_OK;
}

static cp_status read_chunks(cp_decoder *decoder, const cp_config *config)
{
    static const char *const known[] = {"full_attention", "chunked_attention", NULL};
    int64_t chunk;
    CP_TRY(cp_config_size_or_null(&chunk, config, "attention_chunk_size", 8192, 0));
    for (int64_t i = 0; i < decoder->L; i++) {
        const char *type;
        CP_TRY(cp_decoder_layer_type(&type, config, decoder, i, known));
        bool chunked = type ? strcmp(type, "chunked_attention") == 0 : decoder->layers[i].rope >= 0;
        if (chunked && chunk == 0)
            return cp_fail(CP_REFUSED,
                           "%s: layer %" PRId64
                           " is chunked, and the configuration has no attention_chunk_size",
                           config->where, i);
        decoder->layers[i].mask.chunk = chunked ? chunk : 0;
    }
    return CP_OK;
}

/* moe_layers absent: every interleave_moe_layer_step-th. */
static cp_status refuse_experts(const cp_decoder *decoder, const cp_config *config)
{
    int64_t step;
    const cp_json *list = cp_config_field(config, "moe_layers");
    CP_TRY(cp_config_size(&step, config, "interleave_moe_layer_step", 1));
    if (list && cp_json_kind_of(list) != CP_JSON_ARRAY)
        return cp_fail(CP_BAD_INPUT, "%s: moe_layers is %s, expected a list", config->where,
                       cp_json_kind_name(cp_json_kind_of(list)));
    bool experts = !list && step <= decoder->L;
    for (size_t n = 0; list && n < cp_json_size(list); n++) {
        const cp_json *layer = cp_json_element(list, n);
        if (cp_json_kind_of(layer) != CP_JSON_INTEGER)
            return cp_fail(CP_BAD_INPUT, "%s: moe_layers[%zu] is %s, expected an integer", config->where, n,
                           cp_json_kind_name(cp_json_kind_of(layer)));
        experts = experts || (cp_json_integer(layer) >= 0 && cp_json_integer(layer) < decoder->L);
    }
    if (experts)
        return cp_fail(CP_REFUSED, "%s: moe_layers: experts are not known to the reference", config->where);
    return CP_OK;
}

static cp_status read_temperature(cp_decoder *decoder, const cp_config *config)
{
    bool tuned;
    CP_TRY(cp_config_bool(&tuned, config, "attn_temperature_tuning", true));
    CP_TRY(cp_config_real(&decoder->temperature_scale, config, "attn_scale", 0.1));
    CP_TRY(cp_config_real(&decoder->temperature_floor, config, "floor_scale", 8192));
    if (!(decoder->temperature_floor > 0 && isfinite(decoder->temperature_floor)))
        return cp_fail(CP_BAD_INPUT, "%s: floor_scale is %g, expected a positive number", config->where,
                       decoder->temperature_floor);
    for (int64_t i = 0; i < decoder->L; i++)
        decoder->layers[i].tempered = tuned && decoder->layers[i].rope < 0;
    return CP_OK;
}

cp_status cp_family_llama4_text(cp_decoder *decoder, const cp_config *config)
{
    static const cp_decoder_defaults defaults = {.V = 202048,
                                                 .C = 5120,
                                                 .F = 16384,
                                                 .L = 48,
                                                 .H = 40,
                                                 .K = 8,
                                                 .K_null = -1,
                                                 .D = 128,
                                                 .D_null = -1,
                                                 .feed_forward = "intermediate_size_mlp",
                                                 .activation = "hidden_act",
                                                 .activation_default = "silu",
                                                 .epsilon = 1e-5,
                                                 .padding_id = -1};
    bool attention_bias, use_qk_norm;
    CP_TRY(cp_decoder_read(decoder, config, "llama4_text", &defaults));
    CP_TRY(refuse_experts(decoder, config));
    CP_TRY(cp_config_bool(&attention_bias, config, "attention_bias", false));
    CP_TRY(cp_config_bool(&use_qk_norm, config, "use_qk_norm", true));
    CP_TRY(cp_rope_read(&decoder->ropes[0], config, 500000));
    CP_TRY(read_rope_layers(decoder, config));
    CP_TRY(read_chunks(decoder, config));
    CP_TRY(read_temperature(decoder, config));
    decoder->qkv_bias = decoder->o_bias = attention_bias;
    decoder->qk_norm = use_qk_norm ? CP_QK_NORM_AFTER_ROPE : CP_QK_NORM_NONE;
    decoder->mlp = "feed_forward";
    decoder->rope_layout = CP_ROPE_INTERLEAVED;
    decoder->rope_count = 1;
    return CP_OK;
}

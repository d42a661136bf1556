#include "models/models.h"

#include "models/families.h"

#include <stdlib.h>
#include <string.h>

#define SMALL                                                                                                \
    "\"hidden_size\": 16, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "         \
    "\"vocab_size\": 37, \"pad_token_id\": 3, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-05, "

static const struct {
    const char *name; /* model_type */
    cp_family_builder *build;
    const char *example;
} families[] = {
    {"gemma2", cp_family_gemma2,
     "{\"model_type\": \"gemma2\", " SMALL
     "\"intermediate_size\": 32, \"num_hidden_layers\": 2, \"hidden_activation\": \"gelu_pytorch_tanh\", "
     "\"layer_types\": [\"sliding_attention\", \"full_attention\"], \"sliding_window\": 3, "
     "\"query_pre_attn_scalar\": 12, \"attn_logit_softcapping\": 2.0, \"final_logit_softcapping\": 3.0, "
     "\"attention_bias\": false, \"tie_word_embeddings\": true, "
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}"},
    {"gemma3_text", cp_family_gemma3_text,
     "{\"model_type\": \"gemma3_text\", " SMALL
     "\"intermediate_size\": 32, \"num_hidden_layers\": 3, \"hidden_activation\": \"gelu_pytorch_tanh\", "
     "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"], "
     "\"sliding_window\": 3, \"query_pre_attn_scalar\": 12, \"final_logit_softcapping\": null, "
     "\"attention_bias\": false, \"tie_word_embeddings\": true, \"rope_parameters\": "
     "{\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4.0, \"rope_theta\": 1000000.0}, "
     "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}}"},
    {"gpt_oss", cp_family_gpt_oss,
     "{\"model_type\": \"gpt_oss\", " SMALL
     "\"intermediate_size\": 6, \"num_hidden_layers\": 2, \"hidden_act\": \"silu\", "
     "\"layer_types\": [\"sliding_attention\", \"full_attention\"], \"sliding_window\": 3, "
     "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"swiglu_alpha\": 1.702, \"swiglu_limit\": 7.0, "
     "\"output_router_logits\": true, \"router_aux_loss_coef\": 0.05, \"attention_bias\": true, "
     "\"tie_word_embeddings\": false, \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": "
     "150000.0, "
     "\"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false, "
     "\"original_max_position_embeddings\": 4096}}"},
    {"llama", cp_family_llama,
     "{\"model_type\": \"llama\", " SMALL
     "\"intermediate_size\": 32, \"num_hidden_layers\": 2, \"hidden_act\": \"silu\", "
     "\"attention_bias\": false, \"mlp_bias\": false, \"tie_word_embeddings\": false, "
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}"},
    {"llama4_text", cp_family_llama4_text,
     "{\"model_type\": \"llama4_text\", " SMALL
     "\"intermediate_size_mlp\": 32, \"num_hidden_layers\": 3, \"hidden_act\": \"silu\", "
     "\"no_rope_layers\": [1, 1, 0], \"layer_types\": "
     "[\"chunked_attention\", \"chunked_attention\", \"full_attention\"], \"attention_chunk_size\": 3, "
     "\"moe_layers\": [], \"use_qk_norm\": true, \"attn_temperature_tuning\": true, \"floor_scale\": 4, "
     "\"attn_scale\": 0.1, \"attention_bias\": false, \"tie_word_embeddings\": false, "
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}}"},
    {"mistral", cp_family_mistral,
     "{\"model_type\": \"mistral\", " SMALL
     "\"intermediate_size\": 32, \"num_hidden_layers\": 2, \"hidden_act\": \"silu\", \"sliding_window\": 3, "
     "\"tie_word_embeddings\": false, "
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}"},
    {"mixtral", cp_family_mixtral,
     "{\"model_type\": \"mixtral\", " SMALL "\"intermediate_size\": 6, \"num_hidden_layers\": 2, "
     "\"hidden_act\": \"silu\", \"sliding_window\": null, "
     "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"output_router_logits\": true, "
     "\"router_aux_loss_coef\": 0.05, \"router_jitter_noise\": 0.0, \"tie_word_embeddings\": false, "
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000000.0}}"},
    {"qwen2", cp_family_qwen2,
     "{\"model_type\": \"qwen2\", " SMALL
     "\"intermediate_size\": 32, \"num_hidden_layers\": 2, \"hidden_act\": \"silu\", "
     "\"use_sliding_window\": true, \"sliding_window\": 3, \"max_window_layers\": 1, "
     "\"layer_types\": [\"full_attention\", \"sliding_attention\"], \"tie_word_embeddings\": false, "
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}"},
    {"qwen3", cp_family_qwen3,
     "{\"model_type\": \"qwen3\", " SMALL
     "\"intermediate_size\": 32, \"num_hidden_layers\": 2, \"hidden_act\": \"silu\", "
     "\"attention_bias\": false, \"use_sliding_window\": false, \"sliding_window\": null, "
     "\"max_window_layers\": 2, \"layer_types\": [\"full_attention\", \"full_attention\"], "
     "\"tie_word_embeddings\": false, "
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}"},
};

enum { FAMILIES = sizeof families / sizeof *families };

const char *cp_models_family(size_t index)
{
    return index < FAMILIES ? families[index].name : NULL;
}

const char *cp_models_example(const char *family)
{
    for (size_t n = 0; n < FAMILIES; n++)
        if (strcmp(families[n].name, family) == 0)
            return families[n].example;
    return NULL;
}

static cp_status known_families(const char *where, const char *model_type)
{
    char list[512] = "";
    for (size_t n = 0; n < FAMILIES; n++) {
        strncat(list, n ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, families[n].name, sizeof list - strlen(list) - 1);
    }
    return cp_fail(CP_REFUSED, "%s: model_type '%s' is not known to the reference (known: %s)", where,
                   model_type, list);
}

cp_status cp_models_build(cp_program **out, const cp_json *config, const char *where)
{
    if (cp_json_kind_of(config) != CP_JSON_OBJECT)
        return cp_fail(CP_BAD_INPUT, "%s: the configuration is %s, expected an object", where,
                       cp_json_kind_name(cp_json_kind_of(config)));
    cp_config fields = {.json = config, .where = where};
    const char *model_type;
    CP_TRY(cp_config_string(&model_type, &fields, "model_type", ""));
    cp_family_builder *build = NULL;
    for (size_t n = 0; n < FAMILIES; n++)
        if (strcmp(families[n].name, model_type) == 0)
            build = families[n].build;
    if (!build)
        return known_families(where, model_type);
    cp_decoder *decoder = malloc(sizeof *decoder);
    if (!decoder)
        return cp_fail(CP_INTERNAL, "%s: no memory for a model", where);
    cp_status status = build(decoder, &fields);
    if (status == CP_OK)
        *out = cp_decoder_program(decoder);
    free(decoder);
    return status;
}

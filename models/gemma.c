/* transformers/models/gemma2 and gemma3 (text) */
#include "models/families.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const known_types[] = {"full_attention", "sliding_attention", NULL};

/* What the two have in common. */
static cp_status read_common(cp_decoder *decoder, const cp_config *config, const char *family,
                             int64_t vocabulary)
{
    const cp_decoder_defaults defaults = {.V = vocabulary,
                                          .C = 2304,
                                          .F = 9216,
                                          .L = 26,
                                          .H = 8,
                                          .K = 4,
                                          .K_null = -1,
                                          .D = 256,
                                          .D_null = -1,
                                          .feed_forward = "intermediate_size",
                                          .activation = "hidden_activation",
                                          .activation_default = "gelu_pytorch_tanh",
                                          .epsilon = 1e-6,
                                          .tied = true,
                                          .padding_id = 0,
                                          .divides = true};
    bool attention_bias;
    int64_t query_pre_attn_scalar;
    CP_TRY(cp_decoder_read(decoder, config, family, &defaults));
    CP_TRY(cp_config_bool(&attention_bias, config, "attention_bias", false));
    CP_TRY(cp_config_size(&query_pre_attn_scalar, config, "query_pre_attn_scalar", 256));
    decoder->embed_scale = sqrt((double)decoder->C);
    decoder->norm = CP_NORM_ONE_PLUS;
    decoder->sandwich = true;
    decoder->qkv_bias = decoder->o_bias = attention_bias;
    decoder->scale = 1 / sqrt((double)query_pre_attn_scalar);
    return CP_OK;
}

/* A cap; null is none. */
static cp_status read_softcap(double *cap, const cp_config *config, const char *name, double absent)
{
    CP_TRY(cp_config_real_or_null(cap, config, name, absent, 0));
    if (!(*cap >= 0 && isfinite(*cap)) || (*cap == 0 && cp_config_field(config, name)))
        return cp_fail(CP_BAD_INPUT, "%s: %s is %g, expected a positive number or null", config->where, name,
                       *cap);
    return CP_OK;
}

cp_status cp_family_gemma2(cp_decoder *decoder, const cp_config *config)
{
    int64_t window;
    CP_TRY(read_common(decoder, config, "gemma2", 256000));
    CP_TRY(read_softcap(&decoder->softcap, config, "attn_logit_softcapping", 50));
    CP_TRY(read_softcap(&decoder->final_softcap, config, "final_logit_softcapping", 30));
    CP_TRY(cp_rope_read(&decoder->ropes[0], config, 10000));
    CP_TRY(cp_decoder_window(&window, config));
    for (int64_t i = 0; i < decoder->L; i++) {
        const char *type;
        CP_TRY(cp_decoder_layer_type(&type, config, decoder, i, known_types));
        if (type ? strcmp(type, "sliding_attention") == 0 : i % 2 == 0)
            CP_TRY(cp_decoder_slide(decoder, config, i, window));
    }
    decoder->rope_count = 1;
    return CP_OK;
}

cp_status cp_family_gemma3_text(cp_decoder *decoder, const cp_config *config)
{
    enum { FULL, SLIDING };
    int64_t window, pattern;
    CP_TRY(read_common(decoder, config, "gemma3_text", 262208));
    /* attn_logit_softcapping is a field of the class that its attention never applies. */
    CP_TRY(read_softcap(&decoder->final_softcap, config, "final_logit_softcapping", 0));
    CP_TRY(cp_rope_read_nested(&decoder->ropes[FULL], config, "full_attention", "rope_theta", true, 1000000));
    CP_TRY(cp_rope_read_nested(&decoder->ropes[SLIDING], config, "sliding_attention", "rope_local_base_freq",
                               false, 10000));
    CP_TRY(cp_decoder_window(&window, config));
    CP_TRY(cp_config_size(&pattern, config, "sliding_window_pattern", 6));
    for (int64_t i = 0; i < decoder->L; i++) {
        const char *type;
        CP_TRY(cp_decoder_layer_type(&type, config, decoder, i, known_types));
        bool slides = type ? strcmp(type, "sliding_attention") == 0 : (i + 1) % pattern != 0;
        decoder->layers[i].rope = slides ? SLIDING : FULL;
        if (slides)
            CP_TRY(cp_decoder_slide(decoder, config, i, window));
    }
    decoder->qk_norm = CP_QK_NORM_BEFORE_ROPE;
    decoder->rope_count = 2;
    return CP_OK;
}

/* transformers/models/qwen2 and qwen3 */
#include "models/families.h"

#include <string.h>

/* Layers slide from max_window_layers on, or as layer_types says; without use_sliding_window there is no window. */
static cp_status read_windows(cp_decoder *decoder, const cp_config *config)
{
    static const char *const known[] = {"full_attention", "sliding_attention", NULL};
    bool use_sliding_window;
    int64_t window, first;
    CP_TRY(cp_config_bool(&use_sliding_window, config, "use_sliding_window", false));
    CP_TRY(cp_decoder_window(&window, config));
    CP_TRY(cp_config_integer_or_null(&first, config, "max_window_layers", 28, 28));
    if (!use_sliding_window)
        window = 0;
    for (int64_t i = 0; i < decoder->L; i++) {
        const char *type;
        CP_TRY(cp_decoder_layer_type(&type, config, decoder, i, known));
        bool slides = type ? strcmp(type, "sliding_attention") == 0 : window != 0 && i >= first;
        if (slides)
            CP_TRY(cp_decoder_slide(decoder, config, i, window));
    }
    return CP_OK;
}

/* What the two have in common; `head_dim` 0: hidden_size / heads. */
static cp_status read_common(cp_decoder *decoder, const cp_config *config, const char *family,
                             int64_t head_dim)
{
    const cp_decoder_defaults defaults = {.V = 151936,
                                          .C = 4096,
                                          .F = 22016,
                                          .L = 32,
                                          .H = 32,
                                          .K = 32,
                                          .D = head_dim,
                                          .D_null = -1,
                                          .feed_forward = "intermediate_size",
                                          .activation = "hidden_act",
                                          .activation_default = "silu",
                                          .epsilon = 1e-6,
                                          .padding_id = -1};
    CP_TRY(cp_decoder_read(decoder, config, family, &defaults));
    CP_TRY(cp_rope_read(&decoder->ropes[0], config, 10000));
    CP_TRY(read_windows(decoder, config));
    decoder->rope_count = 1;
    return CP_OK;
}

cp_status cp_family_qwen2(cp_decoder *decoder, const cp_config *config)
{
    CP_TRY(read_common(decoder, config, "qwen2", 0));
    decoder->qkv_bias = true;
    return CP_OK;
}

cp_status cp_family_qwen3(cp_decoder *decoder, const cp_config *config)
{
    bool attention_bias;
    CP_TRY(read_common(decoder, config, "qwen3", 128));
    CP_TRY(cp_config_bool(&attention_bias, config, "attention_bias", false));
    decoder->qkv_bias = decoder->o_bias = attention_bias;
    decoder->qk_norm = CP_QK_NORM_BEFORE_ROPE;
    return CP_OK;
}

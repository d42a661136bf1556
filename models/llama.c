/* transformers/models/llama */
#include "models/families.h"

cp_status cp_family_llama(cp_decoder *decoder, const cp_config *config)
{
    static const cp_decoder_defaults defaults = {.V = 32000,
                                                 .C = 4096,
                                                 .F = 11008,
                                                 .L = 32,
                                                 .H = 32,
                                                 .feed_forward = "intermediate_size",
                                                 .activation = "hidden_act",
                                                 .activation_default = "silu",
                                                 .epsilon = 1e-6,
                                                 .padding_id = -1,
                                                 .divides = true};
    bool attention_bias;
    CP_TRY(cp_decoder_read(decoder, config, "llama", &defaults));
    CP_TRY(cp_config_bool(&attention_bias, config, "attention_bias", false));
    CP_TRY(cp_config_bool(&decoder->mlp_bias, config, "mlp_bias", false));
    CP_TRY(cp_rope_read(&decoder->ropes[0], config, 10000));
    decoder->qkv_bias = decoder->o_bias = attention_bias;
    decoder->rope_count = 1;
    return CP_OK;
}

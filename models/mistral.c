/* transformers/models/mistral */
#include "models/families.h"

cp_status cp_family_mistral(cp_decoder *decoder, const cp_config *config)
{
    static const cp_decoder_defaults defaults = {.V = 32000,
                                                 .C = 4096,
                                                 .F = 14336,
                                                 .L = 32,
                                                 .H = 32,
                                                 .K = 8,
                                                 .K_null = -1,
                                                 .feed_forward = "intermediate_size",
                                                 .activation = "hidden_act",
                                                 .activation_default = "silu",
                                                 .epsilon = 1e-6,
                                                 .padding_id = -1};
    int64_t window;
    CP_TRY(cp_decoder_read(decoder, config, "mistral", &defaults));
    CP_TRY(cp_rope_read(&decoder->ropes[0], config, 10000));
    CP_TRY(cp_decoder_window(&window, config));
    for (int64_t i = 0; i < decoder->L; i++) /* one mask for all layers; a null window means full attention */
        decoder->layers[i].mask.window = window;
    decoder->rope_count = 1;
    return CP_OK;
}

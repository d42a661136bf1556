/* transformers/models/gpt_oss and mixtral: experts in place of the MLP */
#include "models/families.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What a configuration says about experts, whatever they compute. */
static cp_status read_experts(cp_decoder *decoder, const cp_config *config, int64_t count, int64_t chosen)
{
    enum { LARGEST = 1 << 24 };
    cp_decoder_experts *experts = &decoder->experts;
    CP_TRY(cp_config_size(&experts->count, config, "num_local_experts", count));
    CP_TRY(cp_config_size(&experts->chosen, config, "num_experts_per_tok", chosen));
    CP_TRY(cp_config_bool(&experts->balance.given, config, "output_router_logits", false));
    CP_TRY(cp_config_real(&experts->balance.coefficient, config, "router_aux_loss_coef", 0.001));
    if (experts->chosen > experts->count)
        return cp_fail(CP_BAD_INPUT,
                       "%s: num_experts_per_tok is %" PRId64 ", and there are %" PRId64 " num_local_experts",
                       config->where, experts->chosen, experts->count);
    if (experts->count > LARGEST / decoder->F)
        return cp_fail(CP_REFUSED,
                       "%s: num_local_experts %" PRId64 ": the reference takes up to %" PRId64 " here",
                       config->where, experts->count, LARGEST / decoder->F);
    if (!isfinite(experts->balance.coefficient))
        return cp_fail(CP_BAD_INPUT, "%s: router_aux_loss_coef is %g, expected a number", config->where,
                       experts->balance.coefficient);
    return CP_OK;
}

static cp_status read_positive(double *out, const cp_config *config, const char *name, double absent)
{
    CP_TRY(cp_config_real(out, config, name, absent));
    if (!(*out > 0 && isfinite(*out)))
        return cp_fail(CP_BAD_INPUT, "%s: %s is %g, expected a positive number", config->where, name, *out);
    return CP_OK;
}

/* Without a word about rope it is yarn. */
static cp_status read_gpt_oss_rope(cp_decoder *decoder, const cp_config *config)
{
    cp_rope_settings *rope = &decoder->ropes[0];
    CP_TRY(cp_rope_read(rope, config, 150000));
    if (!cp_config_field(config, "rope_parameters") && !cp_config_field(config, "rope_scaling"))
        *rope = (cp_rope_settings){.type = CP_ROPE_YARN,
                                   .theta = rope->theta,
                                   .factor = 32,
                                   .fast = 32,
                                   .slow = 1,
                                   .attention_scaling = 1 + 0.1 * log(32.0),
                                   .original_length = 4096};
    decoder->rope_count = 1;
    return CP_OK;
}

cp_status cp_family_gpt_oss(cp_decoder *decoder, const cp_config *config)
{
    static const cp_decoder_defaults defaults = {.V = 201088,
                                                 .C = 2880,
                                                 .F = 2880,
                                                 .L = 36,
                                                 .H = 64,
                                                 .K = 8,
                                                 .D = 64,
                                                 .feed_forward = "intermediate_size",
                                                 .activation = "hidden_act",
                                                 .activation_default = "silu",
                                                 .epsilon = 1e-5,
                                                 .padding_id = -1};
    static const char *const known[] = {"full_attention", "sliding_attention", NULL};
    bool attention_bias;
    int64_t window;
    CP_TRY(cp_decoder_read(decoder, config, "gpt_oss", &defaults));
    CP_TRY(cp_config_bool(&attention_bias, config, "attention_bias", true));
    CP_TRY(read_gpt_oss_rope(decoder, config));
    CP_TRY(cp_config_size_or_null(&window, config, "sliding_window", 128, 0));
    for (int64_t i = 0; i < decoder->L; i++) {
        const char *type;
        CP_TRY(cp_decoder_layer_type(&type, config, decoder, i, known));
        if (type ? strcmp(type, "sliding_attention") == 0 : i % 2 == 0)
            CP_TRY(cp_decoder_slide(decoder, config, i, window));
    }
    CP_TRY(read_experts(decoder, config, 128, 4));
    cp_decoder_experts *experts = &decoder->experts;
    experts->form = (cp_experts_form){.transposed = true, .interleaved = true, .shift = 1};
    CP_TRY(read_positive(&experts->form.alpha, config, "swiglu_alpha", 1.702));
    CP_TRY(read_positive(&experts->form.limit, config, "swiglu_limit", 7));
    experts->router = "router";
    experts->biased = true;
    decoder->sinks = true;
    decoder->qkv_bias = decoder->o_bias = attention_bias;
    return CP_OK;
}

cp_status cp_family_mixtral(cp_decoder *decoder, const cp_config *config)
{
    static const cp_decoder_defaults defaults = {.V = 32000,
                                                 .C = 4096,
                                                 .F = 14336,
                                                 .L = 32,
                                                 .H = 32,
                                                 .K = 8,
                                                 .feed_forward = "intermediate_size",
                                                 .activation = "hidden_act",
                                                 .activation_default = "silu",
                                                 .epsilon = 1e-5,
                                                 .padding_id = -1};
    int64_t window;
    double jitter;
    CP_TRY(cp_decoder_read(decoder, config, "mixtral", &defaults));
    CP_TRY(cp_rope_read(&decoder->ropes[0], config, 1000000));
    CP_TRY(cp_config_size_or_null(&window, config, "sliding_window", 0, 0));
    CP_TRY(cp_config_real(&jitter, config, "router_jitter_noise", 0));
    CP_TRY(read_experts(decoder, config, 8, 2));
    if (decoder->activation != CP_ACT_SILU)
        return cp_fail(CP_REFUSED, "%s: hidden_act: the reference has experts with silu alone",
                       config->where);
    if (jitter != 0)
        return cp_fail(CP_REFUSED, "%s: router_jitter_noise is not zero: the reference draws no noise",
                       config->where);
    for (int64_t i = 0; i < decoder->L; i++)
        decoder->layers[i].mask.window = window;
    decoder->experts.form = (cp_experts_form){.alpha = 1, .limit = INFINITY};
    decoder->experts.router = "gate";
    decoder->rope_count = 1;
    return CP_OK;
}

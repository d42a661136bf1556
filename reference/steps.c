#include "reference/steps.h"

#include <math.h>

#define PRECISION     (network->options.precision)
#define VALUE(reg)    (network->values[reg])
#define GRADIENT(reg) (network->gradients[reg])

static cp_tensor weight_of(const cp_network *network, int parameter)
{
    return parameter < 0 ? CP_NONE : network->weights[parameter];
}

static cp_tensor weight_gradient_of(const cp_network *network, int parameter)
{
    return parameter < 0 ? CP_NONE : network->weight_gradients[parameter];
}

static void embed_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    if (cp_tensor_given(network->inputs.embeds)) {
        network->ops->pointwise->convert(VALUE(step->out), network->inputs.embeds);
        network->ops->pointwise->round(VALUE(step->out), PRECISION);
    } else {
        network->ops->embedding->forward(VALUE(step->out), network->inputs.ids,
                                         weight_of(network, step->weight), step->scale, PRECISION);
    }
}

static void embed_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    if (cp_tensor_given(network->inputs.ids))
        network->ops->embedding->backward(weight_gradient_of(network, step->weight), GRADIENT(step->out),
                                          network->inputs.ids, step->scale, network->program->padding_id,
                                          PRECISION);
}

static void linear_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    network->ops->linear->forward(VALUE(step->out), VALUE(step->in[0]), weight_of(network, step->weight),
                                  weight_of(network, step->bias), PRECISION);
}

static void linear_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    network->ops->linear->backward(GRADIENT(step->in[0]), weight_gradient_of(network, step->weight),
                                   weight_gradient_of(network, step->bias), GRADIENT(step->out),
                                   VALUE(step->in[0]), weight_of(network, step->weight), PRECISION);
}

enum { SAVED_INVERSE_RMS };

static void norm_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    cp_tensor x = VALUE(step->in[0]);
    cp_tensor inverse_rms = cp_tensor_take(network->arena, network->options.dtype, x.dims - 1, x.extent);
    network->ops->rmsnorm->forward(VALUE(step->out), inverse_rms, x, weight_of(network, step->weight),
                                   step->norm, step->epsilon, PRECISION);
    saved->tensor[SAVED_INVERSE_RMS] = inverse_rms;
}

static void norm_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    network->ops->rmsnorm->backward(GRADIENT(step->in[0]), weight_gradient_of(network, step->weight),
                                    GRADIENT(step->out), saved->tensor[SAVED_INVERSE_RMS], VALUE(step->in[0]),
                                    weight_of(network, step->weight), step->norm, network->arena, PRECISION);
}

static void rope_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    network->ops->rope->forward(VALUE(step->out), VALUE(step->in[0]), network->cosine[step->table],
                                network->sine[step->table], network->program->ropes[step->table].layout,
                                PRECISION);
}

static void rope_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    network->ops->rope->backward(GRADIENT(step->in[0]), GRADIENT(step->out), network->cosine[step->table],
                                 network->sine[step->table], network->program->ropes[step->table].layout,
                                 PRECISION);
}

void cp_temperature_table(cp_tensor factor, cp_tensor index, const cp_temperature *temperature)
{
    double *out = factor.data;
    const int64_t *token = index.data;
    for (int64_t n = 0; out && n < cp_tensor_count(factor); n++)
        out[n] = 1 + temperature->scale * log1p(floor((double)(token[n] + 1) / temperature->floor));
}

static void temperature_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    network->ops->pointwise->scale_tokens(VALUE(step->out), VALUE(step->in[0]),
                                          network->temperature[step->table], PRECISION);
}

static void temperature_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    network->ops->pointwise->scale_tokens_backward(GRADIENT(step->in[0]), GRADIENT(step->out),
                                                   network->temperature[step->table], PRECISION);
}

static cp_attend attend_of(const cp_network *network, const cp_step *step)
{
    const cp_program *program = network->program;
    const cp_visibility *visibility = network->inputs.visibility;
    return (cp_attend){.visibility = visibility ? &visibility[step->mask] : NULL,
                       .H = program->H,
                       .K = program->K,
                       .key_head = program->key_head,
                       .value_head = program->key_head,
                       .scale = step->scale,
                       .softcap = step->softcap,
                       .sink = weight_of(network, step->weight)};
}

static void attention_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    cp_attend attend = attend_of(network, step);
    network->mixer->attend(network->mixer, VALUE(step->out), saved, VALUE(step->in[0]), VALUE(step->in[1]),
                           VALUE(step->in[2]), &attend, network->arena, PRECISION);
}

static void attention_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    cp_attend attend = attend_of(network, step);
    network->mixer->attend_backward(
        network->mixer, GRADIENT(step->in[0]), GRADIENT(step->in[1]), GRADIENT(step->in[2]),
        weight_gradient_of(network, step->weight), GRADIENT(step->out), saved, VALUE(step->out),
        VALUE(step->in[0]), VALUE(step->in[1]), VALUE(step->in[2]), &attend, network->arena, PRECISION);
}

static void router_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    network->ops->router->forward(VALUE(step->out), VALUE(step->in[0]), step->chosen, PRECISION);
}

static void router_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    network->ops->router->backward(GRADIENT(step->in[0]), GRADIENT(step->out), VALUE(step->out), PRECISION);
    if (network->program->balance.given)
        network->ops->router->balance_backward(GRADIENT(step->in[0]), VALUE(step->in[0]),
                                               network->inputs.counted, network->balance_slope);
}

static cp_experts experts_of(const cp_network *network, const cp_step *step,
                             cp_tensor parameter(const cp_network *, int))
{
    return (cp_experts){.up = parameter(network, step->weight),
                        .up_bias = parameter(network, step->bias),
                        .down = parameter(network, step->down),
                        .down_bias = parameter(network, step->down_bias)};
}

static void experts_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    cp_experts experts = experts_of(network, step, weight_of);
    network->ops->experts->forward(VALUE(step->out), VALUE(step->in[0]), VALUE(step->in[1]), &experts,
                                   step->experts, network->arena, PRECISION);
}

static void experts_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    cp_experts experts = experts_of(network, step, weight_of);
    cp_experts gradients = experts_of(network, step, weight_gradient_of);
    network->ops->experts->backward(GRADIENT(step->in[0]), GRADIENT(step->in[1]), &gradients,
                                    GRADIENT(step->out), VALUE(step->in[0]), VALUE(step->in[1]), &experts,
                                    step->experts, network->arena, PRECISION);
}

static void gate_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    network->ops->pointwise->gate(VALUE(step->out), VALUE(step->in[0]), VALUE(step->in[1]), step->activation,
                                  PRECISION);
}

static void gate_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    network->ops->pointwise->gate_backward(GRADIENT(step->in[0]), GRADIENT(step->in[1]), GRADIENT(step->out),
                                           VALUE(step->in[0]), VALUE(step->in[1]), step->activation,
                                           PRECISION);
}

static void add_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    network->ops->pointwise->add(VALUE(step->out), VALUE(step->in[0]), VALUE(step->in[1]), PRECISION);
}

static void add_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    network->ops->pointwise->accumulate(GRADIENT(step->in[0]), GRADIENT(step->out), PRECISION);
    network->ops->pointwise->accumulate(GRADIENT(step->in[1]), GRADIENT(step->out), PRECISION);
}

static void head_forward(cp_network *network, const cp_step *step, cp_saved *saved)
{
    (void)saved;
    cp_tensor logits = VALUE(step->out);
    network->ops->linear->forward(logits, VALUE(step->in[0]), weight_of(network, step->weight), CP_NONE,
                                  PRECISION);
    if (step->softcap != 0)
        network->ops->pointwise->softcap(logits, logits, step->softcap, PRECISION);
    network->ops->loss->forward(network->token_loss, network->log_sum, logits, network->inputs.target,
                                PRECISION);
}

/* Rows [begin, begin + count) of [B,S,...], as [1,count,...]. */
static cp_tensor rows_of(cp_tensor tensor, int64_t begin, int64_t count)
{
    int64_t rows = tensor.extent[0] * tensor.extent[1];
    cp_tensor flat = tensor.dims == 2 ? cp_tensor_reshape(tensor, 2, CP_EXTENTS(1, rows))
                                      : cp_tensor_reshape(tensor, 3, CP_EXTENTS(1, rows, tensor.extent[2]));
    return cp_tensor_slice(flat, 1, begin, count);
}

/* The gradient of the logits is as large as the logits, so it is made and used by blocks of rows. */
static void head_backward(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    (void)saved;
    enum { BLOCK = 256 };
    cp_tensor logits = VALUE(step->out);
    int64_t rows = logits.extent[0] * logits.extent[1];
    for (int64_t begin = 0; begin < rows; begin += BLOCK) {
        int64_t count = rows - begin < BLOCK ? rows - begin : BLOCK;
        size_t mark = cp_arena_mark(network->arena);
        cp_tensor block = rows_of(logits, begin, count);
        cp_tensor dblock = CP_TAKE(network->arena, network->options.dtype, 1, count, logits.extent[2]);
        network->ops->loss->backward(dblock, rows_of(network->log_sum, begin, count), block,
                                     rows_of(network->inputs.target, begin, count), network->factor,
                                     PRECISION);
        if (step->softcap != 0)
            network->ops->pointwise->softcap_backward(dblock, dblock, block, step->softcap, PRECISION);
        network->ops->linear->backward(
            rows_of(GRADIENT(step->in[0]), begin, count), weight_gradient_of(network, step->weight), CP_NONE,
            dblock, rows_of(VALUE(step->in[0]), begin, count), weight_of(network, step->weight), PRECISION);
        cp_arena_release(network->arena, mark);
    }
}

const cp_step_functions cp_steps[CP_STEP_KINDS] = {
    [CP_STEP_EMBED] = {embed_forward, embed_backward},
    [CP_STEP_LINEAR] = {linear_forward, linear_backward},
    [CP_STEP_NORM] = {norm_forward, norm_backward},
    [CP_STEP_ROPE] = {rope_forward, rope_backward},
    [CP_STEP_TEMPERATURE] = {temperature_forward, temperature_backward},
    [CP_STEP_ATTENTION] = {attention_forward, attention_backward},
    [CP_STEP_ROUTER] = {router_forward, router_backward},
    [CP_STEP_EXPERTS] = {experts_forward, experts_backward},
    [CP_STEP_GATE] = {gate_forward, gate_backward},
    [CP_STEP_ADD] = {add_forward, add_backward},
    [CP_STEP_HEAD] = {head_forward, head_backward},
};

#include "reference/network.h"

#include "reference/steps.h"

#include <string.h>

/* [B,S,width] or [B,S,heads,width] over memory of as many elements. */
static cp_tensor shaped(const cp_network *network, const cp_register *reg, cp_tensor memory)
{
    int64_t B = network->inputs.position.extent[0];
    int64_t S = network->inputs.position.extent[1];
    return reg->heads ? cp_tensor_reshape(memory, 4, CP_EXTENTS(B, S, reg->heads, reg->width))
                      : cp_tensor_reshape(memory, 3, CP_EXTENTS(B, S, reg->width));
}

static cp_tensor take_register(const cp_network *network, const cp_register *reg)
{
    int64_t B = network->inputs.position.extent[0];
    int64_t S = network->inputs.position.extent[1];
    int64_t width = reg->width * (reg->heads ? reg->heads : 1);
    return shaped(network, reg, CP_TAKE(network->arena, network->options.dtype, B, S, width));
}

/* A register with memory of its own that belongs to a segment and crosses its border, or does not. */
static bool belongs(const cp_register *reg, int segment, bool crosses)
{
    return reg->parent < 0 && reg->segment == segment && reg->crosses == crosses;
}

static void take_registers(const cp_network *network, cp_tensor *tensors, int segment, bool crosses)
{
    const cp_program *program = network->program;
    for (int r = 0; r < program->register_count; r++)
        if (belongs(&program->registers[r], segment, crosses))
            tensors[r] = take_register(network, &program->registers[r]);
}

/* As take_registers, at zero: what backwards add into. The logits have none, see head_backward. */
static void take_gradients(const cp_network *network, int segment, bool crosses)
{
    const cp_program *program = network->program;
    for (int r = 0; r < program->register_count; r++)
        if (r != program->logits && belongs(&program->registers[r], segment, crosses)) {
            network->gradients[r] = take_register(network, &program->registers[r]);
            cp_tensor_zero(network->gradients[r]);
        }
}

/* Views are shapes of their parents' memory, and come after them. */
static void view_registers(const cp_network *network, cp_tensor *tensors, int segment)
{
    const cp_program *program = network->program;
    for (int r = 0; r < program->register_count; r++) {
        const cp_register *reg = &program->registers[r];
        if (reg->parent >= 0 && reg->segment == segment)
            tensors[r] = shaped(network, reg, tensors[reg->parent]);
    }
}

/* Interleaved pairs are turned in float32, by a table in float32, whatever the model's own type (transformers' Llama4). */
static cp_precision table_precision(const cp_network *network, const cp_rope *rope)
{
    cp_precision precision = network->options.precision;
    if (rope->layout == CP_ROPE_INTERLEAVED)
        precision.rounding = CP_ROUND_NONE;
    return precision;
}

/* Tables that depend on positions and indices alone are made once, before the first step. */
static void take_tables(const cp_network *network)
{
    const cp_program *program = network->program;
    cp_tensor position = network->inputs.position;
    int64_t B = position.extent[0];
    int64_t S = position.extent[1];
    for (int t = 0; t < program->rope_count; t++) {
        const cp_rope *rope = &program->ropes[t];
        network->cosine[t] = CP_TAKE(network->arena, network->options.dtype, B, S, rope->pairs);
        network->sine[t] = CP_TAKE(network->arena, network->options.dtype, B, S, rope->pairs);
        network->ops->rope->table(network->cosine[t], network->sine[t], position, rope->inverse_frequency,
                                  rope->attention_scaling, table_precision(network, rope));
    }
    for (int t = 0; t < program->temperature_count; t++) {
        network->temperature[t] = CP_TAKE(network->arena, CP_F64, B, S);
        cp_temperature_table(network->temperature[t], network->inputs.index, &program->temperatures[t]);
    }
}

static void *list(cp_arena *tables, int count, size_t bytes)
{
    size_t all = (size_t)count * bytes;
    void *items = cp_arena_take(tables, all);
    memset(items, 0, all);
    return items;
}

static void take_lists(cp_network *network, cp_arena *tables)
{
    const cp_program *program = network->program;
    network->weight_gradients = list(tables, program->parameter_count, sizeof(cp_tensor));
    network->values = list(tables, program->register_count, sizeof(cp_tensor));
    network->gradients = list(tables, program->register_count, sizeof(cp_tensor));
    network->saved = list(tables, program->step_count, sizeof(cp_saved));
    network->cosine = list(tables, program->rope_count, sizeof(cp_tensor));
    network->sine = list(tables, program->rope_count, sizeof(cp_tensor));
    network->balance_slope = list(tables, (int)program->E, sizeof(double));
    network->balance_sums = list(tables, 2 * (int)program->E + 1, sizeof(double));
    network->temperature = list(tables, program->temperature_count, sizeof(cp_tensor));
}

static void take_weight_gradients(const cp_network *network)
{
    const cp_program *program = network->program;
    for (int p = 0; p < program->parameter_count; p++) {
        const cp_parameter *parameter = &program->parameters[p];
        if (network->options.gradients) {
            network->weight_gradients[p] = network->options.gradients[p];
            continue;
        }
        network->weight_gradients[p] =
            cp_tensor_take(network->arena, network->options.dtype, parameter->dims, parameter->extent);
        cp_tensor_zero(network->weight_gradients[p]);
    }
}

void cp_network_open(cp_network *network, const cp_program *program, const cp_mixer *mixer, const cp_ops *ops,
                     const cp_network_options *options, const cp_network_inputs *inputs,
                     const cp_tensor *weights, cp_arena *tables, cp_arena *arena)
{
    *network = (cp_network){.program = program,
                            .mixer = mixer,
                            .ops = ops,
                            .options = *options,
                            .inputs = *inputs,
                            .weights = weights,
                            .arena = arena};
    take_lists(network, tables);
    take_tables(network);
    take_weight_gradients(network);
    for (int segment = 0; segment < program->segment_count; segment++) {
        take_registers(network, network->values, segment, true);
        take_gradients(network, segment, true);
    }
    int64_t B = inputs->position.extent[0];
    int64_t S = inputs->position.extent[1];
    network->token_loss = CP_TAKE(arena, options->dtype, B, S);
    network->log_sum = CP_TAKE(arena, options->dtype, B, S);
}

static void run_forward(cp_network *network, int segment)
{
    const cp_program *program = network->program;
    take_registers(network, network->values, segment, false);
    view_registers(network, network->values, segment);
    for (int s = 0; s < program->step_count; s++)
        if (program->steps[s].segment == segment)
            cp_steps[program->steps[s].kind].forward(network, &program->steps[s], &network->saved[s]);
}

/* Of an input that the step has a gradient for, and that stands nowhere before among its inputs. */
static bool has_gradient(const cp_network *network, const cp_step *step, int input)
{
    int reg = step->in[input];
    for (int before = 0; before < input; before++)
        if (step->in[before] == reg)
            return false;
    return reg >= 0 && cp_tensor_given(network->gradients[reg]);
}

/* Where results are rounded, what a step gives an input is a result of its own, and so is its sum with what others gave
 * that input, as in automatic differentiation. */
static void run_rounded(cp_network *network, const cp_step *step, const cp_saved *saved)
{
    cp_precision precision = network->options.precision;
    const cp_pointwise_ops *ops = network->ops->pointwise;
    size_t mark = cp_arena_mark(network->arena);
    cp_tensor sum[CP_STEP_INPUTS];
    for (int n = 0; n < CP_STEP_INPUTS; n++) {
        if (!has_gradient(network, step, n))
            continue;
        cp_tensor *gradient = &network->gradients[step->in[n]];
        sum[n] = *gradient;
        *gradient = cp_tensor_take(network->arena, sum[n].dtype, sum[n].dims, sum[n].extent);
        cp_tensor_zero(*gradient);
    }
    cp_steps[step->kind].backward(network, step, saved);
    for (int n = 0; n < CP_STEP_INPUTS; n++) {
        if (!has_gradient(network, step, n))
            continue;
        cp_tensor *gradient = &network->gradients[step->in[n]];
        ops->round(*gradient, precision);
        ops->add(sum[n], sum[n], *gradient, precision);
        *gradient = sum[n];
    }
    const int parameters[] = {step->weight, step->bias, step->down, step->down_bias};
    for (size_t n = 0; n < sizeof parameters / sizeof *parameters; n++)
        if (parameters[n] >= 0 && cp_tensor_given(network->weight_gradients[parameters[n]]))
            ops->round(network->weight_gradients[parameters[n]], precision);
    cp_arena_release(network->arena, mark);
}

static bool rounds(const cp_network *network)
{
    return network->options.precision.rounding != CP_ROUND_NONE || network->options.precision.noise != 0;
}

static void run_backward(cp_network *network, int segment)
{
    const cp_program *program = network->program;
    size_t mark = cp_arena_mark(network->arena);
    take_gradients(network, segment, false);
    view_registers(network, network->gradients, segment);
    for (int s = program->step_count - 1; s >= 0; s--)
        if (program->steps[s].segment == segment && rounds(network))
            run_rounded(network, &program->steps[s], &network->saved[s]);
        else if (program->steps[s].segment == segment)
            cp_steps[program->steps[s].kind].backward(network, &program->steps[s], &network->saved[s]);
    cp_arena_release(network->arena, mark);
}

/* The last segment's backward follows its forward at once, so it is never worth running again. */
static bool runs_again(const cp_network *network, int segment)
{
    return network->options.recompute && segment < network->program->segment_count - 1;
}

/* With choices and tokens of all shards the loss is a sum of shares, each linear in its own tokens' probabilities; the
 * choices are constants to the backward. */
static void balance(cp_network *network)
{
    const cp_program *program = network->program;
    const cp_balance_share all = {network->mixer, 1, 1};
    const cp_balance_share *share = network->options.balance ? network->options.balance : &all;
    int64_t E = program->E;
    double *choices = network->balance_sums, *count = choices + E, *probabilities = count + 1;
    memset(network->balance_sums, 0, (size_t)(2 * E + 1) * sizeof *network->balance_sums);
    for (int s = 0; s < program->step_count; s++) {
        const cp_step *step = &program->steps[s];
        if (step->kind == CP_STEP_ROUTER)
            *count += (double)network->ops->router->balance(
                choices, probabilities, network->values[step->in[0]], network->inputs.counted, step->chosen);
    }
    share->among->sum(share->among, choices, (int)(E + 1));
    network->balance = 0;
    for (int64_t e = 0; e < E; e++) {
        double per_probability = *count > 0 ? (double)E * choices[e] / (*count * *count) : 0;
        network->balance += share->loss * per_probability * probabilities[e];
        network->balance_slope[e] = program->balance.coefficient * share->gradient * per_probability;
    }
    network->mixer->sum(network->mixer, &network->balance, 1);
}

void cp_network_forward(cp_network *network)
{
    for (int segment = 0; segment < network->program->segment_count; segment++) {
        size_t mark = cp_arena_mark(network->arena);
        run_forward(network, segment);
        if (runs_again(network, segment))
            cp_arena_release(network->arena, mark);
    }
    if (network->program->balance.given)
        balance(network);
}

void cp_network_backward(cp_network *network, double factor)
{
    network->factor = factor;
    for (int segment = network->program->segment_count - 1; segment >= 0; segment--) {
        size_t mark = cp_arena_mark(network->arena);
        if (runs_again(network, segment))
            run_forward(network, segment);
        run_backward(network, segment);
        cp_arena_release(network->arena, mark);
    }
}

double cp_network_loss_sum(const cp_network *network)
{
    return network->ops->loss->sum(network->token_loss);
}

#include "reference/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program is built once, from a configuration that has been checked; it grows item by item. */
static void *grown(void *items, int count, size_t bytes)
{
    void *more = realloc(items, ((size_t)count + 1) * bytes);
    cp_check(more, "no memory for item %d of a program", count);
    memset((char *)more + (size_t)count * bytes, 0, bytes);
    return more;
}

#define APPEND(program, items, count)                                                                        \
    ((program)->items = grown((program)->items, (program)->count, sizeof *(program)->items),                 \
     &(program)->items[(program)->count++])

cp_program *cp_program_open(const char *family)
{
    cp_program *program = calloc(1, sizeof *program);
    cp_check(program, "no memory for a program");
    snprintf(program->family, sizeof program->family, "%s", family);
    program->padding_id = -1;
    program->segment_count = 1;
    return program;
}

void cp_program_close(cp_program *program)
{
    if (!program)
        return;
    for (int r = 0; r < program->rope_count; r++)
        free(program->ropes[r].inverse_frequency);
    free(program->parameters);
    free(program->registers);
    free(program->steps);
    free(program->ropes);
    free(program->temperatures);
    free(program->masks);
    free(program->layer_mask);
    free(program->key_head);
    free(program);
}

void cp_program_segment(cp_program *program)
{
    program->segment_count++;
}

int cp_program_parameter(cp_program *program, cp_parameter_class class, int64_t rows, int64_t columns,
                         const char *format, ...)
{
    cp_parameter *parameter = APPEND(program, parameters, parameter_count);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parameter->name, sizeof parameter->name, format, arguments);
    va_end(arguments);
    parameter->class = class;
    parameter->dims = columns ? 2 : 1;
    parameter->extent[0] = rows;
    parameter->extent[1] = columns;
    parameter->fan_in = columns;
    return program->parameter_count - 1;
}

int cp_program_stack(cp_program *program, int64_t count, int64_t rows, int64_t columns, int64_t fan_in,
                     const char *format, ...)
{
    cp_parameter *parameter = APPEND(program, parameters, parameter_count);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parameter->name, sizeof parameter->name, format, arguments);
    va_end(arguments);
    parameter->dims = 3;
    parameter->extent[0] = count;
    parameter->extent[1] = rows;
    parameter->extent[2] = columns;
    parameter->fan_in = fan_in;
    return program->parameter_count - 1;
}

int cp_program_rope(cp_program *program, const double *inverse_frequency, int64_t pairs,
                    double attention_scaling, cp_rope_layout layout)
{
    cp_rope *rope = APPEND(program, ropes, rope_count);
    size_t bytes = (size_t)pairs * sizeof *inverse_frequency;
    *rope = (cp_rope){.inverse_frequency = malloc(bytes),
                      .pairs = pairs,
                      .attention_scaling = attention_scaling,
                      .layout = layout};
    cp_check(rope->inverse_frequency, "no memory for a rope table");
    memcpy(rope->inverse_frequency, inverse_frequency, bytes);
    return program->rope_count - 1;
}

int cp_program_temperature(cp_program *program, double scale, double floor)
{
    *APPEND(program, temperatures, temperature_count) = (cp_temperature){.scale = scale, .floor = floor};
    return program->temperature_count - 1;
}

int cp_program_mask(cp_program *program, cp_mask mask)
{
    for (int m = 0; m < program->mask_count; m++)
        if (program->masks[m].window == mask.window && program->masks[m].chunk == mask.chunk)
            return m;
    *APPEND(program, masks, mask_count) = mask;
    return program->mask_count - 1;
}

static int new_register(cp_program *program, int64_t heads, int64_t width, int parent)
{
    *APPEND(program, registers, register_count) = (cp_register){
        .heads = heads, .width = width, .parent = parent, .segment = program->segment_count - 1};
    return program->register_count - 1;
}

static cp_step *new_step(cp_program *program, cp_step_kind kind, int out, int in)
{
    cp_step *step = APPEND(program, steps, step_count);
    *step = (cp_step){.kind = kind,
                      .segment = program->segment_count - 1,
                      .out = out,
                      .in = {in, -1, -1},
                      .weight = -1,
                      .bias = -1,
                      .down = -1,
                      .down_bias = -1,
                      .table = -1,
                      .mask = -1,
                      .layer = -1};
    return step;
}

/* A register of the same shape as another. */
static int new_like(cp_program *program, int in)
{
    return new_register(program, program->registers[in].heads, program->registers[in].width, -1);
}

int cp_program_embed(cp_program *program, int table, double scale)
{
    int out = new_register(program, 0, program->parameters[table].extent[1], -1);
    cp_step *step = new_step(program, CP_STEP_EMBED, out, -1);
    step->weight = table;
    step->scale = scale;
    program->embedding = table;
    program->embed = out;
    return out;
}

int cp_program_linear(cp_program *program, int in, int weight, int bias)
{
    int out = new_register(program, 0, program->parameters[weight].extent[0], -1);
    cp_step *step = new_step(program, CP_STEP_LINEAR, out, in);
    step->weight = weight;
    step->bias = bias;
    return out;
}

int cp_program_norm(cp_program *program, int in, int weight, cp_norm_weight kind, double epsilon)
{
    int out = new_like(program, in);
    cp_step *step = new_step(program, CP_STEP_NORM, out, in);
    step->weight = weight;
    step->norm = kind;
    step->epsilon = epsilon;
    if (weight >= 0)
        program->parameters[weight].norm = kind;
    return out;
}

int cp_program_rotate(cp_program *program, int in, int rope)
{
    int out = new_like(program, in);
    new_step(program, CP_STEP_ROPE, out, in)->table = rope;
    return out;
}

int cp_program_temper(cp_program *program, int in, int temperature)
{
    int out = new_like(program, in);
    new_step(program, CP_STEP_TEMPERATURE, out, in)->table = temperature;
    return out;
}

int cp_program_attention(cp_program *program, int q, int k, int v, int sink, int layer, int mask,
                         double scale, double softcap)
{
    int out = new_register(program, program->registers[q].heads, program->registers[v].width, -1);
    cp_step *step = new_step(program, CP_STEP_ATTENTION, out, q);
    step->in[1] = k;
    step->in[2] = v;
    step->weight = sink;
    step->layer = layer;
    step->mask = mask;
    step->scale = scale;
    step->softcap = softcap;
    return out;
}

static int owner_of(const cp_program *program, int reg)
{
    while (program->registers[reg].parent >= 0)
        reg = program->registers[reg].parent;
    return reg;
}

/* The scores outlive their segment: how evenly experts are used is known after the last one. */
int cp_program_router(cp_program *program, int logits, int64_t chosen)
{
    int out = new_like(program, logits);
    new_step(program, CP_STEP_ROUTER, out, logits)->chosen = chosen;
    program->registers[owner_of(program, logits)].crosses = true;
    return out;
}

int cp_program_experts(cp_program *program, int in, int weights, const int parameters[4],
                       cp_experts_form form)
{
    int out = new_like(program, in);
    cp_step *step = new_step(program, CP_STEP_EXPERTS, out, in);
    step->in[1] = weights;
    step->weight = parameters[0];
    step->bias = parameters[1];
    step->down = parameters[2];
    step->down_bias = parameters[3];
    step->experts = form;
    return out;
}

int cp_program_gate(cp_program *program, int gate, int up, cp_activation activation)
{
    int out = new_like(program, gate);
    cp_step *step = new_step(program, CP_STEP_GATE, out, gate);
    step->in[1] = up;
    step->activation = activation;
    return out;
}

int cp_program_add(cp_program *program, int a, int b)
{
    int out = new_like(program, a);
    new_step(program, CP_STEP_ADD, out, a)->in[1] = b;
    return out;
}

int cp_program_head(cp_program *program, int in, int weight, double softcap)
{
    int out = new_register(program, 0, program->parameters[weight].extent[0], -1);
    cp_step *step = new_step(program, CP_STEP_HEAD, out, in);
    step->weight = weight;
    step->softcap = softcap;
    program->final = in;
    program->logits = out;
    return out;
}

int cp_program_view(cp_program *program, int in, int64_t heads, int64_t width)
{
    int out = new_register(program, heads, width, in);
    program->registers[out].segment = program->registers[in].segment;
    return out;
}

void cp_program_tie(cp_program *program, int parameter, const char *name)
{
    program->parameters[parameter].class = CP_PARAMETER_TIED;
    snprintf(program->parameters[parameter].tied, sizeof program->parameters[parameter].tied, "%s", name);
}

void cp_program_trace(cp_program *program, int in, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(program->registers[in].name, sizeof program->registers[in].name, format, arguments);
    va_end(arguments);
}

void cp_program_finish(cp_program *program)
{
    for (int s = 0; s < program->step_count; s++)
        for (int n = 0; n < CP_STEP_INPUTS; n++) {
            int in = program->steps[s].in[n];
            if (in < 0)
                continue;
            cp_register *owner = &program->registers[owner_of(program, in)];
            if (owner->segment != program->steps[s].segment)
                owner->crosses = true;
        }
    for (int r = 0; r < program->register_count; r++)
        if (program->registers[r].name[0])
            program->registers[owner_of(program, r)].crosses = true;
    program->registers[program->logits].crosses = true;
}

int cp_program_find(const cp_program *program, const char *name)
{
    for (int p = 0; p < program->parameter_count; p++)
        if (strcmp(program->parameters[p].name, name) == 0 || strcmp(program->parameters[p].tied, name) == 0)
            return p;
    return -1;
}

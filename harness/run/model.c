#include "harness/run/model.h"

#include "models/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A weight without data is a shape: memory is planned with it. */
static cp_status check_finite(const char *path, const cp_weight *weight)
{
    enum { BLOCK = 4096 };
    double block[BLOCK];
    int64_t count = weight->tensor.data ? cp_tensor_count(weight->tensor) : 0;
    size_t bytes = cp_dtype_bytes(weight->tensor.dtype);
    for (int64_t begin = 0; begin < count; begin += BLOCK) {
        size_t n = (size_t)(count - begin < BLOCK ? count - begin : BLOCK);
        cp_dtype_to_double(block, (const char *)weight->tensor.data + (size_t)begin * bytes,
                           weight->tensor.dtype, n);
        for (size_t i = 0; i < n; i++)
            if (!isfinite(block[i]))
                return cp_fail(CP_BAD_INPUT,
                               "%s: /weights/%s: element %" PRId64 " is %g, expected finite numbers", path,
                               weight->name, begin + (int64_t)i, block[i]);
    }
    return CP_OK;
}

static cp_status check_weights(const cp_model *model)
{
    const cp_fixture *fixture = model->fixture;
    const cp_program *program = model->program;
    for (int p = 0; p < program->parameter_count; p++) {
        const cp_parameter *parameter = &program->parameters[p];
        const cp_weight *weight = cp_fixture_weight(fixture, parameter->name);
        if (!weight)
            return cp_fail(CP_BAD_INPUT, "%s: /weights/%s: missing, the configuration has this parameter",
                           fixture->path, parameter->name);
        if (!cp_tensor_has_shape(weight->tensor, parameter->dims, parameter->extent)) {
            char found[CP_SHAPE_TEXT], expected[CP_SHAPE_TEXT];
            return cp_fail(CP_BAD_INPUT, "%s: /weights/%s: shape %s, expected %s from the configuration",
                           fixture->path, parameter->name,
                           cp_shape_text(found, weight->tensor.dims, weight->tensor.extent),
                           cp_shape_text(expected, parameter->dims, parameter->extent));
        }
        CP_TRY(check_finite(fixture->path, weight));
    }
    for (size_t w = 0; w < fixture->weight_count; w++)
        if (strcmp(fixture->weights[w].role, "buffer") !=
                0 && /* what is no parameter may be kept, and is not read */
            cp_program_find(program, fixture->weights[w].name) < 0)
            return cp_fail(CP_BAD_INPUT, "%s: /weights/%s: extra, the configuration has no such parameter",
                           fixture->path, fixture->weights[w].name);
    return CP_OK;
}

static cp_status check_batch(const cp_model *model)
{
    const cp_fixture *fixture = model->fixture;
    CP_TRY(cp_batch_check(&fixture->batch, model->program->V, fixture->path));
    if (fixture->batch.inputs_embeds && fixture->batch.C != model->program->C)
        return cp_fail(CP_BAD_INPUT,
                       "%s: /batch/inputs_embeds: width %" PRId64 ", expected hidden_size %" PRId64,
                       fixture->path, fixture->batch.C, model->program->C);
    return CP_OK;
}

static cp_status open_program(cp_model *model)
{
    enum { WHERE_BYTES = 512 };
    char where[WHERE_BYTES];
    snprintf(where, sizeof where, "%s: /config", model->fixture->path);
    if (model->fixture->attention)
        return cp_fail(CP_REFUSED, "%s: kind \"attention\" holds no model to run", model->fixture->path);
    if (!model->fixture->config)
        return cp_fail(CP_BAD_INPUT, "%s: missing, a run needs the configuration", where);
    CP_TRY(cp_models_build(&model->program, model->fixture->config, where));
    CP_TRY(check_weights(model));
    return check_batch(model);
}

cp_status cp_model_open(cp_model **out, const cp_fixture *fixture)
{
    cp_model *model = calloc(1, sizeof *model);
    cp_weights *weights = calloc(CP_DTYPES, sizeof *weights);
    if (!model || !weights) {
        free(model);
        free(weights);
        return cp_fail(CP_INTERNAL, "%s: no memory for a model", fixture->path);
    }
    *model = (cp_model){.fixture = fixture, .weights = weights};
    cp_status status = open_program(model);
    if (status == CP_OK)
        *out = model;
    else
        cp_model_close(model);
    return status;
}

void cp_model_close(cp_model *model)
{
    if (!model)
        return;
    for (int dtype = 0; dtype < CP_DTYPES; dtype++) {
        cp_weights *weights = &model->weights[dtype];
        for (int p = 0; weights->converted && p < model->program->parameter_count; p++)
            free(weights->converted[p]);
        free(weights->converted);
        free(weights->tensors);
    }
    free(model->weights);
    cp_program_close(model->program);
    free(model);
}

const cp_program *cp_model_program(const cp_model *model)
{
    return model->program;
}

/* What a run in a dtype keeps its numbers in. */
static cp_dtype storage_of(cp_dtype dtype)
{
    return dtype == CP_BF16 ? CP_F32 : dtype;
}

/* One weight as a run in `dtype` has it, through double: exact from anything narrower, else rounded once. */
static void *converted(cp_tensor weight, cp_dtype dtype)
{
    enum { BLOCK = 4096 };
    double block[BLOCK];
    uint16_t words[BLOCK];
    int64_t count = cp_tensor_count(weight);
    size_t bytes = cp_dtype_bytes(storage_of(dtype));
    char *out = malloc((size_t)count * bytes);
    for (int64_t begin = 0; out && begin < count; begin += BLOCK) {
        size_t n = (size_t)(count - begin < BLOCK ? count - begin : BLOCK);
        cp_dtype_to_double(block, (const char *)weight.data + (size_t)begin * cp_dtype_bytes(weight.dtype),
                           weight.dtype, n);
        if (dtype == CP_BF16) {
            cp_dtype_from_double(words, dtype, block, n);
            cp_dtype_to_double(block, words, dtype, n);
        }
        cp_dtype_from_double(out + (size_t)begin * bytes, storage_of(dtype), block, n);
    }
    return out;
}

cp_status cp_model_weights(const cp_tensor **out, const cp_model *model, cp_dtype dtype)
{
    const cp_program *program = model->program;
    cp_weights *weights = &model->weights[dtype];
    if (!weights->tensors) {
        weights->tensors = calloc((size_t)program->parameter_count, sizeof *weights->tensors);
        weights->converted = calloc((size_t)program->parameter_count, sizeof *weights->converted);
    }
    if (!weights->tensors || !weights->converted)
        return cp_fail(CP_INTERNAL, "%s: no memory for the weights", model->fixture->path);
    for (int p = 0; p < program->parameter_count; p++) {
        if (cp_tensor_given(weights->tensors[p]))
            continue;
        cp_tensor weight = cp_fixture_weight(model->fixture, program->parameters[p].name)->tensor;
        if (weight.dtype != dtype || dtype == CP_BF16) {
            weights->converted[p] = converted(weight, dtype);
            if (!weights->converted[p])
                return cp_fail(CP_INTERNAL, "%s: no memory for the weights in %s", model->fixture->path,
                               cp_dtype_name(dtype));
            weight = cp_tensor_view(weights->converted[p], storage_of(dtype), weight.dims, weight.extent);
        }
        weights->tensors[p] = weight;
    }
    *out = weights->tensors;
    return CP_OK;
}

#include "harness/run/make.h"

#include "base/rng.h"
#include "harness/run/run.h"
#include "models/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char self_made[] = CP_SELF_MADE " computed by cpeq " CPEQ_VERSION " in float64, unsharded";

static int by_name(const void *a, const void *b)
{
    return strcmp(((const cp_weight *)a)->name, ((const cp_weight *)b)->name);
}

/* ---- fixtures --------------------------------------------------------------------------------------------------- */

/* One name a line, as the program writes them: a judge reports the first difference in this order. */
static char *execution_order(const cp_program *program)
{
    size_t bytes = 1;
    for (int p = 0; p < program->parameter_count; p++)
        bytes += strlen(program->parameters[p].name) + 1;
    char *order = calloc(1, bytes);
    char *end = order;
    for (int p = 0; order && p < program->parameter_count; p++)
        end += sprintf(end, "%s\n", program->parameters[p].name);
    return order;
}

static cp_status write_fixture(const char *path, cp_fixture *fixture)
{
    cp_model *model;
    CP_TRY(cp_model_open(&model, fixture));
    cp_run_options unsharded = {.P = 1, .dtype = CP_F64};
    cp_source *expected = NULL;
    char *order = execution_order(cp_model_program(model));
    cp_status status = order ? cp_run_whole(&expected, model, &unsharded)
                             : cp_fail(CP_INTERNAL, "%s: no memory for a fixture", path);
    if (status == CP_OK) {
        fixture->expected = expected;
        fixture->order = order;
        status = cp_fixture_write(path, fixture);
    }
    cp_source_close(expected);
    free(order);
    cp_model_close(model);
    return status;
}

cp_status cp_make_fixture(const char *path, const char *config_text, const cp_weight *weights,
                          size_t weight_count, const cp_batch *batch)
{
    cp_json *config;
    CP_TRY(cp_json_parse(&config, config_text, strlen(config_text), "config"));
    size_t bytes = weight_count * sizeof *weights;
    cp_weight *sorted = malloc(bytes ? bytes : 1);
    cp_status status = CP_INTERNAL;
    if (!sorted) {
        cp_fail(CP_INTERNAL, "%s: no memory for %zu weights", path, weight_count);
    } else {
        memcpy(sorted, weights, bytes);
        qsort(sorted, weight_count, sizeof *sorted, by_name);
        char id[65];
        cp_fixture fixture = {.path = path,
                              .producer = "cpeq " CPEQ_VERSION,
                              .config_text = config_text,
                              .config = config,
                              .weight_count = weight_count,
                              .weights = sorted,
                              .batch = *batch,
                              .truth = self_made,
                              .precision = "float64"};
        status = cp_fixture_identify(&fixture, id);
        fixture.id = id;
        if (status == CP_OK)
            status = write_fixture(path, &fixture);
    }
    free(sorted);
    cp_json_close(config);
    return status;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* value = base + deviation · N(0,1), rounded to bfloat16. */
static void fill(float *out, int64_t count, cp_rng rng, double base, double deviation)
{
    for (int64_t n = 0; n < count; n++)
        out[n] = cp_bf16_round((float)(base + deviation * cp_rng_normal(rng, (uint64_t)n)));
}

static cp_status make_weight(cp_weight *weight, const cp_parameter *parameter, uint64_t seed)
{
    static const double deviations[CP_PARAMETER_CLASSES] = {[CP_PARAMETER_NORM] = 0.1,
                                                            [CP_PARAMETER_BIAS] = 0.1,
                                                            [CP_PARAMETER_EMBEDDING] = 0.5,
                                                            [CP_PARAMETER_TIED] = 0.5,
                                                            [CP_PARAMETER_SINK] = 1};
    int64_t count = cp_tensor_count(cp_tensor_view(NULL, CP_F32, parameter->dims, parameter->extent));
    float *data = malloc((size_t)count * sizeof *data);
    char *name = strdup(parameter->name);
    char *tied = malloc(strlen(parameter->tied) + 2);
    *weight = (cp_weight){.name = name,
                          .tied = tied,
                          .role = "",
                          .tensor = {.data = data, .dtype = CP_F32, .dims = parameter->dims}};
    if (!data || !name || !tied)
        return cp_fail(CP_INTERNAL, "%s: no memory for this weight", parameter->name);
    sprintf(tied, parameter->tied[0] ? "%s\n" : "%s", parameter->tied);
    double deviation = deviations[parameter->class];
    if (deviation == 0) /* a matrix */
        deviation = 1 / sqrt((double)parameter->fan_in);
    bool around_one = parameter->class == CP_PARAMETER_NORM && parameter->norm == CP_NORM_WEIGHT;
    fill(data, count, cp_rng_named(seed, parameter->name), around_one ? 1 : 0, deviation);
    weight->tensor = cp_tensor_view(data, CP_F32, parameter->dims, parameter->extent);
    return CP_OK;
}

cp_status cp_make_weights(cp_weight **out, size_t *count, const char *config_text, const char *where,
                          uint64_t seed)
{
    cp_json *config;
    cp_program *program = NULL;
    CP_TRY(cp_json_parse(&config, config_text, strlen(config_text), where));
    cp_status status = cp_models_build(&program, config, where);
    cp_json_close(config);
    if (status != CP_OK)
        return status;
    *count = (size_t)program->parameter_count;
    *out = calloc(*count, sizeof **out);
    if (!*out)
        status = cp_fail(CP_INTERNAL, "%s: no memory for the weights", where);
    for (size_t p = 0; status == CP_OK && p < *count; p++)
        status = make_weight(&(*out)[p], &program->parameters[p], seed);
    if (status == CP_OK)
        qsort(*out, *count, sizeof **out, by_name);
    else
        cp_make_weights_close(*out, *out ? *count : 0);
    cp_program_close(program);
    return status;
}

void cp_make_weights_close(cp_weight *weights, size_t count)
{
    for (size_t w = 0; w < count; w++) {
        free((void *)(uintptr_t)weights[w].name);
        free((void *)(uintptr_t)weights[w].tied);
        free(weights[w].tensor.data);
    }
    free(weights);
}

const char *cp_make_config(const char *family)
{
    return cp_models_example(family);
}

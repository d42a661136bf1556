#include "harness/cli/exchanges.h"
#include "harness/cli/info.h"

#include "harness/cli/values.h"
#include "harness/run/run.h"
#include "models/models.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DRAWN = 128 };

static void tell(cp_json *json, const char *name, const char *text)
{
    if (json != NULL)
        cp_json_set_string(json, name, text);
    else
        printf("  %-14s %s\n", name, text);
}

static int64_t count_numbers(const cp_program *program)
{
    int64_t numbers = 0;
    for (int p = 0; p < program->parameter_count; p++) {
        const cp_parameter *parameter = &program->parameters[p];
        numbers += cp_tensor_count(cp_tensor_view(NULL, CP_F32, parameter->dims, parameter->extent));
    }
    return numbers;
}

static void tell_sizes(cp_json *json, const cp_program *program)
{
    char text[256];
    snprintf(text, sizeof text,
             "%s: %lld layer%s, hidden %lld, %lld query and %lld key/value heads of %lld, feed-forward %lld, "
             "vocabulary %lld",
             program->family, (long long)program->L, program->L == 1 ? "" : "s", (long long)program->C,
             (long long)program->H, (long long)program->K, (long long)program->D, (long long)program->F,
             (long long)program->V);
    tell(json, "model", text);
}

static void tell_masks(cp_json *json, const cp_program *program)
{
    for (int m = 0; m < program->mask_count; m++) {
        char text[256], name[32];
        const cp_mask *mask = &program->masks[m];
        size_t used = 0;
        if (mask->window > 0)
            used = (size_t)snprintf(text, sizeof text, "window %lld:", (long long)mask->window);
        else if (mask->chunk > 0)
            used = (size_t)snprintf(text, sizeof text, "chunks of %lld:", (long long)mask->chunk);
        else
            used = (size_t)snprintf(text, sizeof text, "full:");
        used += (size_t)snprintf(text + used, sizeof text - used, " layers");
        for (int64_t l = 0; l < program->L && used < sizeof text - 24; l++)
            if (program->layer_mask[l] == m)
                used += (size_t)snprintf(text + used, sizeof text - used, " %lld", (long long)l);
        snprintf(name, sizeof name, json != NULL ? "attention_%d" : "attention", m);
        tell(json, name, text);
    }
}

static void bytes_text(char *text, size_t room, size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, room, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static cp_status tell_memory(cp_json *json, const cp_fixture *fixture, const cp_cut *cut)
{
    cp_model *model = NULL;
    CP_TRY(cp_model_open(&model, fixture));
    cp_status status = CP_OK;
    for (int d = 0; d < CP_WORKING_DTYPES && status == CP_OK; d++) {
        cp_run_options options = {.P = cut->P,
                                  .exchange = cp_usual_exchange(cut->P),
                                  .layout = cut->layout,
                                  .dtype = cp_working_dtype(d)};
        cp_run_memory memory;
        status = cp_run_check(model, &options);
        if (status == CP_OK)
            status = cp_run_measure(&memory, model, &options, 0);
        if (status != CP_OK)
            break;
        char name[48], weights[32], step[32], text[160];
        bytes_text(weights, sizeof weights, memory.weights);
        bytes_text(step, sizeof step, memory.step);
        if (json != NULL) {
            snprintf(name, sizeof name, "memory_%s", cp_working_dtype_value(d));
            cp_json *object = cp_json_new_object();
            cp_json_set_integer(object, "weights", (int64_t)memory.weights);
            cp_json_set_integer(object, "step", (int64_t)memory.step);
            cp_json_set(json, name, object);
        } else {
            snprintf(text, sizeof text, "%s: weights %s, a step %s on rank 0 of %d (%s)",
                     cp_working_dtype_value(d), weights, step, cut->P,
                     cp_exchange_name(options.exchange.kind));
            tell(NULL, "memory", text);
        }
    }
    cp_model_close(model);
    return status;
}

cp_status cp_info_model(cp_json *json, const cp_fixture *fixture, const cp_cut *cut)
{
    cp_program *program = NULL;
    if (fixture->config == NULL)
        return cp_fail(CP_REFUSED, "%s: /config: missing, a model is not known without it", fixture->path);
    CP_TRY(cp_models_build(&program, fixture->config, fixture->path));
    tell_sizes(json, program);
    tell_masks(json, program);
    cp_program_close(program);
    return tell_memory(json, fixture, cut);
}

/* ---- a configuration alone: a fixture of shapes -------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const cp_weight *)a)->name, ((const cp_weight *)b)->name);
}

static cp_status measure_shapes(cp_json *json, const cp_json *config, const char *path,
                                const cp_program *program, int64_t length, const cp_cut *cut)
{
    size_t count = (size_t)program->parameter_count;
    cp_weight *weights = calloc(count, sizeof *weights);
    int64_t *zeros = calloc((size_t)length, sizeof *zeros);
    cp_check(weights != NULL && zeros != NULL, "out of memory");
    for (size_t p = 0; p < count; p++) {
        const cp_parameter *parameter = &program->parameters[p];
        weights[p] = (cp_weight){.name = parameter->name, .tied = "", .role = ""};
        weights[p].tensor = cp_tensor_view(NULL, CP_F32, parameter->dims, parameter->extent);
    }
    qsort(weights, count, sizeof *weights, by_name);
    cp_fixture shapes = {.path = path, .config = config, .weight_count = count, .weights = weights};
    shapes.batch = (cp_batch){.B = 1, .T = length, .input_ids = zeros, .labels = zeros};
    cp_status status = tell_memory(json, &shapes, cut);
    free(weights);
    free(zeros);
    return status;
}

cp_status cp_info_config_model(cp_json *json, const cp_json *config, const char *path, int64_t length,
                               const cp_cut *cut)
{
    cp_program *program = NULL;
    CP_TRY(cp_models_build(&program, config, path));
    char text[96];
    snprintf(text, sizeof text, "%lld numbers in %d tensors", (long long)count_numbers(program),
             program->parameter_count);
    tell(json, "weights", text);
    tell_sizes(json, program);
    tell_masks(json, program);
    snprintf(text, sizeof text, "one row of %lld tokens", (long long)length);
    tell(json, "for", text);
    cp_status status = measure_shapes(json, config, path, program, length, cut);
    cp_program_close(program);
    return status;
}

/* ---- masks -------------------------------------------------------------------------------------------------------- */

static cp_json *mask_json(const uint8_t *mask, int64_t T)
{
    cp_json *lines = cp_json_new_array();
    char line[MOST_DRAWN + 1];
    for (int64_t i = 0; i < T; i++) {
        for (int64_t j = 0; j < T; j++)
            line[j] = mask[i * T + j] ? '#' : '.';
        line[T] = '\0';
        cp_json_append_string(lines, line);
    }
    return lines;
}

static void draw_rows(cp_json *json, const uint8_t *mask, const cp_batch *batch, int64_t layer,
                      const cp_cut *cut)
{
    int64_t B = batch->B, T = batch->T;
    cp_json *rows = json != NULL ? cp_json_new_array() : NULL;
    for (int64_t b = 0; b < B; b++) {
        if (rows != NULL) {
            cp_json_append(rows, mask_json(mask + b * T * T, T));
            continue;
        }
        printf("  row %lld, layer %lld: a line a query, #: it sees that key\n", (long long)b,
               (long long)layer);
        cp_draw_mask(mask + b * T * T, batch, b, cut);
    }
    if (rows != NULL)
        cp_json_set(json, "mask", rows);
}

static cp_status show_mask(cp_json *json, const cp_fixture *fixture, const cp_model *model, int64_t layer,
                           const cp_cut *cut)
{
    int64_t B = fixture->batch.B, T = fixture->batch.T, L = cp_model_program(model)->L;
    if (layer >= L)
        return cp_fail(CP_BAD_USAGE, "--mask: layer %lld of %s, which has %lld", (long long)layer,
                       fixture->path, (long long)L);
    if (T > MOST_DRAWN)
        return cp_fail(CP_REFUSED, "--mask: a row of %lld tokens; at most %d are drawn", (long long)T,
                       MOST_DRAWN);
    CP_TRY(cp_layout_check(&cut->layout, cut->P, T));
    uint8_t *mask = malloc((size_t)(B * T * T));
    cp_check(mask != NULL, "out of memory");
    cp_model_mask(model, layer, mask);
    draw_rows(json, mask, &fixture->batch, layer, cut);
    free(mask);
    return CP_OK;
}

cp_status cp_info_mask(cp_json *json, const cp_fixture *fixture, int64_t layer, const cp_cut *cut)
{
    cp_model *model = NULL;
    CP_TRY(cp_model_open(&model, fixture));
    cp_status status = show_mask(json, fixture, model, layer, cut);
    cp_model_close(model);
    return status;
}

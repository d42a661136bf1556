#include "harness/cli/hub.h"

#include "harness/cli/output.h"
#include "harness/files/dump.h"
#include "harness/files/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 10 };

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static cp_status join_path(char out[CP_PATH_BYTES], const char *folder, const char *name)
{
    if (snprintf(out, CP_PATH_BYTES, "%s/%s", folder, name) >= CP_PATH_BYTES)
        return cp_fail(CP_BAD_USAGE, "%.60s…: a path of more than %d characters", folder, CP_PATH_BYTES);
    return CP_OK;
}

static cp_status write_weights(const char *path, const cp_fixture *fixture)
{
    cp_memory_tensor *tensors = calloc(fixture->weight_count + 1, sizeof *tensors);
    cp_check(tensors != NULL, "out of memory");
    for (size_t w = 0; w < fixture->weight_count; w++)
        tensors[w] =
            (cp_memory_tensor){.name = fixture->weights[w].name, .tensor = fixture->weights[w].tensor};
    cp_status status = cp_safetensors_write(path, tensors, fixture->weight_count);
    free(tensors);
    return status;
}

static void add(cp_memory_tensor *tensors, size_t *count, const char *name, const void *data, cp_dtype dtype,
                int64_t B, int64_t T, int64_t C)
{
    if (data == NULL)
        return;
    /* A source's tensors are not written to; the view has no const. */
    cp_tensor view = cp_tensor_view((void *)data, dtype, C > 0 ? 3 : 2, CP_EXTENTS(B, T, C));
    tensors[(*count)++] = (cp_memory_tensor){.name = name, .tensor = view};
}

static void add_rows(cp_memory_tensor *tensors, size_t *count, const char *name, const int64_t *data,
                     int64_t B)
{
    if (data != NULL)
        tensors[(*count)++] =
            (cp_memory_tensor){.name = name, .tensor = CP_VIEW((void *)(uintptr_t)data, CP_I64, B)};
}

static cp_status write_batch(const char *path, const cp_batch *batch)
{
    cp_memory_tensor tensors[MOST_MEMBERS];
    size_t count = 0;
    int64_t B = batch->B, T = batch->T;
    double items = batch->num_items_in_batch;
    add(tensors, &count, "input_ids", batch->input_ids, CP_I64, B, T, 0);
    add(tensors, &count, "inputs_embeds", batch->inputs_embeds, CP_F64, B, T, batch->C);
    add(tensors, &count, "attention_mask", batch->attention_mask, CP_U8, B, T, 0);
    add(tensors, &count, "position_ids", batch->position_ids, CP_I64, B, T, 0);
    add(tensors, &count, "document_ids", batch->document_ids, CP_I64, B, T, 0);
    add(tensors, &count, "labels", batch->labels, CP_I64, B, T, 0);
    add(tensors, &count, "shift_labels", batch->shift_labels, CP_I64, B, T, 0);
    add_rows(tensors, &count, "microbatch", batch->microbatch, B);
    add_rows(tensors, &count, "data_parallel", batch->data_parallel, B);
    if (items > 0) {
        cp_tensor scalar = CP_VIEW(&items, CP_F64, 1);
        tensors[count++] = (cp_memory_tensor){.name = "num_items_in_batch", .tensor = scalar, .scalar = true};
    }
    return cp_safetensors_write(path, tensors, count);
}

cp_status cp_hub_write(const char *folder, const cp_fixture *fixture)
{
    char path[CP_PATH_BYTES];
    if (fixture->attention != NULL)
        return cp_fail(CP_REFUSED, "%s: kind \"attention\" holds no model to export", fixture->path);
    if (fixture->config == NULL)
        return cp_fail(CP_BAD_INPUT, "%s: /config: missing, it becomes config.json", fixture->path);
    CP_TRY(cp_make_folder(folder));
    CP_TRY(join_path(path, folder, "model.safetensors"));
    CP_TRY(write_weights(path, fixture));
    CP_TRY(join_path(path, folder, "batch.safetensors"));
    CP_TRY(write_batch(path, &fixture->batch));
    CP_TRY(join_path(path, folder, "config.json"));
    return cp_write_report(path, fixture->config_text);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static cp_status read_raw(void **out, const cp_safetensors *file, const cp_safetensor *tensor,
                          cp_arena *arena)
{
    *out = cp_arena_take(arena, (size_t)tensor->bytes);
    return cp_safetensors_read(file, tensor, *out);
}

static cp_status read_doubles(double **out, const cp_safetensors *file, const cp_safetensor *tensor,
                              cp_arena *arena)
{
    void *raw = NULL;
    CP_TRY(read_raw(&raw, file, tensor, arena));
    *out = cp_arena_take(arena, (size_t)tensor->count * sizeof(double));
    cp_dtype_to_double(*out, raw, tensor->dtype, (size_t)tensor->count);
    return CP_OK;
}

static cp_status read_weight(cp_weight *out, const cp_safetensors *file, const cp_safetensor *tensor,
                             cp_arena *arena)
{
    size_t bytes = strlen(tensor->name) + 1;
    char *name = cp_arena_take(arena, bytes);
    memcpy(name, tensor->name, bytes);
    *out = (cp_weight){.name = name, .tied = "", .role = ""};
    if (!cp_dtype_is_float(tensor->dtype) || tensor->dims == 0)
        return cp_fail(CP_BAD_INPUT, "%s: %s: a weight is an array of floats, found %s of %d dimensions",
                       file->path, tensor->name, cp_dtype_name(tensor->dtype), tensor->dims);
    cp_dtype dtype = tensor->dtype == CP_F16 ? CP_F32 : tensor->dtype;
    void *data = NULL;
    if (dtype == tensor->dtype) {
        CP_TRY(read_raw(&data, file, tensor, arena));
    } else {
        double *values = NULL;
        CP_TRY(read_doubles(&values, file, tensor, arena));
        data = cp_arena_take(arena, (size_t)tensor->count * cp_dtype_bytes(dtype));
        cp_dtype_from_double(data, dtype, values, (size_t)tensor->count);
    }
    out->tensor = cp_tensor_view(data, dtype, tensor->dims, tensor->extent);
    return CP_OK;
}

cp_status cp_hub_read_weights(cp_weight **out, size_t *count, const char *path, cp_arena *arena)
{
    cp_safetensors *file = NULL;
    CP_TRY(cp_safetensors_open(&file, path));
    cp_weight *weights = cp_arena_take(arena, (file->count + 1) * sizeof *weights);
    cp_status status = CP_OK;
    for (size_t t = 0; t < file->count && status == CP_OK; t++)
        status = read_weight(&weights[t], file, &file->tensors[t], arena);
    *out = weights;
    *count = file->count;
    cp_safetensors_close(file);
    return status;
}

static cp_status expect_shape(cp_batch *batch, const cp_safetensors *file, const cp_safetensor *tensor,
                              int dims)
{
    char shape[CP_SHAPE_TEXT];
    bool first = batch->B == 0;
    if (tensor->dims == dims && first) {
        batch->B = tensor->extent[0];
        batch->T = tensor->extent[1];
    }
    if (tensor->dims != dims || tensor->extent[0] != batch->B || tensor->extent[1] != batch->T)
        return cp_fail(CP_BAD_INPUT, "%s: %s: shape %s, expected [%lld,%lld%s]", file->path, tensor->name,
                       cp_shape_text(shape, tensor->dims, tensor->extent), (long long)batch->B,
                       (long long)batch->T, dims == 3 ? ",C" : "");
    return CP_OK;
}

static cp_status read_whole_numbers(const int64_t **out, const cp_safetensors *file,
                                    const cp_safetensor *tensor, cp_arena *arena)
{
    void *raw = NULL;
    if (cp_dtype_is_float(tensor->dtype))
        return cp_fail(CP_BAD_INPUT, "%s: %s: %s, expected integers", file->path, tensor->name,
                       cp_dtype_name(tensor->dtype));
    CP_TRY(read_raw(&raw, file, tensor, arena));
    int64_t *values = cp_arena_take(arena, (size_t)tensor->count * sizeof *values);
    for (int64_t i = 0; i < tensor->count; i++)
        values[i] = tensor->dtype == CP_I64   ? ((const int64_t *)raw)[i]
                    : tensor->dtype == CP_I32 ? ((const int32_t *)raw)[i]
                                              : ((const uint8_t *)raw)[i];
    *out = values;
    return CP_OK;
}

static cp_status read_integers(const int64_t **out, cp_batch *batch, const cp_safetensors *file,
                               const cp_safetensor *tensor, cp_arena *arena)
{
    CP_TRY(expect_shape(batch, file, tensor, 2));
    return read_whole_numbers(out, file, tensor, arena);
}

/* Where a batch holds one number a row; NULL: it is none of these. */
static const int64_t **row_numbers(cp_batch *batch, const char *name)
{
    return strcmp(name, "microbatch") == 0      ? &batch->microbatch
           : strcmp(name, "data_parallel") == 0 ? &batch->data_parallel
                                                : NULL;
}

static cp_status read_row_numbers(const int64_t **out, const cp_batch *batch, const cp_safetensors *file,
                                  const cp_safetensor *tensor, cp_arena *arena)
{
    char shape[CP_SHAPE_TEXT];
    if (tensor->dims != 1 || tensor->extent[0] != batch->B)
        return cp_fail(CP_BAD_INPUT, "%s: %s: shape %s, expected [%lld]", file->path, tensor->name,
                       cp_shape_text(shape, tensor->dims, tensor->extent), (long long)batch->B);
    return read_whole_numbers(out, file, tensor, arena);
}

static cp_status read_mask(cp_batch *batch, const cp_safetensors *file, const cp_safetensor *tensor,
                           cp_arena *arena)
{
    const int64_t *values = NULL;
    CP_TRY(read_integers(&values, batch, file, tensor, arena));
    uint8_t *mask = cp_arena_take(arena, (size_t)tensor->count);
    for (int64_t i = 0; i < tensor->count; i++)
        mask[i] = values[i] >= 0 && values[i] <= UINT8_MAX ? (uint8_t)values[i] : UINT8_MAX;
    batch->attention_mask = mask;
    return CP_OK;
}

static cp_status read_embeddings(cp_batch *batch, const cp_safetensors *file, const cp_safetensor *tensor,
                                 cp_arena *arena)
{
    double *values = NULL;
    CP_TRY(expect_shape(batch, file, tensor, 3));
    CP_TRY(read_doubles(&values, file, tensor, arena));
    batch->C = tensor->extent[2];
    batch->inputs_embeds = values;
    return CP_OK;
}

static cp_status read_items(cp_batch *batch, const cp_safetensors *file, const cp_safetensor *tensor,
                            cp_arena *arena)
{
    double *value = NULL;
    if (tensor->count != 1)
        return cp_fail(CP_BAD_INPUT, "%s: %s: %lld numbers, expected one", file->path, tensor->name,
                       (long long)tensor->count);
    CP_TRY(read_doubles(&value, file, tensor, arena));
    batch->num_items_in_batch = value[0];
    return CP_OK;
}

static cp_status read_member(cp_batch *batch, const cp_safetensors *file, const cp_safetensor *tensor,
                             cp_arena *arena)
{
    const struct {
        const char *name;
        const int64_t **out;
    } integers[] = {
        {"input_ids", &batch->input_ids},       {"position_ids", &batch->position_ids},
        {"document_ids", &batch->document_ids}, {"labels", &batch->labels},
        {"shift_labels", &batch->shift_labels},
    };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (strcmp(tensor->name, integers[i].name) == 0)
            return read_integers(integers[i].out, batch, file, tensor, arena);
    if (strcmp(tensor->name, "attention_mask") == 0)
        return read_mask(batch, file, tensor, arena);
    if (strcmp(tensor->name, "inputs_embeds") == 0)
        return read_embeddings(batch, file, tensor, arena);
    if (strcmp(tensor->name, "num_items_in_batch") == 0)
        return read_items(batch, file, tensor, arena);
    return cp_fail(CP_BAD_INPUT, "%s: %s: no member of a batch", file->path, tensor->name);
}

cp_status cp_hub_read_batch(cp_batch *out, const char *path, cp_arena *arena)
{
    cp_safetensors *file = NULL;
    CP_TRY(cp_safetensors_open(&file, path));
    *out = (cp_batch){0};
    cp_status status = CP_OK;
    for (size_t t = 0; t < file->count && status == CP_OK; t++)
        if (row_numbers(out, file->tensors[t].name) == NULL)
            status = read_member(out, file, &file->tensors[t], arena);
    for (size_t t = 0; t < file->count && status == CP_OK; t++) { /* now B is known */
        const int64_t **numbers = row_numbers(out, file->tensors[t].name);
        if (numbers != NULL)
            status = read_row_numbers(numbers, out, file, &file->tensors[t], arena);
    }
    cp_safetensors_close(file);
    return status;
}

#include "base/json.h"
#include "harness/files/dump.h"
#include "harness/files/pool.h"
#include "harness/files/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 8 };

/* Wide types first, so that everything lies aligned without holes. */
static int compare_tensors(const void *a, const void *b)
{
    const cp_memory_tensor *const *left = a, *const *right = b;
    size_t left_bytes = cp_dtype_bytes((*left)->tensor.dtype),
           right_bytes = cp_dtype_bytes((*right)->tensor.dtype);
    if (left_bytes != right_bytes)
        return left_bytes > right_bytes ? -1 : 1;
    return strcmp((*left)->name, (*right)->name);
}

static char *header_text(const cp_memory_tensor *const *order, size_t count)
{
    cp_json *header = cp_json_new_object(), *metadata = cp_json_new_object();
    cp_json_set_string(metadata, "format", "pt"); /* without it transformers does not load the file */
    cp_json_set(header, "__metadata__", metadata);
    int64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const cp_tensor *tensor = &order[i]->tensor;
        cp_json *entry = cp_json_new_object(), *shape = cp_json_new_array(), *offsets = cp_json_new_array();
        cp_check(cp_tensor_contiguous(*tensor), "%s is strided", order[i]->name);
        for (int axis = 0; axis < tensor->dims && !order[i]->scalar; axis++)
            cp_json_append_integer(shape, tensor->extent[axis]);
        cp_json_append_integer(offsets, begin);
        begin += (int64_t)cp_tensor_bytes(*tensor);
        cp_json_append_integer(offsets, begin);
        cp_json_set_string(entry, "dtype", cp_safetensors_dtype(tensor->dtype));
        cp_json_set(entry, "shape", shape);
        cp_json_set(entry, "data_offsets", offsets);
        cp_json_set(header, order[i]->name, entry);
    }
    char *text = cp_json_text(header);
    cp_json_close(header);
    return text;
}

static bool write_all(FILE *file, const char *header, const cp_memory_tensor *const *order, size_t count)
{
    size_t length = strlen(header);
    size_t padded = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    bool done = true;
    for (int i = 0; i < 8; i++)
        done &= fputc((int)(padded >> 8 * i & 0xff), file) != EOF;
    done &= fwrite(header, 1, length, file) == length;
    for (size_t i = length; i < padded; i++)
        done &= fputc(' ', file) != EOF;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = cp_tensor_bytes(order[i]->tensor);
        done &= bytes == 0 || fwrite(order[i]->tensor.data, 1, bytes, file) == bytes;
    }
    return done;
}

static cp_status write_file(const char *temporary, const cp_memory_tensor *const *order, size_t count)
{
    char *header = header_text(order, count);
    FILE *file = fopen(temporary, "wb");
    bool done = header && file && write_all(file, header, order, count);
    int why = errno;
    if (file && fclose(file) != 0) {
        done = false;
        why = errno;
    }
    free(header);
    return done ? CP_OK : cp_fail(CP_INTERNAL, "%s: cannot be written: %s", temporary, strerror(why));
}

cp_status cp_safetensors_write(const char *path, const cp_memory_tensor *tensors, size_t count)
{
    char temporary[CP_PATH_BYTES];
    CP_TRY(cp_temporary_name(temporary, path));
    cp_pool pool = {0};
    void *memory;
    cp_status status = cp_pool_take(&pool, &memory, count, sizeof(cp_memory_tensor *));
    if (status == CP_OK) {
        const cp_memory_tensor **order = memory;
        for (size_t i = 0; i < count; i++)
            order[i] = &tensors[i];
        qsort(order, count, sizeof *order, compare_tensors);
        status = write_file(temporary, order, count);
    }
    cp_pool_close(&pool);
    if (status == CP_OK)
        return cp_temporary_commit(temporary, path);
    cp_temporary_discard(temporary);
    return status;
}

#include "harness/files/source.h"

#include "harness/files/pool.h"

#include <stdlib.h>
#include <string.h>

static const char *const loss_kinds[CP_LOSS_KINDS] = {
    [CP_LOSS_GLOBAL] = "global",           [CP_LOSS_SHARE] = "share",           [CP_LOSS_MEAN] = "mean",
    [CP_LOSS_PARTIAL_SUM] = "partial_sum", [CP_LOSS_LOCAL_MEAN] = "local_mean",
};

static const char *const gradient_kinds[CP_GRADIENT_KINDS] = {
    [CP_GRADIENTS_REDUCED] = "reduced",
    [CP_GRADIENTS_PARTIAL] = "partial",
    [CP_GRADIENTS_MEAN] = "mean",
};

const char *cp_loss_kind_name(cp_loss_kind kind)
{
    return loss_kinds[kind];
}

const char *cp_gradient_kind_name(cp_gradient_kind kind)
{
    return gradient_kinds[kind];
}

static int find_word(const char *const words[], int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

bool cp_loss_kind_named(cp_loss_kind *kind, const char *name)
{
    int found = find_word(loss_kinds, CP_LOSS_KINDS, name);
    if (found >= 0)
        *kind = (cp_loss_kind)found;
    return found >= 0;
}

bool cp_gradient_kind_named(cp_gradient_kind *kind, const char *name)
{
    int found = find_word(gradient_kinds, CP_GRADIENT_KINDS, name);
    if (found >= 0)
        *kind = (cp_gradient_kind)found;
    return found >= 0;
}

cp_declaration cp_declaration_whole(void)
{
    return (cp_declaration){
        .fixture_id = "",
        .implementation = "",
        .exchange = "",
        .layout = "",
        .cp_size = 1,
        .cp_rank = -1,
        .dp_size = 1,
        .compute_dtype = CP_F64,
        .loss_kind = CP_LOSS_GLOBAL,
        .loss_count = -1,
        .gradients = CP_GRADIENTS_REDUCED,
        .grad_scale = 1,
        .grad_absent = "",
    };
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const cp_source_tensor *)a)->name, ((const cp_source_tensor *)b)->name);
}

int64_t cp_source_find(const cp_source *source, const char *name)
{
    cp_source_tensor key = {.name = name};
    const cp_source_tensor *found =
        source->count ? bsearch(&key, source->tensors, source->count, sizeof key, compare_names) : NULL;
    return found ? found - source->tensors : -1;
}

void cp_source_close(cp_source *source)
{
    if (source && source->close)
        source->close(source);
}

cp_status cp_source_read_all(const cp_source *source, size_t tensor, double *out)
{
    cp_check(tensor < source->count, "tensor %zu of %zu", tensor, source->count);
    const cp_source_tensor *t = &source->tensors[tensor];
    int64_t count = 1;
    for (int axis = 0; axis < t->dims; axis++)
        count *= t->extent[axis];
    return source->read(source, tensor, 0, count, out);
}

/* ---- in memory --------------------------------------------------------------------------------------------------- */

typedef struct memory_source {
    cp_source source;
    cp_pool pool;
    cp_source_tensor *tensors;
    const void **data;
} memory_source;

static cp_status read_memory(const cp_source *source, size_t tensor, int64_t first, int64_t count,
                             double *out)
{
    const memory_source *memory = source->state;
    cp_dtype dtype = source->tensors[tensor].dtype;
    const char *data = memory->data[tensor];
    cp_dtype_to_double(out, data + first * (int64_t)cp_dtype_bytes(dtype), dtype, (size_t)count);
    return CP_OK;
}

static cp_status look_memory(const cp_source *source, struct cp_view *view, size_t tensor, int64_t first,
                             int64_t count, const void **data, cp_dtype *dtype)
{
    (void)view;
    (void)count;
    const memory_source *memory = source->state;
    *dtype = source->tensors[tensor].dtype;
    *data = (const char *)memory->data[tensor] + first * (int64_t)cp_dtype_bytes(*dtype);
    return CP_OK;
}

static void close_memory(cp_source *source)
{
    memory_source *memory = source->state;
    cp_pool_close(&memory->pool);
    free(memory);
}

static int compare_memory(const void *a, const void *b)
{
    const cp_memory_tensor *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static void replace_null(const char **text)
{
    if (!*text)
        *text = "";
}

static cp_status fill_memory(memory_source *memory, const char *label, const cp_memory_tensor *tensors,
                             size_t count)
{
    cp_pool *pool = &memory->pool;
    void *order_memory, *tensor_memory, *data_memory;
    CP_TRY(cp_pool_text(pool, &memory->source.label, label));
    CP_TRY(cp_pool_take(pool, &order_memory, count, sizeof(cp_memory_tensor *)));
    CP_TRY(cp_pool_take(pool, &tensor_memory, count, sizeof *memory->tensors));
    CP_TRY(cp_pool_take(pool, &data_memory, count, sizeof *memory->data));
    memory->source.tensors = memory->tensors = tensor_memory;
    memory->data = data_memory;

    const cp_memory_tensor **order = order_memory;
    for (size_t i = 0; i < count; i++)
        order[i] = &tensors[i];
    qsort(order, count, sizeof *order, compare_memory);
    for (size_t i = 0; i < count; i++) {
        const cp_memory_tensor *given = order[i];
        cp_source_tensor *out = &memory->tensors[i];
        cp_check(i == 0 || strcmp(order[i - 1]->name, given->name) != 0, "%s is given twice", given->name);
        cp_check(cp_tensor_contiguous(given->tensor), "%s is strided", given->name);
        cp_check(!given->scalar || cp_tensor_count(given->tensor) == 1, "%s is no scalar", given->name);
        out->dtype = given->tensor.dtype;
        out->dims = given->scalar ? 0 : given->tensor.dims;
        memcpy(out->extent, given->tensor.extent, sizeof out->extent);
        memory->data[i] = given->tensor.data;
        CP_TRY(cp_pool_text(pool, &out->name, given->name));
    }
    return CP_OK;
}

cp_status cp_source_memory(cp_source **out, const char *label, const cp_declaration *declaration,
                           const cp_memory_tensor *tensors, size_t count)
{
    *out = NULL;
    memory_source *memory = calloc(1, sizeof *memory);
    if (!memory)
        return cp_fail(CP_INTERNAL, "%s: no memory for a source", label);
    cp_source *source = &memory->source;
    *source = (cp_source){.declaration = *declaration,
                          .count = count,
                          .notes = "",
                          .read = read_memory,
                          .look = look_memory,
                          .close = close_memory,
                          .state = memory};
    cp_declaration *said = &source->declaration;
    replace_null(&said->fixture_id);
    replace_null(&said->implementation);
    replace_null(&said->exchange);
    replace_null(&said->layout);
    replace_null(&said->grad_absent);

    cp_status status = fill_memory(memory, label, tensors, count);
    if (status != CP_OK) {
        close_memory(source);
        return status;
    }
    *out = source;
    return CP_OK;
}

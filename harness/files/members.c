#include "harness/files/members.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the identity is that of little-endian bytes");

static int compare_members(const void *a, const void *b)
{
    return strcmp(((const cp_member *)a)->name, ((const cp_member *)b)->name);
}

/* Views of what is only read: a cp_tensor has no way to say const. */
static cp_tensor view(const void *data, cp_dtype dtype, int dims, const int64_t extent[])
{
    return cp_tensor_view((void *)(uintptr_t)data, dtype, dims, extent);
}

static cp_status narrowed(cp_pool *pool, cp_tensor *out, const double *values, cp_dtype dtype, int dims,
                          const int64_t extent[])
{
    void *memory;
    *out = cp_tensor_view(NULL, dtype, dims, extent);
    CP_TRY(cp_pool_take(pool, &memory, (size_t)cp_tensor_count(*out), cp_dtype_bytes(dtype)));
    out->data = memory;
    if (dtype == CP_I64)
        *(int64_t *)memory = (int64_t)*values;
    else if (dtype == CP_I32)
        *(int32_t *)memory = (int32_t)*values;
    else
        cp_dtype_from_double(memory, dtype, values, (size_t)cp_tensor_count(*out));
    return CP_OK;
}

cp_status cp_batch_members(cp_pool *pool, cp_member members[CP_BATCH_MEMBERS], size_t *count,
                           const cp_fixture *fixture)
{
    const cp_batch *batch = &fixture->batch;
    const int64_t shape[3] = {batch->B, batch->T, batch->C};
    const int64_t one = 1;
    const struct {
        const char *name;
        cp_dtype dtype;
        const void *data;
        int dims;
    } given[] = {
        {"input_ids", CP_I64, batch->input_ids, 2},
        {"attention_mask", CP_U8, batch->attention_mask, 2},
        {"position_ids", CP_I64, batch->position_ids, 2},
        {"document_ids", CP_I64, batch->document_ids, 2},
        {"labels", CP_I64, batch->labels, 2},
        {"shift_labels", CP_I64, batch->shift_labels, 2},
        {"microbatch", CP_I64, batch->microbatch, 1},
        {"data_parallel", CP_I64, batch->data_parallel, 1},
    };
    *count = 0;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].data)
            members[(*count)++] =
                (cp_member){given[i].name, view(given[i].data, given[i].dtype, given[i].dims, shape), false};
    if (batch->inputs_embeds) {
        cp_member *member = &members[(*count)++];
        member->name = "inputs_embeds";
        member->scalar = false;
        CP_TRY(narrowed(pool, &member->tensor, batch->inputs_embeds, fixture->embeds_dtype, 3, shape));
    }
    if (batch->num_items_in_batch != 0) {
        cp_member *member = &members[(*count)++];
        member->name = "num_items_in_batch";
        member->scalar = true;
        CP_TRY(narrowed(pool, &member->tensor, &batch->num_items_in_batch, fixture->items_dtype, 1, &one));
    }
    const cp_attention_inputs *a = fixture->attention;
    const struct {
        const char *name;
        const cp_tensor *tensor;
    } inputs[] = {{"q", a ? &a->q : NULL},
                  {"k", a ? &a->k : NULL},
                  {"v", a ? &a->v : NULL},
                  {"dout", a ? &a->dout : NULL},
                  {"sink", a ? &a->sink : NULL}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i].tensor && inputs[i].tensor->data)
            members[(*count)++] = (cp_member){inputs[i].name, *inputs[i].tensor, false};
    qsort(members, *count, sizeof *members, compare_members);
    return CP_OK;
}

static int compare_weights(const void *a, const void *b)
{
    const cp_weight *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

cp_status cp_sorted_weights(cp_pool *pool, const cp_weight *const **weights, const cp_fixture *fixture)
{
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, fixture->weight_count, sizeof(cp_weight *)));
    const cp_weight **sorted = memory;
    for (size_t i = 0; i < fixture->weight_count; i++)
        sorted[i] = &fixture->weights[i];
    qsort(sorted, fixture->weight_count, sizeof *sorted, compare_weights);
    *weights = sorted;
    return CP_OK;
}

/* ---- the identity ------------------------------------------------------------------------------------------------ */

static void hash_array(cp_hash *hash, const char *group, const char *name, cp_tensor tensor)
{
    static const char *const codes[CP_DTYPES] = {
        [CP_F64] = "<f8", [CP_F32] = "<f4", [CP_F16] = "<f2", [CP_BF16] = "<u2",
        [CP_I64] = "<i8", [CP_I32] = "<i4", [CP_U8] = "|u1",
    };
    char shape[CP_SHAPE_TEXT];
    cp_shape_text(shape, tensor.dims, tensor.extent);
    cp_check(cp_tensor_contiguous(tensor), "%s/%s is strided", group, name);
    cp_hash_add(hash, "\0", 1);
    cp_hash_add(hash, group, strlen(group));
    cp_hash_add(hash, "/", 1);
    cp_hash_add(hash, name, strlen(name));
    cp_hash_add(hash, "\0", 1);
    cp_hash_add(hash, codes[tensor.dtype], 3);
    cp_hash_add(hash, "\0", 1);
    cp_hash_add(hash, shape + 1, strlen(shape) - 2); /* without the brackets */
    cp_hash_add(hash, "\0", 1);
    cp_hash_add(hash, tensor.data, cp_tensor_bytes(tensor));
}

cp_status cp_fixture_identify(const cp_fixture *fixture, char id[65])
{
    cp_pool pool = {0};
    cp_member members[CP_BATCH_MEMBERS];
    size_t count = 0;
    const cp_weight *const *weights = NULL;
    cp_status status = cp_batch_members(&pool, members, &count, fixture);
    if (status == CP_OK)
        status = cp_sorted_weights(&pool, &weights, fixture);
    if (status == CP_OK) {
        const char *config = fixture->config_text ? fixture->config_text : "";
        cp_hash *hash = cp_hash_open();
        cp_hash_add(hash, "config\0", 7);
        cp_hash_add(hash, config, strlen(config));
        for (size_t i = 0; i < fixture->weight_count; i++)
            hash_array(hash, "weights", weights[i]->name, weights[i]->tensor);
        for (size_t i = 0; i < count; i++)
            hash_array(hash, "batch", members[i].name, members[i].tensor);
        cp_hash_close(hash, id);
    }
    cp_pool_close(&pool);
    return status;
}

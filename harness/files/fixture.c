#include "harness/files/fixture.h"

#include "harness/files/attention.h"
#include "harness/files/header.h"
#include "harness/files/results.h"
#include "harness/files/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opened {
    cp_fixture fixture;
    cp_attention_inputs attention;
    cp_h5 *file;
    cp_pool pool;
    cp_json *config;
    cp_results expected;
} opened;

static cp_status bad(const opened *o, const char *object, const cp_h5_array *found, const char *expected)
{
    char shape[CP_SHAPE_TEXT];
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected %s, found %s %s", o->fixture.path, object, expected,
                   cp_dtype_name(found->dtype), cp_shape_text(shape, found->dims, found->extent));
}

/* ---- configuration and weights ----------------------------------------------------------------------------------- */

static cp_status read_config(opened *o)
{
    cp_h5_kind kind;
    char where[CP_NAME_BYTES];
    size_t length;
    o->fixture.config_text = "";
    CP_TRY(cp_h5_look(o->file, "/config", &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    CP_TRY(cp_h5_read_text(o->file, &o->pool, "/config", &o->fixture.config_text, &length));
    snprintf(where, sizeof where, "%s: /config", o->fixture.path);
    CP_TRY(cp_json_parse(&o->config, o->fixture.config_text, length, where));
    o->fixture.config = o->config;
    return CP_OK;
}

static cp_status read_array(opened *o, const char *path, const cp_h5_array *array, void **data)
{
    CP_TRY(cp_pool_take(&o->pool, data, (size_t)array->count, cp_dtype_bytes(array->dtype)));
    return cp_h5_read(o->file, path, 0, array->count, *data);
}

static cp_status read_weight(opened *o, cp_weight *weight, const char *name)
{
    const char *path;
    cp_h5_array array;
    bool found;
    weight->name = name;
    weight->tied = "";
    CP_TRY(cp_pool_format(&o->pool, &path, "/weights/%s", name));
    CP_TRY(cp_h5_describe(o->file, path, &array));
    if ((array.dtype != CP_F64 && array.dtype != CP_F32 && array.dtype != CP_BF16) || array.count == 0)
        return bad(o, path, &array, "some numbers in float64, float32 or bfloat16");
    CP_TRY(cp_h5_lines(o->file, &o->pool, path, "tied", &weight->tied, &found));
    CP_TRY(cp_text_or_empty(o->file, &o->pool, path, "role", &weight->role));
    if (*weight->role && strcmp(weight->role, "buffer") != 0 && strcmp(weight->role, "frozen") != 0)
        return cp_fail(CP_BAD_INPUT,
                       "%s: %s: attribute role: expected \"buffer\" or \"frozen\", found \"%.64s\"",
                       o->fixture.path, path, weight->role);
    void *data;
    CP_TRY(read_array(o, path, &array, &data));
    const int64_t one = 1;
    weight->tensor = array.dims ? cp_tensor_view(data, array.dtype, array.dims, array.extent)
                                : cp_tensor_view(data, array.dtype, 1, &one);
    return CP_OK;
}

static cp_status read_weights(opened *o)
{
    cp_h5_kind kind;
    const cp_h5_member *members;
    CP_TRY(cp_h5_look(o->file, "/weights", &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    size_t count;
    CP_TRY(cp_h5_list(o->file, &o->pool, "/weights", &members, &count));
    void *memory;
    CP_TRY(cp_pool_take(&o->pool, &memory, count, sizeof(cp_weight)));
    cp_weight *weights = memory;
    for (size_t i = 0; i < count; i++)
        CP_TRY(read_weight(o, &weights[i], members[i].name));
    o->fixture.weights = weights;
    o->fixture.weight_count = count;
    return CP_OK;
}

/* ---- the batch --------------------------------------------------------------------------------------------------- */

/* A member that holds one value a token. */
typedef struct token_member {
    const char *name;
    cp_dtype dtype;
    const void *data;
} token_member;

/* B and T are those of the member that is read first. */
static cp_status check_tokens(opened *o, const char *path, const cp_h5_array *array, int dims)
{
    cp_batch *batch = &o->fixture.batch;
    char expected[CP_SHAPE_TEXT + 32];
    if (array->dims != dims || array->count == 0)
        return bad(o, path, array, dims == 2 ? "a shape [B,T]" : "a shape [B,T,C]");
    if (batch->B == 0) {
        batch->B = array->extent[0];
        batch->T = array->extent[1];
    }
    snprintf(expected, sizeof expected, "a shape [%" PRId64 ",%" PRId64 "%s] as the batch has it", batch->B,
             batch->T, dims == 2 ? "" : ",C");
    if (array->extent[0] != batch->B || array->extent[1] != batch->T)
        return bad(o, path, array, expected);
    return CP_OK;
}

static cp_status read_token_member(opened *o, token_member *member)
{
    char path[CP_NAME_BYTES], expected[64];
    cp_h5_array array;
    void *data;
    snprintf(path, sizeof path, "/batch/%s", member->name);
    CP_TRY(cp_h5_describe(o->file, path, &array));
    snprintf(expected, sizeof expected, "%s", cp_dtype_name(member->dtype));
    if (array.dtype != member->dtype)
        return bad(o, path, &array, expected);
    CP_TRY(check_tokens(o, path, &array, 2));
    CP_TRY(read_array(o, path, &array, &data));
    member->data = data;
    return CP_OK;
}

/* int64 [B]: after the members that tell B. */
static cp_status read_rows(opened *o, const char *name, const int64_t **values)
{
    char path[CP_NAME_BYTES], expected[64];
    cp_h5_kind kind;
    cp_h5_array array;
    void *data;
    snprintf(path, sizeof path, "/batch/%s", name);
    CP_TRY(cp_h5_look(o->file, path, &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    CP_TRY(cp_h5_describe(o->file, path, &array));
    snprintf(expected, sizeof expected, "int64 [%" PRId64 "], one a row", o->fixture.batch.B);
    if (array.dtype != CP_I64 || array.dims != 1 || array.extent[0] != o->fixture.batch.B)
        return bad(o, path, &array, expected);
    CP_TRY(read_array(o, path, &array, &data));
    *values = data;
    return CP_OK;
}

/* An attention function knows tokens by their places alone. */
static bool is_read(const opened *o, const char *name)
{
    static const char *const about_places[] = {"attention_mask", "position_ids", "document_ids"};
    if (!o->fixture.attention)
        return true;
    for (size_t i = 0; i < sizeof about_places / sizeof *about_places; i++)
        if (strcmp(name, about_places[i]) == 0)
            return true;
    return false;
}

static bool is_of_rows(const char *name)
{
    return strcmp(name, "microbatch") == 0 || strcmp(name, "data_parallel") == 0;
}

static cp_status read_embeddings(opened *o)
{
    const char *path = "/batch/inputs_embeds";
    cp_h5_array array;
    void *stored, *values;
    CP_TRY(cp_h5_describe(o->file, path, &array));
    if (array.dtype != CP_F64 && array.dtype != CP_F32 && array.dtype != CP_BF16)
        return bad(o, path, &array, "float64, float32 or bfloat16");
    CP_TRY(check_tokens(o, path, &array, 3));
    CP_TRY(read_array(o, path, &array, &stored));
    CP_TRY(cp_pool_take(&o->pool, &values, (size_t)array.count, sizeof(double)));
    cp_dtype_to_double(values, stored, array.dtype, (size_t)array.count);
    o->fixture.batch.inputs_embeds = values;
    o->fixture.batch.C = array.extent[2];
    o->fixture.embeds_dtype = array.dtype;
    return CP_OK;
}

static cp_status read_items(opened *o)
{
    const char *path = "/batch/num_items_in_batch";
    cp_h5_array array;
    CP_TRY(cp_h5_describe(o->file, path, &array));
    bool number =
        array.dtype == CP_F64 || array.dtype == CP_F32 || array.dtype == CP_I64 || array.dtype == CP_I32;
    if (!number || array.count != 1 || array.dims > 1)
        return bad(o, path, &array, "one float64, float32, int64 or int32");
    unsigned char stored[sizeof(double)];
    CP_TRY(cp_h5_read(o->file, path, 0, 1, stored));
    double *items = &o->fixture.batch.num_items_in_batch;
    cp_dtype_to_double(items, stored, array.dtype, 1);
    if (!(*items > 0 && isfinite(*items)))
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected a positive number, found %g", o->fixture.path, path,
                       *items);
    o->fixture.items_dtype = array.dtype;
    return CP_OK;
}

/* Exactly one of the two. */
static cp_status check_either(const opened *o, const char *a, bool has_a, const char *b, bool has_b)
{
    if (has_a != has_b)
        return CP_OK;
    return cp_fail(CP_BAD_INPUT, "%s: /batch: expected %s or %s, found %s", o->fixture.path, a, b,
                   has_a ? "both" : "neither");
}

static cp_status read_batch(opened *o)
{
    token_member members[] = {{"input_ids", CP_I64, NULL},    {"attention_mask", CP_U8, NULL},
                              {"position_ids", CP_I64, NULL}, {"document_ids", CP_I64, NULL},
                              {"labels", CP_I64, NULL},       {"shift_labels", CP_I64, NULL}};
    enum { MEMBERS = sizeof members / sizeof *members };
    const cp_h5_member *there;
    size_t count;
    CP_TRY(cp_h5_list(o->file, &o->pool, "/batch", &there, &count));
    for (size_t i = 0; i < count; i++) {
        token_member *member = NULL;
        for (size_t m = 0; m < MEMBERS; m++)
            if (strcmp(there[i].name, members[m].name) == 0)
                member = &members[m];
        if (o->fixture.attention && cp_attention_has_input(there[i].name))
            continue;
        if (!is_read(o, there[i].name))
            return cp_fail(CP_BAD_INPUT, "%s: /batch/%s: expected no such member in kind \"attention\"",
                           o->fixture.path, there[i].name);
        if (member)
            CP_TRY(read_token_member(o, member));
        else if (strcmp(there[i].name, "inputs_embeds") == 0)
            CP_TRY(read_embeddings(o));
        else if (strcmp(there[i].name, "num_items_in_batch") == 0)
            CP_TRY(read_items(o));
        else if (!is_of_rows(there[i].name))
            return cp_fail(CP_REFUSED, "%s: /batch/%s: this version does not read it", o->fixture.path,
                           there[i].name);
    }
    cp_batch *batch = &o->fixture.batch;
    batch->input_ids = members[0].data;
    batch->attention_mask = members[1].data;
    batch->position_ids = members[2].data;
    batch->document_ids = members[3].data;
    batch->labels = members[4].data;
    batch->shift_labels = members[5].data;
    if (o->fixture.attention)
        return CP_OK;
    CP_TRY(read_rows(o, "microbatch", &batch->microbatch));
    CP_TRY(read_rows(o, "data_parallel", &batch->data_parallel));
    CP_TRY(check_either(o, "input_ids", batch->input_ids, "inputs_embeds", batch->inputs_embeds));
    return check_either(o, "labels", batch->labels, "shift_labels", batch->shift_labels);
}

/* ---- the expectations -------------------------------------------------------------------------------------------- */

static cp_status check_result(const opened *o, const char *name, int dims, const int64_t extent[],
                              int compared)
{
    const cp_source *source = &o->expected.source;
    int64_t index = cp_source_find(source, name);
    if (index < 0)
        return cp_fail(CP_BAD_INPUT, "%s: /expected/%s: expected a result, found nothing", o->fixture.path,
                       name);
    const cp_source_tensor *tensor = &source->tensors[index];
    bool same = tensor->dims == dims;
    for (int axis = 0; same && axis < compared; axis++)
        same = tensor->extent[axis] == extent[axis];
    if (same)
        return CP_OK;
    char found[CP_SHAPE_TEXT], expected[CP_SHAPE_TEXT];
    return cp_fail(CP_BAD_INPUT, "%s: /expected/%s: expected shape %s%s, found %s", o->fixture.path, name,
                   cp_shape_text(expected, compared, extent), compared < dims ? " and one extent more" : "",
                   cp_shape_text(found, tensor->dims, tensor->extent));
}

/* The gradient of a tied tensor may stand under any of its names. */
static cp_status check_gradient(const opened *o, const cp_weight *weight)
{
    char name[CP_NAME_BYTES + 8], other[CP_NAME_BYTES];
    snprintf(name, sizeof name, "grads/%s", weight->name);
    for (const char *cursor = weight->tied;
         cp_source_find(&o->expected.source, name) < 0 && cp_lines_next(&cursor, other);) {
        char tied[CP_NAME_BYTES + 8];
        snprintf(tied, sizeof tied, "grads/%s", other);
        if (cp_source_find(&o->expected.source, tied) >= 0)
            memcpy(name, tied, sizeof name);
    }
    return check_result(o, name, weight->tensor.dims, weight->tensor.extent, weight->tensor.dims);
}

static cp_status check_expected(const opened *o)
{
    const cp_batch *batch = &o->fixture.batch;
    const int64_t shape[3] = {batch->B, batch->T, batch->C};
    if (o->fixture.attention)
        return cp_attention_check_expected(&o->attention, &o->expected.source, o->fixture.path);
    CP_TRY(check_result(o, "loss", 0, shape, 0));
    CP_TRY(check_result(o, "token_loss", 2, shape, 2));
    CP_TRY(check_result(o, "logits", 3, shape, 2));
    for (size_t i = 0; i < o->fixture.weight_count; i++)
        if (o->fixture.weights[i].role[0] == '\0')
            CP_TRY(check_gradient(o, &o->fixture.weights[i]));
    return batch->inputs_embeds ? check_result(o, "grads/inputs_embeds", 3, shape, 3) : CP_OK;
}

static cp_status read_expected(opened *o)
{
    cp_h5_kind kind;
    bool found;
    cp_fixture *fixture = &o->fixture;
    cp_source *source = &o->expected.source;
    fixture->expected = source;
    fixture->order = fixture->truth = fixture->precision = "";
    CP_TRY(cp_h5_look(o->file, "/expected", &kind));
    if (kind != CP_H5_NOTHING) {
        CP_TRY(cp_results_collect(&o->expected, o->file, &o->pool, "/expected", ""));
        CP_TRY(check_expected(o));
        CP_TRY(cp_h5_lines(o->file, &o->pool, "/expected", "order", &fixture->order, &found));
        CP_TRY(cp_text_or_empty(o->file, &o->pool, "/expected", "source", &fixture->truth));
        CP_TRY(cp_text_or_empty(o->file, &o->pool, "/expected", "precision", &fixture->precision));
    }
    o->expected.finite = true;
    source->label = fixture->path;
    source->declaration = cp_declaration_whole();
    source->declaration.fixture_id = fixture->id;
    source->declaration.implementation = fixture->producer;
    source->declaration.dtype_declared = true;
    source->declaration.attention = fixture->attention != NULL;
    return CP_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static cp_status check_id(opened *o)
{
    char computed[65];
    const cp_fixture *fixture = &o->fixture;
    CP_TRY(cp_fixture_identify(fixture, computed));
    if (strcmp(fixture->id, computed) != 0)
        return cp_fail(
            CP_BAD_INPUT,
            "%s: attribute fixture_id: expected %s (sha256 of config, weights and batch), found \"%.64s\"",
            fixture->path, computed, fixture->id);
    return CP_OK;
}

static cp_status read_fixture(opened *o, const char *path)
{
    cp_fixture *fixture = &o->fixture;
    const char *kind;
    CP_TRY(cp_pool_text(&o->pool, &fixture->path, path));
    CP_TRY(cp_h5_open(&o->file, path));
    CP_TRY(cp_header_read(o->file, &o->pool, &kind));
    bool attention = strcmp(kind, CP_KIND_ATTENTION) == 0;
    if (attention)
        CP_TRY(cp_attention_read(&o->attention, &fixture->batch, o->file, &o->pool));
    else if (strcmp(kind, "fixture") != 0)
        return cp_fail(CP_BAD_INPUT, "%s: attribute kind: expected \"fixture\", found \"%s\"", path, kind);
    fixture->attention = attention ? &o->attention : NULL;
    CP_TRY(cp_text_or_empty(o->file, &o->pool, "/", "fixture_id", &fixture->id));
    CP_TRY(cp_text_or_empty(o->file, &o->pool, "/", "producer", &fixture->producer));
    CP_TRY(read_config(o));
    CP_TRY(read_weights(o));
    CP_TRY(read_batch(o));
    CP_TRY(check_id(o));
    CP_TRY(read_expected(o));
    return cp_calibrations_read(&fixture->calibrations, o->file, &o->pool, fixture->expected);
}

cp_status cp_fixture_open(cp_fixture **out, const char *path)
{
    *out = NULL;
    opened *o = calloc(1, sizeof *o);
    if (!o)
        return cp_fail(CP_INTERNAL, "%s: no memory to open it", path);
    o->fixture.state = o;
    cp_status status = read_fixture(o, path);
    if (status != CP_OK) {
        cp_fixture_close(&o->fixture);
        return status;
    }
    *out = &o->fixture;
    return CP_OK;
}

void cp_fixture_close(cp_fixture *fixture)
{
    if (!fixture)
        return;
    opened *o = fixture->state;
    cp_h5_close(o->file);
    cp_json_close(o->config);
    cp_pool_close(&o->pool);
    free(o);
}

static int compare_weight(const void *name, const void *weight)
{
    return strcmp(name, ((const cp_weight *)weight)->name);
}

const cp_weight *cp_fixture_weight(const cp_fixture *fixture, const char *name)
{
    if (fixture->weight_count == 0)
        return NULL;
    return bsearch(name, fixture->weights, fixture->weight_count, sizeof *fixture->weights, compare_weight);
}

cp_status cp_fixture_mask(const cp_fixture *fixture, int64_t layer, uint8_t *out, bool *found)
{
    *found = false;
    opened *o = fixture->state;
    char path[64], expected[CP_SHAPE_TEXT + 16], shape[CP_SHAPE_TEXT];
    snprintf(path, sizeof path, "/expected/masks/%" PRId64, layer);
    cp_h5_kind kind = CP_H5_NOTHING;
    if (o)
        CP_TRY(cp_h5_look(o->file, path, &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    cp_h5_array array;
    CP_TRY(cp_h5_describe(o->file, path, &array));
    int64_t B = fixture->batch.B, T = fixture->batch.T;
    snprintf(expected, sizeof expected, "uint8 %s", cp_shape_text(shape, 3, CP_EXTENTS(B, T, T)));
    if (array.dtype != CP_U8 || array.dims != 3 || array.extent[0] != B || array.extent[1] != T ||
        array.extent[2] != T)
        return bad(o, path, &array, expected);
    *found = true;
    return cp_h5_read(o->file, path, 0, array.count, out);
}

#include "harness/files/attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char CP_KIND_ATTENTION[] = "attention";

cp_status cp_attention_is_fixture(bool *fixture, cp_h5 *file)
{
    cp_h5_kind kind;
    CP_TRY(cp_h5_look(file, "/batch", &kind));
    *fixture = kind != CP_H5_NOTHING;
    return CP_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

typedef enum input_shape { OF_QUERIES, OF_KEYS, OF_HEADS } input_shape; /* [B,T,H,D], [B,T,K,D], [H] */

/* q first: it tells B, T, H and D; k tells K. */
static const struct {
    const char *name;
    input_shape shape;
    bool optional;
    size_t place; /* in cp_attention_inputs */
} inputs[] = {
    {"q", OF_QUERIES, false, offsetof(cp_attention_inputs, q)},
    {"k", OF_KEYS, false, offsetof(cp_attention_inputs, k)},
    {"v", OF_KEYS, false, offsetof(cp_attention_inputs, v)},
    {"dout", OF_QUERIES, false, offsetof(cp_attention_inputs, dout)},
    {"sink", OF_HEADS, true, offsetof(cp_attention_inputs, sink)},
};
enum { INPUTS = sizeof inputs / sizeof *inputs };

bool cp_attention_has_input(const char *name)
{
    for (int i = 0; i < INPUTS; i++)
        if (strcmp(inputs[i].name, name) == 0)
            return true;
    return false;
}

static int shape_of(int64_t extent[CP_MAX_DIMS], input_shape shape, const cp_attention_inputs *a)
{
    const cp_tensor *q = &a->q, *k = &a->k;
    if (shape == OF_HEADS) {
        extent[0] = q->extent[2];
        return 1;
    }
    memcpy(extent, q->extent, sizeof q->extent);
    if (shape == OF_KEYS && k->data)
        extent[2] = k->extent[2];
    return 4;
}

static bool fits(const cp_attention_inputs *a, int input, const cp_h5_array *array)
{
    int64_t extent[CP_MAX_DIMS];
    if (input == 0) /* q, which all others are held against */
        return array->dims == 4 && array->count > 0;
    int dims = shape_of(extent, inputs[input].shape, a);
    if (array->dims != dims)
        return false;
    bool first_of_keys = inputs[input].shape == OF_KEYS && !a->k.data;
    for (int axis = 0; axis < dims; axis++)
        if (array->extent[axis] != extent[axis] && !(first_of_keys && axis == 2))
            return false;
    return !first_of_keys || (array->extent[2] > 0 && extent[2] % array->extent[2] == 0);
}

static cp_status say_misfit(const cp_h5 *file, const char *path, const cp_attention_inputs *a, int input,
                            const cp_h5_array *array)
{
    char found[CP_SHAPE_TEXT], wanted[CP_SHAPE_TEXT] = "[B,T,H,D]";
    int64_t extent[CP_MAX_DIMS];
    if (input > 0)
        cp_shape_text(wanted, shape_of(extent, inputs[input].shape, a), extent);
    bool first_of_keys = inputs[input].shape == OF_KEYS && !a->k.data;
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected float64, float32 or bfloat16 %s%s, found %s %s",
                   cp_h5_path(file), path, wanted,
                   first_of_keys ? ", with as many heads or a divisor of them" : "",
                   cp_dtype_name(array->dtype), cp_shape_text(found, array->dims, array->extent));
}

static cp_status check_finite(const cp_h5 *file, const char *path, cp_tensor tensor)
{
    const char *data = tensor.data;
    size_t width = cp_dtype_bytes(tensor.dtype);
    for (int64_t i = 0; i < cp_tensor_count(tensor); i++) {
        double value;
        cp_dtype_to_double(&value, data + (size_t)i * width, tensor.dtype, 1);
        if (!isfinite(value))
            return cp_fail(CP_BAD_INPUT, "%s: %s: expected finite numbers, found %g", cp_h5_path(file), path,
                           value);
    }
    return CP_OK;
}

static cp_status read_input(cp_attention_inputs *a, int input, cp_h5 *file, cp_pool *pool)
{
    char path[32];
    cp_h5_kind kind;
    cp_h5_array array;
    void *data;
    snprintf(path, sizeof path, "/batch/%s", inputs[input].name);
    CP_TRY(cp_h5_look(file, path, &kind));
    if (kind == CP_H5_NOTHING && inputs[input].optional)
        return CP_OK;
    CP_TRY(cp_h5_describe(file, path, &array));
    bool stored = array.dtype == CP_F64 || array.dtype == CP_F32 || array.dtype == CP_BF16;
    if (!stored || !fits(a, input, &array))
        return say_misfit(file, path, a, input, &array);
    CP_TRY(cp_pool_take(pool, &data, (size_t)array.count, cp_dtype_bytes(array.dtype)));
    CP_TRY(cp_h5_read(file, path, 0, array.count, data));
    cp_tensor *tensor = (cp_tensor *)(void *)((char *)a + inputs[input].place);
    *tensor = cp_tensor_view(data, array.dtype, array.dims, array.extent);
    return check_finite(file, path, *tensor);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* One that is 0 says what one that is absent says: there is none. */
static cp_status read_length(cp_h5 *file, const char *name, int64_t *out)
{
    bool found;
    CP_TRY(cp_h5_integer(file, "/", name, out, &found));
    return *out >= 0 ? CP_OK
                     : cp_fail(CP_BAD_INPUT, "%s: attribute %s: expected 0 or more tokens, found %" PRId64,
                               cp_h5_path(file), name, *out);
}

static cp_status read_attributes(cp_attention_inputs *a, cp_h5 *file)
{
    bool found;
    int64_t causal = 1;
    a->scale = 1 / sqrt((double)a->q.extent[3]);
    CP_TRY(cp_h5_real(file, "/", "scale", &a->scale, &found));
    CP_TRY(cp_h5_real(file, "/", "softcap", &a->softcap, &found));
    CP_TRY(read_length(file, "window", &a->window));
    CP_TRY(read_length(file, "chunk", &a->chunk));
    CP_TRY(cp_h5_integer(file, "/", "causal", &causal, &found));
    if (!isfinite(a->scale) || a->scale == 0)
        return cp_fail(CP_BAD_INPUT, "%s: attribute scale: expected a number other than 0, found %g",
                       cp_h5_path(file), a->scale);
    if (!isfinite(a->softcap) || a->softcap < 0)
        return cp_fail(CP_BAD_INPUT, "%s: attribute softcap: expected 0 or more, found %g", cp_h5_path(file),
                       a->softcap);
    if (causal != 0 && causal != 1)
        return cp_fail(CP_BAD_INPUT, "%s: attribute causal: expected 0 or 1, found %" PRId64,
                       cp_h5_path(file), causal);
    a->causal = causal == 1;
    return CP_OK;
}

cp_status cp_attention_read(cp_attention_inputs *attention, cp_batch *batch, cp_h5 *file, cp_pool *pool)
{
    for (int input = 0; input < INPUTS; input++)
        CP_TRY(read_input(attention, input, file, pool));
    batch->B = attention->q.extent[0];
    batch->T = attention->q.extent[1];
    return read_attributes(attention, file);
}

cp_status cp_attention_write(cp_h5 *file, const cp_attention_inputs *attention)
{
    CP_TRY(cp_h5_set_real(file, "/", "scale", attention->scale));
    CP_TRY(cp_h5_set_integer(file, "/", "causal", attention->causal));
    if (attention->window > 0)
        CP_TRY(cp_h5_set_integer(file, "/", "window", attention->window));
    if (attention->chunk > 0)
        CP_TRY(cp_h5_set_integer(file, "/", "chunk", attention->chunk));
    return attention->softcap > 0 ? cp_h5_set_real(file, "/", "softcap", attention->softcap) : CP_OK;
}

/* ---- expectations ------------------------------------------------------------------------------------------------ */

cp_status cp_attention_check_expected(const cp_attention_inputs *attention, const cp_source *expected,
                                      const char *path)
{
    const cp_attention_inputs *a = attention;
    const struct {
        const char *name;
        const cp_tensor *like;
        int dims;
    } results[] = {{"out", &a->q, 4}, {"lse", &a->q, 3}, {"dq", &a->q, 4},
                   {"dk", &a->k, 4},  {"dv", &a->v, 4},  {"dsink", &a->sink, 1}};
    size_t count = sizeof results / sizeof *results - (a->sink.data ? 0 : 1);
    for (size_t i = 0; i < count; i++) {
        int64_t found = cp_source_find(expected, results[i].name);
        char wanted[CP_SHAPE_TEXT], is[CP_SHAPE_TEXT] = "nothing";
        const cp_source_tensor *tensor = found >= 0 ? &expected->tensors[found] : NULL;
        size_t compared = (size_t)results[i].dims * sizeof *tensor->extent;
        if (tensor && tensor->dims == results[i].dims &&
            memcmp(tensor->extent, results[i].like->extent, compared) == 0)
            continue;
        if (tensor)
            cp_shape_text(is, tensor->dims, tensor->extent);
        return cp_fail(CP_BAD_INPUT, "%s: /expected/%s: expected shape %s, found %s", path, results[i].name,
                       cp_shape_text(wanted, results[i].dims, results[i].like->extent), is);
    }
    return CP_OK;
}

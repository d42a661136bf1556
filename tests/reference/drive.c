#include "tests/reference/drive.h"

#include "base/rng.h"
#include "base/tokens/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

void set_threads(int count)
{
#ifdef _OPENMP
    omp_set_num_threads(count);
#else
    (void)count;
#endif
}

/* ---- blocks ---- */

enum { SENTINEL = 0xa5, GUARD = 64 };

block block_make(cp_tensor shape, cp_dtype dtype, bool strided)
{
    int64_t extent[CP_MAX_DIMS] = {0};
    for (int axis = 0; axis < shape.dims; axis++)
        extent[axis] = shape.extent[axis] + (strided ? 2 : 0);
    size_t bytes = cp_tensor_bytes(cp_tensor_view(NULL, dtype, shape.dims, extent));
    block b = {.bytes = bytes + 2 * GUARD};
    b.memory = malloc(b.bytes);
    b.copy = malloc(b.bytes);
    cp_check(b.memory && b.copy, "%zu bytes", b.bytes);
    memset(b.memory, SENTINEL, b.bytes);
    b.view = cp_tensor_view(b.memory + GUARD, dtype, shape.dims, extent);
    for (int axis = 0; strided && axis < shape.dims; axis++)
        b.view = cp_tensor_slice(b.view, axis, 1, shape.extent[axis]);
    return b;
}

void block_free(block *b)
{
    free(b->memory);
    free(b->copy);
    *b = (block){0};
}

void block_remember(block *b)
{
    if (b->bytes)
        memcpy(b->copy, b->memory, b->bytes);
}

test_verdict block_unchanged(const block *b, const char *what)
{
    if (b->bytes && memcmp(b->copy, b->memory, b->bytes) != 0)
        return test_failure("%s was changed", what);
    return (test_verdict){0};
}

static int64_t offset_of(cp_tensor tensor, int64_t n)
{
    int64_t offset = 0;
    for (int axis = tensor.dims - 1; axis >= 0; axis--) {
        offset += n % tensor.extent[axis] * tensor.stride[axis];
        n /= tensor.extent[axis];
    }
    return offset * (int64_t)cp_dtype_bytes(tensor.dtype);
}

test_verdict block_sentinels_intact(const block *b, const char *what)
{
    size_t inside = 0;
    size_t element = cp_dtype_bytes(b->view.dtype);
    size_t sentinels = 0;
    for (size_t byte = 0; byte < b->bytes; byte++)
        sentinels += (unsigned char)b->memory[byte] == SENTINEL;
    for (int64_t n = 0; n < cp_tensor_count(b->view); n++) {
        const unsigned char *at = (const unsigned char *)b->view.data + offset_of(b->view, n);
        inside += element;
        for (size_t byte = 0; byte < element; byte++)
            sentinels -= at[byte] == SENTINEL;
    }
    if (sentinels != b->bytes - inside)
        return test_failure("%s: memory around it was written", what);
    return (test_verdict){0};
}

/* ---- elements ---- */

double element_get(cp_tensor tensor, int64_t n)
{
    double value;
    cp_dtype_to_double(&value, (const char *)tensor.data + offset_of(tensor, n), tensor.dtype, 1);
    return value;
}

void element_set(cp_tensor tensor, int64_t n, double value)
{
    char *at = (char *)tensor.data + offset_of(tensor, n);
    if (tensor.dtype == CP_I64)
        *(int64_t *)(void *)at = (int64_t)value;
    else
        cp_dtype_from_double(at, tensor.dtype, &value, 1);
}

void tensor_fill(cp_tensor tensor, double value)
{
    for (int64_t n = 0; n < cp_tensor_count(tensor); n++)
        element_set(tensor, n, value);
}

/* Numbers of float32, so that both widths get the same, and none near 0, where relu has no slope. */
void tensor_fill_random(cp_tensor tensor, uint64_t seed, const char *name)
{
    cp_rng rng = cp_rng_named(seed, name);
    for (int64_t n = 0; n < cp_tensor_count(tensor); n++) {
        double value = cp_rng_normal(rng, (uint64_t)n);
        value += value < 0 ? -0.01 : 0.01;
        element_set(tensor, n, (double)(float)value);
    }
}

void tensor_round_to_bf16(cp_tensor tensor)
{
    for (int64_t n = 0; n < cp_tensor_count(tensor); n++)
        element_set(tensor, n, (double)cp_bf16_round((float)element_get(tensor, n)));
}

static void fill_integers(cp_tensor tensor, filling how, int64_t bound, uint64_t seed)
{
    cp_rng rng = cp_rng_named(seed, "integers");
    int64_t width = tensor.dims ? tensor.extent[tensor.dims - 1] : 0;
    for (int64_t n = 0; n < cp_tensor_count(tensor); n++) {
        int64_t value = how == FILL_INDEX ? n % width : cp_rng_below(rng, (uint64_t)n, bound);
        if (how == FILL_TARGET && n % 4 == 3)
            value = CP_IGNORED;
        element_set(tensor, n, (double)value);
    }
}

/* ---- drive ---- */

/* Causal, one document, nothing hidden. */
static void plan_visibility(drive *d)
{
    int64_t B = d->trial.sizes->B;
    int64_t T = d->trial.sizes->S;
    size_t places = (size_t)(B * T);
    assert_ok(cp_arena_open(&d->tables, 4 * (places * sizeof(int64_t) + 2 * CP_ARENA_ALIGNMENT)));
    uint8_t *real = cp_arena_take(&d->tables, places);
    int64_t *zero = cp_arena_take(&d->tables, places * sizeof *zero);
    int64_t *order = cp_arena_take(&d->tables, places * sizeof *order);
    memset(real, 1, places);
    for (int64_t n = 0; n < B * T; n++) {
        zero[n] = 0;
        order[n] = n % T;
    }
    d->o.visibility = (cp_visibility){.B = B,
                                      .T = T,
                                      .real = real,
                                      .document = zero,
                                      .scope = zero,
                                      .chunk = zero,
                                      .order = order,
                                      .distance = order};
}

static void tensors_of(cp_tensor *tensor[BLOCKS], operands *o)
{
    tensor[BLOCK_OUT] = &o->out;
    tensor[BLOCK_DOUT] = &o->dout;
    for (int n = 0; n < MAX_SAVED; n++)
        tensor[BLOCK_SAVED + n] = &o->saved[n];
    for (int n = 0; n < MAX_INPUTS; n++) {
        tensor[BLOCK_IN + n] = &o->in[n];
        tensor[BLOCK_DIN + n] = &o->din[n];
    }
    for (int n = 0; n < MAX_INTEGERS; n++)
        tensor[BLOCK_INTEGERS + n] = &o->integers[n];
    tensor[BLOCK_FACTOR] = &o->factor;
}

static call call_of(const drive *d, cp_arena *scratch)
{
    return (call){cp_ops_of(d->trial.dtype), d->trial.variant, scratch, d->trial.precision};
}

/* The shape kernels take the same arguments, without data. */
static size_t measured(const drive *d)
{
    operands o = d->o;
    cp_tensor *tensor[BLOCKS];
    tensors_of(tensor, &o);
    for (int n = 0; n < BLOCKS; n++)
        tensor[n]->data = NULL;
    cp_arena measuring = cp_arena_measuring();
    call c = call_of(d, &measuring);
    c.ops = cp_ops_shape();
    d->trial.operation->forward(&o, &c);
    assert_int_equal(measuring.used, 0);
    d->trial.operation->backward(&o, &c);
    assert_int_equal(measuring.used, 0);
    return measuring.peak;
}

void drive_open(drive *d, const trial *t)
{
    *d = (drive){.trial = *t};
    operands *o = &d->o;
    t->operation->shape(o, t->sizes, t->variant);
    o->dout = o->out;
    memcpy(o->din, o->in, sizeof o->in);
    cp_tensor *tensor[BLOCKS];
    tensors_of(tensor, o);
    for (int n = 0; n < BLOCKS; n++) {
        if (!cp_tensor_given(*tensor[n]))
            continue;
        cp_dtype dtype = n == BLOCK_FACTOR ? CP_F64 : n >= BLOCK_INTEGERS ? CP_I64 : t->dtype;
        d->blocks[n] = block_make(*tensor[n], dtype, t->strided);
        *tensor[n] = d->blocks[n].view;
    }
    for (int n = 0; n < MAX_INTEGERS; n++)
        fill_integers(o->integers[n], o->filling[n], o->bound[n], t->seed);
    tensor_fill_random(o->factor, t->seed, "factor");
    static const char *const names[MAX_INPUTS] = {"in 0", "in 1", "in 2", "in 3", "in 4", "in 5"};
    for (int n = 0; n < MAX_INPUTS; n++)
        tensor_fill_random(o->in[n], t->seed, names[n]);
    if (t->operation->overwrites)
        tensor_fill(o->dout, 0.125);
    else
        tensor_fill_random(o->dout, t->seed, "dout");
    for (int n = BLOCK_DOUT; n < BLOCK_DIN && t->bf16_inputs; n++)
        if (n == BLOCK_DOUT || n >= BLOCK_IN)
            tensor_round_to_bf16(*tensor[n]);
    drive_zero_gradients(d);
    plan_visibility(d);
    assert_ok(cp_arena_open(&d->scratch, measured(d)));
}

void drive_close(drive *d)
{
    for (int n = 0; n < BLOCKS; n++)
        block_free(&d->blocks[n]);
    cp_arena_close(&d->scratch);
    cp_arena_close(&d->tables);
}

void drive_zero_gradients(drive *d)
{
    for (int n = 0; n < MAX_INPUTS; n++)
        tensor_fill(d->o.din[n], 0);
}

void drive_forward(drive *d)
{
    call c = call_of(d, &d->scratch);
    d->trial.operation->forward(&d->o, &c);
}

void drive_backward(drive *d)
{
    call c = call_of(d, &d->scratch);
    d->trial.operation->backward(&d->o, &c);
}

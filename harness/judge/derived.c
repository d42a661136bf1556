#include "harness/judge/derived.h"

#include "harness/files/targets.h"
#include "harness/files/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {"logsumexp", "target_logit"};
enum { LOGSUMEXP, TARGET_LOGIT, DERIVED, BLOCK = 1024 };

typedef struct derived {
    cp_source source;
    const cp_source *expected;
    const cp_batch *batch;
    size_t logits;
    cp_source_tensor *tensors;
    int64_t *from; /* of each: the expected tensor; or −1 − what is derived */
} derived;

bool cp_derived_name(const char *name)
{
    return strcmp(name, NAMES[LOGSUMEXP]) == 0 || strcmp(name, NAMES[TARGET_LOGIT]) == 0;
}

/* log Σ exp, in one pass. */
static cp_status read_logsumexp(const derived *d, int64_t position, double *out)
{
    int64_t V = d->expected->tensors[d->logits].extent[2];
    double block[BLOCK], largest = -INFINITY, sum = 0;
    for (int64_t done = 0; done < V; done += BLOCK) {
        int64_t n = V - done < BLOCK ? V - done : BLOCK;
        CP_TRY(d->expected->read(d->expected, d->logits, position * V + done, n, block));
        double here = largest;
        for (int64_t v = 0; v < n; v++)
            here = fmax(here, block[v]);
        sum *= isfinite(largest) ? exp(largest - here) : 0;
        for (int64_t v = 0; v < n; v++)
            sum += exp(block[v] - here);
        largest = here;
    }
    *out = largest + log(sum);
    return CP_OK;
}

static cp_status read_target(const derived *d, int64_t position, double *out)
{
    int64_t V = d->expected->tensors[d->logits].extent[2], T = d->batch->T;
    int64_t target = cp_batch_target(d->batch, position / T, position % T);
    *out = 0;
    return target >= 0 && target < V
               ? d->expected->read(d->expected, d->logits, position * V + target, 1, out)
               : CP_OK;
}

static cp_status read_derived(const cp_source *source, size_t tensor, int64_t first, int64_t count,
                              double *out)
{
    const derived *d = source->state;
    int64_t from = d->from[tensor];
    if (from >= 0)
        return d->expected->read(d->expected, (size_t)from, first, count, out);
    for (int64_t i = 0; i < count; i++)
        CP_TRY(-1 - from == LOGSUMEXP ? read_logsumexp(d, first + i, out + i)
                                      : read_target(d, first + i, out + i));
    return CP_OK;
}

static cp_status look_derived(const cp_source *source, cp_view *view, size_t tensor, int64_t first,
                              int64_t count, const void **data, cp_dtype *dtype)
{
    const derived *d = source->state;
    if (d->from[tensor] >= 0)
        return cp_view_look(view, d->expected, (size_t)d->from[tensor], first, count, data, dtype);
    CP_TRY(cp_view_room(&view->values, &view->values_room, (size_t)count * sizeof(double)));
    *data = view->values;
    *dtype = CP_F64;
    return read_derived(source, tensor, first, count, view->values);
}

static cp_grain grain_of_derived(const cp_source *source, size_t tensor)
{
    const derived *d = source->state;
    return d->from[tensor] >= 0 ? cp_view_grain(d->expected, (size_t)d->from[tensor]) : (cp_grain){1, 0};
}

static void close_derived(cp_source *source)
{
    derived *d = source->state;
    free(d->tensors);
    free(d->from);
    free(d);
}

/* Names stay sorted: each new one goes where it belongs. */
static void insert(derived *d, int which, const cp_source_tensor *logits)
{
    size_t at = 0;
    while (at < d->source.count && strcmp(d->tensors[at].name, NAMES[which]) < 0)
        at++;
    memmove(&d->tensors[at + 1], &d->tensors[at], (d->source.count - at) * sizeof *d->tensors);
    memmove(&d->from[at + 1], &d->from[at], (d->source.count - at) * sizeof *d->from);
    d->tensors[at] = *logits;
    d->tensors[at].name = NAMES[which];
    d->tensors[at].dims = 2;
    d->from[at] = -1 - which;
    d->source.count++;
}

cp_source *cp_derived_open(const cp_source *expected, const cp_source *actual, const cp_batch *batch)
{
    int64_t logits = cp_source_find(expected, "logits");
    const cp_source_tensor *tensor = logits >= 0 ? &expected->tensors[logits] : NULL;
    bool wanted[DERIVED], any = false;
    for (int i = 0; i < DERIVED; i++) {
        bool known = i == LOGSUMEXP || batch->labels || batch->shift_labels;
        wanted[i] = known && cp_source_find(actual, NAMES[i]) >= 0 && cp_source_find(expected, NAMES[i]) < 0;
        any = any || wanted[i];
    }
    if (!any || !tensor || tensor->dims != 3 || tensor->extent[0] != batch->B ||
        tensor->extent[1] != batch->T)
        return NULL;
    derived *d = calloc(1, sizeof *d);
    cp_check(d, "no memory for a source");
    d->source = *expected;
    d->source.read = read_derived;
    d->source.look = look_derived;
    d->source.grain = grain_of_derived;
    d->source.close = close_derived;
    d->source.state = d;
    d->expected = expected;
    d->batch = batch;
    d->logits = (size_t)logits;
    d->tensors = calloc(expected->count + DERIVED, sizeof *d->tensors);
    d->from = calloc(expected->count + DERIVED, sizeof *d->from);
    cp_check(d->tensors && d->from, "no memory for %zu tensors", expected->count);
    for (size_t i = 0; i < expected->count; i++) {
        d->tensors[i] = expected->tensors[i];
        d->from[i] = (int64_t)i;
    }
    d->source.tensors = d->tensors;
    for (int i = 0; i < DERIVED; i++)
        if (wanted[i])
            insert(d, i, tensor);
    return &d->source;
}

#include "harness/run/shown.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double told = 0.01;

cp_status cp_shown_open(cp_shown_case *tried, const char *name, const cp_fixture *fixture,
                        const cp_model *model)
{
    const cp_run_options unsharded = {.P = 1, .dtype = CP_F64};
    *tried = (cp_shown_case){.name = name, .fixture = fixture, .model = model};
    return cp_run_whole(&tried->right, model, &unsharded);
}

/* ---- ways --------------------------------------------------------------------------------------------------------- */

static const struct {
    int P;
    cp_exchange_kind exchange;
    cp_layout_kind layout;
} ways[] = {
    {2, CP_EXCHANGE_ULYSSES, CP_LAYOUT_CONTIGUOUS}, {4, CP_EXCHANGE_RING, CP_LAYOUT_ZIGZAG},
    {2, CP_EXCHANGE_ALLGATHER, CP_LAYOUT_ZIGZAG},   {4, CP_EXCHANGE_ULYSSES, CP_LAYOUT_CONTIGUOUS},
    {4, CP_EXCHANGE_USP, CP_LAYOUT_CONTIGUOUS},     {3, CP_EXCHANGE_RING, CP_LAYOUT_CONTIGUOUS},
    {4, CP_EXCHANGE_ALLGATHER, CP_LAYOUT_STRIPED},  {8, CP_EXCHANGE_RING, CP_LAYOUT_CONTIGUOUS},
};

int cp_shown_ways(void)
{
    return sizeof ways / sizeof *ways;
}

void cp_shown_way(cp_run_options *options, int way, int decision, int value)
{
    cp_needs needs = cp_decision_at(decision)->values[value].needs;
    *options = (cp_run_options){.P = ways[way].P,
                                .exchange.kind = ways[way].exchange,
                                .layout.kind = ways[way].layout,
                                .dtype = CP_F64};
    if (needs == CP_NEEDS_GROUPS || needs == CP_NEEDS_GROUPS_OF_RANKS)
        options->D = 2;
    if (needs == CP_NEEDS_MICROBATCHES)
        options->M = 2;
    cp_decision_put(&options->decisions, decision, value);
}

/* ---- one run ------------------------------------------------------------------------------------------------------ */

static bool is_padding(const cp_batch *batch, int64_t token)
{
    return (batch->attention_mask && !batch->attention_mask[token]) ||
           (batch->document_ids && batch->document_ids[token] < 0);
}

static int64_t elements(const cp_source_tensor *shape)
{
    int64_t count = 1;
    for (int axis = 0; axis < shape->dims; axis++)
        count *= shape->extent[axis];
    return count;
}

/* How far a tensor is from the right one, relative to its norm. */
static double distance(const double *wrong, const double *right, const cp_source_tensor *shape,
                       const cp_batch *batch)
{
    static const double least_norm = 1e-2; /* what is zero by symmetry has no norm of its own */
    bool logits = strcmp(shape->name, "logits") == 0;
    double norm = 0, error = 0;
    for (int64_t n = 0; n < elements(shape); n++) {
        if (logits && is_padding(batch, n / shape->extent[2]))
            continue;
        double e = wrong[n] - right[n];
        norm += right[n] * right[n];
        error += isfinite(e) ? e * e : INFINITY;
    }
    return sqrt(error) / fmax(sqrt(norm), least_norm);
}

static double difference(const cp_shown_case *tried, const cp_source *wrong, size_t tensor)
{
    const cp_source_tensor *shape = &tried->right->tensors[tensor];
    int64_t other = cp_source_find(wrong, shape->name);
    if (other < 0)
        return INFINITY;
    size_t count = (size_t)elements(shape);
    double *values = calloc(2 * count + 1, sizeof *values);
    cp_check(values, "no memory for %zu numbers", count);
    double replicas; /* ranks that disagree show too */
    bool read = cp_source_read_all(tried->right, tensor, values) == CP_OK &&
                cp_source_read_all(wrong, (size_t)other, values + count) == CP_OK &&
                cp_join_replicas(wrong, (size_t)other, &replicas) == CP_OK;
    double far =
        read ? fmax(replicas, distance(values + count, values, shape, &tried->fixture->batch)) : INFINITY;
    free(values);
    return far;
}

static void note_example(cp_shown *shown, const cp_shown_case *tried, const cp_run_options *options)
{
    if (shown->cases + shown->structural > 1)
        return;
    snprintf(shown->example, sizeof shown->example, "%.60s, cp %d, %s, %s", tried->name, options->P,
             cp_exchange_name(options->exchange.kind), cp_layout_name(options->layout.kind));
}

/* By the first of these that a parameter's name holds. */
static const struct {
    const char *holds;
    cp_shown_parts part;
} kinds[] = {
    {"inputs_embeds", CP_SHOWN_INPUTS},
    {"embed_tokens", CP_SHOWN_EMBEDDINGS},
    {"lm_head", CP_SHOWN_HEAD},
    {"sinks", CP_SHOWN_SINKS},
    {"bias", CP_SHOWN_BIASES},
    {"norm", CP_SHOWN_NORMS},
    {"q_proj", CP_SHOWN_Q},
    {"k_proj", CP_SHOWN_K},
    {"v_proj", CP_SHOWN_V},
    {"o_proj", CP_SHOWN_O},
    {"", CP_SHOWN_FEED_FORWARD},
};

static unsigned part_of(const char *parameter)
{
    size_t kind = 0;
    while (!strstr(parameter, kinds[kind].holds))
        kind++;
    return 1U << kinds[kind].part;
}

const char *cp_shown_part(cp_shown_parts part)
{
    static const char *const names[CP_SHOWN_PARTS] = {
        [CP_SHOWN_INPUTS] = "inputs", [CP_SHOWN_EMBEDDINGS] = "embeddings",
        [CP_SHOWN_NORMS] = "norms",   [CP_SHOWN_Q] = "q",
        [CP_SHOWN_K] = "k",           [CP_SHOWN_V] = "v",
        [CP_SHOWN_O] = "o",           [CP_SHOWN_SINKS] = "sinks",
        [CP_SHOWN_BIASES] = "biases", [CP_SHOWN_FEED_FORWARD] = "feed-forward",
        [CP_SHOWN_HEAD] = "head"};
    return names[part];
}

double cp_shown_count(cp_shown *shown, const cp_shown_case *tried, const cp_run_options *options,
                      const cp_source *wrong)
{
    shown->runs++;
    if (!wrong) {
        shown->structural++;
        note_example(shown, tried, options);
        return INFINITY;
    }
    static const char gradient[] = "grads/";
    double largest = 0;
    unsigned met = 0;
    for (size_t t = 0; t < tried->right->count; t++) {
        const char *name = tried->right->tensors[t].name;
        bool of_loss = strcmp(name, "loss") == 0;
        unsigned part = strncmp(name, gradient, strlen(gradient)) == 0 ? part_of(name + strlen(gradient)) : 0;
        double far = difference(tried, wrong, t);
        largest = fmax(largest, far);
        met |= part;
        if (far <= CP_SHOWN_VISIBLE)
            continue;
        shown->loss = shown->loss || of_loss;
        shown->logits = shown->logits || strcmp(name, "logits") == 0;
        shown->gradients |= part;
        shown->told += of_loss && far > told;
    }
    if (largest > CP_SHOWN_VISIBLE)
        shown->met |= met;
    shown->cases += largest > CP_SHOWN_VISIBLE;
    if (largest > CP_SHOWN_VISIBLE)
        note_example(shown, tried, options);
    return largest;
}

/* ---- a suite ------------------------------------------------------------------------------------------------------ */

typedef struct survey {
    cp_shown *shown;
    cp_shown_listener *listener;
    void *context;
} survey;

static cp_status try_way(const survey *s, const cp_shown_case *tried, const cp_run_options *options)
{
    cp_source *wrong = NULL;
    cp_status status = cp_run_check(tried->model, options);
    if (status == CP_REFUSED)
        return CP_OK;
    if (status == CP_OK)
        status = cp_run_whole(&wrong, tried->model, options);
    if (status == CP_OK || status == CP_INCOMPARABLE) {
        double largest = cp_shown_count(s->shown, tried, options, wrong);
        if (s->listener)
            s->listener(s->context, tried, options, wrong, largest);
        status = CP_OK;
    }
    cp_source_close(wrong);
    return status;
}

cp_status cp_shown_survey(cp_shown *shown, int decision, int value, const cp_shown_case *cases, int count,
                          int enough, cp_shown_listener *listener, void *context)
{
    enum { STRIDE = 61 }; /* neighbours in a suite are of one family */
    const survey s = {shown, listener, context};
    int stride = count % STRIDE == 0 ? 1 : STRIDE;
    *shown = (cp_shown){0};
    for (int turn = 0; turn < cp_shown_ways(); turn++)
        for (int n = 0; n < count && shown->cases + shown->structural < enough; n++) {
            cp_run_options options;
            cp_shown_way(&options, (n + turn) % cp_shown_ways(), decision, value);
            CP_TRY(try_way(&s, &cases[(int64_t)n * stride % count], &options));
        }
    return CP_OK;
}

/* ---- what is known ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *decision, *value;
    cp_shown shown;
} known[] = {
#define CP_SHOWN(decision, value, ...) {decision, value, {__VA_ARGS__}},
#include "harness/run/shown.def"
#undef CP_SHOWN
    {"", "", {0}},
};

const cp_shown *cp_shown_known(int decision, int value)
{
    const cp_decision *about = cp_decision_at(decision);
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strcmp(known[n].decision, about->name) == 0 &&
            strcmp(known[n].value, about->values[value].name) == 0)
            return &known[n].shown;
    return NULL;
}

#include "harness/run/calibrate.h"

#include "base/rng.h"
#include "harness/judge/result.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which runs -------------------------------------------------------------------------------------------------- */

enum { MOST_RANKS = 4, MOST_DRAWS = 64 };

static bool has_trace(const cp_source *expected)
{
    for (size_t i = 0; i < expected->count; i++)
        if (strncmp(expected->tensors[i].name, "trace/", 6) == 0)
            return true;
    return false;
}

/* One more number from a stream. */
static int64_t below(cp_rng rng, uint64_t *next, int64_t bound)
{
    return cp_rng_below(rng, (*next)++, bound);
}

static void draw(cp_run_options *options, cp_rng rng, uint64_t *next)
{
    static const cp_exchange_kind exchanges[] = {CP_EXCHANGE_ULYSSES, CP_EXCHANGE_ALLGATHER, CP_EXCHANGE_RING,
                                                 CP_EXCHANGE_USP};
    enum { EXCHANGES = sizeof exchanges / sizeof *exchanges };
    options->P = 1 + (int)below(rng, next, MOST_RANKS);
    options->D = options->P <= MOST_RANKS / 2 ? 1 + (int)below(rng, next, 2) : 1;
    options->M = 1 + (int)below(rng, next, 2);
    options->exchange.kind = options->P == 1 ? CP_EXCHANGE_LOCAL : exchanges[below(rng, next, EXCHANGES)];
    options->layout.kind = (cp_layout_kind)below(rng, next, CP_LAYOUT_KINDS);
    options->attention = (cp_attention_form)below(rng, next, CP_ATTENTION_FORMS);
    options->matmul = (cp_matmul)below(rng, next, 2);
}

cp_run_options cp_calibration_run(const cp_model *model, cp_dtype dtype, uint64_t seed, int64_t run)
{
    char name[64];
    snprintf(name, sizeof name, "calibration run %lld", (long long)run);
    cp_rng rng = cp_rng_named(seed, name);
    uint64_t next = 0;
    cp_run_options options = {.dtype = dtype, .noise = cp_rng_bits(rng, next++) | 1};
    for (int i = 0; i < MOST_DRAWS; i++) {
        draw(&options, rng, &next);
        if (cp_run_check(model, &options) == CP_OK)
            return options;
    }
    return (cp_run_options){.P = 1, .dtype = dtype, .noise = options.noise};
}

/* ---- the truth in memory ----------------------------------------------------------------------------------------- */

/* Files are read by one thread at a time; what stands in memory, by all. */
static cp_status load(cp_source **out, const cp_source *source, cp_arena *arena)
{
    static const int64_t one[] = {1};
    cp_memory_tensor *tensors = cp_arena_take(arena, (source->count + 1) * sizeof *tensors);
    for (size_t i = 0; i < source->count; i++) {
        const cp_source_tensor *tensor = &source->tensors[i];
        bool scalar = tensor->dims == 0;
        cp_tensor shape =
            cp_tensor_view(NULL, CP_F64, scalar ? 1 : tensor->dims, scalar ? one : tensor->extent);
        shape.data = cp_arena_take(arena, cp_tensor_bytes(shape));
        CP_TRY(cp_source_read_all(source, i, shape.data));
        tensors[i] = (cp_memory_tensor){tensor->name, shape, scalar};
    }
    return cp_source_memory(out, source->label, &source->declaration, tensors, source->count);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct calibrating {
    const cp_model *model;
    const cp_fixture *fixture; /* expectations in memory */
    cp_dtype dtype;
    uint64_t seed;
    bool trace;
    cp_observations *observations;
    pthread_mutex_t lock; /* of what follows */
    int64_t next;
    int64_t failing; /* the first run that failed; −1: none */
    cp_status status;
    char sentence[CP_RESULT_SENTENCE];
} calibrating;

static cp_status observe(const calibrating *self, int64_t run)
{
    cp_run_options options = cp_calibration_run(self->model, self->dtype, self->seed, run);
    cp_source *actual = NULL;
    options.trace = self->trace;
    CP_TRY(cp_run_whole(&actual, self->model, &options));
    cp_status status =
        cp_observations_add(self->observations, run, self->fixture->expected, actual, self->fixture);
    cp_source_close(actual);
    return status;
}

/* The next run that nobody has begun; false: there is none, or one failed. */
static bool take_run(calibrating *self, int64_t *run)
{
    pthread_mutex_lock(&self->lock);
    bool any = self->status == CP_OK && self->next < self->observations->runs;
    *run = any ? self->next++ : -1;
    pthread_mutex_unlock(&self->lock);
    return any;
}

static void note_failure(calibrating *self, int64_t run, cp_status status)
{
    pthread_mutex_lock(&self->lock);
    if (self->failing < 0 || run < self->failing) {
        self->failing = run;
        self->status = status;
        snprintf(self->sentence, sizeof self->sentence, "replicate %lld: %s", (long long)run, cp_error());
    }
    pthread_mutex_unlock(&self->lock);
}

static void *work(void *context)
{
    calibrating *self = context;
    int64_t run;
    while (take_run(self, &run)) {
        cp_status status = observe(self, run);
        if (status != CP_OK)
            note_failure(self, run, status);
    }
    return NULL;
}

/* This thread works too, and alone where the system refuses others. The first run is over before they begin: it converts
 * the weights that all share. */
static void work_together(calibrating *self, int workers)
{
    int64_t first;
    if (!take_run(self, &first))
        return;
    cp_status status = observe(self, first);
    if (status != CP_OK)
        note_failure(self, first, status);
    pthread_t *threads = calloc((size_t)workers, sizeof *threads);
    cp_check(threads, "no memory for %d threads", workers);
    int started = 0;
    while (started < workers - 1 && pthread_create(&threads[started], NULL, work, self) == 0)
        started++;
    work(self);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

cp_status cp_calibrate(cp_observations *out, const cp_model *model, const cp_fixture *fixture, cp_dtype dtype,
                       uint64_t seed, int64_t runs, int workers)
{
    *out = (cp_observations){0};
    cp_arena arena = cp_arena_growing();
    cp_source *truth = NULL;
    cp_fixture held = *fixture;
    cp_status status = load(&truth, fixture->expected, &arena);
    if (status == CP_OK) {
        held.expected = truth;
        cp_observations_open(out, truth, runs);
        calibrating self = {.model = model,
                            .fixture = &held,
                            .dtype = dtype,
                            .seed = seed,
                            .trace = has_trace(truth),
                            .observations = out,
                            .failing = -1};
        pthread_mutex_init(&self.lock, NULL);
        work_together(&self, workers);
        pthread_mutex_destroy(&self.lock);
        status = self.status;
        if (status != CP_OK)
            cp_fail(status, "%s", self.sentence);
    }
    cp_source_close(truth);
    cp_arena_close(&arena);
    return status;
}

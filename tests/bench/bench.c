/* What scripts/bench runs: OpenBLAS against the training step of a 33.6 M llama, in one process, so that ratios mean
 * something on a machine whose speed drifts. Not a test: it asserts no times. */
#include "base/rng.h"
#include "harness/run/make.h"
#include "harness/run/rank.h"

#include <cblas.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#else
static void omp_set_num_threads(int threads)
{
    (void)threads;
}
#endif

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 512, \"num_hidden_layers\": 8, \"num_attention_heads\": 8, "
    "\"num_key_value_heads\": 4, \"intermediate_size\": 1536, \"vocab_size\": 8192, "
    "\"tie_word_embeddings\": false}";

enum { REPEATS = 5 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* ---- OpenBLAS ---------------------------------------------------------------------------------------------------- */

enum { EDGE = 1024 };

static double gemm_speed(bool wide, int threads)
{
    size_t count = (size_t)EDGE * EDGE;
    double *memory = calloc(3 * count, sizeof *memory);
    double speeds[REPEATS];
    cp_check(memory, "no memory");
    for (size_t n = 0; n < 2 * count; n++) {
        if (wide)
            memory[n] = 1.0 / (double)(n + 1);
        else
            ((float *)memory)[n] = 1.0F / (float)(n + 1);
    }
    openblas_set_num_threads(threads);
    for (int r = -1; r < REPEATS; r++) {
        double start = now();
        if (wide)
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, EDGE, EDGE, EDGE, 1, memory, EDGE,
                        memory + count, EDGE, 0, memory + 2 * count, EDGE);
        else
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, EDGE, EDGE, EDGE, 1, (float *)memory, EDGE,
                        (float *)memory + count, EDGE, 0, (float *)memory + 2 * count, EDGE);
        if (r >= 0)
            speeds[r] = 2.0 * EDGE * EDGE * EDGE / (now() - start) * 1e-9;
    }
    openblas_set_num_threads(1);
    free(memory);
    return median(speeds, REPEATS);
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

typedef struct bench {
    cp_model *model;
    cp_run_options options;
    const cp_tensor *weights;
    cp_rank *ranks;
    int threads; /* of each rank */
    double seconds[REPEATS];
} bench;

static void body(cp_comm *comm, void *context)
{
    bench *self = context;
    cp_rank *rank = &self->ranks[cp_comm_rank(comm)];
    omp_set_num_threads(self->threads);
    cp_rank_open(rank, self->model, &self->options, comm);
    for (int r = -1; r < REPEATS; r++) {
        cp_comm_barrier(comm);
        double start = now();
        cp_rank_step(rank, self->model, &self->options, self->weights, comm);
        cp_comm_barrier(comm);
        if (r >= 0 && cp_comm_rank(comm) == 0)
            self->seconds[r] = now() - start;
    }
}

/* Multiplications and additions of a step, without the embedding's look-up; attention is counted causal. */
static double operations(const cp_program *program, int64_t T)
{
    double parameters = 0;
    for (int p = 0; p < program->parameter_count; p++)
        if (program->parameters[p].class != CP_PARAMETER_EMBEDDING)
            parameters += (double)cp_tensor_count(
                cp_tensor_view(NULL, CP_F32, program->parameters[p].dims, program->parameters[p].extent));
    return 6 * parameters * (double)T + 6 * (double)program->L * (double)T * (double)T * (double)program->C;
}

static double step_speed(const cp_fixture *fixture, int P, int threads, size_t *memory)
{
    bench self = {.threads = threads};
    self.options = (cp_run_options){
        .P = P, .exchange = P > 1 ? CP_EXCHANGE_ULYSSES : CP_EXCHANGE_LOCAL, .dtype = CP_F32};
    cp_status status = cp_model_open(&self.model, fixture);
    if (status == CP_OK)
        status = cp_model_weights(&self.weights, self.model, CP_F32);
    self.ranks = calloc((size_t)P, sizeof *self.ranks);
    cp_check(status == CP_OK && self.ranks, "%s", cp_error());
    status = cp_threads_run(P, body, &self);
    cp_check(status == CP_OK, "%s", cp_error());
    *memory = 0;
    for (int r = 0; r < P; r++) {
        *memory += self.ranks[r].need;
        cp_rank_close(&self.ranks[r]);
    }
    free(self.ranks);
    double speed =
        operations(cp_model_program(self.model), fixture->batch.T) / median(self.seconds, REPEATS) * 1e-9;
    cp_model_close(self.model);
    return speed;
}

static void print_step(const cp_fixture *fixture, int P, int threads, double sgemm)
{
    size_t memory;
    double speed = step_speed(fixture, P, threads, &memory);
    printf("step   T %5" PRId64
           "  cp %d x %d thread%s  %7.1f GF/s  %3.0f %% of sgemm on %d   step memory %zu MiB\n",
           fixture->batch.T, P, threads, threads > 1 ? "s" : " ", speed, 100 * speed / sgemm, P * threads,
           memory >> 20);
    fflush(stdout);
}

static int64_t *tokens(int64_t T)
{
    int64_t *ids = calloc((size_t)T, sizeof *ids);
    cp_check(ids, "no memory");
    for (int64_t t = 0; t < T; t++)
        ids[t] = cp_rng_below(cp_rng_named(1, "ids"), (uint64_t)t, 8192);
    return ids;
}

int main(void)
{
    static const int64_t lengths[] = {512, 2048};
    cp_weight *weights;
    size_t count;
    cp_json *json;
    cp_status status = cp_make_weights(&weights, &count, config, "bench", 1);
    if (status == CP_OK)
        status = cp_json_parse(&json, config, strlen(config), "bench");
    cp_check(status == CP_OK, "%s", cp_error());
    double sgemm[3] = {0, gemm_speed(false, 1), gemm_speed(false, 2)};
    printf("dgemm  %d^3         1 thread   %7.1f GF/s\n", EDGE, gemm_speed(true, 1));
    printf("sgemm  %d^3         1 thread   %7.1f GF/s\n", EDGE, sgemm[1]);
    printf("sgemm  %d^3         2 threads  %7.1f GF/s\n", EDGE, sgemm[2]);
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        int64_t *ids = tokens(lengths[n]);
        cp_fixture fixture = {.path = "bench",
                              .id = "",
                              .config = json,
                              .weight_count = count,
                              .weights = weights,
                              .batch = {.B = 1, .T = lengths[n], .input_ids = ids, .labels = ids}};
        sgemm[1] = gemm_speed(false, 1);
        print_step(&fixture, 1, 1, sgemm[1]);
        sgemm[2] = gemm_speed(false, 2);
        print_step(&fixture, 1, 2, sgemm[2]);
        print_step(&fixture, 2, 1, sgemm[2]);
        free(ids);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak memory of all of it: %ld MiB\n", usage.ru_maxrss >> 10);
    cp_json_close(json);
    cp_make_weights_close(weights, count);
    return 0;
}

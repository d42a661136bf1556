/* What scripts/bench asks for: one figure a process, so that each has its own peak of memory. Not installed.
 *
 *   cpeq-bench gemm THREADS      GF/s of OpenBLAS's sgemm and dgemm
 *   cpeq-bench step T P          of a training step of a 33.6 M llama in float32: seconds, GF/s, bytes of one rank's
 *                                step by plan, peak bytes of the process
 *   cpeq-bench memory T          bytes of the same step by plan, which is not run
 *   cpeq-bench pair DIR          writes DIR/expected.h5 and DIR/actual.h5: 2 GiB of float32 gradients together
 *   cpeq-bench attention T       seconds of one layer's attention, forward and backward: causal, and all seen */
#include "base/rng.h"
#include "harness/files/h5file.h"
#include "harness/run/make.h"
#include "harness/run/rank.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { BAD_USAGE = 3, REPEATS = 3 };

static const char config[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 8192, \"hidden_size\": 512, "
    "\"intermediate_size\": 1536, \"num_hidden_layers\": 8, \"num_attention_heads\": 8, "
    "\"num_key_value_heads\": 4, \"head_dim\": 64, \"tie_word_embeddings\": false}";

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int complain(void)
{
    fprintf(stderr, "cpeq-bench: %s\n", cp_error());
    return 1;
}

/* ---- matrix products ---------------------------------------------------------------------------------------------- */

enum { N = 2048 };

static double gflops_single(const float *a, const float *b, float *c)
{
    double begin = now();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, b, N, 0, c, N);
    return 2e-9 * N * N * N / (now() - begin);
}

static double gflops_double(const double *a, const double *b, double *c)
{
    double begin = now();
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, b, N, 0, c, N);
    return 2e-9 * N * N * N / (now() - begin);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static int bench_gemm(int threads)
{
    double *memory = malloc(3 * sizeof(double) * N * N);
    cp_check(memory != NULL, "out of memory");
    float *singles = (float *)memory;
    double best_single = 0, best_double = 0;
    openblas_set_num_threads(threads);
    for (int i = 0; i < 3 * N * N; i++)
        singles[i] = (float)(i % 17) - 8;
    for (int r = 0; r <= REPEATS; r++)
        best_single = larger(best_single, gflops_single(singles, singles + N * N, singles + 2 * N * N));
    for (int i = 0; i < 3 * N * N; i++)
        memory[i] = i % 17 - 8;
    for (int r = 0; r <= REPEATS; r++)
        best_double = larger(best_double, gflops_double(memory, memory + N * N, memory + 2 * N * N));
    printf("%.1f %.1f\n", best_single, best_double);
    free(memory);
    return 0;
}

/* ---- a step --------------------------------------------------------------------------------------------------------- */

/* Products with every parameter but the embedding, 2 operations forward and 4 backward, and causal attention. */
static double operations(const cp_program *program, int64_t T)
{
    double parameters = 0;
    for (int p = 0; p < program->parameter_count; p++) {
        const cp_parameter *parameter = &program->parameters[p];
        if (p != program->embedding)
            parameters +=
                (double)cp_tensor_count(cp_tensor_view(NULL, CP_F32, parameter->dims, parameter->extent));
    }
    return 6 * parameters * (double)T + 6 * (double)program->L * (double)T * (double)T * (double)program->C;
}

typedef struct timing {
    const cp_model *model;
    const cp_run_options *options;
    const cp_tensor *weights;
    cp_rank *ranks; /* [P] */
    double seconds; /* the best of several steps in the same memory, after one that only warms up */
} timing;

static void time_steps(cp_comm *comm, void *context)
{
    timing *self = context;
    cp_rank *rank = &self->ranks[cp_comm_rank(comm)];
    cp_mesh mesh;
    cp_rank_join(&mesh, comm, self->model, self->options);
    cp_rank_open(rank, self->model, self->options, &mesh);
    for (int r = 0; r <= REPEATS; r++) {
        cp_comm_barrier(comm);
        double begin = now();
        cp_rank_step(rank, self->model, self->options, self->weights, &mesh);
        cp_comm_barrier(comm);
        double taken = now() - begin;
        if (cp_comm_rank(comm) == 0 && (r == 1 || (r > 1 && taken < self->seconds)))
            self->seconds = taken;
    }
    cp_mesh_close(&mesh);
}

static cp_status time_step(double *seconds, const cp_model *model, const cp_run_options *options)
{
    timing self = {.model = model, .options = options};
    CP_TRY(cp_model_weights(&self.weights, model, options->dtype));
    self.ranks = calloc((size_t)options->P, sizeof *self.ranks);
    cp_check(self.ranks != NULL, "out of memory");
    cp_status status = cp_threads_run(options->P, time_steps, &self);
    for (int r = 0; r < options->P; r++)
        cp_rank_close(&self.ranks[r]);
    free(self.ranks);
    *seconds = self.seconds;
    return status;
}

static cp_status print_step(const cp_model *model, const cp_run_options *options, int64_t T)
{
    double seconds = 0;
    cp_run_memory memory = {0};
    CP_TRY(time_step(&seconds, model, options));
    CP_TRY(cp_run_measure(&memory, model, options, 0));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%.3f %.1f %zu %lld\n", seconds, 1e-9 * operations(cp_model_program(model), T) / seconds,
           memory.step, 1024LL * usage.ru_maxrss);
    return CP_OK;
}

static cp_status print_memory(const cp_model *model, const cp_run_options *options, int64_t T)
{
    (void)T;
    cp_run_memory memory = {0};
    CP_TRY(cp_run_measure(&memory, model, options, 0));
    printf("%zu\n", memory.step);
    return CP_OK;
}

typedef cp_status print_figures(const cp_model *model, const cp_run_options *options, int64_t T);

static cp_status bench_model(const cp_fixture *fixture, const cp_run_options *options, print_figures *print)
{
    cp_model *model = NULL;
    CP_TRY(cp_model_open(&model, fixture));
    cp_status status = print(model, options, fixture->batch.T);
    cp_model_close(model);
    return status;
}

static int bench_step(int64_t T, const cp_run_options *options, print_figures *print)
{
    cp_json *json = NULL;
    cp_weight *weights = NULL;
    size_t count = 0;
    if (cp_json_parse(&json, config, strlen(config), "config") != CP_OK ||
        cp_make_weights(&weights, &count, config, "config", 0) != CP_OK)
        return complain();
    int64_t *ids = malloc((size_t)T * sizeof *ids);
    cp_check(ids != NULL, "out of memory");
    cp_rng rng = cp_rng_named(0, "input_ids");
    for (int64_t t = 0; t < T; t++)
        ids[t] = cp_rng_below(rng, (uint64_t)t, 8192);
    cp_fixture fixture = {.path = "bench", .id = "", .config_text = config, .config = json};
    fixture.producer = fixture.order = fixture.truth = fixture.precision = "";
    fixture.weights = weights;
    fixture.weight_count = count;
    fixture.batch = (cp_batch){.B = 1, .T = T, .input_ids = ids, .labels = ids};
    cp_status status = bench_model(&fixture, options, print);
    free(ids);
    cp_make_weights_close(weights, count);
    cp_json_close(json);
    return status == CP_OK ? 0 : complain();
}

/* ---- attention ---------------------------------------------------------------------------------------------------- */

enum { H = 8, K = 4, D = 64 };

static double attention_seconds(cp_arena *arena, int64_t T, const int64_t *order, const cp_visibility *whole)
{
    static const int32_t heads[H] = {0, 0, 1, 1, 2, 2, 3, 3};
    cp_visibility visibility = *whole;
    visibility.order = order;
    cp_tensor index = CP_VIEW((void *)whole->distance, CP_I64, 1, T);
    cp_attention attention = {&visibility, index, index, heads, heads, 0.125, 0};
    size_t mark = cp_arena_mark(arena);
    cp_tensor q = CP_TAKE(arena, CP_F32, 1, T, H, D), dq = CP_TAKE(arena, CP_F32, 1, T, H, D);
    cp_tensor k = CP_TAKE(arena, CP_F32, 1, T, K, D), dk = CP_TAKE(arena, CP_F32, 1, T, K, D);
    cp_tensor o = CP_TAKE(arena, CP_F32, 1, T, H, D), lse = CP_TAKE(arena, CP_F32, 1, T, H);
    cp_tensor zeros[] = {q, dq, k, dk};
    for (size_t n = 0; n < sizeof zeros / sizeof *zeros; n++)
        cp_tensor_zero(zeros[n]);
    const cp_attention_ops *ops = cp_ops_of(CP_F32)->attention[CP_ATTENTION_BLOCK];
    double begin = now();
    ops->forward(o, lse, q, k, k, &attention, arena, (cp_precision){0});
    ops->backward(dq, dk, dk, o, lse, lse, q, k, k, &attention, arena, (cp_precision){0});
    double seconds = now() - begin;
    cp_arena_release(arena, mark);
    return seconds;
}

static int bench_attention(int64_t T)
{
    int64_t *index = malloc((size_t)T * sizeof *index);
    int64_t *zero = calloc((size_t)T, sizeof *zero);
    uint8_t *real = malloc((size_t)T);
    cp_arena arena;
    cp_check(index && zero && real, "out of memory");
    if (cp_arena_open(&arena, (size_t)T * 64 * 1024) != CP_OK)
        return complain();
    memset(real, 1, (size_t)T);
    for (int64_t t = 0; t < T; t++)
        index[t] = t;
    cp_visibility all = {.B = 1, .T = T, .real = real, .document = zero, .scope = zero};
    all.order = all.chunk = zero;
    all.distance = index;
    attention_seconds(&arena, T, index, &all);
    printf("%.3f %.3f\n", attention_seconds(&arena, T, index, &all),
           attention_seconds(&arena, T, zero, &all));
    cp_arena_close(&arena);
    free(real);
    free(zero);
    free(index);
    return 0;
}

/* ---- two dumps ------------------------------------------------------------------------------------------------------ */

enum { TENSORS = 4, ROWS = 16384, COLUMNS = 4096 };

static cp_status write_gradient(cp_h5 *file, int which, float factor)
{
    static float row[COLUMNS];
    const int64_t extent[] = {ROWS, COLUMNS};
    char path[64];
    snprintf(path, sizeof path, "/grads/model.layers.%d.mlp.down_proj.weight", which);
    CP_TRY(cp_h5_make_array(file, path, CP_F32, 2, extent));
    cp_rng rng = cp_rng_named((uint64_t)which, "pair");
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t c = 0; c < COLUMNS; c++)
            row[c] = factor * (float)(cp_rng_uniform(rng, (uint64_t)(r * COLUMNS + c)) - 0.5);
        CP_TRY(cp_h5_write(file, path, r * COLUMNS, COLUMNS, row));
    }
    return CP_OK;
}

static cp_status write_dump(const char *folder, const char *name, float factor)
{
    char path[4096];
    cp_h5 *file = NULL;
    snprintf(path, sizeof path, "%s/%s.h5", folder, name);
    CP_TRY(cp_h5_create(&file, path));
    cp_status status = cp_h5_set_text(file, "/", "format", "cpeq");
    if (status == CP_OK)
        status = cp_h5_set_integer(file, "/", "format_version", 1);
    if (status == CP_OK)
        status = cp_h5_set_text(file, "/", "kind", "dump");
    if (status == CP_OK)
        status = cp_h5_set_text(file, "/", "compute_dtype", "float32");
    if (status == CP_OK)
        status = cp_h5_make_group(file, "/grads");
    for (int t = 0; t < TENSORS && status == CP_OK; t++)
        status = write_gradient(file, t, factor);
    cp_status closed = cp_h5_close(file);
    return status == CP_OK ? closed : status;
}

/* The second is off by about a rounding of each value. */
static int write_pair(const char *folder)
{
    bool written =
        write_dump(folder, "expected", 1) == CP_OK && write_dump(folder, "actual", 1 + 0x1p-23F) == CP_OK;
    return written ? 0 : complain();
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "pair") == 0)
        return write_pair(argv[2]);
    if (argc == 3 && strcmp(argv[1], "gemm") == 0)
        return bench_gemm((int)strtol(argv[2], NULL, 10));
    cp_run_options options = {.P = 1, .dtype = CP_F32};
    if (argc == 6 && strcmp(argv[1], "step") == 0) {
        options.P = (int)strtol(argv[3], NULL, 10);
        if (cp_exchange_parse(&options.exchange, argv[4]) != CP_OK ||
            cp_layout_parse(&options.layout, argv[5]) != CP_OK)
            return complain();
        return bench_step(strtol(argv[2], NULL, 10), &options, print_step);
    }
    if (argc == 3 && strcmp(argv[1], "memory") == 0)
        return bench_step(strtol(argv[2], NULL, 10), &options, print_memory);
    if (argc == 3 && strcmp(argv[1], "attention") == 0)
        return bench_attention(strtol(argv[2], NULL, 10));
    fprintf(
        stderr,
        "usage: cpeq-bench gemm THREADS | step T P EXCHANGE LAYOUT | memory T | pair DIR | attention T\n");
    return BAD_USAGE;
}

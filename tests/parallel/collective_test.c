/* Sums, carries and reductions over ranks: right, in rank order, and the same bits on every rank. */
#include "base/rng.h"
#include "harness/parallel/reduce.h"
#include "tests/parallel/groups.h"
#include "tests/parallel/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 150, STATE = 6, MOST = 12, LARGEST = 1000 };

static double number(int rank, int n)
{
    return cp_rng_normal(cp_rng_named(3, "number"), (uint64_t)(rank * NUMBERS + n));
}

static double gradient_of(int rank, int n)
{
    return cp_rng_normal(cp_rng_named(4, "gradient"), (uint64_t)(rank * LARGEST + n));
}

typedef struct results {
    int64_t count; /* of the gradient */
    cp_dtype dtype;
    double weight[MOST];
    double sum[MOST][NUMBERS], maximum[MOST][NUMBERS];
    double received[MOST][STATE], returned[MOST][STATE];
    unsigned char gradient[MOST][LARGEST * sizeof(double)];
} results;

/* ---- what a rank does -------------------------------------------------------------------------------------------- */

static void reduce_one(results *r, cp_comm *comm)
{
    int rank = cp_comm_rank(comm);
    double values[LARGEST];
    for (int n = 0; n < (int)r->count; n++)
        values[n] = r->weight[rank] == 0 ? NAN : gradient_of(rank, n);
    cp_dtype_from_double(r->gradient[rank], r->dtype, values, (size_t)r->count);
    cp_tensor gradient = CP_VIEW(r->gradient[rank], r->dtype, r->count);

    cp_arena measuring = cp_arena_measuring(), arena;
    cp_reduce_plan plan = {.W = cp_comm_size(comm), .weight[CP_PARAMETER_OTHER] = r->weight};
    cp_comm *nobody = cp_comm_measuring(rank, cp_comm_size(comm));
    cp_reduce(CP_VIEW(NULL, r->dtype, r->count), &plan, CP_PARAMETER_OTHER, nobody, cp_ops_shape(),
              &measuring);
    cp_comm_close(nobody);
    cp_check(cp_arena_open(&arena, measuring.peak) == CP_OK, "%s", cp_error());
    cp_reduce(gradient, &plan, CP_PARAMETER_OTHER, comm, cp_ops_of(r->dtype), &arena);
    cp_arena_close(&arena);
}

static void body(cp_comm *comm, void *context)
{
    results *r = context;
    int rank = cp_comm_rank(comm), P = cp_comm_size(comm);
    cp_arena plans = cp_arena_growing(), arena;
    cp_check(cp_arena_open(&arena, 1 << 16) == CP_OK, "%s", cp_error());
    int64_t tokens[MOST];
    for (int i = 0; i < P; i++)
        tokens[i] = 1;
    cp_layout layout;
    world_layout(&layout, P, 1, tokens, &plans);
    cp_exchange_rules rules = {0};
    const cp_exchange_spec ulysses = {.kind = CP_EXCHANGE_ULYSSES};
    const cp_exchange_setup setup = {comm, cp_ops_of(CP_F64), CP_ATTENTION_DENSE, &layout, &rules, &plans,
                                     NULL};
    const cp_mixer *mixer = cp_exchange_open(&ulysses, &setup);

    for (int n = 0; n < NUMBERS; n++)
        r->sum[rank][n] = r->maximum[rank][n] = number(rank, n);
    mixer->sum(mixer, r->sum[rank], NUMBERS);
    mixer->maximum(mixer, r->maximum[rank], NUMBERS);

    double sent[STATE];
    for (int n = 0; n < STATE; n++) {
        sent[n] = number(rank, n);
        r->returned[rank][n] = 100 * rank;
        r->received[rank][n] = NAN; /* to be written over */
    }
    mixer->carry(mixer, CP_VIEW(r->received[rank], CP_F64, 2, 3), CP_VIEW(sent, CP_F64, 2, 3));
    mixer->carry_backward(mixer, CP_VIEW(r->returned[rank], CP_F64, 2, 3), CP_VIEW(sent, CP_F64, 2, 3),
                          &arena);
    reduce_one(r, comm);
    cp_arena_close(&arena);
    cp_arena_close(&plans);
}

/* ---- what it must give ------------------------------------------------------------------------------------------- */

static void assert_sums(const results *r, int P)
{
    for (int n = 0; n < NUMBERS; n++) {
        double sum = number(0, n), maximum = number(0, n);
        for (int rank = 1; rank < P; rank++) {
            sum += number(rank, n);
            maximum = fmax(maximum, number(rank, n));
        }
        for (int rank = 0; rank < P; rank++) {
            assert_memory_equal(&r->sum[rank][n], &sum, sizeof sum);
            assert_memory_equal(&r->maximum[rank][n], &maximum, sizeof maximum);
        }
    }
}

static void assert_carries(const results *r, int P)
{
    for (int rank = 0; rank < P; rank++)
        for (int n = 0; n < STATE; n++) {
            double received = rank > 0 ? number(rank - 1, n) : 0;
            double returned = 100 * rank + (rank + 1 < P ? number(rank + 1, n) : 0);
            assert_near(r->received[rank][n], received, 0);
            assert_near(r->returned[rank][n], returned, 0);
        }
}

/* In rank order, in the gradient's own width; what has no weight is not even looked at. */
static double expected_gradient(const results *r, int P, int n)
{
    bool narrow = r->dtype == CP_F32;
    double sum = 0;
    bool first = true;
    for (int rank = 0; rank < P; rank++) {
        double value = gradient_of(rank, n);
        if (r->weight[rank] == 0)
            continue;
        value = narrow ? (double)((float)r->weight[rank] * (float)value) : r->weight[rank] * value;
        sum = first ? value : narrow ? (double)((float)sum + (float)value) : sum + value;
        first = false;
    }
    return sum;
}

static void assert_gradients(const results *r, int P)
{
    double actual[LARGEST], expected[LARGEST];
    size_t bytes = (size_t)r->count * cp_dtype_bytes(r->dtype);
    for (int n = 0; n < (int)r->count; n++)
        expected[n] = expected_gradient(r, P, n);
    cp_dtype_to_double(actual, r->gradient[0], r->dtype, (size_t)r->count);
    assert_verdict(test_compare(actual, expected, r->count, 0, 0));
    for (int rank = 1; rank < P; rank++)
        assert_memory_equal(r->gradient[rank], r->gradient[0], bytes);
}

static const double weights[][MOST] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0},
    {0, 0.5, 2, 1, 0.25, 0, 1, 1, 3, 1, 1, 1},
};
static const int64_t counts[] = {1, 5, 12, LARGEST};
static const int ranks[] = {1, 2, 3, 5, MOST};

static void prepare(results *r, size_t weight, size_t count, cp_dtype dtype)
{
    memset(r, 0, sizeof *r);
    memcpy(r->weight, weights[weight], sizeof r->weight);
    r->count = counts[count];
    r->dtype = dtype;
}

static void sums_in_rank_order(void **state)
{
    (void)state;
    static results r;
    for (size_t p = 0; p < sizeof ranks / sizeof *ranks; p++)
        for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                prepare(&r, w, c, c % 2 == 0 ? CP_F64 : CP_F32);
                assert_ok(cp_threads_run(ranks[p], body, &r));
                assert_sums(&r, ranks[p]);
                assert_carries(&r, ranks[p]);
                assert_gradients(&r, ranks[p]);
            }
}

int run_collective_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_in_rank_order)};
    return cmocka_run_group_tests_name("collective", tests, NULL, NULL);
}

/* ---- over MPI ---------------------------------------------------------------------------------------------------- */

int compare_collectives_over_mpi(void)
{
    static results threads, processes;
    int failed = 0, rank = cp_mpi_rank(), size = cp_mpi_size();
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
        prepare(&threads, w, 3, CP_F32);
        prepare(&processes, w, 3, CP_F32);
        bool ran =
            cp_threads_run(size, body, &threads) == CP_OK && cp_mpi_run(size, body, &processes) == CP_OK;
        if (!ran || memcmp(processes.sum[rank], threads.sum[rank], sizeof threads.sum[rank]) != 0 ||
            memcmp(processes.received[rank], threads.received[rank], sizeof threads.received[rank]) != 0 ||
            memcmp(processes.returned[rank], threads.returned[rank], sizeof threads.returned[rank]) != 0 ||
            memcmp(processes.gradient[rank], threads.gradient[rank], sizeof threads.gradient[rank]) != 0) {
            fprintf(stderr, "weights %zu: rank %d has other sums over MPI than over threads\n", w, rank);
            failed++;
        }
    }
    return failed;
}

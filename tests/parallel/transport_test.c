/* Transport conformance. Started plainly: all checks over threads, and how threads fail. Started by mpirun: the same
 * checks over all launched processes; with a word, the failure that it names. */
#include "tests/parallel/checks.h"

#include "tests/parallel/failures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64 };

typedef struct job {
    transport_check *check;
    uint64_t seed;
    test_verdict verdict[MOST_RANKS];
} job;

static void body(cp_comm *comm, void *context)
{
    job *work = context;
    work->verdict[cp_comm_rank(comm)] = work->check(comm, work->seed);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void run_over_threads(const transport_check_row *row)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, MOST_RANKS};
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        job *work = calloc(1, sizeof *work);
        work->check = row->check;
        work->seed = seed;
        assert_ok(cp_threads_run(ranks[i], body, work));
        for (int rank = 0; rank < ranks[i]; rank++) {
            if (work->verdict[rank].fails)
                print_error("%s, rank %d of %d: ", row->name, rank, ranks[i]);
            assert_verdict(work->verdict[rank]);
        }
        free(work);
    }
}

static void check_over_threads(void **state)
{
    run_over_threads(*state);
}

/* ---- a group that measures ---------------------------------------------------------------------------------------- */

static void measuring_moves_nothing(void **state)
{
    (void)state;
    cp_comm *comm = cp_comm_measuring(2, 5);
    assert_true(cp_comm_measures(comm));
    assert_int_equal(cp_comm_rank(comm), 2);
    assert_int_equal(cp_comm_size(comm), 5);
    cp_comm_alltoall(comm, NULL, NULL, NULL, NULL);
    cp_comm_allgather(comm, NULL, NULL, NULL, 8);
    cp_comm_gather(comm, NULL, NULL, NULL, 8);
    cp_comm_shift(comm, 3, NULL, 8, 1, NULL, 8);
    cp_comm_barrier(comm);
    assert_int_equal(cp_comm_agree(comm, CP_REFUSED), CP_REFUSED);
    cp_comm_close(comm);
}

static int run_threads(void)
{
    enum { OTHERS = 1 };
    struct CMUnitTest tests[16] = {cmocka_unit_test(measuring_moves_nothing)};
    for (int i = 0; i < transport_check_count; i++)
        tests[OTHERS + i] = (struct CMUnitTest){.name = transport_checks[i].name,
                                                .test_func = check_over_threads,
                                                .initial_state = (void *)&transport_checks[i]};
    size_t count = (size_t)(OTHERS + transport_check_count);
    int failed = _cmocka_run_group_tests("transport", tests, count, NULL, NULL);
    return failed + run_failures_over_threads();
}

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

/* Every process judges for itself: one that fails makes mpirun fail. */
static int run_mpi(void)
{
    int failed = 0;
    for (int size = cp_mpi_size(); size >= 1; size -= size > 2 ? size - 2 : 1)
        for (int i = 0; i < transport_check_count; i++) {
            job *work = calloc(1, sizeof *work);
            work->check = transport_checks[i].check;
            work->seed = 1;
            test_verdict *mine = &work->verdict[cp_mpi_rank()];
            if (cp_mpi_run(size, body, work) != CP_OK)
                *mine = test_failure("%s", cp_error());
            if (mine->fails) {
                fprintf(stderr, "%s, rank %d of %d: %s\n", transport_checks[i].name, cp_mpi_rank(), size,
                        mine->text);
                failed++;
            }
            free(work);
        }
    if (cp_mpi_run(cp_mpi_size() + 1, body, NULL) != CP_BAD_USAGE) {
        fprintf(stderr, "more ranks than processes were not refused\n");
        failed++;
    }
    return failed;
}

int main(int count, char **arguments)
{
    if (!cp_mpi_launched())
        return run_threads();
    if (cp_mpi_start() != CP_OK) {
        fprintf(stderr, "%s\n", cp_error());
        return 1;
    }
    int failed = count > 1 ? run_failure_over_mpi(arguments[1]) : run_mpi();
    cp_mpi_finish();
    return failed > 0;
}

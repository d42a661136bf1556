#include "tests/parallel/failures.h"

#include "harness/parallel/comm.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void sleep_milliseconds(long milliseconds)
{
    nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000},
              NULL);
}

/* ---- what the ranks do -------------------------------------------------------------------------------------------- */

/* Rank 2 fails while the others wait for it, in pairs of groups that know nothing of it. */
static void one_fails(cp_comm *comm, void *context)
{
    (void)context;
    cp_comm_barrier(comm);
    cp_comm *pair = cp_comm_split(comm, cp_comm_rank(comm) / 2, cp_comm_rank(comm) % 2, 2);
    if (cp_comm_rank(comm) == 2) {
        sleep_milliseconds(20);
        cp_fail(CP_BAD_INPUT, "weights.h5: a: not finite");
        cp_comm_fail(comm, CP_BAD_INPUT);
    }
    for (int call = 0; call < 1000000; call++)
        cp_comm_barrier(pair);
}

static void other_function(cp_comm *comm, void *context)
{
    (void)context;
    uint64_t mine = 1, all[64];
    size_t bytes[64];
    for (int rank = 0; rank < cp_comm_size(comm); rank++)
        bytes[rank] = sizeof mine;
    cp_comm_barrier(comm);
    if (cp_comm_rank(comm) == 1)
        cp_comm_allgather(comm, all, bytes, &mine, sizeof mine);
    else
        cp_comm_barrier(comm);
}

static void other_bytes(cp_comm *comm, void *context)
{
    (void)context;
    unsigned char out[64] = {0}, in[64];
    int P = cp_comm_size(comm), rank = cp_comm_rank(comm);
    size_t mine = rank == 1 ? 5 : 8;
    cp_comm_shift(comm, (rank + 1) % P, out, mine, (rank + P - 1) % P, in, 8);
}

static void one_is_late(cp_comm *comm, void *context)
{
    (void)context;
    cp_comm_barrier(comm);
    if (cp_comm_rank(comm) == 1)
        sleep_milliseconds(1000);
    cp_comm_barrier(comm);
}

static void one_returns(cp_comm *comm, void *context)
{
    (void)context;
    cp_comm_barrier(comm);
    if (cp_comm_rank(comm) != 1)
        cp_comm_barrier(comm);
}

static void one_closes(cp_comm *comm, void *context)
{
    (void)context;
    cp_comm *group = cp_comm_split(comm, 0, cp_comm_rank(comm), cp_comm_size(comm));
    int rank = cp_comm_rank(group);
    if (rank == 1)
        cp_comm_close(group);
    else
        cp_comm_barrier(group);
    if (rank == 1)
        cp_comm_barrier(comm);
}

static void one_breaks(cp_comm *comm, void *context)
{
    (void)context;
    cp_comm_barrier(comm);
    cp_check(cp_comm_rank(comm) != 1, "rank %d of %d", cp_comm_rank(comm), cp_comm_size(comm));
    cp_comm_barrier(comm);
}

typedef struct failure {
    const char *name;
    cp_rank_body *body;
    cp_status status;
    const char *words[3];
    const char *timeout; /* seconds; NULL: the usual */
} failure;

static const failure failures[] = {
    {"one_fails", one_fails, CP_BAD_INPUT, {"rank 2: weights.h5: a: not finite"}, NULL},
    {"other_function", other_function, CP_INTERNAL, {"rank 1", "allgather", "barrier (call 2)"}, NULL},
    {"other_bytes", other_bytes, CP_INTERNAL, {"rank 1 sends 5 bytes to rank 2, which expects 8"}, NULL},
    {"one_is_late", one_is_late, CP_INTERNAL, {"has waited 0.25 s in barrier (call 2) for rank 1"}, "0.25"},
    {"one_returns", one_returns, CP_INTERNAL, {"barrier (call 2)", "rank 1"}, NULL},
    {"one_closes", one_closes, CP_INTERNAL, {"barrier (call 1)", "rank 1"}, NULL},
};

enum { FAILURES = sizeof failures / sizeof *failures };

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void set_timeout(const char *seconds)
{
    if (seconds)
        setenv("CPEQ_TIMEOUT", seconds, 1);
    else
        unsetenv("CPEQ_TIMEOUT");
}

static void ends_every_rank(void **state)
{
    const failure *f = *state;
    set_timeout(f->timeout);
    for (int again = 0; again < (f->timeout ? 1 : 5); again++) {
        assert_status(cp_threads_run(4, f->body, NULL), f->status, "rank ");
        for (int i = 0; i < 3 && f->words[i]; i++)
            assert_text_holds(cp_error(), f->words[i]);
    }
    set_timeout(NULL);
}

static void run_breaking(void *argument)
{
    (void)argument;
    (void)cp_threads_run(4, one_breaks, NULL);
}

static void a_broken_invariant_stops_the_job(void **state)
{
    (void)state;
    assert_stops(run_breaking, NULL, "rank 1 of 4");
}

int run_failures_over_threads(void)
{
    struct CMUnitTest tests[FAILURES + 1] = {cmocka_unit_test(a_broken_invariant_stops_the_job)};
    for (int i = 0; i < FAILURES; i++)
        tests[i + 1] = (struct CMUnitTest){
            .name = failures[i].name, .test_func = ends_every_rank, .initial_state = (void *)&failures[i]};
    return _cmocka_run_group_tests("transport failures", tests, FAILURES + 1, NULL, NULL);
}

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

int run_failure_over_mpi(const char *name)
{
    if (strcmp(name, "one_breaks") == 0)
        cp_mpi_run(cp_mpi_size(), one_breaks, NULL);
    for (int i = 0; i < FAILURES; i++)
        if (strcmp(failures[i].name, name) == 0)
            cp_mpi_run(cp_mpi_size(), failures[i].body, NULL);
    fprintf(stderr, "the job went on after %s\n", name);
    return 1;
}

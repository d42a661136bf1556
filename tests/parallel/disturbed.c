#include "tests/parallel/disturbed.h"

#include "base/rng.h"
#include "harness/parallel/transport.h"

#include <time.h>

typedef struct disturber {
    cp_transport_functions functions; /* first: a group's `transport` is the disturber that holds it */
    const cp_transport_functions *real;
    const disturbance *plan;
    cp_comm *all;
    int moves;
    uint64_t waits;
} disturber;

static disturber *disturber_of(const cp_comm *comm)
{
    return (disturber *)(uintptr_t)comm->transport;
}

static void wait_a_little(disturber *d)
{
    enum { LONGEST = 60000 };
    if (d->plan->delays == 0)
        return;
    cp_rng rng = cp_rng_named(d->plan->delays + (uint64_t)d->all->rank, "delay");
    int64_t nanoseconds = cp_rng_below(rng, d->waits++, LONGEST);
    if (nanoseconds % 2 == 0) /* as often none */
        nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

static void disturbed_move(cp_comm *comm, const cp_call *call)
{
    disturber *d = disturber_of(comm);
    if (++d->moves == d->plan->move && d->all->rank == d->plan->failing_rank) {
        cp_fail(CP_BAD_INPUT, "weights.h5: a: not finite");
        (d->real->fail)(comm, CP_BAD_INPUT); /* in parentheses: cmocka has a macro of that name */
    }
    wait_a_little(d);
    d->real->move(comm, call);
    wait_a_little(d);
}

static cp_comm *disturbed_split(cp_comm *comm, int color, int rank, int size, int first)
{
    disturber *d = disturber_of(comm);
    cp_comm *made = d->real->split(comm, color, rank, size, first);
    made->transport = &d->functions;
    return made;
}

static void disturbed_close(cp_comm *comm)
{
    disturber_of(comm)->real->close(comm);
}

static void disturbed_fail(cp_comm *comm, cp_status code)
{
    (disturber_of(comm)->real->fail)(comm, code);
}

void disturbed_body(cp_comm *comm, void *context)
{
    disturbance *plan = context;
    disturber d = {{disturbed_move, disturbed_split, disturbed_close, disturbed_fail},
                   comm->transport,
                   plan,
                   comm,
                   0,
                   0};
    comm->transport = &d.functions;
    world_body(comm, plan->world);
    comm->transport = d.real;
    plan->moves[comm->rank] = d.moves;
}

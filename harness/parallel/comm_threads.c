/* Ranks as threads of one process. A call is two meetings of its group: at the first every rank has said what it sends
 * and expects, and the last to arrive checks all of it; then each rank copies from the others' memory; at the second
 * everybody has copied. One lock serves all groups of a run, so that a failing rank can wake everybody. */
#include "harness/parallel/transport.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { SENTENCE_BYTES = 2048, STACK_BYTES = 8 << 20 };

typedef struct threads_run threads_run;
typedef struct threads_comm threads_comm;

/* Lives, with its members, until all of them have closed it or the run ends: others may look at a member. */
typedef struct threads_group {
    int size;
    threads_comm **member; /* [size] */
    int arrived;
    uint64_t meetings; /* that have taken place */
    int closed;        /* members that have closed it */
    struct threads_group *next;
} threads_group;

typedef struct threads_rank {
    threads_run *run;
    int rank;
    pthread_t thread;
    jmp_buf entry;
    threads_comm *world;
    bool returned;
} threads_rank;

struct threads_comm {
    cp_comm base;
    threads_group *group;
    threads_rank *self;
    const cp_call *call;
    uint64_t meetings; /* at which this rank has arrived */
    bool closed;
};

struct threads_run {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double timeout;
    int openmp_threads; /* of each rank */
    int size;
    threads_rank *ranks;
    threads_group *groups;
    cp_rank_body *body;
    void *context;
    cp_status status; /* the first failure; CP_OK: none */
    int failing;
    char sentence[SENTENCE_BYTES];
};

/* ---- failing ---------------------------------------------------------------------------------------------------- */

static void poison(threads_run *run, int rank, cp_status code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The lock is held. */
static void poison(threads_run *run, int rank, cp_status code, const char *format, ...)
{
    if (run->status != CP_OK)
        return;
    run->status = code;
    run->failing = rank;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->sentence, sizeof run->sentence, format, arguments);
    va_end(arguments);
    pthread_cond_broadcast(&run->changed);
}

/* The lock is held, and given back. */
static _Noreturn void leave(threads_rank *self)
{
    pthread_mutex_unlock(&self->run->lock);
    longjmp(self->entry, 1);
}

static void threads_fail(cp_comm *comm, cp_status code)
{
    threads_rank *self = ((threads_comm *)comm)->self;
    pthread_mutex_lock(&self->run->lock);
    poison(self->run, self->rank, code, "%s", cp_error());
    leave(self);
}

/* ---- meeting ---------------------------------------------------------------------------------------------------- */

static int world_rank(const threads_group *group, int member)
{
    return group->member[member]->self->rank;
}

static void check_pair(threads_run *run, const threads_group *group, int from, int to)
{
    const cp_outgoing *sent = &group->member[from]->call->send[to];
    const cp_incoming *expected = &group->member[to]->call->receive[from];
    const cp_call *call = group->member[to]->call;
    if (sent->used == expected->used && sent->bytes == expected->bytes)
        return;
    char sends[64] = "sends nothing";
    char expects[64] = "nothing";
    if (sent->used)
        snprintf(sends, sizeof sends, "sends %zu bytes", sent->bytes);
    if (expected->used)
        snprintf(expects, sizeof expects, "%zu bytes", expected->bytes);
    poison(run, world_rank(group, to), CP_INTERNAL, "%s, call %llu: rank %d %s to rank %d, which expects %s",
           cp_call_name(call->kind), (unsigned long long)call->number, world_rank(group, from), sends,
           world_rank(group, to), expects);
}

/* Everybody has said what it calls; done by the last, with the lock. */
static void check_calls(threads_run *run, const threads_group *group)
{
    const cp_call *first = group->member[0]->call;
    for (int member = 1; member < group->size; member++) {
        const cp_call *other = group->member[member]->call;
        if (other->kind != first->kind || other->number != first->number) {
            poison(run, world_rank(group, member), CP_INTERNAL,
                   "calls %s (call %llu) while rank %d calls %s (call %llu)", cp_call_name(other->kind),
                   (unsigned long long)other->number, world_rank(group, 0), cp_call_name(first->kind),
                   (unsigned long long)first->number);
            return;
        }
    }
    for (int from = 0; from < group->size; from++)
        for (int to = 0; to < group->size; to++)
            check_pair(run, group, from, to);
}

static struct timespec after(double seconds)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    double whole = floor(seconds);
    time.tv_sec += (time_t)whole;
    time.tv_nsec += (long)((seconds - whole) * 1e9);
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    return time;
}

/* The first member that has not come to the meeting; -1: all have. */
static int absent(const threads_group *group)
{
    for (int member = 0; member < group->size; member++)
        if (group->member[member]->meetings == group->meetings)
            return member;
    return -1;
}

/* Waits for the others' calls. The lock is held. */
static void wait_for_calls(threads_comm *comm, const struct timespec *deadline)
{
    threads_group *group = comm->group;
    threads_run *run = comm->self->run;
    while (group->meetings < comm->meetings && run->status == CP_OK) {
        int missing = absent(group);
        const char *name = cp_call_name(comm->call->kind);
        unsigned long long number = comm->call->number;
        if (group->member[missing]->self->returned || group->member[missing]->closed) {
            poison(run, comm->self->rank, CP_INTERNAL, "waits in %s (call %llu) for rank %d, which has left",
                   name, number, world_rank(group, missing));
        } else if (pthread_cond_timedwait(&run->changed, &run->lock, deadline) == ETIMEDOUT &&
                   group->meetings < comm->meetings) {
            poison(run, comm->self->rank, CP_INTERNAL, "has waited %g s in %s (call %llu) for rank %d",
                   run->timeout, name, number, world_rank(group, absent(group)));
        }
    }
}

/* The lock is held. True: this rank is the last to come. */
static bool arrive(threads_comm *comm)
{
    threads_group *group = comm->group;
    comm->meetings++;
    if (++group->arrived < group->size)
        return false;
    group->arrived = 0;
    return true;
}

/* The lock is held, and given back before the others are woken: they need it. */
static void open_meeting(threads_comm *comm)
{
    threads_run *run = comm->self->run;
    comm->group->meetings++;
    pthread_mutex_unlock(&run->lock);
    pthread_cond_broadcast(&run->changed);
}

static void copy_messages(const threads_comm *comm)
{
    for (int peer = 0; peer < comm->base.size; peer++) {
        const cp_incoming *here = &comm->call->receive[peer];
        const cp_outgoing *there = &comm->group->member[peer]->call->send[comm->base.rank];
        if (here->used && here->bytes > 0)
            memcpy(here->data, there->data, here->bytes);
    }
}

static void threads_move(cp_comm *base, const cp_call *call)
{
    threads_comm *comm = (threads_comm *)base;
    threads_run *run = comm->self->run;
    struct timespec deadline = after(run->timeout);

    pthread_mutex_lock(&run->lock);
    if (run->status != CP_OK)
        leave(comm->self);
    comm->call = call;
    bool last = arrive(comm);
    if (last)
        check_calls(run, comm->group);
    if (last && run->status == CP_OK) {
        open_meeting(comm);
    } else {
        wait_for_calls(comm, &deadline);
        /* A meeting that was opened is gone through also when the run has failed since: others copy from this memory. */
        if (comm->group->meetings < comm->meetings)
            leave(comm->self);
        pthread_mutex_unlock(&run->lock);
    }

    copy_messages(comm);

    pthread_mutex_lock(&run->lock);
    if (arrive(comm)) {
        open_meeting(comm);
        return;
    }
    while (comm->group->meetings < comm->meetings)
        pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static threads_group *open_group(threads_run *run, int size)
{
    threads_group *group = cp_comm_allocate(1, sizeof *group);
    group->size = size;
    group->member = cp_comm_allocate((size_t)size, sizeof(threads_comm *));
    pthread_mutex_lock(&run->lock);
    group->next = run->groups;
    run->groups = group;
    pthread_mutex_unlock(&run->lock);
    return group;
}

/* The lock is held, or nobody runs any more. A group that was being made when the run failed lacks members. */
static void free_group(threads_run *run, threads_group *group)
{
    threads_group **link = &run->groups;
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    for (int member = 0; member < group->size; member++) {
        if (group->member[member])
            cp_comm_release(&group->member[member]->base);
        free(group->member[member]);
    }
    free(group->member);
    free(group);
}

static const cp_transport_functions threads_transport;

static threads_comm *join_group(threads_rank *self, threads_group *group, int rank)
{
    threads_comm *comm = cp_comm_allocate(1, sizeof *comm);
    cp_comm_prepare(&comm->base, &threads_transport, rank, group->size);
    comm->group = group;
    comm->self = self;
    group->member[rank] = comm;
    return comm;
}

/* The first rank makes the group and tells its address. */
static cp_comm *threads_split(cp_comm *base, int color, int rank, int size, int first)
{
    (void)color;
    threads_rank *self = ((threads_comm *)base)->self;
    threads_group *made = rank == 0 ? open_group(self->run, size) : NULL;
    cp_comm_gather_words(base, CP_CALL_SPLIT, (uint64_t)(uintptr_t)made);
    threads_comm *comm = join_group(self, (threads_group *)(uintptr_t)base->words[first], rank);
    cp_comm_gather_words(base, CP_CALL_SPLIT, 0); /* all members have joined */
    return &comm->base;
}

static void threads_close(cp_comm *base)
{
    threads_comm *comm = (threads_comm *)base;
    threads_run *run = comm->self->run;
    pthread_mutex_lock(&run->lock);
    comm->closed = true;
    pthread_cond_broadcast(&run->changed);
    if (++comm->group->closed == comm->group->size)
        free_group(run, comm->group);
    pthread_mutex_unlock(&run->lock);
}

static const cp_transport_functions threads_transport = {
    .move = threads_move, .split = threads_split, .close = threads_close, .fail = threads_fail};

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void *rank_main(void *argument)
{
    threads_rank *self = argument;
    threads_run *run = self->run;
#ifdef _OPENMP
    omp_set_num_threads(run->openmp_threads);
#endif
    if (setjmp(self->entry) == 0)
        run->body(&self->world->base, run->context);
    pthread_mutex_lock(&run->lock);
    self->returned = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static void open_run(threads_run *run, int size, cp_rank_body *body, void *context)
{
    *run = (threads_run){.timeout = cp_comm_timeout(), .openmp_threads = 1, .body = body, .context = context};
#ifdef _OPENMP
    run->openmp_threads = omp_get_max_threads() / size > 1 ? omp_get_max_threads() / size : 1;
#endif
    pthread_mutex_init(&run->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&run->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    run->size = size;
    run->ranks = cp_comm_allocate((size_t)size, sizeof *run->ranks);
    threads_group *world = open_group(run, size);
    for (int rank = 0; rank < size; rank++) {
        threads_rank *self = &run->ranks[rank];
        self->run = run;
        self->rank = rank;
        self->world = join_group(self, world, rank);
    }
}

static void close_run(threads_run *run)
{
    while (run->groups)
        free_group(run, run->groups);
    free(run->ranks);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
}

/* Returns how many threads were started; where the system refuses one, those that run are told to leave. */
static int start_ranks(threads_run *run)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int started = 0;
    int refusal = 0;
    while (started < run->size && refusal == 0) {
        threads_rank *rank = &run->ranks[started];
        refusal = pthread_create(&rank->thread, &attributes, rank_main, rank);
        started += refusal == 0;
    }
    pthread_attr_destroy(&attributes);
    if (refusal != 0) {
        pthread_mutex_lock(&run->lock);
        poison(run, started, CP_INTERNAL, "its thread cannot be started (%s)", strerror(refusal));
        pthread_mutex_unlock(&run->lock);
    }
    return started;
}

cp_status cp_threads_run(int size, cp_rank_body *body, void *context)
{
    cp_check(size >= 1, "%d ranks", size);
    threads_run run;
    open_run(&run, size, body, context);
    int started = start_ranks(&run);
    for (int rank = 0; rank < started; rank++)
        pthread_join(run.ranks[rank].thread, NULL);
    cp_status status = run.status;
    if (status != CP_OK)
        cp_fail(status, "rank %d: %s", run.failing, run.sentence);
    close_run(&run);
    return status;
}

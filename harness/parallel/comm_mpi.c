/* Ranks as processes. A message is a header (kind, number, bytes), which both ends check, and then its bytes in chunks;
 * everything is sent and received without blocking and polled, so that a wait has an end and more ranks than cores
 * work. This is the only file that knows MPI. */
#include "harness/parallel/transport.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { TAG_HEADER = 1, TAG_BYTES = 2 };
enum { HEADER_KIND, HEADER_NUMBER, HEADER_BYTES, HEADER_WORDS };

typedef struct mpi_comm {
    cp_comm base;
    MPI_Comm handle;
    double timeout;
    size_t chunk;          /* bytes of a message at most */
    MPI_Request *requests; /* [2 size] */
    int *peers;            /* [2 size]: whom a request waits for */
    int pending;
    uint64_t (*sent)[HEADER_WORDS]; /* [size] */
    uint64_t (*received)[HEADER_WORDS];
} mpi_comm;

/* ---- failing ---------------------------------------------------------------------------------------------------- */

static _Noreturn void end_job(const char *sentence, int status)
{
    fprintf(stderr, "%s\n", sentence);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, status);
    _Exit(status); /* MPI_Abort may return before this process is ended */
}

static void panic_hook(const char *sentence)
{
    end_job(sentence, cp_exit_status(CP_INTERNAL));
}

static void mpi_fail(cp_comm *comm, cp_status code)
{
    (void)comm;
    cp_fail_within(code, "cpeq: rank %d", cp_mpi_rank());
    end_job(cp_error(), cp_exit_status(code));
}

static int world_rank(const mpi_comm *comm, int rank)
{
    MPI_Group group, world;
    int out = rank;
    MPI_Comm_group(comm->handle, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(group, 1, &rank, world, &out);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return out;
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

/* Polls quickly at first, then lets others have the core, then sleeps. */
static void pause_after(int polls)
{
    enum { QUICK = 50, YIELDING = 1000 };
    if (polls > YIELDING)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    else if (polls > QUICK)
        sched_yield();
}

static _Noreturn void fail_late(mpi_comm *comm, const cp_call *call)
{
    int peer = comm->base.rank;
    for (int n = comm->pending - 1; n >= 0; n--) {
        int done = 0;
        MPI_Request_get_status(comm->requests[n], &done, MPI_STATUS_IGNORE);
        if (!done)
            peer = comm->peers[n];
    }
    cp_fail(CP_INTERNAL, "has waited %g s in %s (call %llu) for rank %d", comm->timeout,
            cp_call_name(call->kind), (unsigned long long)call->number, world_rank(comm, peer));
    cp_comm_fail(&comm->base, CP_INTERNAL);
}

static void wait_for_all(mpi_comm *comm, const cp_call *call)
{
    double begin = MPI_Wtime();
    int done = 0;
    for (int polls = 0; !done; polls += polls < 1 << 20) {
        MPI_Testall(comm->pending, comm->requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            break;
        if (MPI_Wtime() - begin > comm->timeout)
            fail_late(comm, call);
        pause_after(polls);
    }
    comm->pending = 0;
}

static MPI_Request *next_request(mpi_comm *comm, int peer)
{
    comm->peers[comm->pending] = peer;
    return &comm->requests[comm->pending++];
}

/* ---- moving ----------------------------------------------------------------------------------------------------- */

static void exchange_headers(mpi_comm *comm, const cp_call *call)
{
    for (int peer = 0; peer < comm->base.size; peer++) {
        if (call->receive[peer].used && peer != comm->base.rank)
            MPI_Irecv(comm->received[peer], HEADER_WORDS, MPI_UINT64_T, peer, TAG_HEADER, comm->handle,
                      next_request(comm, peer));
        if (call->send[peer].used && peer != comm->base.rank) {
            comm->sent[peer][HEADER_KIND] = call->kind;
            comm->sent[peer][HEADER_NUMBER] = call->number;
            comm->sent[peer][HEADER_BYTES] = call->send[peer].bytes;
            MPI_Isend(comm->sent[peer], HEADER_WORDS, MPI_UINT64_T, peer, TAG_HEADER, comm->handle,
                      next_request(comm, peer));
        }
    }
    wait_for_all(comm, call);
}

static void check_header(mpi_comm *comm, const cp_call *call, int peer)
{
    const uint64_t *header = comm->received[peer];
    if (header[HEADER_KIND] != call->kind || header[HEADER_NUMBER] != call->number) {
        cp_fail(CP_INTERNAL, "calls %s (call %llu) while rank %d calls %s (call %llu)",
                cp_call_name(call->kind), (unsigned long long)call->number, world_rank(comm, peer),
                cp_call_name((cp_call_kind)header[HEADER_KIND]), (unsigned long long)header[HEADER_NUMBER]);
        cp_comm_fail(&comm->base, CP_INTERNAL);
    }
    if (header[HEADER_BYTES] != call->receive[peer].bytes) {
        cp_fail(CP_INTERNAL, "%s, call %llu: rank %d sends %llu bytes to rank %d, which expects %zu bytes",
                cp_call_name(call->kind), (unsigned long long)call->number, world_rank(comm, peer),
                (unsigned long long)header[HEADER_BYTES], cp_mpi_rank(), call->receive[peer].bytes);
        cp_comm_fail(&comm->base, CP_INTERNAL);
    }
}

static size_t left_of(size_t bytes, size_t done, size_t chunk)
{
    size_t left = bytes > done ? bytes - done : 0;
    return left < chunk ? left : chunk;
}

/* The n-th chunks of all messages travel together. A rank in round n meets only chunks of round n, so the rank that is
 * furthest behind can always go on. */
static void exchange_bytes(mpi_comm *comm, const cp_call *call)
{
    size_t done = 0;
    do {
        for (int peer = 0; peer < comm->base.size; peer++) {
            if (peer == comm->base.rank)
                continue;
            size_t in = left_of(call->receive[peer].bytes, done, comm->chunk);
            if (in > 0)
                MPI_Irecv((unsigned char *)call->receive[peer].data + done, (int)in, MPI_BYTE, peer,
                          TAG_BYTES, comm->handle, next_request(comm, peer));
            size_t out = left_of(call->send[peer].bytes, done, comm->chunk);
            if (out > 0)
                MPI_Isend((const unsigned char *)call->send[peer].data + done, (int)out, MPI_BYTE, peer,
                          TAG_BYTES, comm->handle, next_request(comm, peer));
        }
        done += comm->chunk;
        if (comm->pending == 0)
            return;
        wait_for_all(comm, call);
    } while (true);
}

static void copy_own(mpi_comm *comm, const cp_call *call)
{
    const cp_outgoing *sent = &call->send[comm->base.rank];
    const cp_incoming *expected = &call->receive[comm->base.rank];
    cp_check(sent->used == expected->used && sent->bytes == expected->bytes,
             "%s: rank %d sends itself %zu bytes and expects %zu", cp_call_name(call->kind), comm->base.rank,
             sent->bytes, expected->bytes);
    if (expected->bytes > 0)
        memcpy(expected->data, sent->data, expected->bytes);
}

static void mpi_move(cp_comm *base, const cp_call *call)
{
    mpi_comm *comm = (mpi_comm *)base;
    exchange_headers(comm, call);
    for (int peer = 0; peer < base->size; peer++)
        if (call->receive[peer].used && peer != base->rank)
            check_header(comm, call, peer);
    copy_own(comm, call);
    exchange_bytes(comm, call);
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

/* A message longer than an int is counted in chunks; CPEQ_MPI_CHUNK lets a test see several without gigabytes. */
static size_t chunk_bytes(void)
{
    enum { USUAL_BYTES = 1 << 30 };
    const char *given = getenv("CPEQ_MPI_CHUNK");
    long bytes = given ? strtol(given, NULL, 10) : USUAL_BYTES;
    return bytes > 0 && bytes <= USUAL_BYTES ? (size_t)bytes : USUAL_BYTES;
}

static const cp_transport_functions mpi_transport;

static mpi_comm *open_comm(MPI_Comm handle)
{
    mpi_comm *comm = cp_comm_allocate(1, sizeof *comm);
    int rank, size;
    MPI_Comm_rank(handle, &rank);
    MPI_Comm_size(handle, &size);
    cp_comm_prepare(&comm->base, &mpi_transport, rank, size);
    comm->handle = handle;
    comm->timeout = cp_comm_timeout();
    comm->chunk = chunk_bytes();
    comm->requests = cp_comm_allocate(2 * (size_t)size, sizeof *comm->requests);
    comm->peers = cp_comm_allocate(2 * (size_t)size, sizeof *comm->peers);
    comm->sent = cp_comm_allocate((size_t)size, sizeof *comm->sent);
    comm->received = cp_comm_allocate((size_t)size, sizeof *comm->received);
    return comm;
}

static cp_comm *mpi_split(cp_comm *base, int color, int rank, int size, int first)
{
    (void)color; /* MPI's must not be negative; the first member's rank tells groups apart just as well */
    (void)size;
    MPI_Comm handle;
    MPI_Comm_split(((mpi_comm *)base)->handle, first, rank, &handle);
    return &open_comm(handle)->base;
}

static void mpi_close(cp_comm *base)
{
    mpi_comm *comm = (mpi_comm *)base;
    if (comm->handle != MPI_COMM_WORLD)
        MPI_Comm_free(&comm->handle);
    free(comm->requests);
    free(comm->peers);
    free(comm->sent);
    free(comm->received);
    cp_comm_release(base);
    free(comm);
}

static const cp_transport_functions mpi_transport = {
    .move = mpi_move, .split = mpi_split, .close = mpi_close, .fail = mpi_fail};

/* ---- running ---------------------------------------------------------------------------------------------------- */

bool cp_mpi_available(void)
{
    return true;
}

/* The ranks of one host share its cores, unless the launcher or OMP_NUM_THREADS has said otherwise. */
static void share_cores(void)
{
#ifdef _OPENMP
    MPI_Comm host;
    int ranks;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks);
    MPI_Comm_free(&host);
    if (!getenv("OMP_NUM_THREADS"))
        omp_set_num_threads(omp_get_num_procs() / ranks > 1 ? omp_get_num_procs() / ranks : 1);
#endif
}

cp_status cp_mpi_start(void)
{
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return cp_fail(CP_INTERNAL, "MPI does not start");
    cp_set_panic_hook(panic_hook);
    if (provided < MPI_THREAD_FUNNELED)
        return cp_fail(CP_INTERNAL, "this MPI library does not allow threads beside the one that calls it");
    share_cores();
    return CP_OK;
}

void cp_mpi_finish(void)
{
    cp_set_panic_hook(NULL);
    MPI_Finalize();
}

int cp_mpi_rank(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int cp_mpi_size(void)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

/* Everybody, those that have nothing to do included. A process without an end (`bounded` false) is one that cannot know
 * how long the others work. */
static void meet_world(bool bounded)
{
    MPI_Request request;
    double begin = MPI_Wtime(), timeout = cp_comm_timeout();
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int polls = 0; !done; polls += polls < 1 << 20) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done && bounded && MPI_Wtime() - begin > timeout) {
            cp_fail(CP_INTERNAL, "cpeq: rank %d: has waited %g s for the other processes of this launch",
                    cp_mpi_rank(), timeout);
            end_job(cp_error(), cp_exit_status(CP_INTERNAL));
        }
        if (!done)
            pause_after(polls);
    }
}

cp_status cp_mpi_run(int size, cp_rank_body *body, void *context)
{
    cp_check(size >= 1, "%d ranks", size);
    if (size > cp_mpi_size())
        return cp_fail(CP_BAD_USAGE, "%d ranks are wanted, but only %d processes were launched", size,
                       cp_mpi_size());
    bool works = cp_mpi_rank() < size;
    MPI_Comm handle = MPI_COMM_WORLD;
    if (size < cp_mpi_size()) {
        meet_world(true); /* a split waits without an end */
        MPI_Comm_split(MPI_COMM_WORLD, works ? 0 : MPI_UNDEFINED, cp_mpi_rank(), &handle);
    }
    if (works) {
        mpi_comm *comm = open_comm(handle);
        body(&comm->base, context);
        cp_comm_end(&comm->base);
        cp_comm_close(&comm->base);
    }
    meet_world(works);
    return CP_OK;
}

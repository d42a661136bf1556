#include "harness/parallel/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cp_call_name(cp_call_kind kind)
{
    static const char *const names[CP_CALL_KINDS] = {"alltoall", "allgather", "gather", "shift",
                                                     "barrier",  "agree",     "split",  "its end"};
    return kind < CP_CALL_KINDS ? names[kind] : "an unknown function";
}

void *cp_comm_allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);
    cp_check(memory, "no memory for %zu times %zu bytes", count, bytes);
    return memory;
}

void cp_comm_prepare(cp_comm *comm, const cp_transport_functions *transport, int rank, int size)
{
    cp_check(size >= 1 && rank >= 0 && rank < size, "rank %d of %d", rank, size);
    *comm = (cp_comm){.transport = transport,
                      .rank = rank,
                      .size = size,
                      .send = cp_comm_allocate((size_t)size, sizeof *comm->send),
                      .receive = cp_comm_allocate((size_t)size, sizeof *comm->receive),
                      .words = cp_comm_allocate((size_t)size, sizeof *comm->words)};
}

void cp_comm_release(cp_comm *comm)
{
    free(comm->send);
    free(comm->receive);
    free(comm->words);
}

int cp_comm_rank(const cp_comm *comm)
{
    return comm->rank;
}

int cp_comm_size(const cp_comm *comm)
{
    return comm->size;
}

bool cp_comm_measures(const cp_comm *comm)
{
    return comm->transport == NULL;
}

/* The next call: who sends and receives what is filled in by its caller. */
static void clear(cp_comm *comm)
{
    for (int peer = 0; peer < comm->size; peer++) {
        comm->send[peer] = (cp_outgoing){0};
        comm->receive[peer] = (cp_incoming){0};
    }
}

static void deliver(cp_comm *comm, cp_call_kind kind)
{
    cp_call call = {.kind = kind, .number = ++comm->calls, .send = comm->send, .receive = comm->receive};
    comm->transport->move(comm, &call);
}

/* Pieces lie one after the other, in rank order. */
static void receive_pieces(cp_comm *comm, void *receive, const size_t *bytes)
{
    unsigned char *at = receive;
    for (int peer = 0; peer < comm->size; peer++) {
        comm->receive[peer] = (cp_incoming){.data = at, .bytes = bytes[peer], .used = true};
        at = bytes[peer] > 0 ? at + bytes[peer] : at;
    }
}

static void send_to_all(cp_comm *comm, const void *send, size_t bytes)
{
    for (int peer = 0; peer < comm->size; peer++)
        comm->send[peer] = (cp_outgoing){.data = send, .bytes = bytes, .used = true};
}

void cp_comm_alltoall(cp_comm *comm, void *receive, const size_t *receive_bytes, const void *send,
                      const size_t *send_bytes)
{
    if (cp_comm_measures(comm))
        return;
    const unsigned char *at = send;
    for (int peer = 0; peer < comm->size; peer++) {
        comm->send[peer] = (cp_outgoing){.data = at, .bytes = send_bytes[peer], .used = true};
        at = send_bytes[peer] > 0 ? at + send_bytes[peer] : at;
    }
    receive_pieces(comm, receive, receive_bytes);
    deliver(comm, CP_CALL_ALLTOALL);
}

void cp_comm_allgather(cp_comm *comm, void *receive, const size_t *receive_bytes, const void *send,
                       size_t send_bytes)
{
    if (cp_comm_measures(comm))
        return;
    send_to_all(comm, send, send_bytes);
    receive_pieces(comm, receive, receive_bytes);
    deliver(comm, CP_CALL_ALLGATHER);
}

void cp_comm_gather(cp_comm *comm, void *receive, const size_t *receive_bytes, const void *send,
                    size_t send_bytes)
{
    if (cp_comm_measures(comm))
        return;
    clear(comm);
    if (comm->rank == 0)
        receive_pieces(comm, receive, receive_bytes);
    comm->send[0] = (cp_outgoing){.data = send, .bytes = send_bytes, .used = true};
    deliver(comm, CP_CALL_GATHER);
}

void cp_comm_shift(cp_comm *comm, int to, const void *send, size_t send_bytes, int from, void *receive,
                   size_t receive_bytes)
{
    cp_check(to >= -1 && to < comm->size && from >= -1 && from < comm->size, "to rank %d, from rank %d of %d",
             to, from, comm->size);
    if (cp_comm_measures(comm))
        return;
    clear(comm);
    if (to >= 0)
        comm->send[to] = (cp_outgoing){.data = send, .bytes = send_bytes, .used = true};
    if (from >= 0)
        comm->receive[from] = (cp_incoming){.data = receive, .bytes = receive_bytes, .used = true};
    deliver(comm, CP_CALL_SHIFT);
}

static void meet(cp_comm *comm, cp_call_kind kind)
{
    if (cp_comm_measures(comm))
        return;
    send_to_all(comm, NULL, 0);
    for (int peer = 0; peer < comm->size; peer++)
        comm->receive[peer] = (cp_incoming){.used = true};
    deliver(comm, kind);
}

void cp_comm_barrier(cp_comm *comm)
{
    meet(comm, CP_CALL_BARRIER);
}

void cp_comm_end(cp_comm *comm)
{
    meet(comm, CP_CALL_END);
}

void cp_comm_gather_words(cp_comm *comm, cp_call_kind kind, uint64_t mine)
{
    send_to_all(comm, &mine, sizeof mine);
    for (int peer = 0; peer < comm->size; peer++)
        comm->receive[peer] =
            (cp_incoming){.data = &comm->words[peer], .bytes = sizeof comm->words[peer], .used = true};
    deliver(comm, kind);
}

cp_status cp_comm_agree(cp_comm *comm, cp_status mine)
{
    enum { SENTENCE_BYTES = 2048 };
    if (cp_comm_measures(comm))
        return mine;
    cp_comm_gather_words(comm, CP_CALL_AGREE, (uint64_t)mine);
    int speaker = 0;
    for (int peer = 1; peer < comm->size; peer++)
        if (comm->words[peer] > comm->words[speaker])
            speaker = peer;
    cp_status worst = (cp_status)comm->words[speaker];
    if (worst == CP_OK)
        return CP_OK;
    char said[SENTENCE_BYTES] = "", heard[SENTENCE_BYTES] = "";
    snprintf(said, sizeof said, "%s", cp_error());
    clear(comm);
    if (comm->rank == speaker)
        send_to_all(comm, said, sizeof said);
    comm->receive[speaker] = (cp_incoming){.data = heard, .bytes = sizeof heard, .used = true};
    deliver(comm, CP_CALL_AGREE);
    return cp_fail(worst, "%s", heard);
}

cp_comm *cp_comm_split(cp_comm *comm, int color, int rank, int size)
{
    if (cp_comm_measures(comm))
        return cp_comm_measuring(rank, size);
    cp_comm_gather_words(comm, CP_CALL_SPLIT, (uint64_t)(int64_t)color);
    int before = 0, members = 0, first = comm->rank;
    for (int peer = comm->size - 1; peer >= 0; peer--)
        if (comm->words[peer] == (uint64_t)(int64_t)color) {
            first = peer;
            before += peer < comm->rank;
            members++;
        }
    cp_check(before == rank && members == size, "rank %d becomes rank %d of %d in its subgroup, not %d of %d",
             comm->rank, before, members, rank, size);
    return comm->transport->split(comm, color, rank, size, first);
}

cp_comm *cp_comm_measuring(int rank, int size)
{
    cp_comm *comm = cp_comm_allocate(1, sizeof *comm);
    cp_comm_prepare(comm, NULL, rank, size);
    return comm;
}

void cp_comm_close(cp_comm *comm)
{
    if (!cp_comm_measures(comm)) {
        comm->transport->close(comm);
        return;
    }
    cp_comm_release(comm);
    free(comm);
}

_Noreturn void cp_comm_fail(cp_comm *comm, cp_status code)
{
    if (!cp_comm_measures(comm))
        comm->transport->fail(comm, code);
    cp_panic(__FILE__, __LINE__, "a run", "%s", cp_error());
}

double cp_comm_timeout(void)
{
    enum { USUAL_SECONDS = 300 };
    const char *given = getenv("CPEQ_TIMEOUT");
    double seconds = given ? strtod(given, NULL) : 0;
    return seconds > 0 ? seconds : USUAL_SECONDS;
}

bool cp_mpi_launched(void)
{
    /* Open MPI, MPICH and Intel MPI and srun --mpi=pmi2, srun --mpi=pmix and PRRTE, MVAPICH */
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK",
                                            "MV2_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return true;
    return false;
}

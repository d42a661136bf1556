/* What a transport has to do; comm.c makes every function of comm.h from it. Included by comm*.c alone. */
#ifndef CPEQ_HARNESS_PARALLEL_TRANSPORT_H
#define CPEQ_HARNESS_PARALLEL_TRANSPORT_H

#include "harness/parallel/comm.h"

#include <stdint.h>

typedef enum cp_call_kind {
    CP_CALL_ALLTOALL,
    CP_CALL_ALLGATHER,
    CP_CALL_GATHER,
    CP_CALL_SHIFT,
    CP_CALL_BARRIER,
    CP_CALL_AGREE,
    CP_CALL_SPLIT,
    CP_CALL_END, /* the body has returned */
    CP_CALL_KINDS
} cp_call_kind;

const char *cp_call_name(cp_call_kind kind);

/* What goes to, or comes from, one rank. Zero bytes are a message too; not `used`: there is none. */
typedef struct cp_outgoing {
    const void *data;
    size_t bytes;
    bool used;
} cp_outgoing;

typedef struct cp_incoming {
    void *data;
    size_t bytes;
    bool used;
} cp_incoming;

typedef struct cp_call {
    cp_call_kind kind;
    uint64_t number;            /* of this group's calls, from 1 */
    const cp_outgoing *send;    /* [size] */
    const cp_incoming *receive; /* [size] */
} cp_call;

typedef struct cp_transport_functions {
    /* Delivers every message of the call. Returns when all have arrived and the memory of those that were sent may be
     * used again; where ranks disagree about kind, number or bytes, the run fails. */
    void (*move)(cp_comm *comm, const cp_call *call);
    /* A group of `size` ranks, of which this one is `rank` and `first` (its rank in comm) is the first. */
    cp_comm *(*split)(cp_comm *comm, int color, int rank, int size, int first);
    void (*close)(cp_comm *comm);
    void (*fail)(cp_comm *comm, cp_status code); /* does not return */
} cp_transport_functions;

/* The beginning of every transport's own group. */
struct cp_comm {
    const cp_transport_functions *transport; /* NULL: measuring */
    int rank, size;
    uint64_t calls;
    cp_outgoing *send; /* [size], for one call at a time */
    cp_incoming *receive;
    uint64_t *words; /* [size] */
};

/* Fills the beginning; its arrays are freed by cp_comm_release. Stops the job where there is no memory. */
void cp_comm_prepare(cp_comm *comm, const cp_transport_functions *transport, int rank, int size);
void cp_comm_release(cp_comm *comm);

/* One word of every rank, into comm->words. */
void cp_comm_gather_words(cp_comm *comm, cp_call_kind kind, uint64_t mine);

/* Zeroed memory; stops the job where there is none. */
void *cp_comm_allocate(size_t count, size_t bytes);

/* Waits for every rank of the group at the end of a body: a rank that is still inside a call is named. */
void cp_comm_end(cp_comm *comm);

#endif

/* Moves bytes within a group of ranks and never computes.
 *
 * Every function that takes a group is collective over it: all of its ranks call the same functions in the same
 * order. Each call carries its kind and its number; ranks that disagree are named and the job ends. Calls do not
 * return on failure: with threads a failing rank poisons its run and every rank leaves to the entry point, with MPI
 * the job is aborted. A wait that lasts longer than cp_comm_timeout seconds is a failure. */
#ifndef CPEQ_HARNESS_PARALLEL_COMM_H
#define CPEQ_HARNESS_PARALLEL_COMM_H

#include "base/status.h"

typedef struct cp_comm cp_comm;

int cp_comm_rank(const cp_comm *comm);
int cp_comm_size(const cp_comm *comm);

/* Rank r's piece for rank p is the p-th of `send`; pieces lie one after the other in rank order on both sides.
 * [size] bytes each. send and receive do not overlap. */
void cp_comm_alltoall(cp_comm *comm, void *receive, const size_t *receive_bytes, const void *send,
                      const size_t *send_bytes);

/* Every rank's piece to every rank, in rank order. [size] receive_bytes. */
void cp_comm_allgather(cp_comm *comm, void *receive, const size_t *receive_bytes, const void *send,
                       size_t send_bytes);

/* Every rank's piece to rank 0, in rank order; `receive` and `receive_bytes` matter there only. */
void cp_comm_gather(cp_comm *comm, void *receive, const size_t *receive_bytes, const void *send,
                    size_t send_bytes);

/* Sends to one rank and receives from another at the same time; -1: nobody. */
void cp_comm_shift(cp_comm *comm, int to, const void *send, size_t send_bytes, int from, void *receive,
                   size_t receive_bytes);

void cp_comm_barrier(cp_comm *comm);

/* The worst status of all ranks, with the sentence of the lowest rank that has it: the same on every rank. Called
 * before a phase in which one rank could fail alone. */
cp_status cp_comm_agree(cp_comm *comm, cp_status mine);

/* The subgroup of ranks that pass the same color, ordered by their rank here; this one must become `rank` of `size`,
 * which a measuring group believes. Freed by cp_comm_close. */
cp_comm *cp_comm_split(cp_comm *comm, int color, int rank, int size);
void cp_comm_close(cp_comm *comm);

/* A group that moves nothing: for memory plans. Freed by cp_comm_close. */
cp_comm *cp_comm_measuring(int rank, int size);
bool cp_comm_measures(const cp_comm *comm);

/* This rank cannot go on: ends every rank of the run with this thread's cp_error(). Not collective. */
_Noreturn void cp_comm_fail(cp_comm *comm, cp_status code);

/* ---- entry points ----------------------------------------------------------------------------------------------- */

/* What a rank does. It owns only arena memory of `context`; files belong to the caller. */
typedef void cp_rank_body(cp_comm *comm, void *context);

/* Runs `body` on `size` threads of this process and waits for all. On failure the sentence of the first failing
 * rank, prefixed with its number, is cp_error() of the caller. */
cp_status cp_threads_run(int size, cp_rank_body *body, void *context);

/* MPI. cp_mpi_start is called once, before anything else, and only when cp_mpi_launched() says that a launcher
 * (mpirun, srun, …) has started this process; it sets the panic hook. */
bool cp_mpi_available(void); /* built in */
bool cp_mpi_launched(void);
cp_status cp_mpi_start(void); /* CP_REFUSED where MPI is not built in */
void cp_mpi_finish(void);
int cp_mpi_rank(void); /* of all launched processes */
int cp_mpi_size(void);

/* Runs `body` on the first `size` launched processes; the others wait. The status and its sentence are the same on
 * every process. Collective over all of them. */
cp_status cp_mpi_run(int size, cp_rank_body *body, void *context);

/* Seconds after which a wait is a failure: CPEQ_TIMEOUT of the environment, else 300. */
double cp_comm_timeout(void);

#endif

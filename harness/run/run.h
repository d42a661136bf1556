/* One run of the reference, from a fixture to a source: unsharded or sharded, over threads or MPI. */
#ifndef CPEQ_HARNESS_RUN_RUN_H
#define CPEQ_HARNESS_RUN_RUN_H

#include "harness/files/fixture.h"
#include "harness/parallel/decisions.h"
#include "harness/parallel/exchange.h"
#include "reference/program.h"

typedef enum cp_transport { CP_TRANSPORT_THREADS, CP_TRANSPORT_MPI, CP_TRANSPORTS } cp_transport;

typedef struct cp_run_options {
    int P; /* ranks of a data-parallel group */
    int D; /* groups; 0: one. Rank d·P + r is the r-th of group d */
    int M; /* micro-batches of a batch that has none of its own; 0: one */
    cp_exchange_spec exchange;
    cp_layout_spec layout;
    cp_dtype
        dtype; /* float64, float32 or bfloat16 (float32 memory, rounded at the points of reference/ops.h) */
    uint64_t noise; /* not 0: a seed; rounding is disturbed at the same points, see reference/rounding.h */
    cp_attention_form attention;
    cp_transport transport;
    cp_matmul matmul;
    bool recompute;         /* registers inside a layer live only while it runs; the backward runs it again */
    bool trace;             /* give the registers that cross segments, and their gradients, too */
    cp_decisions decisions; /* all zero: right */
} cp_run_options;

/* D·P. */
int cp_run_ranks(const cp_run_options *options);

/* A model is a fixture made ready to run: its program, its weights by parameter, its batch checked. Read-only once it
 * is open, and shared by all ranks of a process. Borrows the fixture. */
typedef struct cp_model cp_model;

/* CP_REFUSED: a family or an option that the reference does not know, or a batch that means nothing.
 * CP_BAD_INPUT: weights that do not fit the configuration (missing, extra, of another shape). */
cp_status cp_model_open(cp_model **out, const cp_fixture *fixture);
void cp_model_close(cp_model *model);
const cp_program *cp_model_program(const cp_model *model);

/* Everything that can be refused before a run starts, with the sentence: the exchange on these heads, the layout, the
 * dtype, a decision that means nothing here. */
cp_status cp_run_check(const cp_model *model, const cp_run_options *options);

/* Of that, whether the form of attention can have these masks. */
cp_status cp_run_check_form(const cp_run_options *options, const cp_mask *masks, int count);

/* Runs. With MPI it is collective over all launched processes; the status is the same on each of them, and the results
 * are on process 0 alone (*out is NULL elsewhere). The whole source is joined from the ranks' parts. */
cp_status cp_run_whole(cp_source **out, const cp_model *model, const cp_run_options *options);

/* The same, as one source a rank, in rank order, each declared as a rank's dump (--per-rank). `parts` has room for
 * cp_run_ranks. */
cp_status cp_run_parts(cp_source **parts, const cp_model *model, const cp_run_options *options);

/* With MPI: the worst status of all processes with its sentence, the same on each of them; else `mine`. Collective: it
 * comes after whatever one process alone could fail in. */
cp_status cp_run_agree(cp_transport transport, cp_status mine);

/* Bytes that one rank's step needs, from the shape run, without running. */
typedef struct cp_run_memory {
    size_t weights; /* shared by the ranks of a process */
    size_t step;    /* this rank's activations, gradients and scratch */
} cp_run_memory;
cp_status cp_run_measure(cp_run_memory *memory, const cp_model *model, const cp_run_options *options,
                         int rank);

/* Who sees whom in a layer, [B,T,T] of the batch's own length, 1 = visible, put together from the predicates of the
 * ranks that own the queries. The exchange does not matter and is not checked. */
void cp_run_mask(const cp_model *model, const cp_run_options *options, int64_t layer, uint8_t *out);

/* The same of the unsharded right run: what `info --mask` draws and what is held against transformers' masks. */
void cp_model_mask(const cp_model *model, int64_t layer, uint8_t *out);

#endif

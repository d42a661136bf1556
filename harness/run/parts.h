/* The ranks' results as sources. For this room. */
#ifndef CPEQ_HARNESS_RUN_PARTS_H
#define CPEQ_HARNESS_RUN_PARTS_H

#include "harness/run/rank.h"

/* Ranks that share memory until the last of their sources is closed. */
typedef struct cp_ranks {
    int W, references;
    cp_rank *rank;  /* [W] */
    cp_arena bytes; /* growing: what came from other processes, and the parts' declarations */
} cp_ranks;

cp_status cp_ranks_open(cp_ranks **out, int W);
void cp_ranks_release(cp_ranks *ranks);

/* One rank's results, by name, in the order of cp_results_count. */
typedef struct cp_results {
    int count;
    cp_memory_tensor *tensors;
    cp_declaration declaration;
} cp_results;

/* Views of what `rank` holds: loss, token_loss, logits, gradients, and the trace where it is asked for. Everything in
 * ranks->bytes. */
cp_results cp_results_of(cp_ranks *ranks, int rank, const cp_model *model, const cp_run_options *options);

/* With MPI: brings every rank's results to rank 0, into its ranks->bytes, where `all` [W] is filled. Gradients of
 * parameters are the same bits on every rank and stay where they are unless `replicas`. Collective. */
void cp_results_gather(cp_results *all, const cp_results *mine, cp_ranks *ranks, cp_comm *comm,
                       bool replicas);

/* A source over results that keeps `ranks` alive. */
cp_status cp_results_source(cp_source **out, const cp_results *results, cp_ranks *ranks);

#endif

/* What one rank does in one run, and what it leaves behind. For this room. */
#ifndef CPEQ_HARNESS_RUN_RANK_H
#define CPEQ_HARNESS_RUN_RANK_H

#include "harness/parallel/mesh.h"
#include "harness/parallel/shard.h"
#include "harness/run/model.h"
#include "reference/network.h"

/* One micro-batch of a data-parallel group. */
typedef struct cp_micro_plan {
    int64_t *place; /* [layout.B]: where each of its rows stands among the group's */
    cp_layout layout;
    cp_tokens tokens;
    cp_visibility *visibility; /* [masks] */
} cp_micro_plan;

/* A rank's plans: everything that is decided before a number is computed, on the whole batch. */
typedef struct cp_rank_plan {
    const cp_program *program; /* whose steps run */
    cp_batch_plan batch;
    int group, rank; /* data-parallel group; rank in it */
    int64_t B;
    int64_t *rows;        /* [B]: the group's, ascending */
    cp_layout layout;     /* of these rows */
    cp_micro_plan *micro; /* [batch.M] */
    cp_loss_plan loss;
    cp_reduce_plan reduce;
    cp_dump_plan dump;
} cp_rank_plan;

/* What a step leaves behind, [B,S,…] of the group's rows; CP_NONE where nobody asks for it. With one micro-batch it is the
 * network's own memory. */
typedef struct cp_rank_outputs {
    cp_tensor token_loss;
    cp_tensor *values, *gradients; /* [registers] */
    cp_tensor *weight_gradients;   /* [parameters] */
    double balance;                /* of the experts */
} cp_rank_outputs;

typedef struct cp_rank {
    cp_arena plans; /* growing */
    cp_arena arena; /* of the step */
    cp_rank_plan plan;
    cp_rank_outputs outputs;
    double loss;
    size_t need; /* bytes of the step, as measured */
} cp_rank;

/* How a run's numbers lie in memory, and how operations treat them. */
cp_dtype cp_run_storage(const cp_run_options *options);
cp_precision cp_run_precision(const cp_run_options *options);

/* Makes the plans of the world's `rank` in self->plans. */
void cp_rank_plan_make(cp_rank *self, const cp_model *model, const cp_run_options *options, int rank);

/* Measures the step of `rank` with the shape table; self->need is filled. */
void cp_rank_measure(cp_rank *self, const cp_model *model, const cp_run_options *options, int rank);

/* Opens the groups of the run in `world`, which cp_mesh_close ends. Collective. */
void cp_rank_join(cp_mesh *mesh, cp_comm *world, const cp_model *model, const cp_run_options *options);

/* Plans, measures and opens the arena; a rank without memory ends them all. Not collective otherwise. */
void cp_rank_open(cp_rank *self, const cp_model *model, const cp_run_options *options, const cp_mesh *mesh);

/* Runs the step; a further one starts from scratch in the same memory. Collective over the mesh's world. */
void cp_rank_step(cp_rank *self, const cp_model *model, const cp_run_options *options,
                  const cp_tensor *weights, const cp_mesh *mesh);

/* Frees what the rank holds; safe for one that never ran. */
void cp_rank_close(cp_rank *self);

#endif

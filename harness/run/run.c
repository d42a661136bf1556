#include "harness/run/run.h"

#include "harness/run/parts.h"

#include <stdlib.h>

int cp_run_ranks(const cp_run_options *options)
{
    return (options->D > 1 ? options->D : 1) * options->P;
}

/* ---- what can be refused ---------------------------------------------------------------------------------------- */

cp_status cp_run_check_form(const cp_run_options *options, const cp_mask *masks, int count)
{
    if (options->attention == CP_ATTENTION_VARLEN &&
        options->decisions.masks.softcap_order != CP_SOFTCAP_THEN_MASK)
        return cp_fail(CP_REFUSED, "softcap_order=mask_then_cap: varlen has no mask that could be capped");
    for (int m = 0; options->attention == CP_ATTENTION_VARLEN && m < count; m++)
        if (masks[m].chunk)
            return cp_fail(CP_REFUSED,
                           "chunked attention needs the dense mask: varlen knows causal order, windows and "
                           "documents alone");
    return CP_OK;
}

cp_status cp_run_check(const cp_model *model, const cp_run_options *options)
{
    const cp_program *program = model->program;
    if (options->dtype != CP_F64 && options->dtype != CP_F32 && options->dtype != CP_BF16)
        return cp_fail(CP_REFUSED, "the reference computes in float64, float32 and bfloat16, not in %s",
                       cp_dtype_name(options->dtype));
    CP_TRY(cp_exchange_check(&options->exchange, options->P, program->H, program->K));
    CP_TRY(cp_run_check_form(options, program->masks, program->mask_count));
    CP_TRY(cp_layout_check(&options->layout, options->P, model->fixture->batch.T));
    const cp_batch *batch = &model->fixture->batch;
    CP_TRY(cp_batch_plan_check(batch, options->D, options->M, model->fixture->path));
    int micros = cp_batch_micros(batch, options->M);
    if (program->balance.given && (options->D > 1 || micros > 1))
        return cp_fail(CP_REFUSED,
                       "%s: the balancing loss of experts (output_router_logits) is one of all tokens at "
                       "once, which data-parallel groups and micro-batches do not see",
                       model->fixture->path);
    cp_setting setting = {.exchange = cp_exchange_settled(&options->exchange, options->P, program->H),
                          .layout = options->layout,
                          .P = options->P,
                          .D = cp_run_ranks(options) / options->P,
                          .M = micros};
    return cp_decisions_check(&options->decisions, &setting);
}

/* ---- a run ------------------------------------------------------------------------------------------------------ */

typedef struct run {
    const cp_model *model;
    const cp_run_options *options;
    const cp_tensor *weights;
    cp_ranks *ranks;
    cp_results *results; /* [W] */
    bool replicas;       /* the ranks' own gradients are asked for */
} run;

static void rank_body(cp_comm *comm, void *context)
{
    run *self = context;
    int rank = cp_comm_rank(comm);
    cp_mesh mesh;
    cp_rank_join(&mesh, comm, self->model, self->options);
    cp_rank_open(&self->ranks->rank[rank], self->model, self->options, &mesh);
    cp_rank_step(&self->ranks->rank[rank], self->model, self->options, self->weights, &mesh);
    cp_mesh_close(&mesh);
    if (self->options->transport == CP_TRANSPORT_MPI) {
        cp_results mine = cp_results_of(self->ranks, rank, self->model, self->options);
        cp_results_gather(self->results, &mine, self->ranks, comm, self->replicas);
    }
}

static cp_status run_ranks(run *self)
{
    const cp_run_options *options = self->options;
    if (options->transport == CP_TRANSPORT_MPI)
        return cp_mpi_run(cp_run_ranks(options), rank_body, self);
    CP_TRY(cp_threads_run(cp_run_ranks(options), rank_body, self));
    for (int r = 0; r < cp_run_ranks(options); r++)
        self->results[r] = cp_results_of(self->ranks, r, self->model, options);
    return CP_OK;
}

static void agree_body(cp_comm *comm, void *context)
{
    cp_status *status = context;
    *status = cp_comm_agree(comm, *status);
}

cp_status cp_run_agree(cp_transport transport, cp_status mine)
{
    if (transport != CP_TRANSPORT_MPI)
        return mine;
    CP_TRY(cp_mpi_run(cp_mpi_size(), agree_body, &mine));
    return mine;
}

static bool holds_results(const cp_run_options *options)
{
    return options->transport == CP_TRANSPORT_THREADS || cp_mpi_rank() == 0;
}

static cp_status open_parts(cp_source **parts, const run *self)
{
    for (int r = 0; r < cp_run_ranks(self->options); r++) {
        cp_status status = cp_results_source(&parts[r], &self->results[r], self->ranks);
        if (status != CP_OK) {
            while (--r >= 0)
                cp_source_close(parts[r]);
            return status;
        }
    }
    return CP_OK;
}

static cp_status run_parts(cp_source **parts, const cp_model *model, const cp_run_options *options,
                           bool replicas)
{
    CP_TRY(cp_run_check(model, options));
    run self = {.model = model, .options = options, .replicas = replicas};
    size_t W = (size_t)cp_run_ranks(options);
    for (size_t r = 0; r < W; r++)
        parts[r] = NULL;
    cp_status status = cp_model_weights(&self.weights, model, options->dtype);
    if (status == CP_OK)
        status = cp_ranks_open(&self.ranks, (int)W);
    status = cp_run_agree(options->transport, status); /* nobody begins what another cannot */
    if (status == CP_OK) {
        self.results = cp_arena_take(&self.ranks->bytes, W * sizeof *self.results);
        status = run_ranks(&self);
    }
    if (status == CP_OK && holds_results(options))
        status = open_parts(parts, &self);
    cp_ranks_release(self.ranks);
    return cp_run_agree(options->transport, status);
}

cp_status cp_run_parts(cp_source **parts, const cp_model *model, const cp_run_options *options)
{
    return run_parts(parts, model, options, true);
}

cp_status cp_run_whole(cp_source **out, const cp_model *model, const cp_run_options *options)
{
    *out = NULL;
    size_t W = (size_t)cp_run_ranks(options);
    cp_source **parts = calloc(W, sizeof *parts);
    cp_check(parts, "no memory for %zu pointers", W);
    cp_status status = run_parts(parts, model, options, false);
    if (status == CP_OK && parts[0])
        status = cp_source_join(out, parts, W, model->fixture->batch.B, model->fixture->batch.T);
    free(parts);
    return cp_run_agree(options->transport, status);
}

/* ---- plans without a run ---------------------------------------------------------------------------------------- */

cp_status cp_run_measure(cp_run_memory *memory, const cp_model *model, const cp_run_options *options,
                         int rank)
{
    CP_TRY(cp_run_check(model, options));
    cp_rank self = {0};
    cp_rank_plan_make(&self, model, options, rank);
    cp_rank_measure(&self, model, options, rank);
    *memory = (cp_run_memory){.step = self.need};
    for (int p = 0; p < model->program->parameter_count; p++) {
        const cp_parameter *parameter = &model->program->parameters[p];
        memory->weights += cp_tensor_bytes(
            cp_tensor_view(NULL, cp_run_storage(options), parameter->dims, parameter->extent));
    }
    cp_rank_close(&self);
    return CP_OK;
}

/* The queries that a rank owns in one micro-batch. */
static void draw_mask(uint8_t *out, const cp_rank_plan *plan, const cp_micro_plan *micro, int mask, int64_t T)
{
    const cp_tokens *tokens = &micro->tokens;
    for (int64_t b = 0; b < tokens->B; b++)
        for (int64_t i = 0; i < tokens->T; i++)
            for (int64_t j = 0; micro->layout.owner[b * tokens->T + i] == plan->rank && j < tokens->T; j++) {
                int64_t row = plan->rows[micro->place[b]];
                int64_t query = tokens->home[b * tokens->T + i];
                int64_t key = tokens->home[b * tokens->T + j];
                if (query >= 0 && key >= 0)
                    out[(row * T + query) * T + key] = cp_visible(&micro->visibility[mask], b, i, j);
            }
}

void cp_run_mask(const cp_model *model, const cp_run_options *options, int64_t layer, uint8_t *out)
{
    for (int rank = 0; rank < cp_run_ranks(options); rank++) {
        cp_rank self = {0};
        cp_rank_plan_make(&self, model, options, rank);
        for (int m = 0; m < self.plan.batch.M; m++)
            draw_mask(out, &self.plan, &self.plan.micro[m], model->program->layer_mask[layer],
                      model->fixture->batch.T);
        cp_rank_close(&self);
    }
}

void cp_model_mask(const cp_model *model, int64_t layer, uint8_t *out)
{
    cp_run_options unsharded = {.P = 1, .dtype = CP_F64};
    cp_run_mask(model, &unsharded, layer, out);
}

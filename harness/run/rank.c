#include "harness/run/rank.h"

void cp_rank_plan_make(cp_rank *self, const cp_model *model, const cp_run_options *options, int rank)
{
    const cp_batch *batch = &model->fixture->batch;
    const cp_program *program = model->program;
    const cp_decisions *decisions = &options->decisions;
    cp_rank_plan *plan = &self->plan;
    self->plans = cp_arena_growing();
    cp_tokens_plan(&plan->tokens, &plan->layout, batch, &options->layout, options->P, &decisions->tokens,
                   &self->plans);
    plan->visibility = cp_arena_take(&self->plans, (size_t)program->mask_count * sizeof *plan->visibility);
    for (int m = 0; m < program->mask_count; m++)
        cp_visibility_plan(&plan->visibility[m], program->masks[m], &plan->tokens, &plan->layout, rank,
                           &decisions->masks, &self->plans);
    cp_loss_plan_make(&plan->loss, &decisions->loss, batch, &plan->tokens, &plan->layout, &self->plans);
    cp_reduce_plan_make(&plan->reduce, &decisions->reduce, options->P, plan->loss.reduce, &self->plans);
    cp_dump_plan_make(&plan->dump, &decisions->dump, &plan->tokens, &plan->layout, rank, &self->plans);
}

/* Everything of a step that takes memory or moves bytes: measured and run by the same lines. */
static void step(cp_rank *self, const cp_model *model, const cp_run_options *options,
                 const cp_tensor *weights, const cp_mesh *mesh, const cp_ops *ops, cp_arena *arena)
{
    cp_comm *comm = mesh->cp;
    int rank = cp_comm_rank(comm);
    const cp_rank_plan *plan = &self->plan;
    const cp_program *program = model->program;
    int64_t padding_id = program->padding_id < 0 ? 0 : program->padding_id;
    cp_shard_cut(&self->shard, &model->fixture->batch, &plan->tokens, &plan->layout, rank, padding_id,
                 options->dtype, arena);
    const cp_exchange_setup setup = {
        comm, ops, options->attention, &plan->layout, &options->decisions.exchange, &self->plans, mesh};
    const cp_mixer *mixer = cp_exchange_open(&mesh->spec, &setup);
    cp_network_inputs inputs = {.ids = self->shard.ids,
                                .embeds = self->shard.embeddings,
                                .position = self->shard.position,
                                .index = self->shard.index,
                                .target = self->shard.target,
                                .visibility = plan->visibility};
    cp_network_options network_options = {
        .dtype = options->dtype, .precision = {.matmul = options->matmul}, .recompute = options->recompute};
    cp_network *network = &self->network;
    cp_network_open(network, program, mixer, ops, &network_options, &inputs, weights, &self->plans, arena);
    cp_network_forward(network);
    self->loss = cp_loss_reported(&plan->loss, comm, cp_network_loss_sum(network), arena);
    cp_network_backward(network, plan->loss.backward[rank]);
    if (cp_tensor_given(self->shard.embeddings))
        cp_embeds_grad_apply(&plan->dump, network->gradients[program->embed], comm, &plan->layout, ops,
                             arena);
    for (int p = 0; p < program->parameter_count; p++)
        cp_reduce(network->weight_gradients[p], plan->reduce.weight[program->parameters[p].class], comm, ops,
                  arena);
}

void cp_rank_join(cp_mesh *mesh, cp_comm *world, const cp_model *model, const cp_run_options *options)
{
    cp_exchange_spec spec = cp_exchange_settled(&options->exchange, options->P, model->program->H);
    cp_mesh_open(mesh, world, options->P, &spec);
}

/* The weights of a measured run are shapes. */
static cp_tensor *weight_shapes(const cp_program *program, cp_dtype dtype, cp_arena *arena)
{
    cp_tensor *shapes = cp_arena_take(arena, (size_t)program->parameter_count * sizeof *shapes);
    for (int p = 0; p < program->parameter_count; p++)
        shapes[p] = cp_tensor_view(NULL, dtype, program->parameters[p].dims, program->parameters[p].extent);
    return shapes;
}

void cp_rank_measure(cp_rank *self, const cp_model *model, const cp_run_options *options, int rank)
{
    cp_arena measuring = cp_arena_measuring();
    cp_comm *comm = cp_comm_measuring(rank, options->P);
    cp_mesh mesh;
    cp_rank_join(&mesh, comm, model, options);
    step(self, model, options, weight_shapes(model->program, options->dtype, &self->plans), &mesh,
         cp_ops_shape(), &measuring);
    cp_mesh_close(&mesh);
    cp_comm_close(comm);
    self->need = measuring.peak;
}

void cp_rank_open(cp_rank *self, const cp_model *model, const cp_run_options *options, const cp_mesh *mesh)
{
    int rank = cp_comm_rank(mesh->cp);
    cp_rank_plan_make(self, model, options, rank);
    cp_rank_measure(self, model, options, rank);
    cp_status status = cp_arena_open(&self->arena, self->need);
    if (status != CP_OK)
        cp_comm_fail(mesh->cp, status);
}

void cp_rank_step(cp_rank *self, const cp_model *model, const cp_run_options *options,
                  const cp_tensor *weights, const cp_mesh *mesh)
{
    cp_arena_release(&self->arena, 0);
    step(self, model, options, weights, mesh, cp_ops_of(options->dtype), &self->arena);
}

void cp_rank_close(cp_rank *self)
{
    cp_arena_close(&self->arena);
    cp_arena_close(&self->plans);
}

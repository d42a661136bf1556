#include "harness/run/rank.h"

#include <string.h>

cp_dtype cp_run_storage(const cp_run_options *options)
{
    return options->dtype == CP_BF16 ? CP_F32 : options->dtype;
}

cp_precision cp_run_precision(const cp_run_options *options)
{
    return (cp_precision){.matmul = options->matmul,
                          .rounding = options->dtype == CP_BF16 ? CP_ROUND_BF16 : CP_ROUND_NONE,
                          .noise = options->noise};
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static void plan_micro(cp_micro_plan *micro, const cp_rank_plan *plan, int number, const cp_layout *layout,
                       const cp_tokens *tokens, const cp_mask_rules *rules, cp_arena *arena)
{
    const cp_program *program = plan->program;
    int64_t *rows = cp_arena_take(arena, (size_t)plan->batch.B * sizeof *rows);
    int64_t count = cp_batch_rows(rows, &plan->batch, plan->group, number);
    micro->place = cp_arena_take(arena, (size_t)count * sizeof *micro->place);
    for (int64_t n = 0, place = 0; n < count; n++) {
        while (plan->rows[place] != rows[n])
            place++;
        micro->place[n] = place;
    }
    cp_layout_select(&micro->layout, layout, rows, count, arena);
    cp_tokens_select(&micro->tokens, tokens, rows, count, arena);
    micro->visibility = cp_arena_take(arena, (size_t)program->mask_count * sizeof *micro->visibility);
    for (int m = 0; m < program->mask_count; m++)
        cp_visibility_plan(&micro->visibility[m], program->masks[m], &micro->tokens, &micro->layout,
                           plan->rank, rules, arena);
}

void cp_rank_plan_make(cp_rank *self, const cp_model *model, const cp_run_options *options, int rank)
{
    const cp_batch *batch = &model->fixture->batch;
    const cp_decisions *decisions = &options->decisions;
    cp_rank_plan *plan = &self->plan;
    self->plans = cp_arena_growing();
    cp_arena *arena = &self->plans;
    cp_layout layout;
    cp_tokens tokens;
    cp_tokens_plan(&tokens, &layout, batch, &options->layout, options->P, &decisions->tokens, arena);

    *plan = (cp_rank_plan){.group = rank / options->P, .rank = rank % options->P};
    plan->program = cp_reduce_program(model->program, decisions->reduce.tied_embedding, arena);
    cp_batch_plan_make(&plan->batch, batch, options->D, options->M, arena);
    plan->rows = cp_arena_take(arena, (size_t)batch->B * sizeof *plan->rows);
    plan->B = cp_batch_rows(plan->rows, &plan->batch, plan->group, CP_EVERY_MICRO);
    plan->micro = cp_arena_take(arena, (size_t)plan->batch.M * sizeof *plan->micro);
    for (int m = 0; m < plan->batch.M; m++)
        plan_micro(&plan->micro[m], plan, m, &layout, &tokens, &decisions->masks, arena);
    cp_loss_plan_make(&plan->loss, &decisions->loss, batch, &tokens, &layout, &plan->batch, arena);
    cp_reduce_plan_make(&plan->reduce, &decisions->reduce, options->P, plan->batch.D, plan->loss.reduce,
                        arena);
    cp_tokens own;
    cp_layout_select(&plan->layout, &layout, plan->rows, plan->B, arena);
    cp_tokens_select(&own, &tokens, plan->rows, plan->B, arena);
    cp_dump_plan_make(&plan->dump, &decisions->dump, &own, &plan->layout, plan->rank, arena);
}

/* ---- what a step leaves behind ---------------------------------------------------------------------------------- */

typedef struct stepping {
    cp_rank *rank;
    const cp_model *model;
    const cp_run_options *options;
    const cp_tensor *weights; /* [plan.program->parameter_count] */
    const cp_mesh *mesh;
    const cp_ops *ops;
    cp_arena *arena;
} stepping;

static bool accumulates(const stepping *s)
{
    return s->rank->plan.batch.M > 1;
}

static bool gives_value(const stepping *s, int reg)
{
    const cp_program *program = s->rank->plan.program;
    return reg == program->logits || (s->options->trace && program->registers[reg].name[0]);
}

static bool gives_gradient(const stepping *s, int reg)
{
    const cp_program *program = s->rank->plan.program;
    bool inputs = reg == program->embed && s->model->fixture->batch.inputs_embeds;
    return reg != program->logits && (inputs || (s->options->trace && program->registers[reg].name[0]));
}

static cp_tensor *tensors(const stepping *s, int count)
{
    size_t bytes = (size_t)count * sizeof(cp_tensor);
    return memset(cp_arena_take(&s->rank->plans, bytes), 0, bytes);
}

/* Of all the group's rows; zero, since a place that no micro-batch fills belongs to nobody. */
static cp_tensor take_output(const stepping *s, int64_t width)
{
    const cp_rank_plan *plan = &s->rank->plan;
    cp_tensor out =
        CP_TAKE(s->arena, cp_run_storage(s->options), plan->B, plan->layout.tokens[plan->rank], width);
    cp_tensor_zero(out);
    return out;
}

static void take_outputs(const stepping *s)
{
    const cp_rank_plan *plan = &s->rank->plan;
    const cp_program *program = plan->program;
    cp_rank_outputs *out = &s->rank->outputs;
    *out = (cp_rank_outputs){.values = tensors(s, program->register_count),
                             .gradients = tensors(s, program->register_count),
                             .weight_gradients = tensors(s, program->parameter_count)};
    if (!accumulates(s))
        return;
    out->token_loss = CP_TAKE(s->arena, cp_run_storage(s->options), plan->B, plan->layout.tokens[plan->rank]);
    for (int r = 0; r < program->register_count; r++) {
        const cp_register *reg = &program->registers[r];
        int64_t width = reg->width * (reg->heads ? reg->heads : 1);
        if (gives_value(s, r))
            out->values[r] = take_output(s, width);
        if (gives_gradient(s, r))
            out->gradients[r] = take_output(s, width);
    }
    for (int p = 0; p < program->parameter_count; p++) {
        const cp_parameter *parameter = &program->parameters[p];
        out->weight_gradients[p] =
            cp_tensor_take(s->arena, cp_run_storage(s->options), parameter->dims, parameter->extent);
        cp_tensor_zero(out->weight_gradients[p]);
    }
}

/* The rows of a micro-batch to their places among the group's. */
static void place_rows(cp_tensor out, cp_tensor in, const cp_micro_plan *micro)
{
    if (!in.data || micro->layout.B == 0)
        return;
    size_t row = cp_tensor_bytes(in) / (size_t)micro->layout.B;
    for (int64_t n = 0; n < micro->layout.B; n++)
        memcpy((char *)out.data + (size_t)micro->place[n] * row, (const char *)in.data + (size_t)n * row,
               row);
}

static void keep_outputs(const stepping *s, const cp_network *network, const cp_micro_plan *micro)
{
    const cp_program *program = s->rank->plan.program;
    cp_rank_outputs *out = &s->rank->outputs;
    out->balance = network->balance;
    if (!accumulates(s)) {
        out->token_loss = network->token_loss;
        out->values = network->values;
        out->gradients = network->gradients;
        out->weight_gradients = network->weight_gradients;
        return;
    }
    place_rows(out->token_loss, network->token_loss, micro);
    for (int r = 0; r < program->register_count; r++) {
        if (gives_value(s, r))
            place_rows(out->values[r], network->values[r], micro);
        if (gives_gradient(s, r))
            place_rows(out->gradients[r], network->gradients[r], micro);
    }
}

/* ---- the step --------------------------------------------------------------------------------------------------- */

/* Forward and backward of one micro-batch; returns the sum of its token losses. */
static double run_micro(const stepping *s, int number)
{
    const cp_rank_plan *plan = &s->rank->plan;
    const cp_run_options *options = s->options;
    const cp_micro_plan *micro = &plan->micro[number];
    int64_t padding_id = plan->program->padding_id < 0 ? 0 : plan->program->padding_id;
    cp_shard shard;
    cp_shard_cut(&shard, &s->model->fixture->batch, &micro->tokens, &micro->layout, plan->rank, padding_id,
                 cp_run_storage(options), s->arena);
    const cp_exchange_setup setup = {
        s->mesh->cp,     s->ops, options->attention, &micro->layout, &options->decisions.exchange,
        &s->rank->plans, s->mesh};
    const cp_mixer *mixer = cp_exchange_open(&s->mesh->spec, &setup);
    cp_network_inputs inputs = {.ids = shard.ids,
                                .embeds = shard.embeddings,
                                .position = shard.position,
                                .index = shard.index,
                                .target = shard.target,
                                .counted = cp_balance_counted(&plan->loss.balance, shard.real, s->arena),
                                .visibility = micro->visibility};
    int rank = cp_comm_rank(s->mesh->world);
    const cp_balance_plan *balance = &plan->loss.balance;
    const cp_mixer alone = cp_mixer_local(s->ops, options->attention, shard.index);
    const cp_balance_share share = {balance->own ? &alone : mixer, balance->loss, balance->backward[rank]};
    cp_network_options network_options = {.dtype = cp_run_storage(options),
                                          .precision = cp_run_precision(options),
                                          .recompute = options->recompute,
                                          .gradients =
                                              accumulates(s) ? s->rank->outputs.weight_gradients : NULL,
                                          .balance = &share};
    cp_network network;
    cp_network_open(&network, plan->program, mixer, s->ops, &network_options, &inputs, s->weights,
                    &s->rank->plans, s->arena);
    cp_network_forward(&network);
    double sum = cp_network_loss_sum(&network);
    cp_network_backward(&network, plan->loss.backward[rank * plan->loss.M + number]);
    keep_outputs(s, &network, micro);
    return sum;
}

/* What ranks or micro-batches have summed up, as its storage in that dtype holds it. */
static void round_results(const stepping *s)
{
    const cp_rank_outputs *out = &s->rank->outputs;
    cp_precision precision = cp_run_precision(s->options);
    if (s->model->fixture->batch.inputs_embeds)
        s->ops->pointwise->round(out->gradients[s->rank->plan.program->embed], precision);
    for (int p = 0; p < s->model->program->parameter_count; p++)
        s->ops->pointwise->round(out->weight_gradients[p], precision);
}

/* Everything of a step that takes memory or moves bytes: measured and run by the same lines. */
static void step(const stepping *s)
{
    cp_rank *self = s->rank;
    const cp_rank_plan *plan = &self->plan;
    int M = plan->batch.M;
    double *sums = cp_arena_take(&self->plans, (size_t)M * sizeof *sums);
    take_outputs(s);
    size_t mark = cp_arena_mark(s->arena);
    for (int m = 0; m < M; m++) {
        sums[m] = run_micro(s, m);
        if (accumulates(s))
            cp_arena_release(s->arena, mark);
    }
    self->loss = cp_loss_reported(&plan->loss, s->mesh->world, sums, s->arena) +
                 plan->loss.balance.reported * plan->program->balance.coefficient * self->outputs.balance;
    if (s->model->fixture->batch.inputs_embeds)
        cp_embeds_grad_apply(&plan->dump, self->outputs.gradients[plan->program->embed], s->mesh->cp,
                             &plan->layout, s->ops, s->arena);
    for (int p = 0; p < s->model->program->parameter_count; p++)
        cp_reduce(self->outputs.weight_gradients[p], &plan->reduce, plan->program->parameters[p].class,
                  s->mesh->world, s->ops, s->arena);
    round_results(s);
}

/* The weights of the program's parameters; a second use of the embedding has the embedding's. */
static const cp_tensor *weights_of(cp_rank *self, const cp_model *model, const cp_tensor *weights)
{
    const cp_program *program = self->plan.program;
    if (program == model->program)
        return weights;
    size_t bytes = (size_t)model->program->parameter_count * sizeof *weights;
    cp_tensor *all = cp_arena_take(&self->plans, bytes + sizeof *weights);
    memcpy(all, weights, bytes);
    all[model->program->parameter_count] = weights[program->embedding];
    return all;
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
    cp_comm *comm = cp_comm_measuring(rank, cp_run_ranks(options));
    cp_mesh mesh;
    cp_rank_join(&mesh, comm, model, options);
    const cp_tensor *shapes = weight_shapes(self->plan.program, cp_run_storage(options), &self->plans);
    stepping s = {self, model, options, shapes, &mesh, cp_ops_shape(), &measuring};
    step(&s);
    cp_mesh_close(&mesh);
    cp_comm_close(comm);
    self->need = measuring.peak;
}

void cp_rank_open(cp_rank *self, const cp_model *model, const cp_run_options *options, const cp_mesh *mesh)
{
    int rank = cp_comm_rank(mesh->world);
    cp_rank_plan_make(self, model, options, rank);
    cp_rank_measure(self, model, options, rank);
    cp_status status = cp_arena_open(&self->arena, self->need);
    if (status != CP_OK)
        cp_comm_fail(mesh->world, status);
}

void cp_rank_step(cp_rank *self, const cp_model *model, const cp_run_options *options,
                  const cp_tensor *weights, const cp_mesh *mesh)
{
    cp_arena_release(&self->arena, 0);
    stepping s = {self,        model,
                  options,     weights_of(self, model, weights),
                  mesh,        cp_ops_of(cp_run_storage(options)),
                  &self->arena};
    step(&s);
}

void cp_rank_close(cp_rank *self)
{
    cp_arena_close(&self->arena);
    cp_arena_close(&self->plans);
}

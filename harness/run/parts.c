#include "harness/run/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cp_status cp_ranks_open(cp_ranks **out, int W)
{
    cp_ranks *ranks = calloc(1, sizeof *ranks);
    cp_rank *rank = calloc((size_t)W, sizeof *rank);
    if (!ranks || !rank) {
        free(ranks);
        free(rank);
        return cp_fail(CP_INTERNAL, "no memory for %d ranks", W);
    }
    *ranks = (cp_ranks){.W = W, .references = 1, .rank = rank, .bytes = cp_arena_growing()};
    *out = ranks;
    return CP_OK;
}

void cp_ranks_release(cp_ranks *ranks)
{
    if (!ranks || --ranks->references > 0)
        return;
    for (int r = 0; r < ranks->W; r++)
        cp_rank_close(&ranks->rank[r]);
    cp_arena_close(&ranks->bytes);
    free(ranks->rank);
    free(ranks);
}

/* ---- what a rank has -------------------------------------------------------------------------------------------- */

static const char *named(cp_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *named(cp_arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    cp_check(length >= 0, "a name that cannot be written: %s", format);
    size_t bytes = (size_t)length + 1;
    char *text = cp_arena_take(arena, bytes);
    va_start(arguments, format);
    vsnprintf(text, bytes, format, arguments);
    va_end(arguments);
    return text;
}

static void add(cp_results *results, const char *name, cp_tensor tensor)
{
    results->tensors[results->count++] = (cp_memory_tensor){.name = name, .tensor = tensor};
}

/* A tensor that a run in bfloat16 has rounded, in as many bits as that takes; any other as it is. */
static cp_tensor stored(cp_tensor tensor, const cp_run_options *options, cp_arena *arena)
{
    if (options->dtype != CP_BF16 || !cp_tensor_given(tensor))
        return tensor;
    int64_t count = cp_tensor_count(tensor);
    const float *from = tensor.data;
    uint16_t *words = cp_arena_take(arena, (size_t)count * sizeof *words);
    for (int64_t n = 0; n < count; n++)
        words[n] = cp_bf16_from_float(from[n]);
    return cp_tensor_view(words, CP_BF16, tensor.dims, tensor.extent);
}

/* A trace is [B,S,width] whatever the register's view. */
static void add_trace(cp_results *results, const cp_program *program, const cp_rank_outputs *outputs,
                      const cp_run_options *options, cp_arena *arena)
{
    for (int r = 0; r < program->register_count; r++) {
        const char *name = program->registers[r].name;
        if (!name[0])
            continue;
        add(results, named(arena, "trace/%s", name), stored(outputs->values[r], options, arena));
        add(results, named(arena, "trace/grad.%s", name), stored(outputs->gradients[r], options, arena));
    }
}

static cp_declaration declaration_of(const cp_rank *self, int rank, const cp_model *model,
                                     const cp_run_options *options)
{
    cp_declaration declaration = cp_declaration_whole();
    declaration.fixture_id = model->fixture->id;
    declaration.implementation = CP_OWN_NAME CPEQ_VERSION;
    declaration.cp_size = options->P;
    declaration.cp_rank = cp_run_ranks(options) > 1 ? self->plan.rank : -1;
    declaration.dp_size = self->plan.batch.D;
    declaration.dp_rank = self->plan.group;
    declaration.dtype_declared = true;
    declaration.compute_dtype = options->dtype;
    declaration.loss_count = self->plan.loss.targets[rank];
    declaration.B = self->plan.dump.B;
    declaration.S = self->plan.dump.S;
    declaration.token_index = self->plan.dump.token_index;
    declaration.batch_index = self->plan.batch.D > 1 ? self->plan.rows : NULL;
    return declaration;
}

cp_results cp_results_of(cp_ranks *ranks, int rank, const cp_model *model, const cp_run_options *options)
{
    cp_rank *self = &ranks->rank[rank];
    const cp_program *program = model->program;
    const cp_rank_outputs *outputs = &self->outputs;
    cp_arena *arena = &ranks->bytes;
    size_t most = 5 + (size_t)program->parameter_count + 2 * (size_t)program->register_count;
    cp_results results = {.tensors = cp_arena_take(arena, most * sizeof *results.tensors),
                          .declaration = declaration_of(self, rank, model, options)};
    char layout[CP_LAYOUT_TEXT], exchange[CP_EXCHANGE_TEXT];
    cp_exchange_spec settled = cp_exchange_settled(&options->exchange, options->P, program->H);
    results.declaration.exchange = named(arena, "%s", cp_exchange_text(&settled, exchange));
    results.declaration.layout = named(arena, "%s", cp_layout_text(&options->layout, layout));
    add(&results, "loss", CP_VIEW(&self->loss, CP_F64, 1));
    results.tensors[0].scalar = true;
    add(&results, "token_loss", outputs->token_loss);
    add(&results, "logits", stored(outputs->values[program->logits], options, arena));
    if (program->balance.given) {
        add(&results, "aux_loss", CP_VIEW(&self->outputs.balance, CP_F64, 1));
        results.tensors[results.count - 1].scalar = true;
    }
    if (model->fixture->batch.inputs_embeds)
        add(&results, "grads/inputs_embeds", stored(outputs->gradients[program->embed], options, arena));
    if (options->trace)
        add_trace(&results, program, outputs, options, arena);
    for (int p = 0; p < program->parameter_count; p++) {
        const char *name = program->parameters[p].name;
        bool trained = !cp_fixture_weight(model->fixture, name)->role[0];
        if (trained)
            add(&results, named(arena, "grads/%s", name),
                stored(outputs->weight_gradients[p], options, arena));
    }
    return results;
}

/* ---- bringing them to rank 0 ------------------------------------------------------------------------------------ */

/* One tensor of every rank; only the first axes' extents differ between ranks, and rank 0 learns them first. */
static void gather_tensor(cp_tensor *all, cp_tensor mine, cp_arena *arena, cp_comm *comm)
{
    size_t P = (size_t)cp_comm_size(comm);
    bool root = cp_comm_rank(comm) == 0;
    size_t extent_bytes = sizeof mine.extent;
    size_t *bytes = cp_arena_take(arena, P * sizeof *bytes);
    int64_t *extents = cp_arena_take(arena, P * extent_bytes);
    for (size_t r = 0; r < P; r++)
        bytes[r] = extent_bytes;
    cp_comm_gather(comm, extents, bytes, mine.extent, extent_bytes);
    size_t total = 0;
    for (size_t r = 0; root && r < P; r++) {
        all[r] = cp_tensor_view(NULL, mine.dtype, mine.dims, extents + r * CP_MAX_DIMS);
        bytes[r] = cp_tensor_bytes(all[r]);
        total += bytes[r];
    }
    char *data = root ? cp_arena_take(arena, total) : NULL;
    cp_comm_gather(comm, data, bytes, mine.data, cp_tensor_bytes(mine));
    for (size_t r = 0; root && r < P; r++) {
        all[r].data = data;
        data += bytes[r];
    }
}

/* Gradients of parameters come after everything else, which is each rank's own. */
static bool is_replica(const cp_memory_tensor *tensor)
{
    return strncmp(tensor->name, "grads/", 6) == 0 && strcmp(tensor->name, "grads/inputs_embeds") != 0;
}

/* An array of the declaration, as a tensor; its elements are only read. */
static cp_tensor declared(const int64_t *values, int dims, const int64_t extent[])
{
    return cp_tensor_view((void *)(uintptr_t)values, CP_I64, dims, extent);
}

/* What each rank declares about its own rows. */
static void gather_declarations(cp_results *all, const cp_declaration *mine, cp_arena *arena, cp_comm *comm)
{
    int W = cp_comm_size(comm);
    bool root = cp_comm_rank(comm) == 0;
    cp_tensor *gathered = cp_arena_take(arena, (size_t)W * sizeof *gathered);
    gather_tensor(gathered, declared(mine->token_index, 2, CP_EXTENTS(mine->B, mine->S)), arena, comm);
    for (int r = 0; root && r < W; r++) {
        all[r].declaration.B = gathered[r].extent[0];
        all[r].declaration.S = gathered[r].extent[1];
        all[r].declaration.token_index = gathered[r].data;
    }
    if (mine->batch_index)
        gather_tensor(gathered, declared(mine->batch_index, 1, CP_EXTENTS(mine->B)), arena, comm);
    for (int r = 0; root && mine->batch_index && r < W; r++)
        all[r].declaration.batch_index = gathered[r].data;
    gather_tensor(gathered, declared(&mine->loss_count, 1, CP_EXTENTS(1)), arena, comm);
    for (int r = 0; root && r < W; r++) {
        all[r].declaration.loss_count = *(const int64_t *)gathered[r].data;
        all[r].declaration.cp_rank = W > 1 ? r % mine->cp_size : -1;
        all[r].declaration.dp_rank = r / mine->cp_size;
    }
}

void cp_results_gather(cp_results *all, const cp_results *mine, cp_ranks *ranks, cp_comm *comm, bool replicas)
{
    int W = cp_comm_size(comm);
    bool root = cp_comm_rank(comm) == 0;
    cp_arena *arena = &ranks->bytes;
    cp_tensor *gathered = cp_arena_take(arena, (size_t)W * sizeof *gathered);
    for (int r = 0; root && r < W; r++) {
        size_t bytes = (size_t)mine->count * sizeof *mine->tensors;
        all[r] = *mine;
        all[r].tensors = memcpy(cp_arena_take(arena, bytes), mine->tensors, bytes);
    }
    for (int n = 0; n < mine->count; n++) {
        if (is_replica(&mine->tensors[n]) && !replicas)
            continue;
        gather_tensor(gathered, mine->tensors[n].tensor, arena, comm);
        for (int r = 0; root && r < W; r++)
            all[r].tensors[n].tensor = gathered[r];
    }
    gather_declarations(all, &mine->declaration, arena, comm);
}

/* ---- as a source ------------------------------------------------------------------------------------------------ */

typedef struct part_state {
    cp_source source; /* what the caller holds */
    cp_source *inner;
    cp_ranks *ranks;
} part_state;

static cp_status read_part(const cp_source *source, size_t tensor, int64_t first, int64_t count, double *out)
{
    const part_state *state = source->state;
    return state->inner->read(state->inner, tensor, first, count, out);
}

static cp_status look_part(const cp_source *source, struct cp_view *view, size_t tensor, int64_t first,
                           int64_t count, const void **data, cp_dtype *dtype)
{
    const part_state *state = source->state;
    return state->inner->look(state->inner, view, tensor, first, count, data, dtype);
}

static void close_part(cp_source *source)
{
    part_state *state = source->state;
    cp_source_close(state->inner);
    cp_ranks_release(state->ranks);
    free(state);
}

cp_status cp_results_source(cp_source **out, const cp_results *results, cp_ranks *ranks)
{
    part_state *state = calloc(1, sizeof *state);
    if (!state)
        return cp_fail(CP_INTERNAL, "no memory for a run's results");
    cp_status status = cp_source_memory(&state->inner, "run", &results->declaration, results->tensors,
                                        (size_t)results->count);
    if (status != CP_OK) {
        free(state);
        return status;
    }
    state->source = *state->inner;
    state->source.read = read_part;
    state->source.look = look_part;
    state->source.close = close_part;
    state->source.state = state;
    state->ranks = ranks;
    ranks->references++;
    *out = &state->source;
    return CP_OK;
}

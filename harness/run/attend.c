#include "harness/run/attend.h"

#include "harness/parallel/mesh.h"
#include "harness/parallel/shard.h"
#include "harness/run/rank.h"

#include <stdlib.h>

/* What one rank leaves behind. */
typedef struct attended {
    cp_arena plans; /* growing */
    cp_arena arena; /* of the step, as it was measured */
    cp_tokens tokens;
    cp_layout layout;
    cp_visibility visibility;
    cp_dump_plan dump;
    cp_tensor out, dq, dk, dv, dsink;
} attended;

typedef struct attending {
    const cp_fixture *fixture;
    const cp_run_options *options;
    cp_batch batch; /* the fixture's places, with ids and labels that nobody reads */
    cp_exchange_spec exchange;
    attended *ranks; /* [P] */
} attending;

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

/* This rank's rows of an input [B,T,…]; zero where the cut adds padding. */
static void fill(const attending *self, cp_tensor out, cp_tensor whole, attended *mine, int rank)
{
    const cp_layout *layout = &mine->layout;
    const cp_tokens *tokens = &mine->tokens;
    int64_t S = layout->tokens[rank], width = whole.extent[2] * whole.extent[3];
    double *row = cp_arena_take(&mine->plans, (size_t)width * sizeof *row);
    size_t from = (size_t)width * cp_dtype_bytes(whole.dtype), to = (size_t)width * cp_dtype_bytes(out.dtype);
    cp_tensor_zero(out);
    for (int64_t i = 0; i < layout->B * S; i++) {
        int64_t place = i / S * layout->T + layout->index[rank][i];
        if (tokens->source[place] < 0)
            continue;
        size_t token = (size_t)(tokens->source_row[place] * self->batch.T + tokens->source[place]);
        cp_dtype_to_double(row, (const char *)whole.data + token * from, whole.dtype, (size_t)width);
        cp_dtype_from_double((char *)out.data + (size_t)i * to, out.dtype, row, (size_t)width);
    }
}

/* Without numbers where `arena` measures. */
static cp_tensor cut(const attending *self, cp_tensor whole, attended *mine, int rank, cp_arena *arena)
{
    const cp_layout *layout = &mine->layout;
    cp_tensor out = CP_TAKE(arena, cp_run_storage(self->options), layout->B, layout->tokens[rank],
                            whole.extent[2], whole.extent[3]);
    if (out.data)
        fill(self, out, whole, mine, rank);
    return out;
}

static cp_tensor zeros(cp_arena *arena, cp_dtype dtype, cp_tensor like)
{
    cp_tensor out = cp_tensor_take(arena, dtype, like.dims, like.extent);
    cp_tensor_zero(out);
    return out;
}

static cp_tensor take_sink(const cp_attention_inputs *inputs, cp_dtype dtype, cp_arena *arena)
{
    if (!inputs->sink.data)
        return CP_NONE;
    int64_t H = inputs->sink.extent[0];
    cp_tensor sink = CP_TAKE(arena, dtype, H);
    double *values = cp_arena_take(arena, (size_t)H * sizeof *values);
    cp_dtype_to_double(values, inputs->sink.data, inputs->sink.dtype, (size_t)H);
    cp_dtype_from_double(sink.data, dtype, values, (size_t)H);
    return sink;
}

static cp_attend ask(const cp_attention_inputs *inputs, const cp_visibility *visibility, cp_dtype dtype,
                     cp_arena *arena)
{
    int64_t H = inputs->q.extent[2], K = inputs->k.extent[2];
    int32_t *head = cp_arena_take(arena, (size_t)H * sizeof *head);
    for (int64_t h = 0; h < H; h++)
        head[h] = (int32_t)(h * K / H);
    return (cp_attend){.visibility = visibility,
                       .H = H,
                       .K = K,
                       .key_head = head,
                       .value_head = head,
                       .scale = inputs->scale,
                       .softcap = inputs->softcap,
                       .sink = take_sink(inputs, dtype, arena)};
}

/* Everything that takes memory or moves bytes: measured and run by the same lines. */
static void step(const attending *self, attended *mine, cp_comm *comm, const cp_ops *ops, cp_arena *arena)
{
    const cp_run_options *options = self->options;
    const cp_attention_inputs *inputs = self->fixture->attention;
    cp_dtype dtype = cp_run_storage(options);
    cp_precision precision = cp_run_precision(options);
    int rank = cp_comm_rank(comm);
    cp_mesh mesh;
    cp_mesh_open(&mesh, comm, options->P, &self->exchange);
    const cp_exchange_setup setup = {
        mesh.cp, ops, options->attention, &mine->layout, &options->decisions.exchange, &mine->plans, &mesh};
    const cp_mixer *mixer = cp_exchange_open(&mesh.spec, &setup);
    cp_attend attend = ask(inputs, &mine->visibility, dtype, &mine->plans);
    cp_tensor q = cut(self, inputs->q, mine, rank, arena);
    cp_tensor k = cut(self, inputs->k, mine, rank, arena);
    cp_tensor v = cut(self, inputs->v, mine, rank, arena);
    cp_tensor dout = cut(self, inputs->dout, mine, rank, arena);
    mine->out = zeros(arena, dtype, q);
    mine->dq = zeros(arena, dtype, q);
    mine->dk = zeros(arena, dtype, k);
    mine->dv = zeros(arena, dtype, v);
    mine->dsink = attend.sink.data ? zeros(arena, dtype, attend.sink) : CP_NONE;
    cp_saved saved;
    mixer->attend(mixer, mine->out, &saved, q, k, v, &attend, arena, precision);
    mixer->attend_backward(mixer, mine->dq, mine->dk, mine->dv, mine->dsink, dout, &saved, mine->out, q, k, v,
                           &attend, arena, precision);
    cp_mesh_close(&mesh);
}

static void rank_body(cp_comm *comm, void *context)
{
    attending *self = context;
    const cp_run_options *options = self->options;
    const cp_decisions *decisions = &options->decisions;
    const cp_attention_inputs *inputs = self->fixture->attention;
    int rank = cp_comm_rank(comm);
    attended *mine = &self->ranks[rank];
    mine->plans = cp_arena_growing();
    cp_tokens_plan(&mine->tokens, &mine->layout, &self->batch, &options->layout, options->P,
                   &decisions->tokens, &mine->plans);
    cp_visibility_plan(&mine->visibility, (cp_mask){inputs->window, inputs->chunk}, &mine->tokens,
                       &mine->layout, rank, &decisions->masks, &mine->plans);
    cp_dump_plan_make(&mine->dump, &decisions->dump, &mine->tokens, &mine->layout, rank, &mine->plans);

    cp_arena measuring = cp_arena_measuring();
    cp_comm *imagined = cp_comm_measuring(rank, options->P);
    step(self, mine, imagined, cp_ops_shape(), &measuring);
    cp_comm_close(imagined);
    cp_status status = cp_arena_open(&mine->arena, measuring.peak);
    if (status != CP_OK)
        cp_comm_fail(comm, status);
    step(self, mine, comm, cp_ops_of(cp_run_storage(options)), &mine->arena);
}

/* ---- all ranks --------------------------------------------------------------------------------------------------- */

static cp_status open_part(cp_source **part, const attending *self, int rank)
{
    attended *mine = &self->ranks[rank];
    const struct {
        const char *name;
        cp_tensor tensor;
    } results[] = {
        {"out", mine->out}, {"dq", mine->dq}, {"dk", mine->dk}, {"dv", mine->dv}, {"dsink", mine->dsink}};
    cp_memory_tensor given[sizeof results / sizeof *results];
    size_t count = 0;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].tensor.data)
            given[count++] = (cp_memory_tensor){results[i].name, results[i].tensor, false};
    char *exchange = cp_arena_take(&mine->plans, CP_EXCHANGE_TEXT);
    char *layout = cp_arena_take(&mine->plans, CP_LAYOUT_TEXT);
    cp_declaration said = cp_declaration_whole();
    said.attention = said.dtype_declared = true;
    said.fixture_id = self->fixture->id;
    said.implementation = "cpeq";
    said.compute_dtype = self->options->dtype;
    said.gradients = CP_GRADIENTS_PARTIAL;
    said.exchange = cp_exchange_text(&self->exchange, exchange);
    said.layout = cp_layout_text(&self->options->layout, layout);
    said.cp_size = self->options->P;
    said.cp_rank = self->options->P > 1 ? rank : -1;
    said.B = mine->dump.B;
    said.S = mine->dump.S;
    said.token_index = mine->dump.token_index;
    return cp_source_memory(part, "run", &said, given, count);
}

static cp_status join(cp_source **whole, const attending *self)
{
    int P = self->options->P;
    cp_source **parts = calloc((size_t)P, sizeof *parts);
    cp_check(parts, "no memory for %d pointers", P);
    cp_status status = CP_OK;
    int opened = 0;
    for (; opened < P && status == CP_OK; opened++)
        status = open_part(&parts[opened], self, opened);
    if (status == CP_OK)
        status = cp_source_join(whole, parts, (size_t)P, self->batch.B, self->batch.T);
    else
        for (int r = 0; r < opened; r++)
            cp_source_close(parts[r]);
    free(parts);
    return status;
}

static cp_status check(const attending *self)
{
    const cp_run_options *options = self->options;
    const cp_attention_inputs *inputs = self->fixture->attention;
    const char *path = self->fixture->path;
    if (!inputs->causal)
        return cp_fail(CP_REFUSED, "the reference attends causally, and causal is 0");
    if (options->D > 1 || options->M > 1 || options->transport == CP_TRANSPORT_MPI)
        return cp_fail(CP_REFUSED, "%s: kind \"attention\" runs in one step, in one group, over threads",
                       path);
    CP_TRY(cp_batch_check_places(&self->fixture->batch, path));
    CP_TRY(cp_exchange_check(&options->exchange, options->P, inputs->q.extent[2], inputs->k.extent[2]));
    const cp_mask mask = {inputs->window, inputs->chunk};
    CP_TRY(cp_run_check_form(options, &mask, 1));
    CP_TRY(cp_layout_check(&options->layout, options->P, self->batch.T));
    cp_setting setting = {
        .exchange = self->exchange, .layout = options->layout, .P = options->P, .D = 1, .M = 1};
    return cp_decisions_check(&options->decisions, &setting);
}

static cp_status run(cp_result *result, attending *self, const cp_diff_options *diff)
{
    cp_source *whole = NULL;
    cp_diff_options judged = *diff;
    judged.only = "[od]*";
    CP_TRY(check(self));
    CP_TRY(cp_threads_run(self->options->P, rank_body, self));
    CP_TRY(join(&whole, self));
    cp_status status = cp_diff(result, self->fixture->expected, whole, self->fixture, &judged);
    cp_source_close(whole);
    return status;
}

cp_status cp_attend_trial(cp_result *result, const cp_fixture *fixture, const cp_run_options *options,
                          const cp_diff_options *diff)
{
    *result = (cp_result){0};
    size_t P = (size_t)options->P, tokens = (size_t)(fixture->batch.B * fixture->batch.T);
    attending self = {.fixture = fixture, .options = options, .batch = fixture->batch};
    self.exchange = cp_exchange_settled(&options->exchange, options->P, fixture->attention->q.extent[2]);
    self.ranks = calloc(P, sizeof *self.ranks);
    int64_t *any = calloc(tokens, sizeof *any);
    cp_check(self.ranks && any, "no memory for %zu ranks", P);
    self.batch.input_ids = self.batch.labels = any;
    cp_status status = run(result, &self, diff);
    for (size_t r = 0; r < P; r++) {
        cp_arena_close(&self.ranks[r].arena);
        cp_arena_close(&self.ranks[r].plans);
    }
    free(self.ranks);
    free(any);
    return status;
}

#include "harness/cli/info.h"

#include "harness/cli/layouts.h"
#include "harness/cli/output.h"
#include "harness/files/dump.h"
#include "harness/judge/result.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const cp_option cp_info_options[] = {
    {"cp", 0, "P", "draw the cuts between P ranks"},
    {"layout", 0, "NAME",
     "which rank holds which token: contiguous, zigzag, striped[:block], uneven[:tokens of each rank], "
     "per_document (contiguous)"},
#if CPEQ_ENGINE
    {"mask", 0, "LAYER", "draw who sees whom in a layer of a fixture"},
    {"length", 0, "T", "tokens for which a config.json's memory is told (512)"},
#endif
    {0},
};

/* What a file turned out to be; `json` is NULL when text is printed. */
typedef struct inspection {
    const cp_session *session;
    const char *path;
    cp_json *json;
    cp_cut cut;
    int64_t mask;   /* a layer; -1: none asked for */
    int64_t length; /* of a config.json's imagined row */
} inspection;

/* One fact: "  name        text", or a member. */
static void tell(const inspection *job, const char *name, const char *text)
{
    if (job->json != NULL)
        cp_json_set_string(job->json, name, text);
    else if (text[0] != '\0')
        printf("  %-14s %s\n", name, text);
}

static void tell_integer(const inspection *job, const char *name, int64_t value)
{
    if (job->json != NULL)
        cp_json_set_integer(job->json, name, value);
    else
        printf("  %-14s %lld\n", name, (long long)value);
}

/* Once it is known that there is something to tell. */
static void begin(const inspection *job, const char *kind)
{
    if (job->json == NULL)
        printf("%s\n", job->path);
    tell(job, "kind", kind);
}

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

static void tell_tensors(const inspection *job, const cp_source *source)
{
    if (job->json == NULL && !job->session->verbose) {
        printf("  tensors        %zu (--verbose lists them)\n", source->count);
        return;
    }
    cp_json *array = job->json != NULL ? cp_json_new_array() : NULL;
    for (size_t t = 0; t < source->count; t++) {
        const cp_source_tensor *tensor = &source->tensors[t];
        char shape[CP_SHAPE_TEXT];
        cp_shape_text(shape, tensor->dims, tensor->extent);
        if (array == NULL) {
            printf("  %-14s %s %s %s\n", t == 0 ? "tensors" : "", tensor->name, cp_dtype_name(tensor->dtype),
                   shape);
            continue;
        }
        cp_json *object = cp_json_new_object();
        cp_json_set_string(object, "name", tensor->name);
        cp_json_set_string(object, "dtype", cp_dtype_name(tensor->dtype));
        cp_json *extents = cp_json_new_array();
        for (int d = 0; d < tensor->dims; d++)
            cp_json_append_integer(extents, tensor->extent[d]);
        cp_json_set(object, "shape", extents);
        cp_json_append(array, object);
    }
    if (array != NULL)
        cp_json_set(job->json, "tensors", array);
}

/* ---- limits ------------------------------------------------------------------------------------------------------- */

static const char *rule_of(const cp_calibration *calibration)
{
    return calibration->rule == CP_CALIBRATED_BY_CONTROLS ? "control runs" : "replicates";
}

static void list_noise(cp_json *object, const cp_calibration *calibration)
{
    cp_json *array = object != NULL ? cp_json_new_array() : NULL;
    for (size_t i = 0; i < calibration->count; i++) {
        const cp_noise *noise = &calibration->noise[i];
        if (array == NULL) {
            printf("  %-14s %s: errors up to %.2e in norm, %.2e in an element\n", "", noise->name,
                   noise->norm, noise->element);
            continue;
        }
        cp_json *row = cp_json_new_object();
        cp_json_set_string(row, "name", noise->name);
        cp_json_set_real(row, "error_norm", noise->norm);
        cp_json_set_real(row, "error_norm_spread", noise->norm_spread);
        cp_json_set_real(row, "largest_error", noise->element);
        cp_json_set_real(row, "largest_error_spread", noise->element_spread);
        cp_json_append(array, row);
    }
    if (object != NULL)
        cp_json_set(object, "tensors", array);
}

static void tell_limits_of(const inspection *job, cp_json *array, const cp_calibration *calibration)
{
    const char *dtype = cp_dtype_name(calibration->dtype), *rule = rule_of(calibration);
    if (array == NULL) {
        printf("  %-14s %s from %lld %s by %s\n", "limits", dtype, (long long)calibration->runs, rule,
               calibration->producer);
        if (job->session->verbose)
            list_noise(NULL, calibration);
        return;
    }
    cp_json *object = cp_json_new_object();
    cp_json_set_string(object, "dtype", dtype);
    cp_json_set_string(object, "rule", rule);
    cp_json_set_integer(object, "runs", calibration->runs);
    cp_json_set_integer(object, "seed", calibration->seed);
    cp_json_set_string(object, "producer", calibration->producer);
    list_noise(object, calibration);
    cp_json_append(array, object);
}

static void tell_limits(const inspection *job, const cp_calibrations *calibrations)
{
    cp_json *array = job->json != NULL ? cp_json_new_array() : NULL;
    for (size_t i = 0; i < calibrations->count; i++)
        tell_limits_of(job, array, &calibrations->of[i]);
    if (array != NULL)
        cp_json_set(job->json, "limits", array);
    else if (calibrations->count == 0)
        tell(job, "limits", "uncalibrated");
}

static cp_status info_limits(const inspection *job)
{
    cp_limits_file *file = NULL;
    CP_TRY(cp_limits_file_open(&file, job->path));
    begin(job, "limits");
    tell(job, "fixture_id", file->fixture_id);
    tell(job, "truth", file->truth);
    tell(job, "truth_dtype", cp_dtype_name(file->truth_dtype));
    if (file->self_made)
        tell(job, "note", "self-made truth: consistency only");
    tell_limits(job, &file->calibrations);
    cp_limits_file_close(file);
    return CP_OK;
}

/* ---- fixture ------------------------------------------------------------------------------------------------------ */

static int64_t count_targets(const cp_batch *batch)
{
    cp_token_rules rules = {0};
    cp_layout layout;
    cp_tokens tokens;
    cp_arena arena = cp_arena_growing();
    cp_tokens_plan(&tokens, &layout, batch, &(cp_layout_spec){0}, 1, &rules, &arena);
    int64_t count = 0;
    for (int64_t i = 0; i < batch->B * batch->T; i++)
        count += tokens.target[i] != CP_IGNORED;
    cp_arena_close(&arena);
    return count;
}

/* One number a row, as "0 0 1". */
static void tell_row_numbers(const inspection *job, const char *name, const int64_t *numbers, int64_t B)
{
    char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (int64_t b = 0; numbers != NULL && b < B && used < sizeof text; b++)
        used += (size_t)snprintf(text + used, sizeof text - used, b == 0 ? "%lld" : " %lld",
                                 (long long)numbers[b]);
    if (numbers != NULL)
        tell(job, name, text);
}

static void draw(const inspection *job, const cp_batch *batch)
{
    if (job->json != NULL || job->session->quiet)
        return;
    if (cp_layout_check(&job->cut.layout, job->cut.P, batch->T) == CP_OK)
        cp_draw_batch(batch, &job->cut);
    else
        tell(job, "layout", cp_error());
}

static void tell_batch(const inspection *job, const cp_batch *batch)
{
    cp_status status = cp_batch_check(batch, INT64_MAX, job->path);
    char text[256];
    int64_t targets = status == CP_OK ? count_targets(batch) : 0;
    double divisor = batch->num_items_in_batch > 0 ? batch->num_items_in_batch : (double)targets;
    snprintf(text, sizeof text, "%lld row%s of %lld tokens, %s%s%s%s, loss divided by %g",
             (long long)batch->B, batch->B == 1 ? "" : "s", (long long)batch->T,
             batch->input_ids ? "input_ids" : "inputs_embeds",
             batch->attention_mask ? ", attention_mask" : "", batch->position_ids ? ", position_ids" : "",
             batch->document_ids ? ", document_ids" : "", divisor);
    tell(job, "batch", status == CP_OK ? text : cp_error());
    if (status != CP_OK)
        return;
    tell_integer(job, "targets", targets);
    tell_row_numbers(job, "microbatch", batch->microbatch, batch->B);
    tell_row_numbers(job, "data_parallel", batch->data_parallel, batch->B);
    draw(job, batch);
}

/* ---- an attention function's fixture ------------------------------------------------------------------------------ */

static void tell_shape(const inspection *job, const char *name, cp_tensor tensor)
{
    char text[CP_SHAPE_TEXT + 16], shape[CP_SHAPE_TEXT];
    snprintf(text, sizeof text, "%s %s", cp_dtype_name(tensor.dtype),
             cp_shape_text(shape, tensor.dims, tensor.extent));
    if (tensor.data != NULL)
        tell(job, name, text);
}

/* Places are checked and drawn as those of a batch whose tokens are any. */
static void tell_places(const inspection *job, const cp_batch *batch)
{
    size_t count = (size_t)(batch->B * batch->T);
    int64_t *tokens = calloc(count, sizeof *tokens), *labels = malloc(count * sizeof *labels);
    cp_check(tokens != NULL && labels != NULL, "out of memory");
    cp_batch whole = *batch;
    for (size_t i = 0; i < count; i++)
        labels[i] = CP_IGNORED;
    whole.input_ids = tokens;
    whole.labels = labels;
    cp_status status = cp_batch_check_places(batch, job->path);
    if (status == CP_OK)
        draw(job, &whole);
    else
        tell(job, "batch", cp_error());
    free(tokens);
    free(labels);
}

static void tell_attention(const inspection *job, const cp_fixture *fixture)
{
    const cp_attention_inputs *a = fixture->attention;
    char text[160], cap[48] = "";
    tell_shape(job, "q", a->q);
    tell_shape(job, "k", a->k);
    tell_shape(job, "v", a->v);
    tell_shape(job, "sink", a->sink);
    if (a->softcap > 0)
        snprintf(cap, sizeof cap, ", softcap %g", a->softcap);
    snprintf(text, sizeof text, "%s, scale %.6g%s", a->causal ? "causal" : "not causal", a->scale, cap);
    tell(job, "attention", text);
    if (a->window > 0)
        tell_integer(job, "window", a->window);
    if (a->chunk > 0)
        tell_integer(job, "chunk", a->chunk);
    tell_places(job, &fixture->batch);
}

static void tell_parameters(const inspection *job, const cp_fixture *fixture)
{
    int64_t numbers = 0;
    for (size_t w = 0; w < fixture->weight_count; w++)
        numbers += cp_tensor_count(fixture->weights[w].tensor);
    char text[96];
    snprintf(text, sizeof text, "%lld numbers in %zu tensors", (long long)numbers, fixture->weight_count);
    tell(job, "weights", text);
}

static cp_status tell_loss(const inspection *job, const cp_source *source)
{
    int64_t index = cp_source_find(source, "loss");
    double loss = 0;
    if (index < 0 || source->tensors[index].dims != 0)
        return CP_OK;
    CP_TRY(cp_source_read_all(source, (size_t)index, &loss));
    if (job->json != NULL)
        cp_json_set_real(job->json, "loss", loss);
    else
        printf("  %-14s %.17g\n", "loss", loss);
    return CP_OK;
}

static cp_status tell_fixture(const inspection *job, const cp_fixture *fixture)
{
    if (job->mask >= 0 && fixture->attention != NULL)
        return cp_fail(CP_BAD_USAGE, "--mask: %s holds no layers", fixture->path);
    begin(job, fixture->attention != NULL ? "attention fixture" : "fixture");
    tell(job, "fixture_id", fixture->id);
    tell(job, "producer", fixture->producer);
    tell(job, "truth", fixture->truth);
    if (fixture->attention != NULL) {
        tell_attention(job, fixture);
        tell_tensors(job, fixture->expected);
        return CP_OK;
    }
    tell_parameters(job, fixture);
#if CPEQ_ENGINE
    if (cp_info_model(job->json, fixture, &job->cut) != CP_OK)
        tell(job, "model", cp_error());
#endif
    tell_batch(job, &fixture->batch);
    CP_TRY(tell_loss(job, fixture->expected));
    tell_tensors(job, fixture->expected);
    tell_limits(job, &fixture->calibrations);
#if CPEQ_ENGINE
    if (job->mask >= 0)
        CP_TRY(cp_info_mask(job->json, fixture, job->mask, &job->cut));
#endif
    return CP_OK;
}

static cp_status info_fixture(const inspection *job)
{
    cp_fixture *fixture = NULL;
    CP_TRY(cp_fixture_open(&fixture, job->path));
    cp_status status = tell_fixture(job, fixture);
    cp_fixture_close(fixture);
    return status;
}

/* ---- dump --------------------------------------------------------------------------------------------------------- */

static void tell_declaration(const inspection *job, const cp_declaration *declaration)
{
    tell(job, "fixture_id", declaration->fixture_id);
    tell(job, "implementation", declaration->implementation);
    tell_integer(job, "cp_size", declaration->cp_size);
    if (declaration->cp_rank >= 0)
        tell_integer(job, "cp_rank", declaration->cp_rank);
    tell(job, "exchange", declaration->exchange);
    tell(job, "layout", declaration->layout);
    tell(job, "dtype", cp_dtype_name(declaration->compute_dtype));
    if (!declaration->attention)
        tell(job, "loss_kind", cp_loss_kind_name(declaration->loss_kind));
    tell(job, "gradients", cp_gradient_kind_name(declaration->gradients));
    if (declaration->token_index != NULL) {
        char text[64];
        snprintf(text, sizeof text, "%lld rows of %lld", (long long)declaration->B,
                 (long long)declaration->S);
        tell(job, "local_tokens", text);
    }
}

static cp_status info_dump(const inspection *job, bool folder)
{
    cp_source *source = NULL;
    const char *const paths[] = {job->path};
    CP_TRY(folder ? cp_dumps_open(&source, paths, 1, NULL, NULL) : cp_dump_open(&source, job->path));
    bool attention = source->declaration.attention;
    begin(job, folder      ? attention ? "attention dump, joined from its ranks' files"
                                       : "dump, joined from its ranks' files"
               : attention ? "attention dump"
                           : "dump");
    tell_declaration(job, &source->declaration);
    cp_status status = source->declaration.loss_kind == CP_LOSS_GLOBAL ? tell_loss(job, source) : CP_OK;
    tell_tensors(job, source);
    cp_source_close(source);
    return status;
}

/* ---- config.json -------------------------------------------------------------------------------------------------- */

static cp_status info_config(const inspection *job)
{
    cp_json *config = NULL;
    CP_TRY(cp_json_read(&config, job->path));
    const cp_json *family = cp_json_member(config, "model_type");
    cp_status status = CP_OK;
    if (family == NULL || cp_json_kind_of(family) != CP_JSON_STRING)
        status = cp_fail(CP_BAD_INPUT, "%s: model_type: expected the name of a family, found %s", job->path,
                         family == NULL ? "nothing" : cp_json_kind_name(cp_json_kind_of(family)));
    if (status == CP_OK) {
        begin(job, "config");
        tell(job, "family", cp_json_string(family));
#if CPEQ_ENGINE
        status = cp_info_config_model(job->json, config, job->path, job->length, &job->cut);
#endif
    }
    cp_json_close(config);
    return status;
}

/* ---- command ------------------------------------------------------------------------------------------------------ */

static bool looks_like_json(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    int first = fgetc(file);
    while (first == ' ' || first == '\n' || first == '\r' || first == '\t')
        first = fgetc(file);
    fclose(file);
    return first == '{';
}

static cp_status info(const inspection *job)
{
    struct stat about;
    bool folder = stat(job->path, &about) == 0 && S_ISDIR(about.st_mode), config = looks_like_json(job->path);
    char kind[CP_KIND_TEXT] = "";
    if (!folder && !config)
        CP_TRY(cp_file_kind(kind, job->path));
    if (cp_kind_is_fixture(kind))
        return info_fixture(job);
    if (job->mask >= 0)
        return cp_fail(CP_BAD_USAGE, "--mask: %s is no fixture", job->path);
    if (config)
        return info_config(job);
    if (strcmp(kind, "limits") == 0)
        return info_limits(job);
    if (folder || cp_kind_is_dump(kind))
        return info_dump(job, folder);
    return cp_fail(CP_BAD_INPUT, "%s: a file of kind '%s', expected a fixture, a dump or limits", job->path,
                   kind);
}

static cp_status read_options(inspection *job, const cp_arguments *arguments)
{
    int64_t P = 1;
    CP_TRY(cp_operands_check(arguments, 1, INT32_MAX, "at least one FILE"));
    CP_TRY(cp_value_integer(&P, arguments, "cp", 1, 1024));
    CP_TRY(cp_read_layout(&job->cut.layout, arguments));
    job->cut.P = (int)P;
    job->mask = -1;
#if CPEQ_ENGINE
    CP_TRY(cp_value_integer(&job->mask, arguments, "mask", 0, 100000));
    job->length = 512;
    CP_TRY(cp_value_integer(&job->length, arguments, "length", 2, 1 << 24));
#endif
    return CP_OK;
}

int cp_command_info(const cp_session *session, const cp_arguments *arguments)
{
    inspection job = {.session = session};
    cp_status status = read_options(&job, arguments);
    if (status != CP_OK)
        return cp_complain(session, status);
    cp_json *files = session->json ? cp_json_new_array() : NULL;
    int result = 0;
    for (int i = 0; i < arguments->operand_count; i++) {
        job.path = arguments->operands[i];
        if (session->json) {
            job.json = cp_json_new_object();
            cp_json_set_string(job.json, "file", job.path);
        }
        status = info(&job);
        if (status != CP_OK)
            result = cp_exit_worse(result, cp_complain(session, status));
        if (session->json)
            cp_json_append(files, job.json);
    }
    if (session->json) {
        cp_json *root = cp_json_new_object();
        cp_json_set_integer(root, "schema_version", 1);
        cp_json_set_string(root, "kind", "info");
        cp_json_set(root, "files", files);
        cp_print_json(root);
    }
    return result;
}

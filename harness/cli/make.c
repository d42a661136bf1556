#include "harness/run/make.h"

#include "harness/cli/command.h"
#include "harness/cli/hub.h"
#include "harness/cli/make_batch.h"
#include "harness/cli/output.h"
#include "models/models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const cp_option cp_make_options[] = {
    {"output", 'o', "FIXTURE", "the fixture to write"},
    {"seed", 0, "N", "draws weights and tokens (0)"},
    {"weights", 0, "FILE", "a model.safetensors with the parameters of CONFIG, instead of drawn ones"},
    {"shrink", 0, NULL, "make the model small; every field that code branches on stays"},
    {"length", 0, "T", "tokens in a row (16)"},
    {"batch", 0, "WHAT", "packed:5,1,7,3, one row of documents of these lengths; or a batch.safetensors"},
    {"left-pad", 0, "LIST", "rows with that many real tokens, as 7,4,2, padded on the left"},
    {"right-pad", 0, "LIST", "the same, padded on the right"},
    {"embeds", 0, NULL, "input embeddings instead of ids"},
    {"prompt", 0, "N", "the first N labels of each row are no targets (0)"},
    {0},
};

/* A configuration, and where it came from. */
typedef struct model_text {
    const char *where;
    char *text; /* owned */
    cp_program *program;
} model_text;

static void close_configuration(model_text *configuration)
{
    cp_program_close(configuration->program);
    free(configuration->text);
}

static cp_status read_text(char **out, const char *path)
{
    enum { MOST_BYTES = 1 << 24 };
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, MOST_BYTES + 1);
    cp_check(text != NULL, "out of memory");
    size_t bytes = file != NULL ? fread(text, 1, MOST_BYTES + 1, file) : 0;
    bool failed = file == NULL || ferror(file);
    int reason = errno;
    if (file != NULL)
        fclose(file);
    *out = text;
    if (failed)
        return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", path, strerror(reason));
    if (bytes > MOST_BYTES)
        return cp_fail(CP_BAD_INPUT, "%s: larger than %d bytes, no config.json is", path, MOST_BYTES);
    return CP_OK;
}

static cp_status no_such_configuration(const char *operand)
{
    char names[1024] = "";
    size_t used = 0;
    for (size_t f = 0; cp_models_family(f) != NULL && used < sizeof names; f++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", f == 0 ? "" : ", ",
                                 cp_models_family(f));
    return cp_fail(CP_BAD_INPUT, "%s: neither a file nor a family; families are %s", operand, names);
}

/* A regular file is read; any other operand names a family. */
static cp_status find_text(model_text *configuration)
{
    struct stat about;
    if (stat(configuration->where, &about) == 0 && S_ISREG(about.st_mode))
        return read_text(&configuration->text, configuration->where);
    const char *example = cp_make_config(configuration->where);
    if (example == NULL)
        return no_such_configuration(configuration->where);
    configuration->text = strdup(example);
    cp_check(configuration->text != NULL, "out of memory");
    return CP_OK;
}

static cp_status open_configuration(model_text *configuration, bool shrink)
{
    CP_TRY(find_text(configuration));
    if (shrink) {
        char *small = NULL;
        CP_TRY(cp_make_shrunk(&small, configuration->text, configuration->where));
        free(configuration->text);
        configuration->text = small;
    }
    cp_json *json = NULL;
    cp_check(configuration->text != NULL, "no text of %s", configuration->where);
    CP_TRY(cp_json_parse(&json, configuration->text, strlen(configuration->text), configuration->where));
    cp_status status = cp_models_build(&configuration->program, json, configuration->where);
    cp_json_close(json);
    return status;
}

/* ---- the fixture -------------------------------------------------------------------------------------------------- */

static cp_status report(const cp_session *session, const char *path)
{
    cp_fixture *fixture = NULL;
    CP_TRY(cp_fixture_open(&fixture, path));
    double loss = 0;
    int64_t index = cp_source_find(fixture->expected, "loss");
    cp_status status = index < 0 ? CP_OK : cp_source_read_all(fixture->expected, (size_t)index, &loss);
    if (status == CP_OK && session->json) {
        cp_json *root = cp_json_new_object();
        cp_json_set_integer(root, "schema_version", 1);
        cp_json_set_string(root, "kind", "make");
        cp_json_set_string(root, "output", path);
        cp_json_set_string(root, "fixture_id", fixture->id);
        cp_json_set_real(root, "loss", loss);
        cp_print_json(root);
    } else if (status == CP_OK && !session->quiet) {
        printf("%s: loss %.17g, fixture_id %s\n", path, loss, fixture->id);
    }
    cp_fixture_close(fixture);
    return status;
}

static cp_status make_batch(cp_batch *batch, const cp_arguments *arguments, const model_text *configuration,
                            uint64_t seed, cp_arena *arena)
{
    cp_batch_plan plan = {.seed = seed};
    CP_TRY(cp_batch_plan_read(&plan, arguments));
    if (plan.file != NULL)
        CP_TRY(cp_hub_read_batch(batch, plan.file, arena));
    else
        cp_batch_draw(batch, &plan, configuration->program, arena);
    return cp_batch_check(batch, configuration->program->V, plan.file != NULL ? plan.file : "the batch");
}

static cp_status make_from_file(const cp_arguments *arguments, const model_text *configuration,
                                const cp_batch *batch, cp_arena *arena)
{
    cp_weight *weights = NULL;
    size_t count = 0;
    if (cp_given(arguments, "shrink"))
        return cp_fail(CP_BAD_USAGE,
                       "--weights: those of the large model do not fit the one that --shrink makes");
    CP_TRY(cp_hub_read_weights(&weights, &count, cp_value(arguments, "weights"), arena));
    return cp_make_fixture(cp_value(arguments, "output"), configuration->text, weights, count, batch);
}

static cp_status make_from_seed(const cp_arguments *arguments, const model_text *configuration,
                                const cp_batch *batch, uint64_t seed)
{
    cp_weight *weights = NULL;
    size_t count = 0;
    CP_TRY(cp_make_weights(&weights, &count, configuration->text, configuration->where, seed));
    cp_status status =
        cp_make_fixture(cp_value(arguments, "output"), configuration->text, weights, count, batch);
    cp_make_weights_close(weights, count);
    return status;
}

static cp_status make(const cp_session *session, const cp_arguments *arguments, model_text *configuration,
                      cp_arena *arena)
{
    int64_t seed = 0;
    cp_batch batch;
    const char *path = cp_value(arguments, "output");
    CP_TRY(cp_operands_check(arguments, 1, 1, "one CONFIG"));
    if (path == NULL)
        return cp_fail(CP_BAD_USAGE, "expected -o FIXTURE");
    CP_TRY(cp_target_check(path, arguments->operands[0]));
    CP_TRY(cp_value_integer(&seed, arguments, "seed", 0, INT64_MAX));
    configuration->where = arguments->operands[0];
    CP_TRY(open_configuration(configuration, cp_given(arguments, "shrink")));
    CP_TRY(make_batch(&batch, arguments, configuration, (uint64_t)seed, arena));
    if (cp_given(arguments, "weights"))
        CP_TRY(make_from_file(arguments, configuration, &batch, arena));
    else
        CP_TRY(make_from_seed(arguments, configuration, &batch, (uint64_t)seed));
    return report(session, path);
}

int cp_command_make(const cp_session *session, const cp_arguments *arguments)
{
    model_text configuration = {0};
    cp_arena arena = cp_arena_growing();
    cp_status status = make(session, arguments, &configuration, &arena);
    cp_arena_close(&arena);
    close_configuration(&configuration);
    return status == CP_OK ? 0 : cp_complain(session, status);
}

#include "harness/run/run.h"
#include "harness/cli/command.h"
#include "harness/cli/exchanges.h"
#include "harness/cli/layouts.h"
#include "harness/cli/output.h"
#include "harness/cli/values.h"
#include "harness/files/dump.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const cp_option cp_run_command_options[] = {
    {"output", 'o', "DUMP", "the dump to write; with --per-rank a folder"},
    {"cp", 0, "P", "context-parallel ranks (1)"},
    {"dp", 0, "D", "data-parallel groups of that many ranks; the rows are spread over them (1)"},
    {"micro", 0, "M", "micro-batches, where the batch has none of its own (1)"},
    {"exchange", 0, "NAME",
     "how queries meet keys: local, ulysses, allgather, ring, usp, usp:UxR, usp:UxR:ring-inner (local on 1 "
     "rank, "
     "else ulysses)"},
    {"layout", 0, "NAME",
     "which rank holds which token: contiguous, zigzag, striped[:block], uneven[:tokens of each rank], "
     "per_document (contiguous)"},
    {"dtype", 0, "NAME", "float64, float32, bfloat16 (float64)"},
    {"attention", 0, "NAME", "how scores are held: block, dense, varlen (block)"},
    {"per-rank", 0, NULL, "one file a rank, as the ranks of a real job would write them"},
    {"trace", 0, NULL, "keep what crosses the layers, and its gradients"},
    {"transport", 0, "NAME", "threads, mpi (mpi under mpirun, else threads)"},
    {"fault", 0, "DECISION=VALUE", "set one decision wrong; 'cpeq faults' lists them"},
    {0},
};

static cp_status read_options(cp_run_options *options, const cp_session *session,
                              const cp_arguments *arguments)
{
    *options = (cp_run_options){0};
    int64_t P = 1;
    CP_TRY(cp_value_integer(&P, arguments, "cp", 1, CP_MOST_RANKS));
    int dtype = 0, attention = 0;
    options->exchange = cp_usual_exchange((int)P);
    CP_TRY(cp_read_exchange(&options->exchange, arguments));
    CP_TRY(cp_read_layout(&options->layout, arguments));
    CP_TRY(cp_value_choice(&dtype, arguments, "dtype", cp_working_dtype_value, CP_WORKING_DTYPES));
    CP_TRY(cp_value_choice(&attention, arguments, "attention", cp_attention_value, CP_ATTENTION_FORMS));
    CP_TRY(cp_read_transport(&options->transport, session, arguments));
    CP_TRY(cp_read_split(options, arguments));
    CP_TRY(cp_check_processes(session, options->transport, P, options->D));
    CP_TRY(cp_read_fault(&options->decisions, arguments));
    options->P = (int)P;
    options->dtype = cp_working_dtype(dtype);
    options->attention = (cp_attention_form)attention;
    options->trace = cp_given(arguments, "trace");
    return CP_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static void rank_path(char path[CP_PATH_BYTES], const char *folder, int rank)
{
    snprintf(path, CP_PATH_BYTES, "%s/rank-%04d.h5", folder, rank);
}

/* Whether it is the name that a run on P ranks gives to one of its files. */
static bool is_ours(const char *name, int P)
{
    for (int rank = 0; rank < P; rank++) {
        char ours[32];
        snprintf(ours, sizeof ours, "rank-%04d.h5", rank);
        if (strcmp(name, ours) == 0)
            return true;
    }
    return false;
}

/* A folder means all its *.h5: those of another run would be read with ours. */
static cp_status check_folder(const char *folder, int P)
{
    DIR *entries = opendir(folder);
    if (entries == NULL)
        return cp_fail(CP_INTERNAL, "%s: cannot be read: %s", folder, strerror(errno));
    cp_status status = CP_OK;
    for (struct dirent *entry; status == CP_OK && (entry = readdir(entries)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.' || length < 3 || strcmp(entry->d_name + length - 3, ".h5") != 0)
            continue;
        if (!is_ours(entry->d_name, P))
            status = cp_fail(CP_BAD_USAGE, "%s: holds %s, which is of another run; choose another folder",
                             folder, entry->d_name);
    }
    closedir(entries);
    return status;
}

static cp_status prepare_target(const char *path, const char *input, bool per_rank, int P)
{
    if (!per_rank)
        return cp_target_check(path, input);
    CP_TRY(cp_make_folder(path));
    return check_folder(path, P);
}

static cp_status write_parts(cp_source *const *parts, int P, const char *folder)
{
    for (int rank = 0; rank < P; rank++) {
        char path[CP_PATH_BYTES];
        rank_path(path, folder, rank);
        CP_TRY(cp_dump_write(path, parts[rank]));
    }
    return CP_OK;
}

static cp_status report(const cp_session *session, const cp_source *source, const char *path, int files)
{
    /* A rank's own file may hold a share of the loss only. */
    bool whole_loss = source->declaration.loss_kind == CP_LOSS_GLOBAL;
    double loss = 0;
    int64_t index = cp_source_find(source, "loss");
    cp_check(index >= 0, "a run without a loss");
    CP_TRY(cp_source_read_all(source, (size_t)index, &loss));
    if (session->json) {
        cp_json *root = cp_json_new_object();
        cp_json_set_integer(root, "schema_version", 1);
        cp_json_set_string(root, "kind", "run");
        cp_json_set_string(root, "output", path);
        cp_json_set_integer(root, "files", files);
        cp_json_set_integer(root, "tensors", (int64_t)source->count);
        if (whole_loss)
            cp_json_set_real(root, "loss", loss);
        cp_print_json(root);
    } else if (!session->quiet) {
        printf("%s: %zu tensors", path, source->count);
        if (files > 1)
            printf(" in each of %d files", files);
        if (whole_loss)
            printf(", loss %.17g", loss);
        printf("\n");
    }
    if (session->verbose && !session->json)
        for (size_t t = 0; t < source->count; t++) {
            char shape[CP_SHAPE_TEXT];
            const cp_source_tensor *tensor = &source->tensors[t];
            printf("  %s %s %s\n", tensor->name, cp_dtype_name(tensor->dtype),
                   cp_shape_text(shape, tensor->dims, tensor->extent));
        }
    return CP_OK;
}

static cp_status run_whole(const cp_session *session, const cp_model *model, const cp_run_options *options,
                           const char *path)
{
    cp_source *whole = NULL;
    CP_TRY(cp_run_whole(&whole, model, options));
    cp_status status = CP_OK;
    if (session->process == 0) {
        status = cp_dump_write(path, whole);
        if (status == CP_OK)
            status = report(session, whole, path, 1);
    }
    cp_source_close(whole);
    return status;
}

static cp_status run_parts(const cp_session *session, const cp_model *model, const cp_run_options *options,
                           const char *path)
{
    int W = cp_run_ranks(options);
    cp_source **parts = calloc((size_t)W, sizeof(cp_source *));
    cp_check(parts != NULL, "out of memory");
    cp_status status = cp_run_parts(parts, model, options);
    if (status == CP_OK && session->process == 0) {
        status = write_parts(parts, W, path);
        if (status == CP_OK)
            status = report(session, parts[0], path, W);
    }
    for (int rank = 0; rank < W; rank++)
        cp_source_close(parts[rank]);
    free(parts);
    return status;
}

static cp_status run(const cp_session *session, const cp_arguments *arguments, const cp_run_options *options)
{
    bool per_rank = cp_given(arguments, "per-rank");
    const char *path = cp_value(arguments, "output");
    cp_fixture *fixture = NULL;
    cp_model *model = NULL;
    cp_status status = cp_fixture_open(&fixture, arguments->operands[0]);
    if (status == CP_OK)
        status = cp_model_open(&model, fixture);
    if (status == CP_OK)
        status = cp_run_check(model, options);
    if (status == CP_OK && session->process == 0)
        status = prepare_target(path, arguments->operands[0], per_rank, cp_run_ranks(options));
    status = cp_run_agree(options->transport, status);
    if (status == CP_OK)
        status = (per_rank ? run_parts : run_whole)(session, model, options, path);
    status = cp_run_agree(options->transport, status);
    cp_model_close(model);
    cp_fixture_close(fixture);
    return status;
}

int cp_command_run(const cp_session *session, const cp_arguments *arguments)
{
    cp_run_options options;
    cp_status status = cp_operands_check(arguments, 1, 1, "one FIXTURE");
    if (status == CP_OK && !cp_given(arguments, "output"))
        status = cp_fail(CP_BAD_USAGE, "expected -o DUMP");
    if (status == CP_OK)
        status = read_options(&options, session, arguments);
    /* Threads are ranks of one process: the others of a launch have nothing to do. */
    if (status == CP_OK && options.transport == CP_TRANSPORT_THREADS && session->process != 0)
        return 0;
    if (status == CP_OK)
        status = run(session, arguments, &options);
    return status == CP_OK ? 0 : cp_complain(session, status);
}

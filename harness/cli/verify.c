#include "harness/cli/collect.h"
#include "harness/cli/command.h"
#include "harness/cli/exchanges.h"
#include "harness/cli/judging.h"
#include "harness/cli/layouts.h"
#include "harness/cli/values.h"
#include "harness/run/trial.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cp_option cp_verify_options[] = {
    {"cp", 0, "LIST", "context-parallel ranks, as 1,2,4 (1)"},
    {"dp", 0, "D", "data-parallel groups of that many ranks; the rows are spread over them (1)"},
    {"micro", 0, "M", "micro-batches, where the batch has none of its own (1)"},
    {"exchange", 0, "LIST",
     "local, ulysses, allgather, ring, usp, usp:UxR, usp:UxR:ring-inner, all (local on 1 rank, else "
     "ulysses)"},
    {"layout", 0, "LIST",
     "contiguous, zigzag, striped[:block], uneven[:tokens of each rank], per_document, all (contiguous)"},
    {"dtype", 0, "LIST", "float64, float32, bfloat16, all (float64)"},
    {"attention", 0, "LIST", "block, dense, varlen, all (block)"},
    {"transport", 0, "NAME", "threads, mpi (mpi under mpirun, else threads)"},
    {"filter", 0, "GLOB", "only fixtures of this name, as 'llama/*'"},
    {"fault", 0, "DECISION=VALUE", "set one decision wrong; 'cpeq faults' lists them"},
    {"rtol", 0, "X", "limits of your own: an error of at most atol + rtol * |expected|"},
    {"atol", 0, "X", "see --rtol"},
    {"junit", 0, "FILE", "write a JUnit report"},
    {"markdown", 0, "FILE", "write a Markdown report"},
    {"html", 0, "FILE", "write a page: fixtures by ways, and every run"},
    {0},
};

enum { MOST_CPS = 64, MOST_VALUES = 16 };

typedef struct choices {
    int values[MOST_VALUES];
    int count;
} choices;

/* What is to be tried: every combination of the lists. */
typedef struct trial_plan {
    int64_t cp[MOST_CPS];
    int cp_count;
    cp_exchange_spec exchange[MOST_VALUES];
    int exchange_count; /* 0: the usual one */
    choices dtype, attention;
    cp_layout_spec layout[MOST_VALUES];
    int layout_count;
    cp_run_options usual; /* what all have in common */
    cp_diff_options limits;
} trial_plan;

typedef struct verifying {
    const cp_session *session;
    trial_plan plan;
    cp_trial_row *rows;
    size_t count, room;
    int64_t expected; /* runs in all, for the progress */
    int result;       /* the worst exit status so far */
    bool progress;
} verifying;

/* ---- options ------------------------------------------------------------------------------------------------------ */

static cp_status read_choices(choices *out, const cp_arguments *arguments, const char *name,
                              cp_name_of *name_of, int count)
{
    cp_check(count <= MOST_VALUES, "%d values of --%s", count, name);
    return cp_value_choices(out->values, &out->count, arguments, name, name_of, count);
}

static cp_status read_ranks(trial_plan *plan, const cp_arguments *arguments)
{
    CP_TRY(cp_value_integers(plan->cp, &plan->cp_count, MOST_CPS, arguments, "cp", 1, CP_MOST_RANKS));
    for (int i = 0; i < plan->cp_count; i++)
        for (int before = 0; before < i; before++)
            if (plan->cp[before] == plan->cp[i])
                return cp_fail(CP_BAD_USAGE, "--cp: '%lld' twice in the list", (long long)plan->cp[i]);
    return CP_OK;
}

static cp_status read_plan(trial_plan *plan, const cp_session *session, const cp_arguments *arguments)
{
    *plan = (trial_plan){.cp = {1}, .cp_count = 1, .layout_count = 1, .dtype.count = 1, .attention.count = 1};
    CP_TRY(read_ranks(plan, arguments));
    CP_TRY(cp_read_exchanges(plan->exchange, &plan->exchange_count, MOST_VALUES, arguments));
    CP_TRY(cp_read_layouts(plan->layout, &plan->layout_count, MOST_VALUES, arguments));
    CP_TRY(read_choices(&plan->dtype, arguments, "dtype", cp_working_dtype_value, CP_WORKING_DTYPES));
    CP_TRY(read_choices(&plan->attention, arguments, "attention", cp_attention_value, CP_ATTENTION_FORMS));
    CP_TRY(cp_read_transport(&plan->usual.transport, session, arguments));
    CP_TRY(cp_read_split(&plan->usual, arguments));
    for (int i = 0; i < plan->cp_count; i++)
        CP_TRY(cp_check_processes(session, plan->usual.transport, plan->cp[i], plan->usual.D));
    CP_TRY(cp_read_fault(&plan->usual.decisions, arguments));
    return cp_read_limits(&plan->limits, arguments);
}

/* ---- trials ------------------------------------------------------------------------------------------------------- */

static cp_trial_row *add_row(verifying *self, const char *name, const cp_run_options *options)
{
    if (self->count == self->room) {
        self->room = self->room == 0 ? 64 : 2 * self->room;
        self->rows = realloc(self->rows, self->room * sizeof *self->rows);
        cp_check(self->rows != NULL, "out of memory");
    }
    cp_trial_row *row = &self->rows[self->count++];
    *row = (cp_trial_row){.cp = options->P, .dp = options->D, .micro = options->M, .dtype = options->dtype};
    snprintf(row->fixture, sizeof row->fixture, "%s", name);
    _Static_assert(sizeof row->exchange >= CP_EXCHANGE_TEXT, "an exchange fits");
    cp_exchange_text(&options->exchange, row->exchange);
    cp_layout_text(&options->layout, row->layout);
    snprintf(row->attention, sizeof row->attention, "%s", cp_attention_value((int)options->attention));
    return row;
}

static void show_progress(const verifying *self, const cp_trial_row *row)
{
    if (self->progress)
        fprintf(stderr, "\r\033[K%zu/%lld %s cp %d %s", self->count, (long long)self->expected, row->fixture,
                row->cp, row->exchange);
}

static void judge(verifying *self, cp_trial_row *row, const cp_result *result)
{
    cp_trial_judged(row, result);
    const cp_session *session = self->session;
    cp_report_style style = {.color = session->color};
    if (session->verbose && !session->json && result->verdict != CP_SAME)
        cp_print_report(cp_report_result(result, CP_REPORT_TEXT, style));
}

/* One combination. */
static void try_run(verifying *self, const char *name, const cp_fixture *fixture, const cp_model *model,
                    const cp_run_options *options)
{
    cp_trial_row *row = add_row(self, name, options);
    show_progress(self, row);
    double begin = cp_now();
    cp_result result = {0};
    cp_status status = cp_trial_run(&result, model, fixture, options, &self->plan.limits);
    row->seconds = cp_now() - begin;
    if (status != CP_OK)
        cp_trial_failed(row, status, cp_error());
    if (status == CP_INCOMPARABLE) /* its ranks' parts do not make a whole: a finding, not a failure to run */
        row->outcome = CP_TRIAL_NOT_COMPARABLE;
    if (status == CP_OK && self->session->process == 0)
        judge(self, row, &result);
    cp_result_close(&result);
}

typedef void combination_action(verifying *self, const cp_run_options *options, void *context);

/* Every combination of the lists, the last one fastest. */
static void each_combination(verifying *self, combination_action *action, void *context)
{
    const trial_plan *plan = &self->plan;
    cp_run_options options = plan->usual;
    for (int c = 0; c < plan->cp_count; c++) {
        options.P = (int)plan->cp[c];
        for (int e = 0; e < (plan->exchange_count > 0 ? plan->exchange_count : 1); e++) {
            options.exchange = plan->exchange_count > 0 ? plan->exchange[e] : cp_usual_exchange(options.P);
            for (int l = 0; l < plan->layout_count; l++) {
                options.layout = plan->layout[l];
                for (int d = 0; d < plan->dtype.count; d++) {
                    options.dtype = cp_working_dtype(plan->dtype.values[d]);
                    for (int a = 0; a < plan->attention.count; a++) {
                        options.attention = (cp_attention_form)plan->attention.values[a];
                        action(self, &options, context);
                    }
                }
            }
        }
    }
}

typedef struct candidate { /* a fixture, opened */
    const char *name;
    const cp_fixture *fixture;
    const cp_model *model;
    cp_status status;     /* of opening the model */
    const char *sentence; /* where it is not CP_OK */
} candidate;

static void try_combination(verifying *self, const cp_run_options *options, void *context)
{
    const candidate *tried = context;
    if (tried->status == CP_OK)
        try_run(self, tried->name, tried->fixture, tried->model, options);
    else
        cp_trial_failed(add_row(self, tried->name, options), tried->status, tried->sentence);
}

/* The row names the fixture, and equal reasons are counted together. */
static const char *without_path(const char *sentence, const char *path)
{
    size_t length = strlen(path);
    return strncmp(sentence, path, length) == 0 && strncmp(sentence + length, ": ", 2) == 0
               ? sentence + length + 2
               : sentence;
}

/* Opens a fixture on every process and tries it; one that cannot be read is complained of, and the others go on. */
static void verify_fixture(verifying *self, const cp_collected *file)
{
    cp_fixture *fixture = NULL;
    cp_model *model = NULL;
    cp_status status = cp_fixture_open(&fixture, file->path);
    if (status == CP_OK && fixture->attention == NULL)
        status = cp_model_open(&model, fixture);
    status = cp_run_agree(self->plan.usual.transport, status);
    char sentence[CP_RESULT_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", status == CP_OK ? "" : without_path(cp_error(), file->path));
    if (status == CP_OK || status == CP_REFUSED) {
        candidate tried = {file->name, fixture, model, status, sentence};
        each_combination(self, try_combination, &tried);
    } else {
        self->result = cp_exit_worse(self->result, cp_complain(self->session, status));
    }
    cp_model_close(model);
    cp_fixture_close(fixture);
}

/* ---- command ------------------------------------------------------------------------------------------------------ */

static void count_combination(verifying *self, const cp_run_options *options, void *context)
{
    (void)options;
    (void)context;
    self->expected++;
}

static cp_status verify_all(verifying *self, const cp_arguments *arguments)
{
    cp_collection collection;
    cp_status status =
        cp_collect(&collection, arguments->operands, arguments->operand_count, cp_value(arguments, "filter"));
    status = cp_run_agree(self->plan.usual.transport, status);
    if (status == CP_OK) {
        each_combination(self, count_combination, NULL);
        self->expected *= collection.count;
        for (int i = 0; i < collection.count; i++)
            verify_fixture(self, &collection.files[i]);
        if (self->progress)
            fprintf(stderr, "\r\033[K");
    }
    cp_collection_close(&collection);
    return status;
}

static cp_status write_reports(const verifying *self, const cp_arguments *arguments)
{
    const cp_session *session = self->session;
    char *text = cp_report_trials(self->rows, self->count, session->json ? CP_REPORT_JSON : CP_REPORT_TEXT);
    if (session->quiet && !session->json)
        cp_print_last_line(text);
    else
        cp_print_report(text);
    CP_TRY(cp_write_asked(arguments, "junit", cp_report_trials(self->rows, self->count, CP_REPORT_JUNIT)));
    CP_TRY(
        cp_write_asked(arguments, "markdown", cp_report_trials(self->rows, self->count, CP_REPORT_MARKDOWN)));
    return cp_write_asked(arguments, "html", cp_report_trials(self->rows, self->count, CP_REPORT_HTML));
}

static cp_status verify(verifying *self, const cp_arguments *arguments)
{
    CP_TRY(cp_operands_check(arguments, 1, INT32_MAX, "at least one FIXTURE or DIR"));
    CP_TRY(read_plan(&self->plan, self->session, arguments));
    /* Threads are ranks of one process: the others of a launch have nothing to do. */
    if (self->plan.usual.transport == CP_TRANSPORT_THREADS && self->session->process != 0)
        return CP_OK;
    CP_TRY(verify_all(self, arguments));
    if (self->session->process != 0)
        return CP_OK;
    CP_TRY(write_reports(self, arguments));
    self->result = cp_exit_worse(self->result, cp_trials_exit(self->rows, self->count));
    return CP_OK;
}

int cp_command_verify(const cp_session *session, const cp_arguments *arguments)
{
    verifying self = {.session = session};
    self.progress = session->process == 0 && !session->quiet && isatty(STDERR_FILENO);
    cp_status status = verify(&self, arguments);
    free(self.rows);
    return status == CP_OK ? self.result : cp_exit_worse(self.result, cp_complain(session, status));
}

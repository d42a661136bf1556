#include "base/processors.h"
#include "harness/cli/collect.h"
#include "harness/cli/judging.h"
#include "harness/cli/processes.h"
#include "harness/cli/suite.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cp_option cp_gate_options[] = {
    {"jobs", 'j', "N", "judge N dumps at a time (as many as there are processors)"},
    {"filter", 0, "GLOB", "only dumps of this name, as 'llama/*'"},
    {"junit", 0, "FILE", "write a JUnit report"},
    {"markdown", 0, "FILE", "write a Markdown report"},
    {"html", 0, "FILE", "write a page: all dumps, and behind each the page that diff writes"},
    {0},
};

typedef struct gating {
    const cp_session *session;
    cp_suite suite;
    size_t count;
    const cp_suite_row **wanted;  /* [count] rows of the suite that are gated */
    cp_gate_row *rows;            /* [count] */
    char **texts;                 /* [count] text reports to show; NULL: none */
    size_t *judged, judged_count; /* rows that have both sides */
    size_t done;
    bool progress;
} gating;

/* ---- one judgement, in a process of its own ----------------------------------------------------------------------- */

/* What a process answers: this, then the JSON report and the text of it. */
typedef struct answer {
    cp_trial_row found;
    cp_gate_outcome outcome;
    bool limited;
    size_t report_bytes, text_bytes; /* with their ends; 0: there is none */
} answer;

static void declare(cp_trial_row *found, const cp_source *dump)
{
    const cp_declaration *declared = &dump->declaration;
    found->cp = declared->cp_size;
    found->dp = declared->dp_size;
    snprintf(found->exchange, sizeof found->exchange, "%s", declared->exchange);
    snprintf(found->layout, sizeof found->layout, "%s", declared->layout);
}

static void judge(void *context, size_t piece, FILE *out)
{
    const gating *self = context;
    size_t at = self->judged[piece];
    const cp_suite_row *row = self->wanted[at];
    cp_compared files = {row->expected, row->fixture, row->paths, row->path_count};
    cp_diff_options options = {row->only, row->user_limits, row->rtol, row->atol, NULL};
    cp_limits_file *limits = NULL;
    cp_comparison sides = {0};
    cp_result result;
    answer found = {.found = self->rows[at].found};
    double begin = cp_now();
    cp_status status = row->limits != NULL ? cp_limits_file_open(&limits, row->limits) : CP_OK;
    options.limits = limits;
    if (status == CP_OK)
        status = cp_compare_files(&result, &sides, &files, &options);
    char *report = NULL, *text = NULL;
    if (sides.actual != NULL)
        declare(&found.found, sides.actual);
    if (status == CP_OK) {
        cp_report_style style = {.color = self->session->color};
        cp_trial_judged(&found.found, &result);
        found.found.dtype = result.dtype;
        found.outcome = (cp_gate_outcome)result.verdict;
        found.limited = result.count > 0;
        report = cp_report_result(&result, CP_REPORT_JSON, style);
        if (self->session->verbose && result.verdict != CP_SAME)
            text = cp_report_result(&result, CP_REPORT_TEXT, style);
        cp_result_close(&result);
    } else {
        cp_trial_failed(&found.found, status, cp_error());
        found.outcome = CP_GATE_ERROR;
    }
    found.found.seconds = cp_now() - begin;
    found.report_bytes = report != NULL ? strlen(report) + 1 : 0;
    found.text_bytes = text != NULL ? strlen(text) + 1 : 0;
    fwrite(&found, sizeof found, 1, out);
    if (report != NULL)
        fwrite(report, 1, found.report_bytes, out);
    if (text != NULL)
        fwrite(text, 1, found.text_bytes, out);
    free(report);
    free(text);
    cp_comparison_close(&sides);
    cp_limits_file_close(limits);
}

static void show_progress(const gating *self, const char *name)
{
    if (self->progress)
        fprintf(stderr, "\r\033[K%zu/%zu %s", self->done, self->judged_count, name);
}

static char *copy_of(const char *text, size_t bytes)
{
    char *out = bytes > 0 ? strdup(text) : NULL;
    cp_check(bytes == 0 || out != NULL, "out of memory");
    return out;
}

static void take_answer(void *context, size_t piece, const char *bytes, size_t count, const char *sentence)
{
    gating *self = context;
    size_t at = self->judged[piece];
    cp_gate_row *row = &self->rows[at];
    answer found;
    if (sentence == NULL) {
        cp_check(count >= sizeof found, "an answer of %zu bytes", count);
        memcpy(&found, bytes, sizeof found);
        cp_check(count == sizeof found + found.report_bytes + found.text_bytes, "an answer of %zu bytes",
                 count);
        row->found = found.found;
        row->outcome = found.outcome;
        row->limited = found.limited;
        row->report = copy_of(bytes + sizeof found, found.report_bytes);
        self->texts[at] = copy_of(bytes + sizeof found + found.report_bytes, found.text_bytes);
    } else {
        cp_trial_failed(&row->found, CP_INTERNAL, sentence);
        row->outcome = CP_GATE_ERROR;
    }
    self->done++;
    show_progress(self, row->name);
}

/* ---- all of them -------------------------------------------------------------------------------------------------- */

static cp_gate_row begin_row(const cp_suite_row *wanted)
{
    cp_gate_row row = {
        .name = wanted->name,
        .against = wanted->expected,
        .dump = wanted->wanted,
        .only = wanted->only != NULL ? wanted->only : "",
        .known = wanted->known,
        .because = wanted->because,
        .says = wanted->says,
        .found = {.loss = NAN, .logits = NAN, .gradients = NAN},
    };
    char *name = cp_collected_name(wanted->expected);
    snprintf(row.found.fixture, sizeof row.found.fixture, "%s", name);
    free(name);
    if (wanted->path_count == 0) {
        row.outcome = wanted->expected[0] != '\0' ? CP_GATE_MISSING : CP_GATE_EXTRA;
        snprintf(row.found.sentence, sizeof row.found.sentence, "%s", wanted->absent);
    }
    return row;
}

static void *room_for(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);
    cp_check(memory != NULL, "no memory for %zu dumps", count);
    return memory;
}

static void gate_all(gating *self, const char *filter, int jobs)
{
    self->wanted = room_for(self->suite.count, sizeof *self->wanted);
    self->rows = room_for(self->suite.count, sizeof *self->rows);
    self->texts = room_for(self->suite.count, sizeof *self->texts);
    self->judged = room_for(self->suite.count, sizeof *self->judged);
    for (size_t i = 0; i < self->suite.count; i++) {
        const cp_suite_row *wanted = &self->suite.rows[i];
        if (filter != NULL && fnmatch(filter, wanted->name, 0) != 0)
            continue;
        if (wanted->path_count > 0)
            self->judged[self->judged_count++] = self->count;
        self->rows[self->count] = begin_row(wanted);
        self->wanted[self->count++] = wanted;
    }
    cp_work_in_processes(self->judged_count, jobs, judge, take_answer, self);
    if (self->progress)
        fprintf(stderr, "\r\033[K");
}

static void close_gate(gating *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->rows[i].report);
        free(self->texts[i]);
    }
    free(self->texts);
    free(self->rows);
    free(self->wanted);
    free(self->judged);
    cp_suite_close(&self->suite);
}

/* ---- command ------------------------------------------------------------------------------------------------------ */

static cp_status write_reports(gating *self, const cp_arguments *arguments)
{
    static const struct {
        const char *option;
        cp_report_format format;
    } files[] = {{"junit", CP_REPORT_JUNIT}, {"markdown", CP_REPORT_MARKDOWN}, {"html", CP_REPORT_HTML}};
    const cp_session *session = self->session;
    for (size_t i = 0; i < self->count && !session->json; i++) {
        if (self->texts[i] != NULL)
            printf("%s: %s", self->rows[i].name, self->texts[i]);
    }
    char *report = cp_report_gate(self->rows, self->count, session->json ? CP_REPORT_JSON : CP_REPORT_TEXT);
    if (session->quiet && !session->json)
        cp_print_last_line(report);
    else
        cp_print_report(report);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (cp_given(arguments, files[i].option))
            CP_TRY(cp_write_asked(arguments, files[i].option,
                                  cp_report_gate(self->rows, self->count, files[i].format)));
    }
    return CP_OK;
}

static cp_status read_suite(cp_suite *suite, const cp_arguments *arguments)
{
    CP_TRY(cp_operands_check(arguments, 1, 2, "a SUITE, or two folders, FIXTURES and DUMPS"));
    if (arguments->operand_count == 2)
        return cp_suite_folders(suite, arguments->operands[0], arguments->operands[1]);
    if (cp_is_folder(arguments->operands[0]))
        return cp_fail(CP_BAD_USAGE,
                       "%s: one folder; a suite is a JSON file, or two folders, FIXTURES and DUMPS",
                       arguments->operands[0]);
    return cp_suite_read(suite, arguments->operands[0]);
}

static cp_status gate(int *verdict, gating *self, const cp_arguments *arguments)
{
    enum { MOST_JOBS = 1024 };
    int processors = cp_processors();
    int64_t jobs = processors < MOST_JOBS ? processors : MOST_JOBS;
    CP_TRY(cp_value_integer(&jobs, arguments, "jobs", 1, MOST_JOBS));
    CP_TRY(read_suite(&self->suite, arguments));
    gate_all(self, cp_value(arguments, "filter"), (int)jobs);
    *verdict = cp_gate_exit(self->rows, self->count);
    return write_reports(self, arguments);
}

int cp_command_gate(const cp_session *session, const cp_arguments *arguments)
{
    gating self = {.session = session};
    self.progress = !session->quiet && isatty(STDERR_FILENO);
    int verdict = 0;
    cp_status status = gate(&verdict, &self, arguments);
    if (status != CP_OK)
        verdict = cp_exit_worse(verdict, cp_complain(session, status));
    close_gate(&self);
    return verdict;
}

#include "harness/cli/judging.h"
#include "harness/files/dump.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const cp_option cp_diff_command_options[] = {
    {"fixture", 0, "FILE", "the fixture that two dumps were made from: its batch tells padding from tokens"},
    {"only", 0, "GLOB", "judge only tensors of this name, as 'grads/*'"},
    {"all", 0, NULL, "list every tensor, not only those that fail"},
    {"rtol", 0, "X", "limits of your own: an error of at most atol + rtol * |expected|"},
    {"atol", 0, "X", "see --rtol"},
    {"junit", 0, "FILE", "write a JUnit report"},
    {"markdown", 0, "FILE", "write a Markdown report"},
    {"html", 0, "FILE", "write a page with pictures: by tensor and layer, by position, by rank"},
    {0},
};

/* Both sides, and the fixture that they belong to. */
typedef struct comparison {
    cp_fixture *fixture; /* NULL: none */
    cp_source *dump;     /* the expected side where it is no fixture */
    cp_source *actual;
} comparison;

static void close_comparison(comparison *sides)
{
    cp_source_close(sides->actual);
    cp_source_close(sides->dump);
    cp_fixture_close(sides->fixture);
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The left side: a fixture, or a dump with --fixture or without. */
static cp_status open_expected(comparison *sides, const cp_arguments *arguments)
{
    const char *path = arguments->operands[0];
    char kind[CP_KIND_TEXT] = "dump";
    if (!is_folder(path))
        CP_TRY(cp_file_kind(kind, path));
    bool fixture = strcmp(kind, "fixture") == 0;
    if (fixture && cp_given(arguments, "fixture"))
        return cp_fail(CP_BAD_USAGE, "--fixture: %s is a fixture itself", path);
    if (fixture)
        return cp_fixture_open(&sides->fixture, path);
    if (cp_given(arguments, "fixture"))
        CP_TRY(cp_fixture_open(&sides->fixture, cp_value(arguments, "fixture")));
    return cp_dumps_open(&sides->dump, &path, 1, sides->fixture != NULL ? &sides->fixture->batch : NULL);
}

static cp_status open_actual(comparison *sides, const cp_arguments *arguments)
{
    return cp_dumps_open(&sides->actual, arguments->operands + 1, (size_t)arguments->operand_count - 1,
                         sides->fixture != NULL ? &sides->fixture->batch : NULL);
}

static char *copy(const char *text)
{
    char *out = strdup(text);
    cp_check(out != NULL, "out of memory");
    return out;
}

/* Files that cannot be joined are a finding too, so that every report tells it. */
static cp_result not_comparable(const cp_arguments *arguments)
{
    cp_result result = {.verdict = CP_NOT_COMPARABLE, .next = copy(""), .failure_count = 1};
    result.expected_label = copy(arguments->operands[0]);
    result.actual_label = copy(arguments->operands[1]);
    result.failures = calloc(1, sizeof *result.failures);
    cp_check(result.failures != NULL, "out of memory");
    result.failures[0] = copy(cp_error());
    result.worst_loss = result.worst_logits = result.worst_gradient = NAN;
    return result;
}

static cp_status report(const cp_session *session, const cp_arguments *arguments, const cp_result *result)
{
    cp_report_style style = {.all = cp_given(arguments, "all") || session->verbose, .color = session->color};
    if (session->json)
        cp_print_report(cp_report_result(result, CP_REPORT_JSON, style));
    else if (session->quiet)
        printf("%s\n", cp_verdict_name(result->verdict));
    else
        cp_print_report(cp_report_result(result, CP_REPORT_TEXT, style));
    CP_TRY(cp_write_asked(arguments, "junit", cp_report_result(result, CP_REPORT_JUNIT, style)));
    CP_TRY(cp_write_asked(arguments, "markdown", cp_report_result(result, CP_REPORT_MARKDOWN, style)));
    return cp_write_asked(arguments, "html", cp_report_result(result, CP_REPORT_HTML, style));
}

static cp_status diff(int *verdict, const cp_session *session, const cp_arguments *arguments,
                      comparison *sides)
{
    cp_diff_options options = {.only = cp_value(arguments, "only")};
    CP_TRY(cp_operands_check(arguments, 2, INT32_MAX, "EXPECTED and at least one ACTUAL"));
    CP_TRY(cp_read_limits(&options, arguments));
    cp_result result;
    cp_status opened = open_expected(sides, arguments);
    if (opened == CP_OK)
        opened = open_actual(sides, arguments);
    if (opened == CP_INCOMPARABLE)
        result = not_comparable(arguments);
    else
        CP_TRY(opened);
    if (opened == CP_OK)
        CP_TRY(cp_diff(&result, sides->dump != NULL ? sides->dump : sides->fixture->expected, sides->actual,
                       sides->fixture, &options));
    *verdict = cp_verdict_exit(result.verdict);
    cp_status status = report(session, arguments, &result);
    cp_result_close(&result);
    return status;
}

int cp_command_diff(const cp_session *session, const cp_arguments *arguments)
{
    comparison sides = {0};
    int verdict = 0;
    cp_status status = diff(&verdict, session, arguments, &sides);
    if (status != CP_OK)
        verdict = cp_exit_worse(verdict, cp_complain(session, status));
    close_comparison(&sides);
    return verdict;
}

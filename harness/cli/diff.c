#include "harness/cli/judging.h"

const cp_option cp_diff_command_options[] = {
    {"fixture", 0, "FILE", "the fixture that two dumps were made from: its batch tells padding from tokens"},
    {"only", 0, "GLOB", "judge only tensors of this name, as 'grads/*'"},
    {"all", 0, NULL, "list every tensor, not only those that fail"},
    {"rtol", 0, "X", "limits of your own: an error of at most atol + rtol * |expected|"},
    {"atol", 0, "X", "see --rtol"},
    {"limits", 0, "FILE", "limits of your own runs, as 'calibrate --from' makes them"},
    {"junit", 0, "FILE", "write a JUnit report"},
    {"markdown", 0, "FILE", "write a Markdown report"},
    {"html", 0, "FILE", "write a page with pictures: by tensor and layer, by position, by rank"},
    {0},
};

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

static cp_status open_limits(cp_limits_file **limits, const cp_diff_options *options,
                             const cp_arguments *arguments)
{
    if (!cp_given(arguments, "limits"))
        return CP_OK;
    if (options->user_limits)
        return cp_fail(CP_BAD_USAGE, "--limits: not with --rtol or --atol");
    return cp_limits_file_open(limits, cp_value(arguments, "limits"));
}

static cp_status diff(int *verdict, const cp_session *session, const cp_arguments *arguments,
                      cp_comparison *sides, cp_limits_file **limits)
{
    cp_diff_options options = {.only = cp_value(arguments, "only")};
    CP_TRY(cp_operands_check(arguments, 2, INT32_MAX, "EXPECTED and at least one ACTUAL"));
    CP_TRY(cp_read_limits(&options, arguments));
    CP_TRY(open_limits(limits, &options, arguments));
    options.limits = *limits;
    cp_compared files = {arguments->operands[0], cp_value(arguments, "fixture"), arguments->operands + 1,
                         (size_t)arguments->operand_count - 1};
    cp_result result;
    CP_TRY(cp_compare_files(&result, sides, &files, &options));
    *verdict = cp_verdict_exit(result.verdict);
    cp_status status = report(session, arguments, &result);
    cp_result_close(&result);
    return status;
}

int cp_command_diff(const cp_session *session, const cp_arguments *arguments)
{
    cp_comparison sides = {0};
    cp_limits_file *limits = NULL;
    int verdict = 0;
    cp_status status = diff(&verdict, session, arguments, &sides, &limits);
    if (status != CP_OK)
        verdict = cp_exit_worse(verdict, cp_complain(session, status));
    cp_comparison_close(&sides);
    cp_limits_file_close(limits);
    return verdict;
}

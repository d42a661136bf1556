#include "harness/cli/judging.h"

#include "harness/cli/output.h"
#include "harness/files/dump.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

cp_status cp_read_limits(cp_diff_options *limits, const cp_arguments *arguments)
{
    CP_TRY(cp_value_real(&limits->rtol, arguments, "rtol"));
    CP_TRY(cp_value_real(&limits->atol, arguments, "atol"));
    limits->user_limits = cp_given(arguments, "rtol") || cp_given(arguments, "atol");
    return CP_OK;
}

double cp_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- two sides ---------------------------------------------------------------------------------------------------- */

bool cp_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The left side: a fixture, or a dump with one that it was made from or without. */
cp_status cp_open_expected(cp_comparison *sides, const cp_compared *files)
{
    char kind[CP_KIND_TEXT] = "dump";
    if (!cp_is_folder(files->expected))
        CP_TRY(cp_file_kind(kind, files->expected));
    bool fixture = cp_kind_is_fixture(kind);
    if (fixture && files->fixture != NULL)
        return cp_fail(CP_BAD_USAGE, "%s: is a fixture itself, %s cannot give it a batch", files->expected,
                       files->fixture);
    if (fixture)
        return cp_fixture_open(&sides->fixture, files->expected);
    if (files->fixture != NULL)
        CP_TRY(cp_fixture_open(&sides->fixture, files->fixture));
    return cp_dumps_open(&sides->dump, &files->expected, 1,
                         sides->fixture != NULL ? &sides->fixture->batch : NULL,
                         sides->fixture != NULL ? sides->fixture->id : NULL);
}

const cp_source *cp_expected_of(const cp_comparison *sides)
{
    return sides->dump != NULL ? sides->dump : sides->fixture->expected;
}

static cp_status open_sides(cp_comparison *sides, const cp_compared *files)
{
    CP_TRY(cp_open_expected(sides, files));
    return cp_dumps_open(&sides->actual, files->actual, files->actual_count,
                         sides->fixture != NULL ? &sides->fixture->batch : NULL,
                         sides->fixture != NULL ? sides->fixture->id : NULL);
}

static char *copy(const char *text)
{
    char *out = strdup(text);
    cp_check(out != NULL, "out of memory");
    return out;
}

static cp_result not_comparable(const cp_compared *files)
{
    cp_result result = {.verdict = CP_NOT_COMPARABLE, .next = copy(""), .failure_count = 1};
    result.expected_label = copy(files->expected);
    result.actual_label = copy(files->actual[0]);
    result.failures = calloc(1, sizeof *result.failures);
    cp_check(result.failures != NULL, "out of memory");
    result.failures[0] = copy(cp_error());
    result.worst_loss = result.worst_logits = result.worst_gradient = NAN;
    return result;
}

cp_status cp_compare_files(cp_result *result, cp_comparison *sides, const cp_compared *files,
                           const cp_diff_options *options)
{
    cp_status opened = open_sides(sides, files);
    if (opened == CP_INCOMPARABLE) {
        *result = not_comparable(files);
        return CP_OK;
    }
    CP_TRY(opened);
    return cp_diff(result, cp_expected_of(sides), sides->actual, sides->fixture, options);
}

void cp_comparison_close(cp_comparison *sides)
{
    cp_source_close(sides->actual);
    cp_source_close(sides->dump);
    cp_fixture_close(sides->fixture);
}

/* ---- reports ------------------------------------------------------------------------------------------------------ */

void cp_print_report(char *text)
{
    size_t length = strlen(text);
    printf("%s%s", text, length > 0 && text[length - 1] == '\n' ? "" : "\n");
    free(text);
}

void cp_print_last_line(char *text)
{
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n')
        text[length - 1] = '\0';
    const char *line = strrchr(text, '\n');
    printf("%s\n", line != NULL ? line + 1 : text);
    free(text);
}

cp_status cp_write_asked(const cp_arguments *arguments, const char *option, char *text)
{
    cp_status status = CP_OK;
    if (cp_given(arguments, option))
        status = cp_write_report(cp_value(arguments, option), text);
    free(text);
    return status;
}

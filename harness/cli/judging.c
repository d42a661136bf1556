#include "harness/cli/judging.h"

#include "harness/cli/output.h"

#include <stdlib.h>
#include <string.h>

cp_status cp_read_limits(cp_diff_options *limits, const cp_arguments *arguments)
{
    CP_TRY(cp_value_real(&limits->rtol, arguments, "rtol"));
    CP_TRY(cp_value_real(&limits->atol, arguments, "atol"));
    limits->user_limits = cp_given(arguments, "rtol") || cp_given(arguments, "atol");
    return CP_OK;
}

void cp_print_report(char *text)
{
    size_t length = strlen(text);
    printf("%s%s", text, length > 0 && text[length - 1] == '\n' ? "" : "\n");
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

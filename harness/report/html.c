#include "harness/report/forms.h"

#include "harness/report/page.h"

#include <stdlib.h>
#include <string.h>

/* JSON inside a script element: what HTML could take for its end or for a comment stands escaped, which inside strings,
 * and it occurs nowhere else, means the same. A line break is never inside a string, so indentation can go. */
static void embed(FILE *page, const char *json)
{
    for (; *json; json++) {
        if (strchr("<>&", *json))
            fprintf(page, "\\u%04x", (unsigned)*json);
        else if (*json == '\n')
            json += strspn(json + 1, " ");
        else
            fputc(*json, page);
    }
}

static void write_page(FILE *page, char *json)
{
    const char *mark = strstr(cp_report_page, CP_PAGE_MARK);
    cp_check(mark, "report.html has no %s", CP_PAGE_MARK);
    fwrite(cp_report_page, 1, (size_t)(mark - cp_report_page), page);
    embed(page, json);
    fputs(mark + strlen(CP_PAGE_MARK), page);
    free(json);
}

void cp_html_result(FILE *page, const cp_result *result)
{
    write_page(page, cp_json_result(result));
}

void cp_html_trials(FILE *page, const cp_trial_row *rows, size_t count)
{
    write_page(page, cp_json_trials(rows, count));
}

void cp_html_gate(FILE *page, const cp_gate_row *rows, size_t count)
{
    write_page(page, cp_json_gate(rows, count));
}

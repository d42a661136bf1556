#include "harness/report/report.h"

#include "harness/report/forms.h"

#include <stdlib.h>

typedef struct page {
    FILE *file;
    char *text;
    size_t length;
} page;

static void page_open(page *out)
{
    *out = (page){0};
    out->file = open_memstream(&out->text, &out->length);
    cp_check(out->file, "no memory for a report");
}

static char *page_close(page *out)
{
    bool whole = !ferror(out->file);
    cp_check(fclose(out->file) == 0 && whole, "no memory for a report");
    return out->text;
}

char *cp_report_result(const cp_result *result, cp_report_format format, cp_report_style style)
{
    page out;
    switch (format) {
    case CP_REPORT_JSON: return cp_json_result(result);
    case CP_REPORT_JUNIT: return cp_junit_result(result);
    case CP_REPORT_TEXT:
        page_open(&out);
        cp_text_result(out.file, result, style);
        return page_close(&out);
    case CP_REPORT_MARKDOWN:
        page_open(&out);
        cp_markdown_result(out.file, result, style);
        return page_close(&out);
    case CP_REPORT_HTML:
        page_open(&out);
        cp_html_result(out.file, result);
        return page_close(&out);
    case CP_REPORT_FORMATS: break;
    }
    cp_check(false, "format %d", (int)format);
    return NULL;
}

char *cp_report_trials(const cp_trial_row *rows, size_t count, cp_report_format format)
{
    page out;
    switch (format) {
    case CP_REPORT_JSON: return cp_json_trials(rows, count);
    case CP_REPORT_JUNIT: return cp_junit_trials(rows, count);
    case CP_REPORT_TEXT:
        page_open(&out);
        cp_text_trials(out.file, rows, count);
        return page_close(&out);
    case CP_REPORT_MARKDOWN:
        page_open(&out);
        cp_markdown_trials(out.file, rows, count);
        return page_close(&out);
    case CP_REPORT_HTML:
        page_open(&out);
        cp_html_trials(out.file, rows, count);
        return page_close(&out);
    case CP_REPORT_FORMATS: break;
    }
    cp_check(false, "format %d", (int)format);
    return NULL;
}

char *cp_report_gate(const cp_gate_row *rows, size_t count, cp_report_format format)
{
    page out;
    switch (format) {
    case CP_REPORT_JSON: return cp_json_gate(rows, count);
    case CP_REPORT_JUNIT: return cp_junit_gate(rows, count);
    case CP_REPORT_TEXT:
        page_open(&out);
        cp_text_gate(out.file, rows, count);
        return page_close(&out);
    case CP_REPORT_MARKDOWN:
        page_open(&out);
        cp_markdown_gate(out.file, rows, count);
        return page_close(&out);
    case CP_REPORT_HTML:
        page_open(&out);
        cp_html_gate(out.file, rows, count);
        return page_close(&out);
    case CP_REPORT_FORMATS: break;
    }
    cp_check(false, "format %d", (int)format);
    return NULL;
}

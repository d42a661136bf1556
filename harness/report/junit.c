#include "harness/report/forms.h"

#include "harness/report/words.h"

#include <libxml/xmlwriter.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The writer answers -1 to everything once it has run out of memory, so one look at the end is enough. */
typedef struct xml {
    xmlBufferPtr buffer;
    xmlTextWriterPtr writer;
    bool whole;
} xml;

static void keep(xml *out, int answer)
{
    out->whole = out->whole && answer >= 0;
}

static void open_document(xml *out)
{
    *out = (xml){.buffer = xmlBufferCreate(), .whole = true};
    out->writer = out->buffer ? xmlNewTextWriterMemory(out->buffer, 0) : NULL;
    cp_check(out->writer, "no memory for a report");
    keep(out, xmlTextWriterSetIndent(out->writer, 1));
    keep(out, xmlTextWriterSetIndentString(out->writer, BAD_CAST "  "));
    keep(out, xmlTextWriterStartDocument(out->writer, NULL, "UTF-8", NULL));
}

static char *close_document(xml *out)
{
    keep(out, xmlTextWriterEndDocument(out->writer));
    xmlFreeTextWriter(out->writer);
    char *text = out->whole ? strdup((const char *)xmlBufferContent(out->buffer)) : NULL;
    xmlBufferFree(out->buffer);
    cp_check(text, "no memory for a report");
    return text;
}

static void begin(xml *out, const char *element)
{
    keep(out, xmlTextWriterStartElement(out->writer, BAD_CAST element));
}

static void end(xml *out)
{
    keep(out, xmlTextWriterEndElement(out->writer));
}

static void attribute(xml *out, const char *name, const char *value)
{
    char clean[CP_WORD];
    keep(out, xmlTextWriterWriteAttribute(out->writer, BAD_CAST name, BAD_CAST cp_word_clean(clean, value)));
}

static void __attribute__((format(printf, 3, 4)))
attribute_of(xml *out, const char *name, const char *format, ...)
{
    char value[CP_WORD];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    attribute(out, name, value);
}

typedef struct totals {
    const char *name;
    size_t tests, failures, errors, skipped;
} totals;

/* Both elements carry the totals: readers differ in which they look at. */
static void begin_suite(xml *out, const totals *suite)
{
    static const char *const elements[] = {"testsuites", "testsuite"};
    for (int i = 0; i < 2; i++) {
        begin(out, elements[i]);
        attribute(out, "name", suite->name);
        attribute_of(out, "tests", "%zu", suite->tests);
        attribute_of(out, "failures", "%zu", suite->failures);
        attribute_of(out, "errors", "%zu", suite->errors);
        attribute_of(out, "skipped", "%zu", suite->skipped);
    }
}

static void end_suite(xml *out)
{
    end(out);
    end(out);
}

/* `element` NULL: passed. */
static void add_case(xml *out, const char *class, const char *name, double seconds, const char *element,
                     const char *message)
{
    begin(out, "testcase");
    attribute(out, "classname", class);
    attribute(out, "name", name);
    attribute_of(out, "time", "%.3f", seconds);
    if (element) {
        begin(out, element);
        attribute(out, "message", message);
        end(out);
    }
    end(out);
}

/* ---- one judgement ---- */

static void add_limits(xml *out, const cp_result *result)
{
    char limits[CP_WORD];
    begin(out, "properties");
    begin(out, "property");
    attribute(out, "name", "limits");
    attribute(out, "value", cp_word_limits(limits, result->limits, result->limit_runs));
    end(out);
    end(out);
}

static const char *const VERDICT_ELEMENTS[] = {NULL, "failure", "error"};

char *cp_junit_result(const cp_result *result)
{
    xml out;
    totals suite = {"cpeq diff", result->count + result->failure_count, cp_result_tally(result, CP_DIFFERENT),
                    cp_result_tally(result, CP_NOT_COMPARABLE) + result->failure_count, 0};
    open_document(&out);
    begin_suite(&out, &suite);
    add_limits(&out, result);
    for (size_t i = 0; i < result->failure_count; i++)
        add_case(&out, result->actual_label, "comparable", 0, "error", result->failures[i]);
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        add_case(&out, result->actual_label, tensor->name, 0, VERDICT_ELEMENTS[tensor->verdict],
                 tensor->reason);
    }
    end_suite(&out);
    return close_document(&out);
}

/* ---- trials ---- */

static const char *const OUTCOME_ELEMENTS[CP_TRIAL_OUTCOMES] = {NULL, "failure", "error", "skipped", "error"};

char *cp_junit_trials(const cp_trial_row *rows, size_t count)
{
    xml out;
    cp_trial_tally tally = cp_trials_tally(rows, count);
    totals suite = {"cpeq verify", count, tally.of[CP_TRIAL_DIFFERENT],
                    tally.of[CP_TRIAL_NOT_COMPARABLE] + tally.of[CP_TRIAL_ERROR], tally.of[CP_TRIAL_REFUSED]};
    open_document(&out);
    begin_suite(&out, &suite);
    for (size_t i = 0; i < count; i++) {
        const cp_trial_row *row = &rows[i];
        char name[2 * CP_WORD], ranks[CP_WORD];
        snprintf(name, sizeof name, "cp %s, %s, %s, %s, %s", cp_word_ranks(ranks, row), row->exchange,
                 row->layout, cp_dtype_name(row->dtype), row->attention);
        add_case(&out, row->fixture, name, row->seconds, OUTCOME_ELEMENTS[row->outcome], row->sentence);
    }
    end_suite(&out);
    return close_document(&out);
}

/* ---- a gate ---- */

char *cp_junit_gate(const cp_gate_row *rows, size_t count)
{
    enum { PASSED, SKIPPED, FAILURE, BROKEN, ELEMENTS };
    static const char *const elements[ELEMENTS] = {NULL, "skipped", "failure", "error"};
    size_t of[ELEMENTS] = {0};
    int *element = calloc(count > 0 ? count : 1, sizeof *element);
    cp_check(element, "no memory for a report");
    for (size_t i = 0; i < count; i++) {
        if (cp_gate_as_expected(&rows[i]))
            element[i] = rows[i].known == CP_GATE_SAME ? PASSED : SKIPPED;
        else
            element[i] = rows[i].outcome <= CP_GATE_DIFFERENT ? FAILURE : BROKEN;
        of[element[i]]++;
    }
    xml out;
    totals suite = {"cpeq gate", count, of[FAILURE], of[BROKEN], of[SKIPPED]};
    open_document(&out);
    begin_suite(&out, &suite);
    for (size_t i = 0; i < count; i++) {
        const cp_gate_row *row = &rows[i];
        char why[CP_WORD], message[2 * CP_WORD];
        snprintf(message, sizeof message, "%s: %s", cp_gate_outcome_name(row->outcome),
                 cp_word_gate_why(why, row));
        add_case(&out, row->found.fixture[0] ? row->found.fixture : "no fixture", row->name,
                 row->found.seconds, elements[element[i]], message);
    }
    end_suite(&out);
    free(element);
    return close_document(&out);
}

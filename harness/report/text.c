#include "harness/report/forms.h"

#include "harness/report/table.h"
#include "harness/report/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Lines of a report, of its header, of the table's title and of how many rows are left out; columns of a sentence. */
enum { MOST_LINES = 25, HEADER = 2, TABLE_FRAME = 2, FEWEST_ROWS = 4, LINE = 120 };

/* ---- sentences ---- */

static size_t width_of(const char *word, int bytes)
{
    char copy[CP_WORD];
    snprintf(copy, sizeof copy, "%.*s", bytes, word);
    return cp_word_width(copy);
}

/* Prints `lead` and `text`, broken between words, later lines under the first; returns the lines. `page` NULL: only
 * counts. */
static int paragraph(FILE *page, const char *lead, const char *text)
{
    char clean[CP_WORD];
    size_t indent = cp_word_width(lead);
    size_t at = indent;
    int lines = 1;
    cp_word_clean(clean, text);
    if (page)
        fputs(lead, page);
    for (const char *word = clean; *word; word += strspn(word, " ")) {
        int bytes = (int)strcspn(word, " ");
        size_t width = width_of(word, bytes);
        bool breaks = at > indent && at + 1 + width > LINE;
        if (page && breaks)
            fprintf(page, "\n%*s", (int)indent, "");
        else if (page && at > indent)
            fputc(' ', page);
        if (page)
            fprintf(page, "%.*s", bytes, word);
        lines += breaks;
        at = breaks ? indent + width : at + (at > indent) + width;
        word += bytes;
    }
    if (page)
        fputc('\n', page);
    return lines;
}

typedef struct sentences {
    const char *lead;
    char *const *text;
    size_t count, shown;
} sentences;

/* Shows as many as fit into `room` lines, with one that tells how many do not; returns the lines. */
static int fit(sentences *list, int room)
{
    int used = 0;
    for (list->shown = 0; list->shown < list->count; list->shown++) {
        int lines = paragraph(NULL, list->lead, list->text[list->shown]);
        bool last = list->shown + 1 == list->count;
        if (used + lines + !last > room)
            return used + 1;
        used += lines;
    }
    return used;
}

static void print(FILE *page, const sentences *list)
{
    for (size_t i = 0; i < list->shown; i++)
        paragraph(page, list->lead, list->text[i]);
    if (list->shown < list->count)
        fprintf(page, "%*s… and %zu more\n", (int)cp_word_width(list->lead), "", list->count - list->shown);
}

/* ---- one judgement ---- */

static const cp_column COLUMNS[] = {
    {"tensor", false}, {"shape", false},   {"error", true},  {"of limit", true}, {"worst at", false},
    {"found", true},   {"expected", true}, {"factor", true}, {"cosine", true},
};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };

static void add_tensor(cp_table *table, const cp_tensor_result *tensor)
{
    char shape[CP_WORD], where[CP_WORD], error[CP_NUMBER], units[CP_NUMBER], found[CP_NUMBER],
        expected[CP_NUMBER];
    char factor[CP_NUMBER] = "-", cosine[CP_NUMBER] = "-";
    cp_word_shape(shape, tensor->dims, tensor->extent);
    if (!cp_word_numbers_speak(tensor)) {
        cp_table_add(table, (const char *[COLUMN_COUNT]){tensor->name, shape, tensor->reason});
        return;
    }
    bool exact = tensor->error_norm == 0;
    if (!isnan(tensor->factor))
        cp_word_value(factor, tensor->factor);
    if (!isnan(tensor->cosine))
        snprintf(cosine, sizeof cosine, "%.6f", tensor->cosine);
    cp_table_add(table, (const char *[COLUMN_COUNT]){
                            tensor->name, shape, cp_word_number(error, tensor->relative_error),
                            cp_word_number(units, cp_tensor_excess(tensor)),
                            exact ? "-" : cp_word_index(where, tensor->dims, tensor->worst_index),
                            exact ? "-" : cp_word_value(found, tensor->worst_actual),
                            exact ? "-" : cp_word_value(expected, tensor->worst_expected), factor, cosine});
}

static void tensors(FILE *page, const cp_result *result, bool all, size_t most)
{
    cp_table table;
    size_t candidates = 0;
    cp_table_begin(&table, COLUMNS, COLUMN_COUNT);
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (!all && tensor->verdict == CP_SAME)
            continue;
        if (candidates++ < most)
            add_tensor(&table, tensor);
    }
    if (candidates > 0)
        cp_table_text(page, &table, 2);
    if (candidates > most)
        fprintf(page, "  … and %zu more\n", candidates - most);
    cp_table_end(&table);
}

static void verdict_line(FILE *page, const cp_result *result, bool color)
{
    static const char *const words[] = {"SAME", "DIFFERENT", "NOT COMPARABLE"};
    static const char *const colors[] = {"\033[1;32m", "\033[1;31m", "\033[1;33m"};
    char actual[CP_WORD], expected[CP_WORD];
    fprintf(page, "%s%s%s  %s against %s\n", color ? colors[result->verdict] : "", words[result->verdict],
            color ? "\033[0m" : "", cp_word_clean(actual, result->actual_label),
            cp_word_clean(expected, result->expected_label));
}

static void summary_line(FILE *page, const cp_result *result)
{
    char tally[CP_WORD], limits[CP_WORD];
    fprintf(page, "%s, %s; %s", cp_dtype_name(result->dtype),
            cp_word_limits(limits, result->limits, result->limit_runs), cp_word_tally(tally, result));
    const double errors[] = {result->worst_loss, result->worst_logits, result->worst_gradient};
    const char *const names[] = {"loss", cp_result_forward(result), "gradients"};
    const char *before = "; errors: ";
    for (int i = 0; i < 3; i++) {
        char number[CP_NUMBER];
        if (isnan(errors[i]))
            continue;
        fprintf(page, "%s%s %s", before, names[i], cp_word_number(number, errors[i]));
        before = ", ";
    }
    fputc('\n', page);
}

/* The table gets the lines that the sentences leave, but at least a few. */
void cp_text_result(FILE *page, const cp_result *result, cp_report_style style)
{
    sentences failures = {"why: ", result->failures, result->failure_count, 0};
    sentences notes = {"note: ", result->notes, result->note_count, 0};
    size_t bad = result->count - cp_result_tally(result, CP_SAME);
    int table = bad == 0 ? 0 : TABLE_FRAME + (bad < FEWEST_ROWS ? (int)bad : FEWEST_ROWS);
    int room = style.all ? INT32_MAX / 2 : MOST_LINES - HEADER;
    room -= result->next[0] ? paragraph(NULL, "next: ", result->next) : 0;
    room -= fit(&failures, room - table - (notes.count > 0));
    room -= fit(&notes, room - table);
    verdict_line(page, result, style.color);
    if (result->count > 0)
        summary_line(page, result);
    print(page, &failures);
    tensors(page, result, style.all,
            style.all            ? SIZE_MAX
            : room > TABLE_FRAME ? (size_t)(room - TABLE_FRAME)
                                 : 0);
    print(page, &notes);
    if (result->next[0])
        paragraph(page, "next: ", result->next);
}

/* ---- trials ---- */

static const cp_column TRIAL_COLUMNS[] = {
    {"fixture", false},   {"cp", true},    {"exchange", false}, {"layout", false},    {"dtype", false},
    {"attention", false}, {"loss", false}, {"logits", false},   {"gradients", false}, {"worst tensor", false},
    {"verdict", false},   {"", false},
};
enum { TRIAL_COLUMN_COUNT = sizeof TRIAL_COLUMNS / sizeof *TRIAL_COLUMNS };

void cp_text_trials(FILE *page, const cp_trial_row *rows, size_t count)
{
    cp_table table;
    cp_table_begin(&table, TRIAL_COLUMNS, TRIAL_COLUMN_COUNT);
    for (size_t i = 0; i < count; i++)
        cp_table_add_trial(&table, &rows[i]);
    if (count > 0)
        cp_table_text(page, &table, 0);
    cp_table_end(&table);
    char *summary = cp_word_summary(rows, count);
    fprintf(page, "%s\n", summary);
    free(summary);
}

#include "harness/report/forms.h"

#include "harness/report/table.h"
#include "harness/report/words.h"

#include <math.h>
#include <stdlib.h>

/* A summary of a job is cut by its host at a megabyte. */
enum { MOST_ROWS = 500 };

static void words(FILE *page, const char *text)
{
    char clean[CP_WORD];
    cp_word_markdown(page, cp_word_clean(clean, text));
}

static const char *mark(int verdict)
{
    return verdict == CP_SAME ? "✅" : verdict == CP_DIFFERENT ? "❌" : "⚠️";
}

/* ---- one judgement ---- */

static const cp_column COLUMNS[] = {
    {"tensor", false},  {"shape", false}, {"verdict", false}, {"relative error", true},
    {"of limit", true}, {"factor", true}, {"cosine", true},   {"why", false},
};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };

static void add_tensor(cp_table *table, const cp_tensor_result *tensor)
{
    char shape[CP_WORD], error[CP_NUMBER], units[CP_NUMBER], factor[CP_NUMBER], cosine[CP_NUMBER];
    bool speak = cp_word_numbers_speak(tensor);
    const char *cells[COLUMN_COUNT] = {
        tensor->name,
        cp_word_shape(shape, tensor->dims, tensor->extent),
        cp_verdict_name(tensor->verdict),
        speak ? cp_word_number(error, tensor->relative_error) : "-",
        speak ? cp_word_number(units, cp_tensor_excess(tensor)) : "-",
        !speak || isnan(tensor->factor) ? "-" : cp_word_value(factor, tensor->factor),
        !speak || isnan(tensor->cosine) ? "-" : cp_word_value(cosine, tensor->cosine),
        tensor->reason,
    };
    cp_table_add(table, cells);
}

static void tensors(FILE *page, const cp_result *result, bool all)
{
    cp_table table;
    size_t candidates = 0;
    cp_table_begin(&table, COLUMNS, COLUMN_COUNT);
    for (size_t i = 0; i < result->count; i++) {
        if ((all || result->tensors[i].verdict != CP_SAME) && candidates++ < MOST_ROWS)
            add_tensor(&table, &result->tensors[i]);
    }
    if (candidates > 0) {
        cp_table_markdown(page, &table);
        fputc('\n', page);
    }
    if (candidates > MOST_ROWS)
        fprintf(page, "… and %zu more\n\n", candidates - MOST_ROWS);
    cp_table_end(&table);
}

static void bullets(FILE *page, const char *lead, char *const *sentences, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(page, "- %s", lead);
        words(page, sentences[i]);
        fputc('\n', page);
    }
}

void cp_markdown_result(FILE *page, const cp_result *result, cp_report_style style)
{
    char tally[CP_WORD], limits[CP_WORD];
    fprintf(page, "### %s %s: ", mark((int)result->verdict), cp_verdict_name(result->verdict));
    words(page, result->actual_label);
    fputs(" against ", page);
    words(page, result->expected_label);
    fprintf(page, "\n\n%s, %s; %s\n\n", cp_dtype_name(result->dtype),
            cp_word_limits(limits, result->limits, result->limit_runs), cp_word_tally(tally, result));
    tensors(page, result, style.all);
    bullets(page, "**not comparable:** ", result->failures, result->failure_count);
    bullets(page, "", result->notes, result->note_count);
    if (result->next[0])
        bullets(page, "**next:** ", (char *const[]){result->next}, 1);
}

/* ---- trials ---- */

static const cp_column TRIAL_COLUMNS[] = {
    {"fixture", false},   {"cp", true},   {"exchange", false}, {"layout", false},   {"dtype", false},
    {"attention", false}, {"loss", true}, {"logits", true},    {"gradients", true}, {"worst tensor", false},
    {"verdict", false},   {"why", false},
};
enum { TRIAL_COLUMN_COUNT = sizeof TRIAL_COLUMNS / sizeof *TRIAL_COLUMNS };

/* What went wrong comes first, so that a cut takes what is same. */
static void trials(FILE *page, const cp_trial_row *rows, size_t count)
{
    cp_table table;
    size_t added = 0;
    cp_table_begin(&table, TRIAL_COLUMNS, TRIAL_COLUMN_COUNT);
    for (int same = 0; same < 2; same++) {
        for (size_t i = 0; i < count && added < MOST_ROWS; i++) {
            if ((rows[i].outcome == CP_TRIAL_SAME) == (bool)same) {
                cp_table_add_trial(&table, &rows[i]);
                added++;
            }
        }
    }
    cp_table_markdown(page, &table);
    if (added < count)
        fprintf(page, "\n… and %zu more\n", count - added);
    cp_table_end(&table);
}

void cp_markdown_trials(FILE *page, const cp_trial_row *rows, size_t count)
{
    char *summary = cp_word_summary(rows, count);
    fprintf(page, "### %s ", mark(cp_trials_exit(rows, count)));
    cp_word_markdown(page, summary);
    fputs("\n\n", page);
    free(summary);
    if (count > 0)
        trials(page, rows, count);
}

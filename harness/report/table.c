#include "harness/report/table.h"

#include "harness/report/words.h"

#include <stdlib.h>
#include <string.h>

void cp_table_begin(cp_table *table, const cp_column *columns, int count)
{
    cp_check(count <= CP_TABLE_COLUMNS, "%d columns", count);
    *table = (cp_table){.columns = columns, .count = count};
}

void cp_table_add(cp_table *table, const char *const *cells)
{
    size_t columns = (size_t)table->count;
    char **longer = realloc(table->cells, (table->rows + 1) * columns * sizeof *longer);
    cp_check(longer, "no memory for %zu rows", table->rows);
    table->cells = longer;
    char **row = longer + table->rows++ * columns;
    bool ended = false;
    for (size_t i = 0; i < columns; i++) {
        char word[CP_WORD];
        ended = ended || !cells[i];
        row[i] = ended ? NULL : strdup(cp_word_clean(word, cells[i]));
        cp_check(ended || row[i], "no memory for a cell");
    }
}

void cp_table_end(cp_table *table)
{
    for (size_t i = 0; i < table->rows * (size_t)table->count; i++)
        free(table->cells[i]);
    free(table->cells);
}

static const char *cell(const cp_table *table, size_t row, int column)
{
    return column < table->count ? table->cells[row * (size_t)table->count + (size_t)column] : NULL;
}

/* The last cell of a short row runs on, so it does not widen its column. */
static void measure(size_t *widths, const cp_table *table)
{
    for (int c = 0; c < table->count; c++) {
        widths[c] = cp_word_width(table->columns[c].title);
        for (size_t r = 0; r < table->rows; r++) {
            bool runs_on = c + 1 < table->count && !cell(table, r, c + 1);
            size_t width = cell(table, r, c) && !runs_on ? cp_word_width(cell(table, r, c)) : 0;
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
}

static void spaces(FILE *page, size_t count)
{
    for (; count > 0; count--)
        fputc(' ', page);
}

void cp_table_add_trial(cp_table *table, const cp_trial_row *row)
{
    char ranks[CP_WORD], loss[CP_NUMBER], logits[CP_NUMBER], gradients[CP_NUMBER];
    cp_check(table->count == CP_TABLE_COLUMNS, "%d columns for a trial", table->count);
    cp_table_add(table, (const char *[CP_TABLE_COLUMNS]){
                            row->fixture, cp_word_ranks(ranks, row), row->exchange, row->layout,
                            cp_dtype_name(row->dtype), row->attention, cp_word_number(loss, row->loss),
                            cp_word_number(logits, row->logits), cp_word_number(gradients, row->gradients),
                            cp_word_parameter(row->worst_tensor), cp_trial_outcome_name(row->outcome),
                            row->sentence});
}

/* Spaces are held back until something follows them. */
static void line(FILE *page, const cp_table *table, const size_t *widths, const char *const *cells,
                 int indent)
{
    size_t pending = (size_t)indent;
    for (int c = 0; c < table->count && cells[c]; c++) {
        size_t width = cp_word_width(cells[c]);
        bool runs_on = c + 1 < table->count && !cells[c + 1];
        size_t padding = width < widths[c] && !runs_on ? widths[c] - width : 0;
        if (table->columns[c].right)
            pending += padding;
        if (width > 0) {
            spaces(page, pending);
            fputs(cells[c], page);
            pending = 0;
        }
        pending += 2 + (table->columns[c].right ? 0 : padding);
    }
    fputc('\n', page);
}

void cp_table_text(FILE *page, const cp_table *table, int indent)
{
    size_t widths[CP_TABLE_COLUMNS];
    const char *titles[CP_TABLE_COLUMNS];
    measure(widths, table);
    for (int c = 0; c < table->count; c++)
        titles[c] = table->columns[c].title;
    line(page, table, widths, titles, indent);
    for (size_t r = 0; r < table->rows; r++)
        line(page, table, widths, (const char *const *)table->cells + r * (size_t)table->count, indent);
}

void cp_table_markdown(FILE *page, const cp_table *table)
{
    for (int c = 0; c < table->count; c++)
        fprintf(page, "| %s ", table->columns[c].title);
    fputs("|\n", page);
    for (int c = 0; c < table->count; c++)
        fputs(table->columns[c].right ? "|---:" : "|---", page);
    fputs("|\n", page);
    for (size_t r = 0; r < table->rows; r++) {
        for (int c = 0; c < table->count; c++) {
            fputs("| ", page);
            cp_word_markdown(page, cell(table, r, c) ? cell(table, r, c) : "");
            fputc(' ', page);
        }
        fputs("|\n", page);
    }
}

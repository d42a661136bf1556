/* Rows of cells, printed with aligned columns or as a Markdown table. */
#ifndef CPEQ_HARNESS_REPORT_TABLE_H
#define CPEQ_HARNESS_REPORT_TABLE_H

#include "harness/judge/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CP_TABLE_COLUMNS = 12 };

typedef struct cp_column {
    const char *title;
    bool right; /* aligned to the right */
} cp_column;

typedef struct cp_table {
    const cp_column *columns; /* borrowed */
    int count;
    size_t rows;
    char **cells; /* [rows,count]; NULL: the cell before it runs on over this one */
} cp_table;

void cp_table_begin(cp_table *table, const cp_column *columns, int count);

/* Appends a row of copies, cleaned (cp_word_clean). From the first NULL on the row has no more cells, and its last one
 * may be as wide as it likes. */
void cp_table_add(cp_table *table, const char *const *cells);

/* A trial's row: fixture, cp, exchange, layout, dtype, attention, loss, logits, gradients, worst tensor, verdict, and the
 * sentence that explains it. The table has that many columns, CP_TABLE_COLUMNS. */
void cp_table_add_trial(cp_table *table, const cp_trial_row *row);

/* Columns two spaces apart, each line after `indent` spaces, none with spaces at its end. */
void cp_table_text(FILE *page, const cp_table *table, int indent);
void cp_table_markdown(FILE *page, const cp_table *table);
void cp_table_end(cp_table *table);

#endif

#include "harness/report/gate.h"

#include "harness/report/forms.h"
#include "harness/report/table.h"
#include "harness/report/words.h"

#include <stdlib.h>
#include <string.h>

/* ---- what it comes to --------------------------------------------------------------------------------------------- */

const char *cp_gate_outcome_name(cp_gate_outcome outcome)
{
    static const char *const names[] = {"same", "different", "not comparable", "missing", "extra", "error"};
    return names[outcome];
}

bool cp_gate_as_expected(const cp_gate_row *row)
{
    return row->outcome == row->known &&
           (row->known == CP_GATE_SAME || strstr(row->found.sentence, row->says) != NULL);
}

cp_gate_tally cp_gate_count(const cp_gate_row *rows, size_t count)
{
    cp_gate_tally tally = {.dumps = count};
    for (size_t i = 0; i < count; i++) {
        bool known = rows[i].known != CP_GATE_SAME;
        tally.of[rows[i].outcome]++;
        tally.known += known;
        tally.changed += known && !cp_gate_as_expected(&rows[i]);
    }
    return tally;
}

static int exit_of(const cp_gate_row *row)
{
    if (cp_gate_as_expected(row))
        return 0;
    switch (row->outcome) {
    case CP_GATE_SAME:
    case CP_GATE_DIFFERENT: return 1;
    case CP_GATE_ERROR: return cp_exit_status(row->found.status);
    default: return 2;
    }
}

int cp_gate_exit(const cp_gate_row *rows, size_t count)
{
    int exit_status = 0;
    bool judged = false;
    for (size_t i = 0; i < count; i++) {
        exit_status = cp_exit_worse(exit_status, exit_of(&rows[i]));
        judged = judged || rows[i].report != NULL;
    }
    return judged ? exit_status : cp_exit_worse(exit_status, 2);
}

/* ---- words -------------------------------------------------------------------------------------------------------- */

char *cp_word_gate_summary(const cp_gate_row *rows, size_t count)
{
    cp_gate_tally tally = cp_gate_count(rows, count);
    char *text = NULL;
    size_t length = 0;
    FILE *page = open_memstream(&text, &length);
    cp_check(page, "no memory for a report");
    fprintf(page, "%zu dump%s: %zu same, %zu different", tally.dumps, tally.dumps == 1 ? "" : "s",
            tally.of[CP_GATE_SAME], tally.of[CP_GATE_DIFFERENT]);
    for (int outcome = CP_GATE_NOT_COMPARABLE; outcome < CP_GATE_OUTCOMES; outcome++) {
        if (tally.of[outcome] > 0)
            fprintf(page, ", %zu %s", tally.of[outcome], cp_gate_outcome_name((cp_gate_outcome)outcome));
    }
    if (tally.known > 0)
        fprintf(page, "; %zu known failure%s, %zu of them not as expected", tally.known,
                tally.known == 1 ? "" : "s", tally.changed);
    cp_check(fclose(page) == 0, "no memory for a report");
    return text;
}

/* "different", "different, known", "same, expected different". */
static const char *verdict_of(char out[CP_WORD], const cp_gate_row *row)
{
    const char *name = cp_gate_outcome_name(row->outcome);
    if (row->known == CP_GATE_SAME)
        return name;
    if (row->outcome != row->known)
        snprintf(out, CP_WORD, "%s, expected %s", name, cp_gate_outcome_name(row->known));
    else
        snprintf(out, CP_WORD, "%s, %s", name, cp_gate_as_expected(row) ? "known" : "not the known one");
    return out;
}

const char *cp_word_gate_why(char out[CP_WORD], const cp_gate_row *row)
{
    char blind[CP_NUMBER + 16] = "";
    if (row->found.blind > 0)
        snprintf(blind, sizeof blind, "blind on %zu", row->found.blind);
    const char *pieces[][2] = {{"only ", row->only},
                               {"", blind},
                               {row->known == CP_GATE_SAME ? "" : "known: ", row->because},
                               {"", row->found.sentence}};
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces && used < CP_WORD; i++) {
        if (pieces[i][1][0] != '\0')
            used += (size_t)snprintf(out + used, CP_WORD - used, "%s%s%s", used > 0 ? "; " : "", pieces[i][0],
                                     pieces[i][1]);
    }
    return out;
}

/* ---- tables ------------------------------------------------------------------------------------------------------- */

static const cp_column COLUMNS[] = {
    {"dump", false},   {"fixture", false},   {"cp", true},       {"exchange", false},
    {"layout", false}, {"dtype", false},     {"limits", false},  {"loss", false},
    {"logits", false}, {"gradients", false}, {"verdict", false}, {"why", false},
};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };

static const char *or_dash(const char *word)
{
    return word[0] ? word : "-";
}

static void add_row(cp_table *table, const cp_gate_row *row)
{
    char ranks[CP_WORD], verdict[CP_WORD], why[CP_WORD], limits[CP_WORD];
    char loss[CP_NUMBER], logits[CP_NUMBER], gradients[CP_NUMBER];
    const cp_trial_row *found = &row->found;
    cp_table_add(table, (const char *[COLUMN_COUNT]){
                            row->name, or_dash(found->fixture),
                            found->cp > 0 ? cp_word_ranks(ranks, found) : "-", or_dash(found->exchange),
                            or_dash(found->layout), row->limited ? cp_dtype_name(found->dtype) : "-",
                            row->limited ? cp_word_limits(limits, found->limits, found->limit_runs) : "-",
                            cp_word_number(loss, found->loss), cp_word_number(logits, found->logits),
                            cp_word_number(gradients, found->gradients), verdict_of(verdict, row),
                            cp_word_gate_why(why, row)});
}

void cp_text_gate(FILE *page, const cp_gate_row *rows, size_t count)
{
    cp_table table;
    cp_table_begin(&table, COLUMNS, COLUMN_COUNT);
    for (size_t i = 0; i < count; i++)
        add_row(&table, &rows[i]);
    if (count > 0)
        cp_table_text(page, &table, 0);
    cp_table_end(&table);
    char *summary = cp_word_gate_summary(rows, count);
    fprintf(page, "%s\n", summary);
    free(summary);
}

/* A summary of a job is cut by its host at a megabyte; what is not as expected comes first. */
enum { MOST_ROWS = 500 };

void cp_markdown_gate(FILE *page, const cp_gate_row *rows, size_t count)
{
    static const char *const marks[] = {"✅", "❌", "⚠️", "⚠️", "⚠️"};
    cp_table table;
    size_t added = 0;
    char *summary = cp_word_gate_summary(rows, count);
    fprintf(page, "### %s ", marks[cp_gate_exit(rows, count)]);
    cp_word_markdown(page, summary);
    fputs("\n\n", page);
    free(summary);
    cp_table_begin(&table, COLUMNS, COLUMN_COUNT);
    for (int expected = 0; expected < 2; expected++) {
        for (size_t i = 0; i < count && added < MOST_ROWS; i++) {
            if (cp_gate_as_expected(&rows[i]) == (bool)expected) {
                add_row(&table, &rows[i]);
                added++;
            }
        }
    }
    if (count > 0)
        cp_table_markdown(page, &table);
    if (added < count)
        fprintf(page, "\n… and %zu more\n", count - added);
    cp_table_end(&table);
}

#include "harness/report/table.h"

#include "tests/report/groups.h"
#include "tests/support/support.h"

#include <stdlib.h>

static const cp_column COLUMNS[] = {{"name", false}, {"n", true}, {"end", false}};

static void assert_printed(void (*print)(FILE *, const cp_table *), const cp_table *table,
                           const char *expected)
{
    char *text = NULL;
    size_t length = 0;
    FILE *page = open_memstream(&text, &length);
    assert_non_null(page);
    print(page, table);
    fclose(page);
    assert_string_equal(text, expected);
    free(text);
}

static void as_text(FILE *page, const cp_table *table)
{
    cp_table_text(page, table, 2);
}

static void fill(cp_table *table)
{
    cp_table_begin(table, COLUMNS, 3);
    cp_table_add(table, (const char *[]){"\xc3\xa9", "1", "x"});
    cp_table_add(table, (const char *[]){"longer", "100", ""});
    cp_table_add(table, (const char *[]){"a|b", "runs on as far as it likes", NULL});
}

static void columns_are_aligned(void **state)
{
    (void)state;
    cp_table table;
    fill(&table);
    assert_printed(as_text, &table,
                   "  name      n  end\n"
                   "  \xc3\xa9         1  x\n"
                   "  longer  100\n"
                   "  a|b     runs on as far as it likes\n");
    cp_table_end(&table);
}

static void markdown_has_every_cell(void **state)
{
    (void)state;
    cp_table table;
    fill(&table);
    assert_printed(cp_table_markdown, &table,
                   "| name | n | end |\n"
                   "|---|---:|---|\n"
                   "| \xc3\xa9 | 1 | x |\n"
                   "| longer | 100 |  |\n"
                   "| a\\|b | runs on as far as it likes |  |\n");
    cp_table_end(&table);
}

int table_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(markdown_has_every_cell),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}

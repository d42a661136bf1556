#include "tests/report/groups.h"

#include <stddef.h>

int main(void)
{
    int (*const groups[])(void) = {words_tests, table_tests, text_tests, machine_tests,
                                   junit_tests, page_tests,  gate_tests};
    int failed = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        failed += groups[i]();
    return failed != 0;
}

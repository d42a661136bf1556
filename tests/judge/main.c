#include "tests/judge/groups.h"

#include <stddef.h>

int main(void)
{
    int (*const groups[])(void) = {compare_tests,   limits_tests,     names_tests,       structure_tests,
                                   values_tests,    joined_tests,     next_tests,        clues_tests,
                                   trials_tests,    ran_tests,        ran_digests_tests, spread_tests,
                                   attention_tests, calibrated_tests, streams_tests};
    int failed = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        failed += groups[i]();
    return failed != 0;
}

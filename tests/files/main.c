#include "tests/files/groups.h"

#include <stddef.h>

int main(void)
{
    int (*const groups[])(void) = {text_tests,          source_tests,           join_tests,
                                   join_refusals_tests, temporary_tests,        storage_tests,
                                   fixture_tests,       fixture_refusals_tests, dump_tests,
                                   dump_refusals_tests, safetensors_tests,      divisor_tests,
                                   name_map_tests,      slices_tests,           ran_tests,
                                   attention_tests,     calibration_tests,      view_tests};
    int failed = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        failed += groups[i]();
    return failed != 0;
}

#include "tests/base/groups.h"

#include <stddef.h>

int main(void)
{
    int (*const groups[])(void) = {support_tests, status_tests,      arena_tests,        tensor_tests,
                                   dtype_tests,   hash_tests,        json_tests,         processors_tests,
                                   rng_tests,     layout_tests,      layout_plans_tests, batch_tests,
                                   tokens_tests,  token_rules_tests, visibility_tests,   mask_rules_tests};
    int failed = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        failed += groups[i]();
    return failed != 0;
}

#define _GNU_SOURCE /* sched_setaffinity */
#include "base/processors.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <sched.h>

static void only_allowed_processors_count(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(cp_processors(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int p = 0; CPU_COUNT(&one) == 0; p++) {
        if (CPU_ISSET(p, &before))
            CPU_SET(p, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int found = cp_processors();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(found, 1);
}

int processors_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_allowed_processors_count),
    };
    return cmocka_run_group_tests_name("processors", tests, NULL, NULL);
}

#include "base/status.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void sentence_is_kept(void **state)
{
    (void)state;
    assert_int_equal(cp_fail(CP_BAD_INPUT, "x.h5: /batch/%s: %d", "labels", 7), CP_BAD_INPUT);
    assert_string_equal(cp_error(), "x.h5: /batch/labels: 7");
    assert_int_equal(cp_fail_within(CP_REFUSED, "trial %d", 3), CP_REFUSED);
    assert_string_equal(cp_error(), "trial 3: x.h5: /batch/labels: 7");
    cp_fail(CP_REFUSED, "again: %s", cp_error());
    assert_string_equal(cp_error(), "again: trial 3: x.h5: /batch/labels: 7");
}

static void long_sentence_is_cut(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    cp_fail(CP_BAD_INPUT, "%s", text);
    size_t length = strlen(cp_error());
    assert_in_range(length, 1000, 4000);
    cp_fail_within(CP_BAD_INPUT, "prefix");
    assert_memory_equal(cp_error(), "prefix: aaa", 11);
}

static void *fail_elsewhere(void *found)
{
    *(bool *)found = strcmp(cp_error(), "") == 0;
    cp_fail(CP_INTERNAL, "elsewhere");
    return NULL;
}

static void sentence_belongs_to_its_thread(void **state)
{
    (void)state;
    cp_fail(CP_BAD_INPUT, "here");
    pthread_t thread;
    bool was_empty = false;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &was_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(was_empty);
    assert_string_equal(cp_error(), "here");
}

static cp_status try_twice(int *reached)
{
    CP_TRY(CP_OK);
    *reached = 1;
    CP_TRY(cp_fail(CP_INCOMPARABLE, "stop"));
    *reached = 2;
    return CP_OK;
}

static void try_leaves_at_the_first_failure(void **state)
{
    (void)state;
    int reached = 0;
    assert_status(try_twice(&reached), CP_INCOMPARABLE, "stop");
    assert_int_equal(reached, 1);
}

static void exit_statuses(void **state)
{
    (void)state;
    const struct {
        cp_status code;
        int exit_status;
    } cases[] = {{CP_OK, 0},        {CP_INCOMPARABLE, 2}, {CP_REFUSED, 3},
                 {CP_BAD_USAGE, 3}, {CP_BAD_INPUT, 3},    {CP_INTERNAL, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(cp_exit_status(cases[i].code), cases[i].exit_status);
}

static void break_invariant(void *argument)
{
    int found = *(int *)argument;
    cp_check(found == 3, "found %d", found);
}

static void say_it_elsewhere(const char *sentence)
{
    (void)!write(STDERR_FILENO, "hook: ", 6);
    (void)!write(STDERR_FILENO, sentence, strlen(sentence));
    _exit(4);
}

static void break_invariant_with_hook(void *argument)
{
    cp_set_panic_hook(say_it_elsewhere);
    break_invariant(argument);
}

static void check_stops_the_job(void **state)
{
    (void)state;
    int found = 4;
    assert_stops(break_invariant, &found, "status_test.c:");
    assert_stops(break_invariant, &found, "found == 3 does not hold: found 4");
    assert_stops(break_invariant_with_hook, &found, "hook: cpeq: ");
    found = 3;
    break_invariant(&found);
}

int status_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentence_is_kept),
        cmocka_unit_test(long_sentence_is_cut),
        cmocka_unit_test(sentence_belongs_to_its_thread),
        cmocka_unit_test(try_leaves_at_the_first_failure),
        cmocka_unit_test(exit_statuses),
        cmocka_unit_test(check_stops_the_job),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}

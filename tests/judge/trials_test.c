#include "tests/judge/groups.h"
#include "tests/judge/world.h"
#include "tests/support/support.h"

#include <math.h>

static void rows_take_over_what_was_judged(void **state)
{
    (void)state;
    static world w;
    cp_trial_row row = {.cp = 2};
    world_open(&w);
    world_expect(&w, CP_SAME);
    cp_trial_judged(&row, &w.result);
    assert_int_equal(row.outcome, CP_TRIAL_SAME);
    assert_string_equal(row.sentence, "");
    assert_true(row.loss == 0 && row.cp == 2);
    world_scale(world_actual(&w, "grads/model.norm.weight"), 1.5);
    world_expect(&w, CP_DIFFERENT);
    cp_trial_judged(&row, &w.result);
    assert_int_equal(row.outcome, CP_TRIAL_DIFFERENT);
    assert_string_equal(row.worst_tensor, "grads/model.norm.weight");
    assert_near(row.gradients, 0.5, 1e-12);
    assert_text_holds(row.sentence, "grads/model.norm.weight: ");
    world_drop(&w.actual, "grads/");
    world_expect(&w, CP_NOT_COMPARABLE);
    cp_trial_judged(&row, &w.result);
    assert_int_equal(row.outcome, CP_TRIAL_NOT_COMPARABLE);
    assert_text_holds(row.sentence, "no gradients");
    assert_true(isnan(row.gradients));
    world_close(&w);
}

static void failures_are_refusals_or_errors(void **state)
{
    (void)state;
    cp_trial_row row;
    cp_trial_failed(&row, CP_REFUSED, "it means nothing");
    assert_int_equal(row.outcome, CP_TRIAL_REFUSED);
    assert_string_equal(row.sentence, "it means nothing");
    cp_trial_failed(&row, CP_BAD_INPUT, "a file");
    assert_int_equal(row.outcome, CP_TRIAL_ERROR);
}

static void the_worst_exit_wins(void **state)
{
    (void)state;
    static const struct {
        int count;
        struct {
            cp_trial_outcome outcome;
            cp_status status;
        } rows[3];
        int exit_status;
    } cases[] = {
        {0, {{0}}, 2},
        {1, {{CP_TRIAL_SAME, CP_OK}}, 0},
        {1, {{CP_TRIAL_REFUSED, CP_REFUSED}}, 2},
        {2, {{CP_TRIAL_SAME, CP_OK}, {CP_TRIAL_REFUSED, CP_REFUSED}}, 0},
        {2, {{CP_TRIAL_DIFFERENT, CP_OK}, {CP_TRIAL_SAME, CP_OK}}, 1},
        {2, {{CP_TRIAL_NOT_COMPARABLE, CP_OK}, {CP_TRIAL_DIFFERENT, CP_OK}}, 2},
        {3, {{CP_TRIAL_NOT_COMPARABLE, CP_OK}, {CP_TRIAL_ERROR, CP_BAD_INPUT}, {CP_TRIAL_SAME, CP_OK}}, 3},
        {2, {{CP_TRIAL_ERROR, CP_BAD_INPUT}, {CP_TRIAL_ERROR, CP_INTERNAL}}, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_trial_row rows[3] = {{.cp = 0}};
        for (int r = 0; r < cases[i].count; r++) {
            rows[r].outcome = cases[i].rows[r].outcome;
            rows[r].status = cases[i].rows[r].status;
        }
        assert_int_equal(cp_trials_exit(rows, (size_t)cases[i].count), cases[i].exit_status);
    }
    assert_int_equal(cp_exit_worse(3, 1), 3);
    assert_int_equal(cp_exit_worse(0, 2), 2);
}

int trials_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_take_over_what_was_judged),
        cmocka_unit_test(failures_are_refusals_or_errors),
        cmocka_unit_test(the_worst_exit_wins),
    };
    return cmocka_run_group_tests_name("trials", tests, NULL, NULL);
}

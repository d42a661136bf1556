/* Where each wrong value of each decision shows, computed in float64 on the golden cases over exchanges and layouts; that a
 * judgement catches it there and nowhere else; and that the table which `cpeq faults` prints says the same. */
#include "harness/run/shown.h"
#include "tests/run/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value is run until it was seen this often, and must not show where the table, whose CP_SHOWN_ENOUGH runs take minutes, says
 * that it does not. Sanitizers make each run ten times as long, and look for other things. */
#if CPEQ_GOLDEN_STEP > 1
enum { ENOUGH = 1 };
#else
enum { ENOUGH = 8 };
#endif

typedef struct suite {
    golden_list list;
    golden_model *golden;
    cp_shown_case *cases;
    int count;
} suite;

static void open_suite(suite *s)
{
    *s = (suite){.list = golden_all()};
    s->golden = calloc(s->list.count, sizeof *s->golden);
    s->cases = calloc(s->list.count, sizeof *s->cases);
    assert_non_null(s->golden);
    assert_non_null(s->cases);
    for (size_t n = 0; n < s->list.count; n++) {
        s->golden[n] = golden_open(s->list.paths[n]);
        char *name = strdup(golden_name(s->list.paths[n]));
        assert_non_null(name);
        *strrchr(name, '.') = '\0'; /* as `cpeq faults` names it */
        assert_ok(cp_shown_open(&s->cases[s->count++], name, s->golden[n].fixture, s->golden[n].model));
    }
}

static void close_suite(suite *s)
{
    for (int n = 0; n < s->count; n++) {
        cp_source_close(s->cases[n].right);
        free((void *)(uintptr_t)s->cases[n].name);
        golden_release(s->golden[n]);
    }
    free(s->cases);
    free(s->golden);
    golden_close(s->list);
}

/* ---- the judgement ------------------------------------------------------------------------------------------------ */

typedef struct judging {
    int runs, disagreements;
} judging;

/* The judgement and the computed difference say the same. */
static void judge(void *context, const cp_shown_case *tried, const cp_run_options *options,
                  const cp_source *wrong, double largest)
{
    enum { AGAINST_THE_FILE = 8 };
    judging *j = context;
    if (!wrong) /* tokens are missing: the join says so, and the exit status is 2 */
        return;
    /* The right run is the fixture's truth to rounding, and in memory. */
    const cp_source *expected = j->runs++ < AGAINST_THE_FILE ? tried->fixture->expected : tried->right;
    cp_result result;
    assert_ok(cp_diff(&result, expected, wrong, tried->fixture, &(cp_diff_options){0}));
    bool same = result.verdict == CP_SAME;
    cp_result_close(&result);
    bool agrees = largest > CP_SHOWN_VISIBLE ? !same : largest > CP_SHOWN_ROUNDING || same;
    if (agrees)
        return;
    j->disagreements++;
    print_error("%s cp %d %s: largest difference %.1e, and the judgement is '%s'\n", tried->name, options->P,
                cp_exchange_name(options->exchange.kind), largest, same ? "same" : "different");
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static bool is_as_known(const cp_shown *shown, const cp_shown *known)
{
    if (!known) /* it has a row for each value that shows */
        return shown->cases + shown->structural == 0;
    return shown->loss <= known->loss && shown->logits <= known->logits &&
           (shown->gradients & ~known->gradients) == 0 && strcmp(shown->example, known->example) == 0;
}

static bool run_value(int decision, int value, const suite *s)
{
    const cp_decision *d = cp_decision_at(decision);
    const char *name = d->values[value].name;
    cp_shown shown;
    judging judged = {0};
    assert_ok(cp_shown_survey(&shown, decision, value, s->cases, s->count, ENOUGH, judge, &judged));
    bool seen = shown.cases + shown.structural > 0;
    print_message("%-18s %-18s %4d of %4d runs, %3d structural: %s%s%s %s\n", d->name, name, shown.cases,
                  shown.runs, shown.structural, shown.loss ? "loss " : "", shown.logits ? "logits " : "",
                  shown.gradients ? "gradients " : "", shown.example);
    if (!seen)
        print_error("%s=%s shows nowhere\n", d->name, name);
    bool known = is_as_known(&shown, cp_shown_known(decision, value));
    if (!known)
        print_error(
            "%s=%s: harness/run/shown.def says something else; cpeq faults --coverage fixtures/golden "
            "--write makes it anew\n",
            d->name, name);
    return judged.disagreements == 0 && seen && known;
}

static void every_wrong_value_shows_and_is_caught(void **state)
{
    (void)state;
    suite s;
    open_suite(&s);
    int failures = 0, values = 0;
    for (int d = 0; d < cp_decisions_count(); d++)
        for (int v = 1; v < cp_decision_at(d)->count; v++, values++)
            failures += !run_value(d, v, &s);
    close_suite(&s);
    print_message("%d wrong values\n", values);
    assert_int_equal(failures, 0);
    assert_in_range(values, 40, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wrong_value_shows_and_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

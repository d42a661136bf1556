/* Where each wrong value of each decision shows, computed in float64 on the golden cases; and that a judgement catches it
 * there and nowhere else. */
#include "tests/run/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between these a difference is neither rounding nor a fault that shows. */
static const double rounding = 1e-11, visible = 1e-9;

typedef struct shown {
    int runs, cases, structural;
    bool loss, logits, gradients;
    char example[CP_RESULT_NAME];
} shown;

/* Largest difference of a tensor of two sources, relative to its norm and at most to a thousandth of the whole's. */
static double difference(const cp_source *right, const cp_source *wrong, size_t tensor, int64_t *other)
{
    *other = cp_source_find(wrong, right->tensors[tensor].name);
    if (*other < 0)
        return INFINITY;
    int64_t count = 1;
    for (int axis = 0; axis < right->tensors[tensor].dims; axis++)
        count *= right->tensors[tensor].extent[axis];
    double *values = calloc(2 * (size_t)count, sizeof *values);
    assert_non_null(values);
    assert_ok(right->read(right, tensor, 0, count, values));
    assert_ok(wrong->read(wrong, (size_t)*other, 0, count, values + count));
    double norm = 0, error = 0;
    bool finite = true;
    for (int64_t n = 0; n < count; n++) {
        double e = values[count + n] - values[n];
        finite = finite && isfinite(e);
        norm += values[n] * values[n];
        error += e * e;
    }
    free(values);
    return finite ? sqrt(error) / fmax(sqrt(norm), 1e-2) : INFINITY;
}

/* Compares the right run with the wrong one, tensor by tensor, padding left out by the join. */
static double compare_runs(shown *shown, const cp_source *right, const cp_source *wrong,
                           const cp_batch *batch)
{
    double largest = 0;
    for (size_t t = 0; t < right->count; t++) {
        const char *name = right->tensors[t].name;
        bool by_position = strcmp(name, "logits") == 0;
        if (by_position && (batch->attention_mask || batch->document_ids))
            continue; /* under padding they have no meaning; token_loss stands for them */
        int64_t other;
        double error = difference(right, wrong, t, &other);
        largest = fmax(largest, error);
        if (error < visible)
            continue;
        shown->loss = shown->loss || strcmp(name, "loss") == 0;
        shown->logits = shown->logits || by_position || strcmp(name, "token_loss") == 0;
        shown->gradients = shown->gradients || strncmp(name, "grads/", 6) == 0;
    }
    return largest;
}

typedef enum caught { CAUGHT, MISSED, STRUCTURAL } caught;

static caught judge_run(const golden_model *golden, const cp_run_options *options)
{
    cp_result result;
    cp_status status = cp_trial_run(&result, golden->model, golden->fixture, options, &(cp_diff_options){0});
    if (status == CP_INCOMPARABLE)
        return STRUCTURAL;
    if (status != CP_OK)
        fail_msg("%s: %s", golden->fixture->path, cp_error());
    cp_verdict verdict = result.verdict;
    cp_result_close(&result);
    return verdict == CP_SAME ? MISSED : verdict == CP_DIFFERENT ? CAUGHT : STRUCTURAL;
}

/* One wrong value on one case. Returns false where the judgement and the computed difference disagree. */
static bool run_case(shown *shown, const golden_model *golden, const cp_run_options *options,
                     const cp_source *right)
{
    cp_source *wrong = NULL;
    cp_status status = cp_run_check(golden->model, options);
    if (status == CP_REFUSED)
        return true;
    assert_ok(status);
    shown->runs++;
    caught verdict = judge_run(golden, options);
    status = cp_run_whole(&wrong, golden->model, options);
    if (status == CP_INCOMPARABLE) {
        shown->structural++;
        return verdict == STRUCTURAL;
    }
    assert_ok(status);
    double largest = compare_runs(shown, right, wrong, &golden->fixture->batch);
    cp_source_close(wrong);
    bool shows = largest > visible;
    if (shows && !shown->cases++)
        snprintf(shown->example, sizeof shown->example, "%s cp %d", golden_name(golden->fixture->path),
                 options->P);
    bool agrees = shows ? verdict != MISSED : largest > rounding || verdict == MISSED;
    if (!agrees)
        print_error("%s cp %d: largest difference %.1e, and the judgement is '%s'\n",
                    golden_name(golden->fixture->path), options->P, largest,
                    verdict == MISSED ? "same" : "different");
    return agrees;
}

static bool is_equivalent(const char *decision, const char *value)
{
    for (int e = 0; e < cp_equivalents_count(); e++) {
        const cp_equivalent *equivalent = cp_equivalent_at(e);
        if (strcmp(equivalent->decision, decision) == 0 && strcmp(equivalent->value, value) == 0 &&
            strcmp(equivalent->setting, "everywhere") == 0)
            return true;
    }
    return false;
}

static const char *const families[] = {"gemma2/",       "gemma3_text/", "llama/",
                                       "llama4_dense/", "llama_bias/",  "llama_h24/",
                                       "llama_kv4/",    "llama_tied/",  "mistral/"};

static bool wanted(const char *name)
{
    for (size_t n = 0; n < sizeof families / sizeof *families; n++)
        if (strncmp(name, families[n], strlen(families[n])) == 0)
            return true;
    return false;
}

enum { SIZES = 3 };
static const int sizes[SIZES] = {2, 4, 8};

typedef struct right_run {
    golden_model golden;
    cp_source *source[SIZES]; /* NULL where the heads do not allow it */
} right_run;

static size_t open_right_runs(right_run *runs, const golden_list *list)
{
    size_t count = 0;
    for (size_t n = 0; n < list->count; n++) {
        if (!wanted(golden_name(list->paths[n])))
            continue;
        right_run *run = &runs[count++];
        *run = (right_run){.golden = golden_open(list->paths[n])};
        for (int s = 0; s < SIZES; s++) {
            cp_run_options options = {.P = sizes[s], .exchange = CP_EXCHANGE_ULYSSES, .dtype = CP_F64};
            if (cp_run_check(run->golden.model, &options) == CP_OK)
                assert_ok(cp_run_whole(&run->source[s], run->golden.model, &options));
        }
    }
    return count;
}

static bool run_value(int decision, int value, right_run *runs, size_t count)
{
    const cp_decision *d = cp_decision_at(decision);
    shown shown = {0};
    bool agrees = true;
    for (size_t n = 0; n < count; n++)
        for (int s = 0; s < SIZES; s++) {
            cp_run_options options = {.P = sizes[s], .exchange = CP_EXCHANGE_ULYSSES, .dtype = CP_F64};
            cp_decision_put(&options.decisions, decision, value);
            if (runs[n].source[s])
                agrees = run_case(&shown, &runs[n].golden, &options, runs[n].source[s]) && agrees;
        }
    bool seen = shown.cases + shown.structural > 0;
    bool equivalent = is_equivalent(d->name, d->values[value].name);
    print_message("%-18s %-18s %4d of %4d runs, %3d structural: %s%s%s %s\n", d->name, d->values[value].name,
                  shown.cases, shown.runs, shown.structural, shown.loss ? "loss " : "",
                  shown.logits ? "logits " : "", shown.gradients ? "gradients " : "", shown.example);
    if (seen == equivalent)
        print_error("%s=%s %s\n", d->name, d->values[value].name,
                    seen ? "is listed as equivalent and shows"
                         : "shows nowhere and is not listed as equivalent");
    return agrees && seen != equivalent;
}

static void every_wrong_value_shows_and_is_caught(void **state)
{
    (void)state;
    golden_list list = golden_all();
    right_run *runs = calloc(list.count, sizeof *runs);
    assert_non_null(runs);
    size_t count = open_right_runs(runs, &list);
    int failures = 0, values = 0;
    for (int d = 0; d < cp_decisions_count(); d++)
        for (int v = 1; v < cp_decision_at(d)->count; v++, values++)
            failures += !run_value(d, v, runs, count);
    for (size_t n = 0; n < count; n++) {
        for (int s = 0; s < SIZES; s++)
            cp_source_close(runs[n].source[s]);
        golden_release(runs[n].golden);
    }
    free(runs);
    golden_close(list);
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

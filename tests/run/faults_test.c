/* Where each wrong value of each decision shows, computed in float64 on the golden cases; and that a judgement catches it
 * there and nowhere else. */
#include "tests/run/golden.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between these a difference is neither rounding nor a fault that shows. */
static const double rounding = 1e-11, visible = 1e-9;

typedef struct tally {
    int runs, cases, structural;
    bool loss, logits, gradients;
    char example[CP_RESULT_NAME];
} tally;

static bool is_padding(const cp_batch *batch, int64_t token)
{
    return (batch->attention_mask && !batch->attention_mask[token]) ||
           (batch->document_ids && batch->document_ids[token] < 0);
}

/* How far a tensor of the wrong run is from the right run's, relative to its norm; logits under padding have no meaning
 * and are left out. Infinite where something is not finite. */
static double difference(const cp_source *right, const cp_source *wrong, size_t tensor, const cp_batch *batch)
{
    const cp_source_tensor *shape = &right->tensors[tensor];
    int64_t other = cp_source_find(wrong, shape->name);
    if (other < 0)
        return INFINITY;
    int64_t count = 1;
    for (int axis = 0; axis < shape->dims; axis++)
        count *= shape->extent[axis];
    bool logits = strcmp(shape->name, "logits") == 0;
    double *values = calloc(2 * (size_t)count, sizeof *values);
    assert_non_null(values);
    assert_ok(right->read(right, tensor, 0, count, values));
    assert_ok(wrong->read(wrong, (size_t)other, 0, count, values + count));
    double norm = 0, error = 0;
    double replicas; /* ranks that disagree show too */
    assert_ok(cp_join_replicas(wrong, (size_t)other, &replicas));
    for (int64_t n = 0; n < count; n++) {
        if (logits && is_padding(batch, n / shape->extent[2]))
            continue;
        double e = values[count + n] - values[n];
        norm += values[n] * values[n];
        error += isfinite(e) ? e * e : INFINITY;
    }
    free(values);
    return fmax(replicas, sqrt(error) / fmax(sqrt(norm), 1e-2));
}

/* The largest difference over all tensors; notes where it shows. */
static double compare_runs(tally *shown, const cp_source *right, const cp_source *wrong,
                           const cp_batch *batch)
{
    double largest = 0;
    for (size_t t = 0; t < right->count; t++) {
        const char *name = right->tensors[t].name;
        double error = difference(right, wrong, t, batch);
        largest = fmax(largest, error);
        if (error <= visible)
            continue;
        shown->loss = shown->loss || strcmp(name, "loss") == 0;
        shown->logits = shown->logits || strcmp(name, "logits") == 0;
        shown->gradients = shown->gradients || strncmp(name, "grads/", 6) == 0;
    }
    return largest;
}

/* One wrong value on one case. Returns false where the judgement and the computed difference disagree. */
static bool run_case(tally *shown, const golden_model *golden, const cp_run_options *options,
                     const cp_source *right)
{
    cp_source *wrong = NULL;
    cp_status status = cp_run_check(golden->model, options);
    if (status == CP_REFUSED)
        return true;
    assert_ok(status);
    shown->runs++;
    status = cp_run_whole(&wrong, golden->model, options);
    if (status == CP_INCOMPARABLE) { /* tokens are missing: the join says so, and the exit status is 2 */
        if (!shown->structural++)
            snprintf(shown->example, sizeof shown->example, "%s cp %d", golden_name(golden->fixture->path),
                     options->P);
        return true;
    }
    assert_ok(status);
    /* The right run is the fixture's truth to rounding, and in memory. */
    enum { AGAINST_THE_FILE = 8 };
    const cp_source *expected = shown->runs <= AGAINST_THE_FILE ? golden->fixture->expected : right;
    cp_result result;
    assert_ok(cp_diff(&result, expected, wrong, golden->fixture, &(cp_diff_options){0}));
    double largest = compare_runs(shown, right, wrong, &golden->fixture->batch);
    cp_source_close(wrong);
    bool same = result.verdict == CP_SAME;
    cp_result_close(&result);
    if (largest > visible && !shown->cases++)
        snprintf(shown->example, sizeof shown->example, "%s cp %d", golden_name(golden->fixture->path),
                 options->P);
    bool agrees = largest > visible ? !same : largest > rounding || same;
    if (!agrees)
        print_error("%s cp %d: largest difference %.1e, and the judgement is '%s'\n",
                    golden_name(golden->fixture->path), options->P, largest, same ? "same" : "different");
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

/* Sanitizers make each run ten times as long, and look for other things: there a value need not be seen everywhere, and
 * these families have every mask. */
#ifdef CPEQ_FEW_FAMILIES
enum { ENOUGH = 6 };
static const char *const families[] = {"gemma3_text/",  "gpt_oss/",    "llama/",
                                       "llama4_dense/", "llama_bias/", "llama_tied/"};
#else
enum { ENOUGH = INT_MAX };
static const char *const families[] = {"gemma2/",       "gemma3_text/", "gpt_oss/",   "llama/",
                                       "llama4_dense/", "llama_bias/",  "llama_h24/", "llama_kv4/",
                                       "llama_tied/",   "mistral/"};
#endif

static bool wanted(const char *name)
{
    for (size_t n = 0; n < sizeof families / sizeof *families; n++)
        if (strncmp(name, families[n], strlen(families[n])) == 0)
            return true;
    return false;
}

enum { SIZES = 4 };
static const int sizes[SIZES] = {2, 3, 4, 8};

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
            cp_run_options options = {
                .P = sizes[s], .exchange = {.kind = CP_EXCHANGE_ULYSSES}, .dtype = CP_F64};
            if (cp_run_check(run->golden.model, &options) == CP_OK)
                assert_ok(cp_run_whole(&run->source[s], run->golden.model, &options));
        }
    }
    return count;
}

static cp_exchange_kind exchange_for(cp_needs needs)
{
    switch (needs) {
    case CP_NEEDS_RING:
    case CP_NEEDS_RING_ALONE: return CP_EXCHANGE_RING;
    case CP_NEEDS_ALLGATHER: return CP_EXCHANGE_ALLGATHER;
    default: return CP_EXCHANGE_ULYSSES;
    }
}

static bool run_value(int decision, int value, right_run *runs, size_t count)
{
    const cp_decision *d = cp_decision_at(decision);
    tally shown = {0};
    bool agrees = true;
    for (size_t n = 0; n < count; n++)
        for (int s = 0; s < SIZES; s++) {
            cp_needs needs = d->values[value].needs;
            cp_run_options options = {
                .P = sizes[s], .exchange = {.kind = exchange_for(needs)}, .dtype = CP_F64};
            cp_decision_put(&options.decisions, decision, value);
            options.D = needs == CP_NEEDS_GROUPS || needs == CP_NEEDS_GROUPS_OF_RANKS ? 2 : 0;
            options.M = needs == CP_NEEDS_MICROBATCHES ? 2 : 0;
            if (cp_run_check(runs[n].golden.model, &options) == CP_REFUSED)
                options.layout.kind = CP_LAYOUT_ZIGZAG; /* what means nothing where the order is kept */
            if (runs[n].source[s] && shown.cases + shown.structural < ENOUGH)
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

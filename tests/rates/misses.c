#include "harness/judge/diff.h"
#include "harness/run/shown.h"
#include "tests/rates/rates.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const cp_dtype DTYPES[] = {CP_F64, CP_F32, CP_BF16};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

typedef struct telling {
    FILE *out;
    const char *decision, *value;
} telling;

/* The farthest over its limit; infinite where something is missing or not finite. */
static double excess_of(const cp_result *result)
{
    double most = result->failure_count > 0 ? INFINITY : 0;
    for (size_t t = 0; t < result->count; t++) {
        const cp_tensor_result *tensor = &result->tensors[t];
        bool spoiled =
            !tensor->measured || tensor->nonfinite_actual > 0 || tensor->must_be_zero_violations > 0;
        most = fmax(most, spoiled && tensor->verdict != CP_SAME ? INFINITY : cp_tensor_excess(tensor));
    }
    return most;
}

static void say(const telling *t, const cp_shown_case *tried, const cp_run_options *options,
                double difference, const char *outcome, double excess)
{
    fprintf(t->out, "fault\t%s\t%s\t%s\t%d\t%s\t%s\t%.3g\t%s\t%s\t%.3g\n", t->decision, t->value, tried->name,
            options->P, cp_exchange_name(options->exchange.kind), cp_layout_name(options->layout.kind),
            difference, cp_dtype_name(options->dtype), outcome, excess);
}

/* The same wrong run in each dtype, against the fixture's truth and by its own limits. */
static void judge_in_each(void *context, const cp_shown_case *tried, const cp_run_options *shown,
                          const cp_source *wrong, double difference)
{
    const telling *t = context;
    if (difference <= CP_SHOWN_VISIBLE)
        return;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        cp_run_options options = *shown;
        cp_source *actual = NULL;
        cp_result result;
        options.dtype = DTYPES[d];
        cp_status status = wrong ? cp_run_whole(&actual, tried->model, &options) : CP_INCOMPARABLE;
        if (status == CP_INCOMPARABLE) {
            say(t, tried, &options, difference, "not comparable", INFINITY);
            continue;
        }
        assert_ok(status);
        assert_ok(cp_diff(&result, tried->fixture->expected, actual, tried->fixture, &(cp_diff_options){0}));
        say(t, tried, &options, difference, result.sightless ? "blind" : cp_verdict_name(result.verdict),
            excess_of(&result));
        cp_result_close(&result);
        cp_source_close(actual);
    }
}

static cp_status open_case(cp_shown_case *out, const char *path)
{
    cp_fixture *fixture;
    cp_model *model;
    CP_TRY(cp_fixture_open(&fixture, path));
    CP_TRY(cp_model_open(&model, fixture));
    const char *name = path + strlen(path);
    for (int slashes = 0; name > path && (name[-1] != '/' || ++slashes < 2);)
        name--;
    return cp_shown_open(out, name, fixture, model);
}

static void close_case(cp_shown_case *opened)
{
    cp_source_close(opened->right);
    cp_model_close((cp_model *)(uintptr_t)opened->model);
    cp_fixture_close((cp_fixture *)(uintptr_t)opened->fixture);
}

cp_status rates_misses(FILE *out, char *const *paths, int count, int enough)
{
    cp_shown_case *cases = calloc((size_t)count + 1, sizeof *cases);
    cp_check(cases, "no memory for %d fixtures", count);
    for (int n = 0; n < count; n++)
        CP_TRY(open_case(&cases[n], paths[n]));
    for (int d = 0; d < cp_decisions_count(); d++) {
        const cp_decision *decision = cp_decision_at(d);
        for (int v = 1; v < decision->count; v++) {
            telling context = {out, decision->name, decision->values[v].name};
            cp_shown shown;
            CP_TRY(cp_shown_survey(&shown, d, v, cases, count, enough, judge_in_each, &context));
            fflush(out);
        }
    }
    for (int n = 0; n < count; n++)
        close_case(&cases[n]);
    free(cases);
    return CP_OK;
}

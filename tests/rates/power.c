#include "harness/judge/diff.h"
#include "tests/rates/rates.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const cp_dtype DTYPES[] = {CP_F64, CP_F32, CP_BF16};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES, RANKS = 2 };

/* One gradient: what is true, what a clean run gave, and what one rank gave to that. */
typedef struct gradient {
    int64_t count;
    double *truth, *whole, *part;
    double norm_limit, element_limit;
} gradient;

static double norm_of(const double *values, int64_t count)
{
    double sum = 0;
    for (int64_t n = 0; n < count; n++)
        sum += values[n] * values[n];
    return sqrt(sum);
}

/* What the judge asks of whole + amount · change. */
static bool is_caught(const gradient *g, const double *change, double amount)
{
    double squares = 0, largest = 0;
    for (int64_t n = 0; n < g->count; n++) {
        double error = g->whole[n] + amount * change[n] - g->truth[n];
        squares += error * error;
        largest = fmax(largest, fabs(error));
    }
    return !(sqrt(squares) <= g->norm_limit && largest <= g->element_limit);
}

/* The smallest amount from which on it is caught, up to `most`; what is not caught is an interval around 0. */
static double caught_from(const gradient *g, const double *change, double direction, double most)
{
    enum { HALVINGS = 60 };
    double low = 0, high = most;
    if (!is_caught(g, change, direction * most))
        return INFINITY;
    for (int n = 0; n < HALVINGS; n++) {
        double middle = low + (high - low) / 2;
        *(is_caught(g, change, direction * middle) ? &high : &low) = middle;
    }
    return high;
}

static cp_status read_gradient(gradient *g, const cp_source *truth, const cp_source *whole,
                               const cp_source *part, const char *name)
{
    int64_t at = cp_source_find(truth, name), here = cp_source_find(whole, name),
            there = cp_source_find(part, name);
    cp_check(at >= 0 && here >= 0 && there >= 0, "%s is not everywhere", name);
    const cp_source_tensor *shape = &truth->tensors[at];
    g->count = 1;
    for (int axis = 0; axis < shape->dims; axis++)
        g->count *= shape->extent[axis];
    g->truth = calloc(3 * (size_t)g->count + 1, sizeof *g->truth);
    cp_check(g->truth, "no memory for %s", name);
    g->whole = g->truth + g->count;
    g->part = g->whole + g->count;
    CP_TRY(cp_source_read_all(truth, (size_t)at, g->truth));
    CP_TRY(cp_source_read_all(whole, (size_t)here, g->whole));
    return cp_source_read_all(part, (size_t)there, g->part);
}

static bool is_a_parameter(const char *name)
{
    return strncmp(name, "grads/", 6) == 0 && strcmp(name, "grads/inputs_embeds") != 0;
}

static cp_status say_gradients(FILE *out, const char *label, const cp_source *truth, const cp_source *whole,
                               const cp_source *part, const cp_result *result)
{
    static const double most_factor = 1e3;
    for (size_t t = 0; t < result->count; t++) {
        const cp_tensor_result *tensor = &result->tensors[t];
        if (!is_a_parameter(tensor->name) || tensor->expected_norm == 0)
            continue;
        gradient g = {.norm_limit = tensor->norm_limit, .element_limit = tensor->element_limit};
        CP_TRY(read_gradient(&g, truth, whole, part, tensor->name));
        fprintf(out, "power\t%s\t%s\t%s\t%.3g\t%.3g\t%.3g\n", cp_dtype_name(result->dtype), tensor->name,
                label, caught_from(&g, g.whole, 1, most_factor), caught_from(&g, g.part, -1, 1),
                norm_of(g.part, g.count) / tensor->expected_norm);
        free(g.truth);
    }
    return CP_OK;
}

/* A clean run over RANKS ranks, whose last one loses a share. */
static cp_status measure(FILE *out, const char *label, const cp_fixture *fixture, const cp_model *model,
                         cp_dtype dtype)
{
    cp_run_options options = {.P = RANKS, .dtype = dtype, .exchange.kind = CP_EXCHANGE_ALLGATHER};
    cp_source *whole, *parts[RANKS];
    cp_result result;
    CP_TRY(cp_run_whole(&whole, model, &options));
    cp_run_options apart = options;
    CP_TRY(cp_decisions_set(&apart.decisions, "grad_reduce=none"));
    CP_TRY(cp_run_parts(parts, model, &apart));
    CP_TRY(cp_diff(&result, fixture->expected, whole, fixture, &(cp_diff_options){0}));
    cp_status status = result.sightless
                           ? CP_OK
                           : say_gradients(out, label, fixture->expected, whole, parts[RANKS - 1], &result);
    cp_result_close(&result);
    for (int rank = 0; rank < RANKS; rank++)
        cp_source_close(parts[rank]);
    cp_source_close(whole);
    return status;
}

cp_status rates_power(FILE *out, char *const *paths, int count)
{
    for (int n = 0; n < count; n++) {
        cp_fixture *fixture;
        cp_model *model;
        CP_TRY(cp_fixture_open(&fixture, paths[n]));
        CP_TRY(cp_model_open(&model, fixture));
        for (int d = 0; d < DTYPE_COUNT; d++)
            CP_TRY(measure(out, paths[n], fixture, model, DTYPES[d]));
        cp_model_close(model);
        cp_fixture_close(fixture);
        fflush(out);
    }
    return CP_OK;
}

#include "harness/judge/observations.h"

#include "harness/judge/limits.h"
#include "harness/judge/names.h"
#include "harness/judge/sentences.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_judged(const char *name)
{
    cp_tensor_kind kind;
    return cp_name_kind(&kind, name);
}

static double *unmeasured(int64_t runs, size_t count)
{
    size_t cells = (size_t)runs * count;
    double *values = malloc((cells + 1) * sizeof *values);
    cp_check(values, "no memory for %zu errors", cells);
    for (size_t i = 0; i < cells; i++)
        values[i] = NAN;
    return values;
}

void cp_observations_open(cp_observations *out, const cp_source *truth, int64_t runs)
{
    *out = (cp_observations){.runs = runs, .names = calloc(truth->count + 1, sizeof *out->names)};
    cp_check(out->names, "no memory for %zu names", truth->count);
    for (size_t i = 0; i < truth->count; i++)
        if (is_judged(truth->tensors[i].name))
            out->names[out->count++] = cp_sentence_copy(truth->tensors[i].name);
    out->truth = unmeasured(1, out->count);
    out->norm = unmeasured(runs, out->count);
    out->element = unmeasured(runs, out->count);
}

void cp_observations_close(cp_observations *observations)
{
    for (size_t i = 0; i < observations->count; i++)
        free(observations->names[i]);
    free(observations->names);
    free(observations->truth);
    free(observations->norm);
    free(observations->element);
    *observations = (cp_observations){0};
}

/* ---- one run ---- */

static int compare_name(const void *name, const void *other)
{
    return strcmp(name, *(char *const *)other);
}

static int64_t column_named(const cp_observations *observations, const char *name)
{
    char **found = bsearch(name, observations->names, observations->count, sizeof name, compare_name);
    return found ? found - observations->names : -1;
}

/* The truth may call a tied tensor otherwise. */
static int64_t column_of(const cp_observations *observations, const char *name, const cp_fixture *fixture)
{
    const cp_weight *weight = fixture ? cp_name_gradient(fixture, name) : NULL;
    char other[CP_RESULT_NAME];
    int64_t column = -1;
    for (int i = 0; column < 0 && cp_name_other(other, name, weight, i); i++)
        column = column_named(observations, other);
    return column;
}

static cp_status refuse(const cp_result *result)
{
    const char *why = result->failure_count > 0 ? result->failures[0] : "";
    const char *where = "";
    for (size_t i = 0; i < result->count && result->failure_count == 0 && !*why; i++)
        if (result->tensors[i].verdict == result->verdict) {
            where = result->tensors[i].name;
            why = result->tensors[i].reason;
        }
    return cp_fail(CP_INCOMPARABLE, "%s: makes no limits: %s%s%s", result->actual_label, where,
                   *where ? ": " : "", why);
}

static void keep(cp_observations *observations, int64_t run, const cp_result *result,
                 const cp_fixture *fixture)
{
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        int64_t column = tensor->measured ? column_of(observations, tensor->name, fixture) : -1;
        if (column < 0)
            continue;
        size_t cell = (size_t)run * observations->count + (size_t)column;
        /* a tied tensor may be there under two names */
        observations->norm[cell] = fmax(observations->norm[cell], tensor->error_norm);
        observations->element[cell] = fmax(observations->element[cell], tensor->largest_error);
        if (run == 0)
            observations->truth[column] = tensor->expected_norm;
    }
}

cp_status cp_observations_add(cp_observations *observations, int64_t run, const cp_source *truth,
                              const cp_source *actual, const cp_fixture *fixture)
{
    cp_diff_options any = {.user_limits = true, .atol = DBL_MAX};
    cp_result result;
    CP_TRY(cp_diff(&result, truth, actual, fixture, &any));
    cp_status status = result.verdict == CP_SAME ? CP_OK : refuse(&result);
    if (status == CP_OK)
        keep(observations, run, &result, fixture);
    cp_result_close(&result);
    return status;
}

/* ---- all runs ---- */

static bool same_row(const cp_observations *observations, int64_t a, int64_t b)
{
    const double *one = observations->norm + (size_t)a * observations->count;
    const double *other = observations->norm + (size_t)b * observations->count;
    for (size_t i = 0; i < observations->count; i++)
        if (!isnan(one[i]) && one[i] != other[i])
            return false;
    return true;
}

cp_status cp_observations_check_apart(const cp_observations *observations, const char *const *labels)
{
    for (int64_t a = 0; a < observations->runs; a++)
        for (int64_t b = a + 1; b < observations->runs; b++)
            if (same_row(observations, a, b))
                return cp_fail(CP_INCOMPARABLE,
                               "%s and %s have the same errors: control runs differ in some irrelevant way",
                               labels[a], labels[b]);
    return CP_OK;
}

/* The largest and the standard deviation of a column. */
static void summarise(double *most, double *spread, const double *cell, int64_t runs, size_t stride)
{
    double sum = 0, squares = 0;
    *most = 0;
    for (int64_t r = 0; r < runs; r++) {
        *most = fmax(*most, cell[(size_t)r * stride]);
        sum += cell[(size_t)r * stride] / (double)runs;
    }
    for (int64_t r = 0; r < runs; r++) {
        double off = cell[(size_t)r * stride] - sum;
        squares += off * off / (double)(runs - 1);
    }
    *spread = sqrt(squares);
}

static int64_t times_measured(const cp_observations *observations, size_t column)
{
    int64_t times = 0;
    for (int64_t r = 0; r < observations->runs; r++)
        times += !isnan(observations->norm[(size_t)r * observations->count + column]);
    return times;
}

static cp_noise noise_of(const cp_observations *observations, size_t column)
{
    cp_noise noise = {.name = observations->names[column]};
    summarise(&noise.norm, &noise.norm_spread, observations->norm + column, observations->runs,
              observations->count);
    summarise(&noise.element, &noise.element_spread, observations->element + column, observations->runs,
              observations->count);
    return noise;
}

cp_status cp_observations_noise(cp_noise **out, size_t *count, const cp_observations *observations,
                                bool whole)
{
    cp_noise *noise = calloc(observations->count + 1, sizeof *noise);
    cp_check(noise, "no memory for %zu limits", observations->count);
    cp_status status = CP_OK;
    *count = 0;
    for (size_t i = 0; i < observations->count && status == CP_OK; i++) {
        int64_t times = times_measured(observations, i);
        if (times == observations->runs)
            noise[(*count)++] = noise_of(observations, i);
        else if (times > 0 || whole)
            status = cp_fail(CP_INCOMPARABLE, "%s: expected in all of %lld runs, found in %lld",
                             observations->names[i], (long long)observations->runs, (long long)times);
    }
    *out = noise;
    if (status != CP_OK) {
        free(noise);
        *out = NULL;
    }
    return status;
}

static void raise_groups(cp_groups *groups, const cp_observations *observations)
{
    for (size_t i = 0; i < observations->count; i++) {
        cp_tensor_kind kind;
        if (cp_name_kind(&kind, observations->names[i]) && kind == CP_TENSOR_GRADIENT)
            cp_groups_raise(groups, cp_name_layer(observations->names[i]), observations->truth[i]);
    }
}

static double group_norm(const cp_groups *groups, const char *name)
{
    cp_tensor_kind kind;
    const cp_group *group = cp_name_kind(&kind, name) && kind == CP_TENSOR_GRADIENT
                                ? cp_groups_find(groups, cp_name_layer(name))
                                : NULL;
    return group ? group->norm : 0;
}

cp_sight cp_observations_sight(const cp_observations *observations, cp_calibration_rule rule)
{
    cp_sight sight = {0};
    double factor = cp_limit_factor(rule, observations->runs);
    cp_groups groups = {0};
    raise_groups(&groups, observations);
    for (size_t i = 0; i < observations->count; i++) {
        if (times_measured(observations, i) != observations->runs)
            continue;
        cp_noise noise = noise_of(observations, i);
        double norm = observations->truth[i];
        sight.judged++;
        sight.blind += cp_limit_is_blind(factor * noise.norm, norm, group_norm(&groups, noise.name));
        if (norm > 0 && noise.norm > sight.loudest_error * norm) {
            sight.loudest = noise.name;
            sight.loudest_error = noise.norm / norm;
        }
    }
    cp_groups_close(&groups);
    return sight;
}

#include "harness/judge/diff.h"

#include "harness/judge/derived.h"
#include "harness/judge/measure.h"
#include "harness/judge/names.h"
#include "harness/judge/next.h"
#include "harness/judge/order.h"
#include "harness/judge/ran.h"
#include "harness/judge/runs.h"
#include "harness/judge/sentences.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pair that was measured. */
typedef struct measurement {
    cp_pair pair;
    size_t tensor; /* of the result */
    cp_statistics statistics;
} measurement;

typedef struct judgement {
    cp_result *result;
    cp_sides sides;
    cp_limits limits;
    cp_measure measure;
    cp_pair *pairs;
    size_t count;
    measurement *measurements; /* [count] */
    cp_groups groups;
    cp_owners owners;
} judgement;

/* ---- measuring ---- */

static void index_of(int64_t index[CP_RESULT_DIMS], const cp_tensor_result *tensor, int64_t flat)
{
    for (int axis = tensor->dims - 1; axis >= 0; axis--) {
        index[axis] = flat % tensor->extent[axis];
        flat /= tensor->extent[axis];
    }
}

static void index_text(char text[CP_SHAPE_TEXT], const cp_tensor_result *tensor, int64_t flat)
{
    int64_t index[CP_RESULT_DIMS] = {0};
    index_of(index, tensor, flat);
    char brackets[CP_SHAPE_TEXT];
    cp_shape_text(brackets, tensor->dims, index);
    snprintf(text, CP_SHAPE_TEXT, "(%.*s)", (int)strlen(brackets) - 2, brackets + 1);
}

static void set_worst(cp_tensor_result *tensor, cp_element place)
{
    if (place.index < 0)
        return;
    index_of(tensor->worst_index, tensor, place.index);
    tensor->worst_expected = place.expected;
    tensor->worst_actual = place.actual;
}

static void take_over(cp_tensor_result *tensor, const cp_statistics *s)
{
    tensor->measured = true;
    tensor->judged = s->judged;
    tensor->unjudged = s->unjudged;
    tensor->mismatches = s->mismatches;
    tensor->nonfinite_expected = s->nonfinite_expected;
    tensor->nonfinite_actual = s->nonfinite_actual;
    tensor->must_be_zero_violations = s->zero_violations;
    tensor->expected_norm = s->expected_norm;
    tensor->actual_norm = s->actual_norm;
    tensor->error_norm = s->error_norm;
    tensor->largest_error = s->largest_error;
    tensor->factor = s->factor;
    tensor->cosine = s->cosine;
    tensor->relative_error = s->error_norm > 0 ? s->error_norm / s->expected_norm : 0;
    set_worst(tensor, s->worst);
    if (s->nonfinite_expected + s->nonfinite_actual > 0)
        set_worst(tensor, s->first_nonfinite);
    else if (s->zero_violations > 0)
        set_worst(tensor, s->first_violation);
}

static cp_status check_truth(const judgement *j, const cp_tensor_result *tensor, const cp_statistics *s)
{
    if (!cp_sides_truth(&j->sides) || s->nonfinite_expected == 0)
        return CP_OK;
    return cp_fail(CP_BAD_INPUT, "%s: /expected/%s: %" PRId64 " of %" PRId64 " values are not finite",
                   j->sides.expected->label, tensor->name, s->nonfinite_expected, s->judged);
}

static const cp_source_tensor *shape_of(const judgement *j, const cp_pair *pair)
{
    return pair->actual >= 0 ? &j->sides.actual->tensors[pair->actual]
                             : &j->sides.expected->tensors[pair->expected];
}

/* A tensor of the result for every pair. False: it cannot be measured, and says why. */
static bool append_pair(judgement *j, const cp_pair *pair)
{
    cp_tensor_result *tensor = cp_result_append(j->result, pair->name, shape_of(j, pair));
    cp_rows rows;
    if (cp_measure_rows(&rows, &j->measure, tensor))
        return true;
    tensor->verdict = CP_NOT_COMPARABLE;
    snprintf(tensor->reason, sizeof tensor->reason,
             "no row for each position of the batch [%" PRId64 ",%" PRId64 "]", j->measure.places.B,
             j->measure.places.T);
    return false;
}

static cp_status measure(judgement *j, const cp_measuring *pairs)
{
    cp_status status = cp_measure_pairs(&j->measure, pairs, j->count, j->limits.atol, j->limits.rtol);
    for (size_t i = 0; i < j->count; i++)
        cp_spread_finish(pairs[i].spread, &j->result->tensors[j->measurements[i].tensor]);
    CP_TRY(status);
    for (size_t i = 0; i < j->count; i++) {
        const measurement *m = &j->measurements[i];
        cp_tensor_result *tensor = &j->result->tensors[m->tensor];
        take_over(tensor, &m->statistics);
        CP_TRY(check_truth(j, tensor, &m->statistics));
    }
    return CP_OK;
}

static cp_status measure_pairs(judgement *j, size_t count)
{
    j->measurements = calloc(count + 1, sizeof *j->measurements);
    cp_measuring *pairs = calloc(count + 1, sizeof *pairs);
    cp_spread *spreads = calloc(count + 1, sizeof *spreads);
    cp_check(j->measurements && pairs && spreads, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        if (append_pair(j, &j->pairs[i]))
            j->measurements[j->count++] = (measurement){.pair = j->pairs[i], .tensor = j->result->count - 1};
    }
    for (size_t i = 0; i < j->count; i++) {
        measurement *m = &j->measurements[i];
        const cp_tensor_result *tensor = &j->result->tensors[m->tensor];
        cp_spread_begin(&spreads[i], tensor, &j->result->bins, j->owners);
        pairs[i] = (cp_measuring){&m->pair, tensor, &m->statistics, &spreads[i]};
    }
    cp_status status = measure(j, pairs);
    free(pairs);
    free(spreads);
    return status;
}

/* ---- groups ---- */

static bool is_gradient(const char *name)
{
    cp_tensor_kind kind;
    return cp_name_kind(&kind, name) && kind == CP_TENSOR_GRADIENT;
}

static bool was_measured(const judgement *j, int64_t expected)
{
    for (size_t i = 0; i < j->count; i++) {
        if (j->measurements[i].pair.expected == expected)
            return true;
    }
    return false;
}

/* A limit does not depend on what else is judged: the group's other gradients are read for their norm alone. */
static cp_status measure_groups(judgement *j)
{
    const cp_source *expected = j->sides.expected;
    for (size_t i = 0; i < j->count; i++) {
        const measurement *m = &j->measurements[i];
        if (is_gradient(m->pair.name))
            cp_groups_raise(&j->groups, cp_name_layer(m->pair.name), m->statistics.expected_norm);
    }
    for (size_t i = 0; i < expected->count; i++) {
        const char *name = expected->tensors[i].name;
        if (!is_gradient(name) || was_measured(j, (int64_t)i) ||
            !cp_groups_find(&j->groups, cp_name_layer(name)))
            continue;
        double norm;
        CP_TRY(cp_measure_norm(&norm, &j->measure, (int64_t)i));
        cp_groups_raise(&j->groups, cp_name_layer(name), norm);
    }
    return CP_OK;
}

/* ---- verdicts ---- */

/* What is known of the expected side of a tensor. */
typedef struct expectation {
    const char *name;        /* as the expected side calls it */
    const cp_weight *weight; /* NULL: none, or none is known */
    double group_norm;       /* 0: no gradient */
} expectation;

static expectation expectation_of(const judgement *j, const measurement *m)
{
    const cp_sides *sides = &j->sides;
    const char *name = m->pair.expected >= 0 ? sides->expected->tensors[m->pair.expected].name : m->pair.name;
    if (cp_derived_name(name)) /* neither is off by more than the logits are */
        name = "logits";
    const cp_group *group = is_gradient(name) ? cp_groups_find(&j->groups, cp_name_layer(name)) : NULL;
    return (expectation){name, sides->fixture ? cp_name_gradient(sides->fixture, name) : NULL,
                         group ? group->norm : 0};
}

/* False: there is noise of other tensors, but not of this one. */
static bool set_limits(const judgement *j, cp_tensor_result *tensor, const cp_statistics *s,
                       const expectation *of, double scale)
{
    cp_limit limit = {j->limits.unit * scale, j->limits.unit * scale};
    bool found = true;
    if (j->limits.rule == CP_LIMITS_USER)
        limit = (cp_limit){s->bound_norm, s->worst.index >= 0 ? s->worst_bound : j->limits.atol};
    else if (cp_limits_are_measured(&j->limits))
        found = cp_limit_measured(&limit, &j->limits, of->name, of->weight, tensor->kind, s->expected_norm,
                                  of->group_norm);
    tensor->norm_limit = found ? limit.norm : NAN;
    tensor->element_limit = found ? limit.element : NAN;
    tensor->blind = cp_limit_is_blind(tensor->norm_limit, s->expected_norm, of->group_norm);
    return found;
}

static void __attribute__((format(printf, 3, 4)))
decide(cp_tensor_result *tensor, cp_verdict verdict, const char *format, ...)
{
    tensor->verdict = verdict;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tensor->reason, sizeof tensor->reason, format, arguments);
    va_end(arguments);
}

static void say_nonfinite(cp_tensor_result *tensor, const cp_statistics *s)
{
    char where[CP_SHAPE_TEXT];
    index_text(where, tensor, s->first_nonfinite.index);
    int64_t count = s->nonfinite_actual > 0 ? s->nonfinite_actual : s->nonfinite_expected;
    decide(tensor, CP_DIFFERENT,
           "%" PRId64 " of %" PRId64 " values are not finite%s; the first: %g at %s, expected %g", count,
           s->judged,
           s->nonfinite_actual == 0     ? " on the expected side"
           : s->nonfinite_expected == 0 ? ""
                                        : " (on the expected side too)",
           s->first_nonfinite.actual, where, s->first_nonfinite.expected);
}

static void say_not_zero(cp_tensor_result *tensor, const cp_statistics *s)
{
    char where[CP_SHAPE_TEXT];
    index_text(where, tensor, s->first_violation.index);
    decide(tensor, CP_DIFFERENT, "%" PRId64 " value%s must be exactly zero (%s); the first: %g at %s%s",
           s->zero_violations, s->zero_violations == 1 ? "" : "s",
           strcmp(tensor->name, CP_INPUTS_EMBEDS) == 0 ? "padding" : "ids that are not in the batch",
           s->first_violation.actual, where,
           s->first_violation.expected != 0 ? ", and it is not on the expected side either" : "");
}

/* The first rank's copy was judged; any other is at most this much farther from the truth. */
static cp_status judge_replicas(const judgement *j, cp_tensor_result *tensor, const cp_pair *pair)
{
    double difference = 0;
    if (pair->actual >= 0)
        CP_TRY(cp_join_replicas(j->sides.actual, (size_t)pair->actual, &difference));
    tensor->replica_difference = difference;
    bool within =
        difference == 0 || tensor->error_norm + difference * tensor->actual_norm <= tensor->norm_limit;
    if (!within && tensor->verdict == CP_SAME)
        decide(tensor, CP_DIFFERENT,
               "the ranks' own copies differ by %.1e of the norm: one of them at least is wrong", difference);
    return CP_OK;
}

static cp_status judge(const judgement *j, const measurement *m)
{
    cp_tensor_result *tensor = &j->result->tensors[m->tensor];
    const cp_statistics *s = &m->statistics;
    expectation of = expectation_of(j, m);
    double scale = cp_limit_scale(&j->limits, tensor->kind, s->expected_norm, of.group_norm);
    double noise = j->limits.noise * scale;
    bool given = set_limits(j, tensor, s, &of, scale) && cp_limits_given(&j->limits);
    tensor->scaled_error = s->error_norm > 0 ? s->error_norm / scale : 0;
    bool close = s->error_norm <= tensor->norm_limit && s->largest_error <= tensor->element_limit;
    bool zero = s->largest_actual == 0 && !(s->expected_norm <= noise);
    if (s->judged == 0)
        decide(tensor, CP_NOT_COMPARABLE,
               "every position is padding, or was not kept: there is nothing to judge");
    else if (s->nonfinite_expected + s->nonfinite_actual > 0)
        say_nonfinite(tensor, s);
    else if (s->zero_violations > 0)
        say_not_zero(tensor, s);
    else if (m->pair.actual == CP_NO_TENSOR && s->largest_expected > 0)
        decide(tensor, CP_DIFFERENT, "declared None, but the expected gradient is not zero: its norm is %.1e",
               s->expected_norm);
    else if (zero)
        decide(tensor, CP_DIFFERENT, "all zero, but the expected norm is %.1e", s->expected_norm);
    else if (!given)
        decide(tensor, CP_NOT_COMPARABLE, "no limits for %s",
               cp_limits_given(&j->limits) ? "this tensor" : cp_dtype_name(j->result->dtype));
    else if (!close)
        decide(tensor, CP_DIFFERENT, "%.3g times its limit", cp_tensor_excess(tensor));
    if (given && !close) {
        double bound = j->limits.rule == CP_LIMITS_USER ? j->limits.atol : tensor->element_limit;
        CP_TRY(cp_measure_excess(tensor, &j->measure, &m->pair, bound, j->limits.rtol));
    }
    return given ? judge_replicas(j, tensor, &m->pair) : CP_OK;
}

/* ---- the whole ---- */

static void set_verdict(cp_result *result)
{
    size_t measured = 0;
    result->verdict = result->failure_count > 0 ? CP_NOT_COMPARABLE : CP_SAME;
    for (size_t i = 0; i < result->count; i++) {
        measured += result->tensors[i].measured;
        if (result->tensors[i].verdict > result->verdict)
            result->verdict = result->tensors[i].verdict;
    }
    if (measured == 0 && result->failure_count == 0) {
        cp_result_fail(result, "nothing was compared");
        result->verdict = CP_NOT_COMPARABLE;
    }
}

/* An error for tables: infinite where values are not finite. */
static double table_error(const cp_tensor_result *tensor)
{
    return tensor->nonfinite_expected + tensor->nonfinite_actual > 0 ? HUGE_VAL : tensor->scaled_error;
}

static void raise(double *worst, double error)
{
    if (isnan(*worst) || error > *worst)
        *worst = error;
}

static void find_worst(cp_result *result)
{
    result->worst_loss = result->worst_logits = result->worst_gradient = NAN;
    double farthest = -1;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (!tensor->measured)
            continue;
        double error = table_error(tensor);
        if (tensor->kind == CP_TENSOR_LOSS || tensor->kind == CP_TENSOR_TOKEN_LOSS)
            raise(&result->worst_loss, error);
        if (tensor->kind == CP_TENSOR_LOGITS || tensor->kind == CP_TENSOR_OUTPUT)
            raise(&result->worst_logits, error);
        double excess = isinf(error) || isnan(tensor->norm_limit) ? error : cp_tensor_excess(tensor);
        if (tensor->kind == CP_TENSOR_GRADIENT && excess > farthest) {
            farthest = excess;
            result->worst_gradient = error;
            memcpy(result->worst_tensor, tensor->name, sizeof result->worst_tensor);
        }
    }
}

static void note_replicas(cp_result *result)
{
    const cp_tensor_result *worst = NULL;
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (tensor->verdict != CP_SAME || !(tensor->replica_difference > 0))
            continue;
        count++;
        if (!worst || tensor->replica_difference > worst->replica_difference)
            worst = tensor;
    }
    if (worst)
        cp_result_note(
            result,
            "the ranks' own copies of %zu tensor%s are not equal, but within the limits: %s by %.1e "
            "of its norm",
            count, count == 1 ? "" : "s", worst->name, worst->replica_difference);
}

/* What is the same because nothing could be seen is not the same. */
static void count_blind(cp_result *result)
{
    enum { FEW = 10 }; /* one in so many may be blind */
    size_t judged = 0;
    const char *first = NULL;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        judged += tensor->measured;
        result->blind += tensor->blind;
        if (tensor->blind && !first)
            first = tensor->name;
    }
    if (!first)
        return;
    cp_result_note(result, "blind on %zu of %zu: limits in %s are above 20 %% of the norm; the first: %s",
                   result->blind, judged, cp_dtype_name(result->dtype), first);
    if (result->verdict != CP_SAME || result->limits == CP_LIMITS_USER || FEW * result->blind <= judged)
        return;
    cp_result_fail(result, "blind on more than a tenth of the tensors: this step cannot be judged in %s",
                   cp_dtype_name(result->dtype));
    result->verdict = CP_NOT_COMPARABLE;
    result->sightless = true;
}

static cp_status judge_tensors(judgement *j)
{
    size_t pair_count;
    cp_pairs_find(&j->pairs, &pair_count, j->result, &j->sides);
    CP_TRY(measure_pairs(j, pair_count));
    CP_TRY(measure_groups(j));
    for (size_t i = 0; i < j->count; i++)
        CP_TRY(judge(j, &j->measurements[i]));
    return CP_OK;
}

/* Logits of some positions alone are judged there, and that is said. */
static void keep_logits(judgement *j)
{
    const cp_source *sides[] = {j->sides.expected, j->sides.actual};
    const uint8_t *kept[2];
    for (int i = 0; i < 2; i++) {
        const cp_declaration *said = &sides[i]->declaration;
        int64_t count = 0;
        kept[i] = cp_join_kept(sides[i]);
        for (int64_t k = 0; kept[i] && k < said->B * said->S; k++)
            count += kept[i][k];
        if (kept[i])
            cp_result_note(j->result,
                           "%s keeps logits of %" PRId64 " of %" PRId64
                           " positions (logits_index): those of others are not judged",
                           sides[i]->label, count, said->B * said->S);
    }
    const cp_declaration *any = &sides[kept[0] ? 0 : 1]->declaration;
    cp_places_keep(&j->measure.places, any->B, any->S, kept[0], kept[1]);
}

/* Numbers of two different runs would say nothing: the values are then not looked at. */
static cp_status judge_all(judgement *j, const cp_diff_options *options)
{
    j->limits = cp_runs_limits(j->result, &j->sides, options);
    if (cp_runs_check(j->result, &j->sides)) {
        keep_logits(j);
        j->owners = cp_bins_open(&j->result->bins, &j->sides, &j->measure.places);
        CP_TRY(cp_ran_judge(j->result, &j->sides, &j->measure.places));
        CP_TRY(judge_tensors(j));
    }
    cp_order_results(j->result, j->sides.fixture ? j->sides.fixture->order : "");
    set_verdict(j->result);
    count_blind(j->result);
    find_worst(j->result);
    note_replicas(j->result);
    j->result->next = cp_next_step(j->result, &j->sides);
    return CP_OK;
}

cp_status cp_diff(cp_result *result, const cp_source *expected, const cp_source *actual,
                  const cp_fixture *fixture, const cp_diff_options *options)
{
    *result = (cp_result){0};
    if (options->user_limits && !(options->atol >= 0 && options->rtol >= 0))
        return cp_fail(CP_BAD_USAGE, "--rtol %g, --atol %g: expected numbers that are not negative",
                       options->rtol, options->atol);
    result->expected_label = cp_sentence_copy(expected->label);
    result->actual_label = cp_sentence_copy(actual->label);
    bool truth = fixture && expected == fixture->expected;
    cp_source *derived = truth ? cp_derived_open(expected, actual, &fixture->batch) : NULL;
    judgement j = {.result = result,
                   .sides = {derived ? derived : expected, actual, fixture, options->only, truth}};
    cp_measure_open(&j.measure, &j.sides);
    cp_status status = judge_all(&j, options);
    cp_measure_close(&j.measure);
    cp_owners_close(j.owners);
    cp_groups_close(&j.groups);
    free(j.pairs);
    free(j.measurements);
    cp_source_close(derived);
    if (status != CP_OK)
        cp_result_close(result);
    return status;
}

#include "harness/judge/pairs.h"

#include "harness/judge/names.h"
#include "harness/judge/sentences.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pairing {
    const cp_sides *sides;
    cp_result *result;
    cp_pair *pairs;
    size_t count;
    size_t selected[CP_TENSOR_KINDS], passed_over[CP_TENSOR_KINDS]; /* names that match `only`, or not */
} pairing;

cp_tensor_result *cp_result_append(cp_result *result, const char *name, const cp_source_tensor *shape)
{
    cp_tensor_result *longer = realloc(result->tensors, (result->count + 1) * sizeof *longer);
    cp_check(longer, "no memory for %zu results", result->count);
    result->tensors = longer;
    cp_tensor_result *tensor = &longer[result->count++];
    *tensor = (cp_tensor_result){.norm_limit = NAN, .element_limit = NAN, .factor = NAN, .cosine = NAN};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    cp_name_kind(&tensor->kind, name);
    tensor->dims = shape ? shape->dims : 0;
    tensor->first_bad_position = -1;
    tensor->layer = cp_name_layer(name);
    if (shape)
        memcpy(tensor->extent, shape->extent, sizeof tensor->extent);
    return tensor;
}

bool cp_sides_truth(const cp_sides *sides)
{
    return sides->truth;
}

/* ---- names ---- */

static const cp_weight *weight_of(const cp_sides *sides, const char *name)
{
    return sides->fixture ? cp_name_gradient(sides->fixture, name) : NULL;
}

static bool other_name(char out[CP_RESULT_NAME], const cp_sides *sides, const char *name, int index)
{
    return cp_name_other(out, name, weight_of(sides, name), index);
}

/* A name that a source has the gradient under, the exact one first; CP_NO_TENSOR: none. */
static int64_t find_any(const cp_source *source, const cp_sides *sides, const char *name)
{
    int64_t found = cp_source_find(source, name);
    char other[CP_RESULT_NAME];
    for (int i = 1; found < 0 && other_name(other, sides, name, i); i++)
        found = cp_source_find(source, other);
    return found < 0 ? CP_NO_TENSOR : found;
}

static bool declared_none(const cp_source *source, const cp_sides *sides, const char *name)
{
    char other[CP_RESULT_NAME];
    for (int i = 0; other_name(other, sides, name, i); i++) {
        if (cp_name_listed(source->declaration.grad_absent, cp_name_parameter(other)))
            return true;
    }
    return false;
}

static bool selected(const cp_sides *sides, const char *name)
{
    if (!sides->only)
        return true;
    char other[CP_RESULT_NAME];
    for (int i = 0; other_name(other, sides, name, i); i++) {
        if (fnmatch(sides->only, other, 0) == 0)
            return true;
    }
    return false;
}

static bool has_kind(const cp_source *source, cp_tensor_kind wanted)
{
    for (size_t i = 0; i < source->count; i++) {
        cp_tensor_kind kind;
        if (cp_name_kind(&kind, source->tensors[i].name) && kind == wanted)
            return true;
    }
    return wanted == CP_TENSOR_GRADIENT && source->declaration.grad_absent[0];
}

/* A side may lack these, and a note says so; where --only asks for them they are required too. */
static bool is_optional(cp_tensor_kind kind)
{
    return kind == CP_TENSOR_TRACE || kind == CP_TENSOR_TOKEN_LOSS;
}

/* A step is its loss, its logits and its gradients; an attention function its output and its gradients. */
static bool is_required(const cp_sides *sides, cp_tensor_kind kind)
{
    if (sides->expected->declaration.attention)
        return kind == CP_TENSOR_OUTPUT || kind == CP_TENSOR_GRADIENT;
    return kind == CP_TENSOR_LOSS || kind == CP_TENSOR_LOGITS || kind == CP_TENSOR_GRADIENT;
}

/* ---- one tensor ---- */

static void __attribute__((format(printf, 4, 5)))
incomparable(pairing *p, const char *name, const cp_source_tensor *shape, const char *format, ...)
{
    cp_tensor_result *tensor = cp_result_append(p->result, name, shape);
    tensor->verdict = CP_NOT_COMPARABLE;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tensor->reason, sizeof tensor->reason, format, arguments);
    va_end(arguments);
}

static int64_t count_of(const cp_source_tensor *tensor)
{
    int64_t count = 1;
    for (int axis = 0; axis < tensor->dims; axis++)
        count *= tensor->extent[axis];
    return count;
}

static bool same_shape(const cp_source_tensor *a, const cp_source_tensor *b)
{
    return a->dims == b->dims && memcmp(a->extent, b->extent, (size_t)a->dims * sizeof *a->extent) == 0;
}

static bool is_other_way_round(const cp_source_tensor *a, const cp_source_tensor *b)
{
    return a->dims == 2 && b->dims == 2 && a->extent[0] == b->extent[1] && a->extent[1] == b->extent[0];
}

/* Either side may be CP_NO_TENSOR, not both. */
static void add_pair(pairing *p, const char *name, int64_t expected, int64_t actual)
{
    const cp_source_tensor *e = expected >= 0 ? &p->sides->expected->tensors[expected] : NULL;
    const cp_source_tensor *a = actual >= 0 ? &p->sides->actual->tensors[actual] : NULL;
    const cp_source_tensor *shape = a ? a : e;
    char found[CP_SHAPE_TEXT], wanted[CP_SHAPE_TEXT];
    if (e && a && !same_shape(e, a)) {
        incomparable(p, name, a, "shape %s, expected %s%s", cp_shape_text(found, a->dims, a->extent),
                     cp_shape_text(wanted, e->dims, e->extent),
                     is_other_way_round(e, a) ? ", the other way round: name_map can say so" : "");
        return;
    }
    if (count_of(shape) == 0) {
        incomparable(p, name, shape, "empty: there is nothing to judge");
        return;
    }
    p->pairs[p->count++] = (cp_pair){name, expected, actual};
}

static void add_missing(pairing *p, const char *name, const cp_source_tensor *shape)
{
    incomparable(p, name, shape, "missing from %s", p->sides->actual->label);
}

static void add_extra(pairing *p, const char *name, const cp_source_tensor *shape)
{
    const cp_weight *weight = weight_of(p->sides, name);
    if (weight && weight->role[0])
        incomparable(p, name, shape, "extra: the weight's role is %s, so it has no gradient", weight->role);
    else
        incomparable(p, name, shape, "extra: %s has no such tensor", p->sides->expected->label);
}

/* Every name under which the actual side has this gradient is judged; one is enough. */
static void pair_gradient(pairing *p, int64_t expected)
{
    const cp_sides *sides = p->sides;
    const cp_source_tensor *tensor = &sides->expected->tensors[expected];
    int64_t actual = find_any(sides->actual, sides, tensor->name);
    if (actual >= 0)
        return; /* paired from the other side */
    if (declared_none(sides->actual, sides, tensor->name))
        add_pair(p, tensor->name, expected, CP_NO_TENSOR);
    else
        add_missing(p, tensor->name, tensor);
}

/* What a chunked loss keeps. */
static bool has_instead_of_logits(const cp_source *source)
{
    return cp_source_find(source, "logsumexp") >= 0 && cp_source_find(source, "target_logit") >= 0;
}

static void pair_expected(pairing *p, int64_t expected, cp_tensor_kind kind)
{
    const cp_source_tensor *tensor = &p->sides->expected->tensors[expected];
    if (kind == CP_TENSOR_GRADIENT) {
        pair_gradient(p, expected);
        return;
    }
    if (cp_source_find(p->sides->actual, tensor->name) >= 0)
        return; /* paired from the other side */
    if (strcmp(tensor->name, "logits") == 0 && has_instead_of_logits(p->sides->actual)) {
        cp_result_note(p->result, "%s has no logits: judged by their logsumexp and target_logit",
                       p->sides->actual->label);
        return;
    }
    if (!is_optional(kind) || p->sides->only)
        add_missing(p, tensor->name, tensor);
}

static void pair_actual(pairing *p, int64_t actual, cp_tensor_kind kind)
{
    const cp_sides *sides = p->sides;
    const cp_source_tensor *tensor = &sides->actual->tensors[actual];
    bool none = kind == CP_TENSOR_GRADIENT &&
                cp_name_listed(sides->actual->declaration.grad_absent, cp_name_parameter(tensor->name));
    int64_t expected = find_any(sides->expected, sides, tensor->name);
    if (none)
        incomparable(p, tensor->name, tensor, "there, and declared None by grad_absent of %s",
                     sides->actual->label);
    else if (expected >= 0)
        add_pair(p, tensor->name, expected, actual);
    else if (kind == CP_TENSOR_GRADIENT && declared_none(sides->expected, sides, tensor->name))
        add_pair(p, tensor->name, CP_NO_TENSOR, actual);
    else if (!is_optional(kind))
        add_extra(p, tensor->name, tensor);
}

/* Gradients before their reduction are there for all parameters, or for none. */
static void require_partials(pairing *p)
{
    const cp_sides *sides = p->sides;
    bool any = false;
    for (size_t i = 0; i < sides->actual->count && !any; i++)
        any = cp_name_is_partial(sides->actual->tensors[i].name);
    for (size_t i = 0; any && i < sides->expected->count; i++) {
        const cp_source_tensor *tensor = &sides->expected->tensors[i];
        const char *parameter = cp_name_parameter(tensor->name);
        bool is_one = parameter != tensor->name && !cp_name_has_rows(tensor->name);
        char other[CP_RESULT_NAME], name[CP_RESULT_NAME + sizeof "_partial"];
        bool found = false;
        for (int n = 0; is_one && !found && other_name(other, sides, tensor->name, n); n++) {
            snprintf(name, sizeof name, "grads_partial/%s", cp_name_parameter(other));
            found = cp_source_find(sides->actual, name) >= 0;
        }
        snprintf(name, sizeof name, "grads_partial/%s", parameter);
        if (is_one && !found && selected(sides, name) && !declared_none(sides->actual, sides, tensor->name))
            add_missing(p, name, tensor);
    }
}

/* A result of no kind that is judged: the auxiliary part of a loss is in the loss, anything else is extra. */
static void pair_unknown(pairing *p, const cp_source_tensor *tensor)
{
    if (!selected(p->sides, tensor->name))
        return;
    if (cp_source_find(p->sides->expected, tensor->name) >= 0)
        cp_result_note(p->result, "%s is not judged by itself: the loss holds it", tensor->name);
    else
        add_extra(p, tensor->name, tensor);
}

/* ---- the whole ---- */

static void pair_all(pairing *p)
{
    const cp_sides *sides = p->sides;
    cp_tensor_kind kind;
    for (size_t i = 0; i < sides->expected->count; i++) {
        const char *name = sides->expected->tensors[i].name;
        if (!cp_name_kind(&kind, name))
            continue;
        bool taken = selected(sides, name);
        p->selected[kind] += taken;
        p->passed_over[kind] += !taken;
        if (taken && (is_optional(kind) || has_kind(sides->actual, kind)))
            pair_expected(p, (int64_t)i, kind);
    }
    for (size_t i = 0; i < sides->actual->count; i++) {
        const char *name = sides->actual->tensors[i].name;
        p->selected[CP_TENSOR_GRADIENT] += cp_name_is_partial(name) && selected(sides, name);
        if (!cp_name_kind(&kind, name))
            pair_unknown(p, &sides->actual->tensors[i]);
        else if (selected(sides, name) && (has_kind(sides->expected, kind) || !is_required(sides, kind)))
            pair_actual(p, (int64_t)i, kind);
    }
}

static const char *const KINDS[CP_TENSOR_KINDS] = {
    "loss", "token losses", "logits", "attention outputs", "gradients", "traces", "what was run"};

/* A side that lacks all of a kind is judged only on demand. */
static void require_kinds(pairing *p)
{
    const cp_sides *sides = p->sides;
    for (int i = 0; i < CP_TENSOR_KINDS; i++) {
        cp_tensor_kind kind = (cp_tensor_kind)i;
        const cp_source *lacking = !has_kind(sides->actual, kind)     ? sides->actual
                                   : !has_kind(sides->expected, kind) ? sides->expected
                                                                      : NULL;
        bool wanted = is_required(sides, kind) && (!sides->only || p->selected[kind] > 0);
        if (lacking && wanted)
            cp_result_fail(p->result, "%s: no %s%s", lacking->label, KINDS[kind],
                           sides->only ? "" : "; the rest is judged where --only asks for it");
    }
}

/* Every weight that is trained has an expectation. */
static void require_weights(pairing *p)
{
    const cp_sides *sides = p->sides;
    if (!sides->fixture || !has_kind(sides->expected, CP_TENSOR_GRADIENT))
        return;
    for (size_t i = 0; i < sides->fixture->weight_count; i++) {
        const cp_weight *weight = &sides->fixture->weights[i];
        char name[CP_RESULT_NAME];
        snprintf(name, sizeof name, "grads/%s", weight->name);
        if (weight->role[0] || !selected(sides, name) || find_any(sides->expected, sides, name) >= 0 ||
            find_any(sides->actual, sides, name) >= 0 || declared_none(sides->expected, sides, name))
            continue; /* one that only the actual side has is extra */
        cp_result_fail(p->result, "%s: no gradient of %s, which is trained", sides->expected->label,
                       weight->name);
    }
}

static void next_line(const char **at, char out[CP_RESULT_NAME])
{
    size_t span = strcspn(*at, "\n");
    snprintf(out, CP_RESULT_NAME, "grads/%.*s", (int)span, *at);
    *at += span + ((*at)[span] == '\n');
}

/* Names that are declared None and stand for no gradient of the other side. */
static void check_none(pairing *p)
{
    const cp_sides *sides = p->sides;
    char name[CP_RESULT_NAME];
    for (const char *at = sides->actual->declaration.grad_absent; *at;) {
        next_line(&at, name);
        const cp_weight *weight = weight_of(sides, name);
        if (!selected(sides, name) || find_any(sides->expected, sides, name) >= 0 ||
            (weight && weight->role[0]))
            continue;
        if (declared_none(sides->expected, sides, name))
            cp_result_note(p->result, "%s: None on both sides", name);
        else
            incomparable(p, name, NULL, "extra: declared None, and %s has no such tensor",
                         sides->expected->label);
    }
    for (const char *at = sides->expected->declaration.grad_absent; *at;) {
        next_line(&at, name);
        if (selected(sides, name) && find_any(sides->actual, sides, name) < 0 &&
            !declared_none(sides->actual, sides, name))
            incomparable(p, name, NULL, "missing from %s", sides->actual->label);
    }
}

static size_t tally(const cp_source *source, const cp_source *other, cp_tensor_kind wanted)
{
    size_t count = 0;
    for (size_t i = 0; i < source->count; i++) {
        cp_tensor_kind kind;
        const char *name = source->tensors[i].name;
        count += cp_name_kind(&kind, name) && kind == wanted && cp_source_find(other, name) < 0;
    }
    return count;
}

static void note_optional(pairing *p)
{
    const cp_source *expected = p->sides->expected;
    const cp_source *actual = p->sides->actual;
    if (expected->declaration.attention)
        return;
    const cp_source *without = !has_kind(actual, CP_TENSOR_TOKEN_LOSS)     ? actual
                               : !has_kind(expected, CP_TENSOR_TOKEN_LOSS) ? expected
                                                                           : NULL;
    if (without)
        cp_result_note(p->result, "%s has no token losses: judged by loss and logits", without->label);
    size_t missing = tally(expected, actual, CP_TENSOR_TRACE);
    size_t extra = tally(actual, expected, CP_TENSOR_TRACE);
    if (missing > 0)
        cp_result_note(p->result, "%zu of the expected traces not in %s: not judged", missing, actual->label);
    if (extra > 0)
        cp_result_note(p->result, "%zu trace%s of %s not expected: not judged", extra, extra == 1 ? "" : "s",
                       actual->label);
}

static void note_only(pairing *p)
{
    size_t any = 0;
    for (int kind = 0; kind < CP_TENSOR_KINDS; kind++)
        any += p->selected[kind];
    if (any == 0)
        cp_result_fail(p->result, "--only \"%s\" matches no tensor of %s", p->sides->only,
                       p->sides->expected->label);
    char list[CP_RESULT_SENTENCE] = "";
    size_t used = 0;
    for (int kind = 0; kind < CP_TENSOR_KINDS && used < sizeof list; kind++) {
        size_t count = p->passed_over[kind];
        bool one = kind == CP_TENSOR_LOSS || kind == CP_TENSOR_TOKEN_LOSS || kind == CP_TENSOR_LOGITS;
        if (count > 0 && one)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", KINDS[kind]);
        else if (count > 0)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%zu %s", used ? ", " : "", count,
                                     KINDS[kind]);
    }
    if (used > 0)
        cp_result_note(p->result, "not judged, as --only \"%s\" asks: %s", p->sides->only, list);
}

void cp_pairs_find(cp_pair **pairs, size_t *count, cp_result *result, const cp_sides *sides)
{
    pairing p = {.sides = sides, .result = result};
    size_t room = sides->expected->count + sides->actual->count + 1;
    p.pairs = malloc(room * sizeof *p.pairs);
    cp_check(p.pairs, "no memory for %zu names", room);
    pair_all(&p);
    require_kinds(&p);
    require_weights(&p);
    require_partials(&p);
    check_none(&p);
    if (sides->only)
        note_only(&p);
    else
        note_optional(&p);
    *pairs = p.pairs;
    *count = p.count;
}

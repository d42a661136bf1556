#include "harness/judge/clues.h"

#include "harness/judge/names.h"
#include "harness/judge/part_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A clue costs little: so many gradients, and so many elements of each, are looked at. */
enum { MOST_TENSORS = 8, SAMPLES = 64 };

/* ---- gradients that are something else ---- */

/* A gradient that differs, on both sides. */
typedef struct gradient {
    const cp_tensor_result *tensor;
    size_t expected, actual;
    int64_t count;
} gradient;

static bool find(gradient *out, const cp_clues *clues, const cp_tensor_result *tensor)
{
    int64_t expected = cp_source_find(clues->sides->expected, tensor->name);
    int64_t actual = cp_source_find(clues->sides->actual, tensor->name);
    if (tensor->kind != CP_TENSOR_GRADIENT || !cp_clue_different(tensor) || !tensor->measured ||
        expected < 0 || actual < 0 || strcmp(tensor->name, CP_INPUTS_EMBEDS) == 0)
        return false;
    *out = (gradient){tensor, (size_t)expected, (size_t)actual, 1};
    for (int axis = 0; axis < tensor->dims; axis++)
        out->count *= tensor->extent[axis];
    return true;
}

static bool read_one(const cp_source *source, size_t tensor, int64_t index, double *out)
{
    return source->read(source, tensor, index, 1, out) == CP_OK;
}

/* The index-th sample of so many elements: spread evenly, and not a multiple of any width. */
static int64_t sample(int64_t index, int64_t count)
{
    return count <= SAMPLES ? index : (int64_t)((double)count * fmod((double)index * 0.6180339887498949, 1));
}

static bool is_within(double a, double b, double limit)
{
    return fabs(a - b) <= limit;
}

/* As they are loaded, rounded to the type of the run. */
static bool is_the_weight(const cp_clues *clues, const gradient *of)
{
    const cp_fixture *fixture = clues->sides->fixture;
    const cp_weight *weight = fixture ? cp_name_weight(fixture, cp_name_parameter(of->tensor->name)) : NULL;
    if (!weight || !weight->tensor.data || cp_tensor_count(weight->tensor) != of->count)
        return false;
    const char *data = weight->tensor.data;
    double rounding = 4 * cp_dtype_epsilon(clues->result->dtype);
    for (int64_t i = 0; i < SAMPLES && i < of->count; i++) {
        int64_t at = sample(i, of->count);
        double value, ours;
        cp_dtype_to_double(&value, data + (size_t)at * cp_dtype_bytes(weight->tensor.dtype),
                           weight->tensor.dtype, 1);
        if (!read_one(clues->sides->actual, of->actual, at, &ours) ||
            !is_within(ours, value, rounding * fabs(value)))
            return false;
    }
    return of->tensor->actual_norm > 0;
}

/* A matrix whose other way round has the same shape. */
static bool is_transposed(const cp_clues *clues, const gradient *of)
{
    int64_t n = of->tensor->extent[0];
    if (of->tensor->dims != 2 || of->tensor->extent[1] != n || n < 2)
        return false;
    for (int64_t i = 0; i < SAMPLES && i < of->count; i++) {
        int64_t at = sample(i, of->count);
        double ours, theirs;
        if (!read_one(clues->sides->actual, of->actual, at, &ours) ||
            !read_one(clues->sides->expected, of->expected, at % n * n + at / n, &theirs) ||
            !is_within(ours, theirs, of->tensor->element_limit))
            return false;
    }
    return true;
}

typedef bool (*question)(const cp_clues *clues, const gradient *of);

/* Whether it is so of all that differ and could be so, as far as they are looked at. */
static size_t count(const cp_clues *clues, question is_so, size_t *asked)
{
    size_t found = 0;
    *asked = 0;
    for (size_t i = 0; i < clues->result->count && *asked < MOST_TENSORS; i++) {
        gradient of;
        if (!find(&of, clues, &clues->result->tensors[i]))
            continue;
        (*asked)++;
        found += is_so(clues, &of);
    }
    return found;
}

/* ---- the ranks' own parts ---- */

/* Least squares of the expected gradients on those of the ranks. */
static bool fit_parts(cp_part_fit *of, const cp_clues *clues, cp_source *const *parts, size_t ranks)
{
    cp_part_fit_open(of, ranks);
    size_t used = 0;
    for (size_t i = 0; i < clues->result->count && used < MOST_TENSORS; i++) {
        gradient g;
        if (!find(&g, clues, &clues->result->tensors[i]))
            continue;
        cp_fit_target target = {clues->sides->expected, g.expected, g.count, g.tensor->expected_norm};
        if (!cp_part_fit_add(of, &target, parts, g.tensor->name))
            return false;
        used++;
    }
    return used > 0 && of->target > 0;
}

/* All ranks have the same. */
static bool are_equal(const cp_part_fit *of, double digits)
{
    for (int p = 1; p < of->ranks; p++) {
        double distance = of->gram[p][p] - 2 * of->gram[p][0] + of->gram[0][0];
        if (!(sqrt(fmax(distance, 0)) <= digits * sqrt(of->gram[0][0])))
            return false;
    }
    return of->gram[0][0] > 0;
}

static bool say_other_kind(char *out, size_t room, const char *found, cp_gradient_kind would)
{
    snprintf(out, room, "%s: it would be the same if gradients = \"%s\" were declared", found,
             cp_gradient_kind_name(would));
    return true;
}

/* "+1.00 × rank 2's part: it is in twice" of what a sum should hold once. */
static bool say_wrong_parts(char *out, size_t room, const cp_part_fit *of, double unit, double digits)
{
    size_t used = 0;
    int wrong = 0;
    for (int p = 0; p < of->ranks; p++)
        wrong += !is_within(of->factor[p], unit, digits);
    if (wrong == 0 || 2 * wrong > of->ranks)
        return false;
    for (int p = 0; p < of->ranks && used < room; p++) {
        double times = unit / of->factor[p];
        if (is_within(of->factor[p], unit, digits))
            continue;
        if (fabs(of->factor[p]) <= digits)
            used += (size_t)snprintf(out + used, room - used, "%srank %d's part should not be in the sum",
                                     used ? "; " : "", p);
        else
            used +=
                (size_t)snprintf(out + used, room - used,
                                 "%sthe error is %+.2f × rank %d's part as it should be: it is in %.4g times",
                                 used ? "; " : "", times - 1, p, times);
    }
    return true;
}

static bool say_parts(char *out, size_t room, const cp_clues *clues)
{
    cp_source *const *parts;
    const cp_place *places;
    size_t ranks = cp_join_parts(clues->sides->actual, &parts, &places);
    double digits = sqrt(cp_clue_agreement(clues->result->dtype));
    cp_part_fit of;
    if (ranks < 2 || ranks > CP_FIT_RANKS || !fit_parts(&of, clues, parts, ranks))
        return false;
    cp_gradient_kind kind = parts[0]->declaration.gradients;
    if (are_equal(&of, digits))
        return kind == CP_GRADIENTS_PARTIAL && is_within(of.with[0] / of.gram[0][0], 1, digits) &&
               say_other_kind(out, room, "all ranks have the same gradients, which are reduced already",
                              CP_GRADIENTS_REDUCED);
    for (int p = 0; p < of.ranks; p++) {
        if (of.gram[p][p] > 0 || kind == CP_GRADIENTS_REDUCED)
            continue;
        snprintf(out, room, "rank %d's part of all gradients that differ is zero: it is left out", p);
        return true;
    }
    if (!cp_part_fit_solve(&of) || !(of.remainder <= digits))
        return false;
    if (cp_part_fit_near(&of, 1, digits) && kind != CP_GRADIENTS_PARTIAL)
        return say_other_kind(out, room,
                              "the sum of the ranks' gradients is right, so each has its own part alone",
                              CP_GRADIENTS_PARTIAL);
    if (cp_part_fit_near(&of, 1 / (double)ranks, digits) && kind != CP_GRADIENTS_MEAN)
        return say_other_kind(out, room, "the mean of the ranks' gradients is right", CP_GRADIENTS_MEAN);
    double unit = kind == CP_GRADIENTS_PARTIAL ? 1 : 1 / (double)ranks;
    return kind != CP_GRADIENTS_REDUCED && say_wrong_parts(out, room, &of, unit, digits);
}

/* ---- the sentence ---- */

bool cp_say_declared(char *out, size_t room, const cp_clues *clues)
{
    size_t asked, found = count(clues, is_the_weight, &asked);
    if (found > 0 && found == asked) {
        snprintf(out, room,
                 "the gradients that differ are the weights themselves: write parameter.grad, not the "
                 "parameter");
        return true;
    }
    found = count(clues, is_transposed, &asked);
    if (found > 0) {
        snprintf(out, room,
                 "%zu of the first %zu gradients that differ %s the expected one the other way round: it "
                 "would be the "
                 "same if name_map said transpose",
                 found, asked, found == 1 ? "is" : "are each");
        return true;
    }
    return say_parts(out, room, clues);
}

#include "harness/judge/clues.h"

#include "harness/judge/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool cp_clue_different(const cp_tensor_result *tensor)
{
    return tensor->verdict == CP_DIFFERENT;
}

const cp_tensor_result *cp_clue_of_kind(const cp_result *result, cp_tensor_kind kind)
{
    for (size_t i = 0; i < result->count; i++) {
        if (result->tensors[i].kind == kind && result->tensors[i].measured)
            return &result->tensors[i];
    }
    return NULL;
}

bool cp_clue_right(const cp_result *result, cp_tensor_kind kind)
{
    const cp_tensor_result *tensor = cp_clue_of_kind(result, kind);
    return tensor && tensor->verdict == CP_SAME;
}

double cp_clue_agreement(cp_dtype dtype)
{
    return dtype == CP_F64 ? 1e-6 : dtype == CP_F32 ? 1e-3 : 5e-2;
}

/* ---- one factor ---- */

typedef enum choice { OF_ALL, OF_PARAMETERS, OF_THE_WRONG } choice;

static bool has_direction(const cp_tensor_result *tensor)
{
    return tensor->measured && tensor->expected_norm > tensor->norm_limit;
}

static bool is_asked(const cp_tensor_result *tensor, choice which)
{
    bool parameter = strcmp(tensor->name, CP_INPUTS_EMBEDS) != 0;
    if (tensor->kind != CP_TENSOR_GRADIENT)
        return false;
    return cp_clue_different(tensor) ||
           (has_direction(tensor) && (which == OF_ALL || (which == OF_PARAMETERS && parameter)));
}

/* The factor that these gradients have in common; NaN: none. */
static double common_factor(const cp_result *result, choice which)
{
    double factor = NAN;
    double digits = cp_clue_agreement(result->dtype);
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (!is_asked(tensor, which))
            continue;
        if (!cp_clue_different(tensor) || !has_direction(tensor) ||
            !(fabs(tensor->cosine) >= 1 - digits * digits))
            return NAN;
        if (count++ == 0)
            factor = tensor->factor;
        if (!(fabs(tensor->factor - factor) <= digits * fabs(factor)))
            return NAN;
    }
    return count > 1 ? factor : NAN;
}

typedef struct multiple {
    double factor;
    bool times_p, by_p;
} multiple;

static multiple multiple_of(const cp_clues *clues, double factor)
{
    double P = (double)clues->actual->cp_size * clues->actual->dp_size;
    double digits = cp_clue_agreement(clues->result->dtype);
    return (multiple){factor, P > 1 && fabs(factor - P) <= digits * P,
                      P > 1 && fabs(factor * P - 1) <= digits};
}

static const char *name_of(multiple of)
{
    return of.times_p ? ", the number of ranks" : of.by_p ? ", 1 / the number of ranks" : "";
}

/* "divided by 2", "multiplied by 3": what would undo it. */
static void say_undone(char *out, size_t room, double factor)
{
    if (fabs(factor) >= 1)
        snprintf(out, room, "divided by %.4g", factor);
    else
        snprintf(out, room, "multiplied by %.4g", 1 / factor);
}

bool cp_say_factor(char *out, size_t room, const cp_clues *clues)
{
    double factor = common_factor(clues->result, OF_ALL);
    double digits = cp_clue_agreement(clues->result->dtype);
    char undone[64], counted[256] = "";
    if (isnan(factor))
        return false;
    multiple of = multiple_of(clues, factor);
    const cp_tensor_result *loss = cp_clue_of_kind(clues->result, CP_TENSOR_LOSS);
    bool loss_too = loss && cp_clue_different(loss) && fabs(loss->factor - factor) <= digits * fabs(factor);
    say_undone(undone, sizeof undone, factor);
    if (!of.times_p && !of.by_p)
        cp_say_count(counted, sizeof counted, clues, factor);
    snprintf(out, room,
             "%severy gradient %s %.4g times the expected%s%s: %s; it would be the same if %s were %s",
             loss_too ? "the loss and " : "", loss_too ? "are" : "is", factor, name_of(of), counted,
             loss_too     ? "look at the loss's divisor"
             : of.times_p ? "summed over the ranks once too often, or the divisor is one rank's"
             : of.by_p    ? "averaged over the ranks instead of summed"
                          : "look at the loss's divisor or the reduction over ranks",
             loss_too ? "they" : "the gradients", undone);
    return true;
}

/* ---- a factor that grows ---- */

/* Gradients of a layer all are the same multiple, and the multiple is a power of the number of layers above. */
static double factor_per_layer(const cp_result *result)
{
    double digits = 10 * cp_clue_agreement(result->dtype), last = NAN, ratio = NAN;
    int64_t layer = -1;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (tensor->kind != CP_TENSOR_GRADIENT || tensor->layer < 0 || !has_direction(tensor))
            continue;
        if (!(fabs(tensor->cosine) >= 1 - digits) || tensor->factor == 0)
            return NAN;
        if (tensor->layer == layer) {
            if (!(fabs(tensor->factor - last) <= digits * fabs(last)))
                return NAN;
            continue;
        }
        double step = last / tensor->factor; /* from a layer to the one below */
        if (layer >= 0 && tensor->layer != layer + 1)
            return NAN;
        if (layer >= 0 && !isnan(ratio) && !(fabs(step - ratio) <= digits * fabs(ratio)))
            return NAN;
        if (layer >= 0)
            ratio = step;
        last = tensor->factor;
        layer = tensor->layer;
    }
    return fabs(ratio - 1) > 10 * digits ? ratio : NAN;
}

bool cp_say_partial_factor(char *out, size_t room, const cp_clues *clues)
{
    double factor = common_factor(clues->result, OF_PARAMETERS);
    char undone[64];
    if (fabs(factor - 1) > 1e-3) {
        multiple of = multiple_of(clues, factor);
        say_undone(undone, sizeof undone, factor);
        snprintf(out, room,
                 "every parameter's gradient is %.4g times the expected%s, and that of the input embeddings, "
                 "which "
                 "is never reduced, is right: look at the reduction over ranks; it would be the same if they "
                 "were %s",
                 factor, name_of(of), undone);
        return true;
    }
    factor = common_factor(clues->result, OF_THE_WRONG);
    if (fabs(factor - 1) > 1e-3) {
        snprintf(out, room, "every gradient that differs is %.4g times the expected%s", factor,
                 name_of(multiple_of(clues, factor)));
        return true;
    }
    factor = factor_per_layer(clues->result);
    if (isnan(factor))
        return false;
    snprintf(
        out, room,
        "gradients of a layer are %.4g times more than the expected ones for each layer above it: something "
        "in every layer's backward is multiplied, as by a reduction inside it",
        factor);
    return true;
}

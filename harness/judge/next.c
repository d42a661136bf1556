#include "harness/judge/next.h"

#include "harness/judge/names.h"
#include "harness/judge/sentences.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Factors agree to more digits than rounding leaves, and to fewer than any two bugs have in common. */
static double agreement(cp_dtype dtype)
{
    return dtype == CP_F64 ? 1e-6 : dtype == CP_F32 ? 1e-3 : 5e-2;
}

static bool is_different(const cp_tensor_result *tensor)
{
    return tensor->verdict == CP_DIFFERENT;
}

static const cp_tensor_result *first_different(const cp_result *result)
{
    for (size_t i = 0; i < result->count; i++) {
        if (is_different(&result->tensors[i]))
            return &result->tensors[i];
    }
    return NULL;
}

static const cp_tensor_result *of_kind(const cp_result *result, cp_tensor_kind kind)
{
    for (size_t i = 0; i < result->count; i++) {
        if (result->tensors[i].kind == kind && result->tensors[i].measured)
            return &result->tensors[i];
    }
    return NULL;
}

static bool is_right(const cp_result *result, cp_tensor_kind kind)
{
    const cp_tensor_result *tensor = of_kind(result, kind);
    return tensor && tensor->verdict == CP_SAME;
}

/* ---- one factor ---- */

/* The factor that all gradients with a direction have in common, of those that differ or of all; NaN: none. */
static double common_factor(const cp_result *result, bool of_all)
{
    double factor = NAN;
    double digits = agreement(result->dtype);
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        bool has_direction = tensor->measured && tensor->expected_norm > tensor->norm_limit;
        if (tensor->kind != CP_TENSOR_GRADIENT || !(is_different(tensor) || (of_all && has_direction)))
            continue;
        if (!is_different(tensor) || !has_direction || !(fabs(tensor->cosine) >= 1 - digits * digits))
            return NAN;
        if (count++ == 0)
            factor = tensor->factor;
        if (!(fabs(tensor->factor - factor) <= digits * fabs(factor)))
            return NAN;
    }
    return count > 1 ? factor : NAN;
}

static bool say_factor(char *out, size_t room, const cp_result *result, const cp_declaration *actual)
{
    double factor = common_factor(result, true);
    double digits = agreement(result->dtype);
    if (isnan(factor))
        return false;
    double P = actual->cp_size;
    const cp_tensor_result *loss = of_kind(result, CP_TENSOR_LOSS);
    bool loss_too = loss && is_different(loss) && fabs(loss->factor - factor) <= digits * fabs(factor);
    bool times_p = P > 1 && fabs(factor - P) <= digits * P;
    bool by_p = P > 1 && fabs(factor * P - 1) <= digits;
    snprintf(out, room, "%severy gradient %s %.4g times the expected%s: %s", loss_too ? "the loss and " : "",
             loss_too ? "are" : "is", factor,
             times_p ? ", the number of ranks"
             : by_p  ? ", 1 / the number of ranks"
                     : "",
             loss_too  ? "look at the loss's divisor"
             : times_p ? "summed over the ranks once too often, or the divisor is one rank's"
             : by_p    ? "averaged over the ranks instead of summed"
                       : "look at the loss's divisor or the reduction over ranks");
    return true;
}

/* ---- forward ---- */

/* What a judge sees of the forward pass: "logits are", or "out is". */
static const char *forward_is(const cp_tensor_result *tensor)
{
    return tensor->kind == CP_TENSOR_LOGITS   ? "logits are"
           : strcmp(tensor->name, "lse") == 0 ? "lse is"
                                              : "out is";
}

static void say_cut(char *out, size_t room, const cp_tensor_result *logits, const cp_declaration *actual)
{
    const char *is = forward_is(logits);
    long long cut = logits->first_bad_position;
    int64_t P = actual->cp_size;
    int64_t shard = P > 1 && logits->dims >= 2 ? (logits->extent[1] + P - 1) / P : 0;
    if (shard > 0 && strcmp(actual->layout, "contiguous") == 0 && cut % shard == 0)
        snprintf(out, room,
                 "%s right before position %lld, where rank %lld's shard begins, and wrong from "
                 "there on: look at what crosses that cut",
                 is, cut, cut / (long long)shard);
    else
        snprintf(out, room,
                 "%s right before position %lld and wrong from there on: look at masks, positions "
                 "and the order of tokens there",
                 is, cut);
}

static void say_logits(char *out, size_t room, const cp_tensor_result *logits, const cp_declaration *actual)
{
    if (logits->bad_from_there_on)
        say_cut(out, room, logits, actual);
    else if (logits->bad_in_whole_rows)
        snprintf(out, room,
                 "every position of %lld row%s is wrong and the other rows are right: look at padding and "
                 "documents there",
                 (long long)logits->bad_rows, logits->bad_rows == 1 ? "" : "s");
    else
        snprintf(out, room, "look at the forward pass: masks, positions, the order of tokens");
}

static void say_token_loss(char *out, size_t room, const cp_result *result, const cp_tensor_result *losses)
{
    bool right = is_right(result, CP_TENSOR_LOGITS);
    if (right && losses->bad_at_shard_ends)
        snprintf(out, room,
                 "logits are right, and only the last token of a shard has a wrong loss: labels are shifted "
                 "inside the shard instead of on the whole row");
    else if (right)
        snprintf(out, room, "logits are right: look at the labels, their shift, order and ignored positions");
}

static void say_loss(char *out, size_t room, const cp_result *result, const cp_tensor_result *loss)
{
    const char *right = is_right(result, CP_TENSOR_TOKEN_LOSS) ? "token losses are right"
                        : is_right(result, CP_TENSOR_LOGITS)   ? "logits are right"
                                                               : NULL;
    if (right)
        snprintf(out, room,
                 "%s and the loss is %.4g times the expected: look at its divisor, its reduction over ranks, "
                 "and terms beside it",
                 right, loss->factor);
}

/* ---- backward ---- */

typedef struct fingerprint {
    const char *words[4];
    const char *sentence;
} fingerprint;

static const fingerprint PATTERNS[] = {
    {{"lm_head", "embed_out"},
     "only the head's gradient differs: look at the logits' backward and its reduction over ranks"},
    {{"embed", "wte"},
     "only the input embedding's gradient differs: look at the look-up's backward, the padding row, "
     "and its reduction over ranks"},
    {{"k_proj", "v_proj", "dk", "dv"},
     "only gradients of keys and values differ: look at how the exchange brings dk and dv back to "
     "the rank that owns them"},
    {{"q_proj", "k_proj"},
     "only gradients of queries and keys differ: look at the backward of scores and rotation"},
    {{"router", "mlp.gate.", "moe.gate."},
     "only routers' gradients differ: look at the balancing loss and its "
     "reduction over ranks"},
    {{".bias"}, "only biases' gradients differ: look at their reduction over ranks"},
    {{"norm"}, "only norms' gradients differ: look at the reduction of replicated parameters over ranks"},
};

static bool fits(const fingerprint *pattern, const char *name)
{
    for (size_t i = 0; i < sizeof pattern->words / sizeof *pattern->words && pattern->words[i]; i++) {
        if (strstr(name, pattern->words[i]))
            return true;
    }
    return false;
}

/* All gradients that differ fit, and there is at least one that does not differ. */
static const fingerprint *find_pattern(const cp_result *result)
{
    for (size_t p = 0; p < sizeof PATTERNS / sizeof *PATTERNS; p++) {
        bool all = true;
        bool others = false;
        for (size_t i = 0; i < result->count && all; i++) {
            const cp_tensor_result *tensor = &result->tensors[i];
            if (tensor->kind != CP_TENSOR_GRADIENT)
                continue;
            all = !is_different(tensor) || fits(&PATTERNS[p], tensor->name);
            others = others || !is_different(tensor);
        }
        if (all && others)
            return &PATTERNS[p];
    }
    return NULL;
}

/* The last layer with a wrong gradient, if a later one is all right and every earlier one is wrong somewhere: the
 * backward pass comes from above. -1: no such layer. */
static int64_t layer_of_entry(const cp_result *result)
{
    int64_t last = -1;
    int64_t deepest = -1;
    int64_t wrong_layers = 0;
    int64_t counted = -1; /* tensors of a layer stand together */
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        int64_t layer = tensor->kind == CP_TENSOR_GRADIENT ? cp_name_layer(tensor->name) : -1;
        deepest = layer > deepest ? layer : deepest;
        if (layer < 0 || !is_different(tensor))
            continue;
        last = layer > last ? layer : last;
        wrong_layers += layer != counted;
        counted = layer;
    }
    return last >= 0 && last < deepest && wrong_layers == last + 1 ? last : -1;
}

/* Gradients that are not the same on all ranks, beyond the limits. */
static size_t count_copies(const cp_result *result)
{
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        bool within = tensor->replica_difference * tensor->actual_norm <= tensor->norm_limit;
        count += is_different(tensor) && tensor->kind == CP_TENSOR_GRADIENT &&
                 tensor->replica_difference > 0 && !within;
    }
    return count;
}

static void say_gradients(char *out, size_t room, const cp_result *result)
{
    const fingerprint *pattern = find_pattern(result);
    double factor = common_factor(result, false);
    int64_t layer = layer_of_entry(result);
    size_t copies = count_copies(result);
    size_t used = 0;
    bool attention = is_right(result, CP_TENSOR_OUTPUT);
    if (attention || (is_right(result, CP_TENSOR_LOGITS) && is_right(result, CP_TENSOR_LOSS)))
        used += (size_t)snprintf(out, room, "the forward pass is right; ");
    if (copies > 0)
        used += (size_t)snprintf(out + used, room - used, "the ranks' own copies of %zu gradient%s differ; ",
                                 copies, copies == 1 ? "" : "s");
    if (pattern)
        snprintf(out + used, room - used, "%s", pattern->sentence);
    else if (fabs(factor - 1) > 1e-3)
        snprintf(out + used, room - used, "every gradient that differs is %.4g times the expected", factor);
    else if (copies > 0)
        snprintf(out + used, room - used, "look at which ranks took part in their reduction");
    else if (layer >= 0)
        snprintf(
            out + used, room - used,
            "gradients are wrong in layers 0 to %lld and right after: look at the backward of layer %lld",
            (long long)layer, (long long)layer);
    else
        snprintf(out + used, room - used,
                 "look at the backward pass and the reduction of gradients over ranks");
}

/* In float32, right code too is off by a multiple of the limits where scores, caps or neighbours cancel. */
static bool could_be_rounding(const cp_result *result)
{
    enum { MULTIPLE = 50 };
    bool small = result->dtype == CP_F32 && result->limits == CP_LIMITS_UNCALIBRATED;
    for (size_t i = 0; small && i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (tensor->verdict == CP_DIFFERENT)
            small = tensor->measured && tensor->nonfinite_actual == 0 &&
                    tensor->must_be_zero_violations == 0 && cp_tensor_excess(tensor) <= MULTIPLE;
    }
    return small;
}

/* ---- the sentence ---- */

static void say_hint(char *out, size_t room, const cp_result *result, const cp_tensor_result *first,
                     const cp_declaration *actual)
{
    if (first->kind == CP_TENSOR_RAN)
        snprintf(out, room,
                 "another step was run than the expected one: make %s the same before you look at anything "
                 "else",
                 strcmp(first->name, "ran/weights") == 0 ? "weights" : "inputs");
    else if (could_be_rounding(result))
        snprintf(
            out, room,
            "rounding in float32 can be as large as this where scores or caps cancel: judge the same run in "
            "float64, where it cannot");
    else if (first->nonfinite_actual > 0)
        snprintf(out, room, "look for a row that sees nothing, or a division by a count of zero");
    else if (say_factor(out, room, result, actual))
        return;
    else if (first->kind == CP_TENSOR_LOGITS || first->kind == CP_TENSOR_OUTPUT)
        say_logits(out, room, first, actual);
    else if (first->kind == CP_TENSOR_TOKEN_LOSS)
        say_token_loss(out, room, result, first);
    else if (first->kind == CP_TENSOR_LOSS)
        say_loss(out, room, result, first);
    else if (first->kind == CP_TENSOR_GRADIENT)
        say_gradients(out, room, result);
}

static char *say_incomparable(const cp_result *result)
{
    for (size_t i = 0; i < result->count && result->failure_count == 0; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (tensor->verdict == CP_NOT_COMPARABLE) {
            char text[2 * CP_RESULT_SENTENCE];
            snprintf(text, sizeof text,
                     "nothing is said about the whole before both sides hold the same tensors: %s is %s",
                     tensor->name, tensor->reason);
            return cp_sentence_copy(text);
        }
    }
    return cp_sentence_copy("nothing is said about the whole before the two sides can be compared");
}

char *cp_next_step(const cp_result *result, const cp_declaration *actual)
{
    if (result->verdict == CP_SAME)
        return cp_sentence_copy("");
    const cp_tensor_result *first = first_different(result);
    if (result->verdict == CP_NOT_COMPARABLE || !first)
        return say_incomparable(result);
    char hint[2 * CP_RESULT_SENTENCE] = "";
    say_hint(hint, sizeof hint, result, first, actual);
    char text[4 * CP_RESULT_SENTENCE];
    snprintf(text, sizeof text, "first difference in execution order: %s%s%s", first->name,
             hint[0] ? "; " : "", hint);
    return cp_sentence_copy(text);
}

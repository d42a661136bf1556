#include "harness/judge/next.h"

#include "harness/judge/clues.h"
#include "harness/judge/names.h"
#include "harness/judge/sentences.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const cp_tensor_result *first_different(const cp_result *result)
{
    for (size_t i = 0; i < result->count; i++) {
        if (cp_clue_different(&result->tensors[i]))
            return &result->tensors[i];
    }
    return NULL;
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

/* By the kind of what differs first. */
static bool say_kind(char *out, size_t room, const cp_clues *clues)
{
    switch (clues->first->kind) {
    case CP_TENSOR_LOGITS:
    case CP_TENSOR_OUTPUT: return cp_say_logits(out, room, clues);
    case CP_TENSOR_TOKEN_LOSS: return cp_say_token_loss(out, room, clues);
    case CP_TENSOR_LOSS: return cp_say_loss(out, room, clues);
    case CP_TENSOR_GRADIENT: return cp_say_gradients(out, room, clues);
    default: return false;
    }
}

static void say_hint(char *out, size_t room, const cp_clues *clues)
{
    const cp_tensor_result *first = clues->first;
    if (first->kind == CP_TENSOR_RAN)
        snprintf(out, room,
                 "another step was run than the expected one: make %s the same before you look at anything "
                 "else",
                 strcmp(first->name, "ran/weights") == 0 ? "weights" : "inputs");
    else if (could_be_rounding(clues->result))
        snprintf(
            out, room,
            "rounding in float32 can be as large as this where scores or caps cancel: judge the same run in "
            "float64, where it cannot");
    else if (first->nonfinite_actual > 0)
        snprintf(out, room, "look for a row that sees nothing, or a division by a count of zero");
    else if (!(first->kind == CP_TENSOR_GRADIENT && cp_say_reduction(out, room, clues)) &&
             !(first->kind == CP_TENSOR_GRADIENT && cp_say_declared(out, room, clues)) &&
             !cp_say_factor(out, room, clues))
        say_kind(out, room, clues);
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

char *cp_next_step(const cp_result *result, const cp_sides *sides)
{
    if (result->verdict == CP_SAME)
        return cp_sentence_copy("");
    const cp_tensor_result *first = first_different(result);
    if (result->verdict == CP_NOT_COMPARABLE || !first)
        return say_incomparable(result);
    char hint[2 * CP_RESULT_SENTENCE] = "";
    const cp_clues clues = {result, sides, &sides->actual->declaration, first};
    say_hint(hint, sizeof hint, &clues);
    char text[4 * CP_RESULT_SENTENCE];
    snprintf(text, sizeof text, "first difference in execution order: %s%s%s%s", first->name,
             cp_name_is_partial(first->name) ? ", before any reduction over ranks" : "", hint[0] ? "; " : "",
             hint);
    return cp_sentence_copy(text);
}

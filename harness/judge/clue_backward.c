#include "harness/judge/clues.h"

#include "harness/judge/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WORDS = 6 };

static bool holds(const char *name, const char *const words[MOST_WORDS])
{
    for (int i = 0; i < MOST_WORDS && words[i]; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

/* ---- only gradients of some names ---- */

typedef struct fingerprint {
    const char *words[MOST_WORDS];
    const char *sentence;
} fingerprint;

static const fingerprint PATTERNS[] = {
    {{"sink"},
     "only the sinks' gradients differ: look at who adds them up: heads, or tokens, of every rank are in "
     "them once"},
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
            all = !cp_clue_different(tensor) || holds(tensor->name, PATTERNS[p].words);
            others = others || !cp_clue_different(tensor);
        }
        if (all && others)
            return &PATTERNS[p];
    }
    return NULL;
}

/* An embedding that is the head too has a gradient of two parts. */
static bool is_tied(const cp_clues *clues)
{
    const cp_fixture *fixture = clues->sides->fixture;
    const cp_weight *weight = fixture ? cp_name_weight(fixture, cp_name_parameter(clues->first->name)) : NULL;
    const cp_json *tie =
        fixture && fixture->config ? cp_json_member(fixture->config, "tie_word_embeddings") : NULL;
    return weight && (weight->tied[0] || (tie && cp_json_kind_of(tie) == CP_JSON_BOOL && cp_json_bool(tie)));
}

static void say_pattern(char *out, size_t room, const cp_clues *clues, const fingerprint *pattern)
{
    bool embedding = strcmp(pattern->words[0], "embed") == 0;
    snprintf(out, room, "%s%s", pattern->sentence,
             embedding && is_tied(clues)
                 ? "; it is the head's too: both parts have to be in it, and each of them once"
                 : "");
}

/* ---- where the backward pass goes wrong ---- */

/* The backward pass comes from above: the last layer with a wrong gradient, if every earlier one is wrong somewhere.
 * -1: no such layer. */
static int64_t layer_of_entry(const cp_result *result, int64_t *deepest)
{
    int64_t last = -1, wrong_layers = 0, counted = -1; /* tensors of a layer stand together */
    *deepest = -1;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        int64_t layer = tensor->kind == CP_TENSOR_GRADIENT ? tensor->layer : -1;
        *deepest = layer > *deepest ? layer : *deepest;
        if (layer < 0 || !cp_clue_different(tensor))
            continue;
        last = layer > last ? layer : last;
        wrong_layers += layer != counted;
        counted = layer;
    }
    return last >= 0 && wrong_layers == last + 1 ? last : -1;
}

/* What of a layer is wrong, where the backward pass enters it. */
typedef struct entry {
    bool queries, keys, values, after; /* `after`: what the forward pass meets behind the attention */
    bool right;                        /* something of the layer */
} entry;

static entry look_at(const cp_result *result, int64_t layer)
{
    static const char *const before[MOST_WORDS] = {"input_layernorm", "q_norm", "k_norm", "sink", "qkv"};
    static const char *const queries[MOST_WORDS] = {"q_proj"}, *const keys[MOST_WORDS] = {"k_proj"},
                             *const values[MOST_WORDS] = {"v_proj"};
    entry found = {0};
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (tensor->kind != CP_TENSOR_GRADIENT || tensor->layer != layer)
            continue;
        if (!cp_clue_different(tensor))
            found.right = true;
        else if (holds(tensor->name, queries))
            found.queries = true;
        else if (holds(tensor->name, keys))
            found.keys = true;
        else if (holds(tensor->name, values))
            found.values = true;
        else if (!holds(tensor->name, before))
            found.after = true;
    }
    return found;
}

static bool say_entry(char *out, size_t room, const cp_clues *clues)
{
    const cp_result *result = clues->result;
    int64_t deepest, layer = layer_of_entry(result, &deepest);
    if (layer < 0)
        return false;
    entry found = look_at(result, layer);
    bool attention = !found.after && found.right && (found.queries || found.keys || found.values);
    int idle = attention && !found.queries ? cp_clue_idle_rank(clues) : -1;
    size_t used = 0;
    if (attention)
        used = (size_t)snprintf(
            out, room,
            "the backward pass is right down to the attention of layer %lld, and wrong from there on: there "
            "gradients of %s%s%s are wrong%s",
            (long long)layer, found.queries ? "queries" : "",
            !found.keys      ? ""
            : !found.queries ? "keys"
            : !found.values  ? " and keys"
                             : ", keys",
            !found.values                 ? ""
            : found.queries || found.keys ? " and values"
                                          : "values",
            found.queries && found.keys && found.values
                ? ": look at what the backward of attention is given, and its exchange"
            : found.queries
                ? ", and others are right: look at the backward of scores and rotation, and what "
                  "softmax's backward is given"
                : ", and those of queries are right: look at how the exchange brings dk and dv back "
                  "to the rank that owns them");
    else if (layer < deepest)
        snprintf(
            out, room,
            "gradients are wrong in layers 0 to %lld and right after: look at the backward of layer %lld",
            (long long)layer, (long long)layer);
    if (idle >= 0)
        snprintf(
            out + used, room - used,
            "; rank %d has no target of its own, and its keys' and values' part belongs into the sum all the "
            "same",
            idle);
    return attention || layer < deepest;
}

/* ---- all of them ---- */

/* Gradients that are not the same on all ranks, beyond the limits. */
static size_t count_copies(const cp_result *result)
{
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        bool within = tensor->replica_difference * tensor->actual_norm <= tensor->norm_limit;
        count += cp_clue_different(tensor) && tensor->kind == CP_TENSOR_GRADIENT &&
                 tensor->replica_difference > 0 && !within;
    }
    return count;
}

/* Every gradient that differs does so by what bfloat16 leaves of it, in a run that is more precise. */
static bool is_rounded(const cp_result *result)
{
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (tensor->kind != CP_TENSOR_GRADIENT || !cp_clue_different(tensor))
            continue;
        count++;
        if (!(tensor->relative_error > 0x1p-13 && tensor->relative_error < 0x1p-6 &&
              tensor->cosine > 1 - 0x1p-11))
            return false;
    }
    return count > 2 && result->dtype != CP_BF16;
}

static bool is_embeds_right(const cp_result *result)
{
    for (size_t i = 0; i < result->count; i++)
        if (strcmp(result->tensors[i].name, CP_INPUTS_EMBEDS) == 0)
            return result->tensors[i].measured && result->tensors[i].verdict == CP_SAME;
    return false;
}

bool cp_say_gradients(char *out, size_t room, const cp_clues *clues)
{
    const cp_result *result = clues->result;
    const fingerprint *pattern = find_pattern(result);
    size_t copies = count_copies(result);
    size_t used = 0;
    bool attention = cp_clue_right(result, CP_TENSOR_OUTPUT);
    if (attention || (cp_clue_right(result, CP_TENSOR_LOGITS) && cp_clue_right(result, CP_TENSOR_LOSS)))
        used += (size_t)snprintf(out, room, "the forward pass is right; ");
    if (copies > 0)
        used += (size_t)snprintf(out + used, room - used, "the ranks' own copies of %zu gradient%s differ; ",
                                 copies, copies == 1 ? "" : "s");
    out += used;
    room -= used;
    if (cp_say_embeds(out, room, clues))
        return true;
    if (is_rounded(result))
        snprintf(out, room,
                 "errors of all gradients that differ are no larger than rounding to bfloat16: look at the "
                 "type in "
                 "which they are reduced or added up");
    else if (pattern)
        say_pattern(out, room, clues, pattern);
    else if (cp_say_partial_factor(out, room, clues))
        return true;
    else if (copies > 0)
        snprintf(out, room, "look at which ranks took part in their reduction");
    else if (is_embeds_right(result))
        snprintf(
            out, room,
            "the gradient of inputs_embeds is right, which all of the backward pass went into: look at the "
            "reduction of parameters' gradients over ranks, and who takes part in it");
    else if (!say_entry(out, room, clues))
        snprintf(out, room, "look at the backward pass and the reduction of gradients over ranks");
    return true;
}

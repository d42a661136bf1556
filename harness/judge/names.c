#include "harness/judge/names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char CP_INPUTS_EMBEDS[] = "grads/inputs_embeds";

static const char GRADS[] = "grads/";
static const char PARTIAL[] = "grads_partial/";
static const char TRACE[] = "trace/";
static const char TRACE_GRADS[] = "trace/grad.";
static const char RAN_PREFIX[] = "ran/";

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_one_of(const char *name, const char *const names[])
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static const char *const LOGITS_OR_INSTEAD[] = {"logits", "logsumexp", "target_logit", NULL};
static const char *const ATTENTION_OUTPUTS[] = {"out", "lse", NULL};
static const char *const ATTENTION_GRADIENTS[] = {"dq", "dk", "dv", "dsink", NULL};

bool cp_name_kind(cp_tensor_kind *kind, const char *name)
{
    if (strcmp(name, "loss") == 0)
        *kind = CP_TENSOR_LOSS;
    else if (strcmp(name, "token_loss") == 0)
        *kind = CP_TENSOR_TOKEN_LOSS;
    else if (is_one_of(name, LOGITS_OR_INSTEAD))
        *kind = CP_TENSOR_LOGITS;
    else if (is_one_of(name, ATTENTION_OUTPUTS))
        *kind = CP_TENSOR_OUTPUT;
    else if (begins(name, GRADS) || begins(name, PARTIAL) || is_one_of(name, ATTENTION_GRADIENTS))
        *kind = CP_TENSOR_GRADIENT;
    else if (begins(name, TRACE))
        *kind = CP_TENSOR_TRACE;
    else
        return false;
    return true;
}

bool cp_name_has_rows(const char *name)
{
    return strcmp(name, CP_INPUTS_EMBEDS) == 0 ||
           (is_one_of(name, ATTENTION_GRADIENTS) && strcmp(name, "dsink") != 0);
}

const char *cp_name_parameter(const char *name)
{
    return begins(name, GRADS) ? name + strlen(GRADS) : begins(name, PARTIAL) ? name + strlen(PARTIAL) : name;
}

bool cp_name_is_partial(const char *name)
{
    return begins(name, PARTIAL);
}

/* The number after `word`, which begins a component of the name. */
static int64_t number_after(const char *name, const char *word)
{
    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word)) {
        if (at != name && at[-1] != '.' && at[-1] != '/')
            continue;
        const char *digits = at + strlen(word);
        char *end;
        if (isdigit((unsigned char)*digits)) {
            long long number = strtoll(digits, &end, 10);
            if (*end == '.')
                return number;
        }
    }
    return -1;
}

int64_t cp_name_layer(const char *name)
{
    int64_t layer = number_after(name, "layers.");
    return layer >= 0 ? layer : number_after(name, "layer.");
}

/* Line of `entry`; -1: none. */
static int64_t line_of(const char *list, const char *entry)
{
    size_t length = strlen(entry);
    int64_t line = 0;
    for (const char *at = list; *at; line++) {
        size_t span = strcspn(at, "\n");
        if (span == length && memcmp(at, entry, length) == 0)
            return line;
        at += span + (at[span] == '\n');
    }
    return -1;
}

bool cp_name_listed(const char *list, const char *entry)
{
    return line_of(list, entry) >= 0;
}

const cp_weight *cp_name_weight(const cp_fixture *fixture, const char *parameter)
{
    for (size_t i = 0; i < fixture->weight_count; i++) {
        const cp_weight *weight = &fixture->weights[i];
        if (strcmp(weight->name, parameter) == 0 || cp_name_listed(weight->tied, parameter))
            return weight;
    }
    return NULL;
}

const cp_weight *cp_name_gradient(const cp_fixture *fixture, const char *name)
{
    const char *parameter = cp_name_parameter(name);
    return parameter != name ? cp_name_weight(fixture, parameter) : NULL;
}

bool cp_name_other(char out[CP_RESULT_NAME], const char *name, const cp_weight *weight, int index)
{
    if (index == 0) {
        snprintf(out, CP_RESULT_NAME, "%s", name);
        return true;
    }
    if (!weight) {
        snprintf(out, CP_RESULT_NAME, "grads/%s", cp_name_parameter(name));
        return index == 1 && begins(name, PARTIAL);
    }
    if (index == 1) {
        snprintf(out, CP_RESULT_NAME, "grads/%s", weight->name);
        return true;
    }
    const char *at = weight->tied;
    for (int skip = 2; *at && skip < index; skip++)
        at += strcspn(at, "\n") + 1;
    snprintf(out, CP_RESULT_NAME, "grads/%.*s", (int)strcspn(at, "\n"), at);
    return *at != '\0';
}

/* ---- order of execution ---- */

enum { RAN, FORWARD_TRACE, LOGITS, TOKEN_LOSS, LOSS, BACKWARD_TRACE, PARTIAL_GRADIENTS, GRADIENTS };
enum { INPUT, EMBEDDING, LAYERS, FINAL_NORM, OTHER, HEAD };

static int group_of(const char *name)
{
    cp_tensor_kind kind = CP_TENSOR_TRACE;
    cp_name_kind(&kind, name);
    if (begins(name, RAN_PREFIX))
        return RAN;
    switch (kind) {
    case CP_TENSOR_OUTPUT:
    case CP_TENSOR_LOGITS: return LOGITS;
    case CP_TENSOR_TOKEN_LOSS: return TOKEN_LOSS;
    case CP_TENSOR_LOSS: return LOSS;
    case CP_TENSOR_GRADIENT: return begins(name, PARTIAL) ? PARTIAL_GRADIENTS : GRADIENTS;
    default: return begins(name, TRACE_GRADS) ? BACKWARD_TRACE : FORWARD_TRACE;
    }
}

static bool holds_any(const char *name, const char *const words[])
{
    for (; *words; words++) {
        if (strstr(name, *words))
            return true;
    }
    return false;
}

static int part_of(const char *name, int64_t layer)
{
    static const char *const head[] = {"lm_head", "embed_out", NULL};
    static const char *const embedding[] = {"embed", "wte", "wpe", NULL};
    static const char *const norm[] = {"norm", "ln_f", "/final", "grad.final", NULL};
    if (strcmp(name, CP_INPUTS_EMBEDS) == 0)
        return INPUT;
    if (layer >= 0)
        return LAYERS;
    if (holds_any(name, head))
        return HEAD;
    if (holds_any(name, embedding))
        return EMBEDDING;
    return holds_any(name, norm) ? FINAL_NORM : OTHER;
}

cp_name_key cp_name_key_of(const char *name, const char *order)
{
    int64_t layer = cp_name_layer(name);
    cp_name_key key = {group_of(name), line_of(order, name), part_of(name, layer), layer, name};
    if (key.listed < 0)
        key.listed = line_of(order, cp_name_parameter(name));
    if (key.listed < 0)
        key.listed = INT64_MAX;
    if (key.group == BACKWARD_TRACE) {
        key.part = -key.part;
        key.layer = -key.layer;
    }
    return key;
}

static int compare_integers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int cp_name_compare(const cp_name_key *a, const cp_name_key *b)
{
    int by_group = compare_integers(a->group, b->group);
    int by_line = compare_integers(a->listed, b->listed);
    int by_part = compare_integers(a->part, b->part);
    int by_layer = compare_integers(a->layer, b->layer);
    return by_group   ? by_group
           : by_line  ? by_line
           : by_part  ? by_part
           : by_layer ? by_layer
                      : strcmp(a->name, b->name);
}

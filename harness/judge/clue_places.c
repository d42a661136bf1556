#include "harness/judge/clues.h"

#include "harness/judge/names.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- which positions are wrong ---- */

/* A tensor's positions, where each has a bin of its own. */
typedef struct view {
    const cp_bins *bins;
    const cp_tensor_result *tensor;
    bool known;
} view;

static view view_of(const cp_clues *clues, const cp_tensor_result *tensor)
{
    const cp_bins *bins = &clues->result->bins;
    return (view){bins, tensor, tensor->bin_errors && bins->width == 1 && !isnan(tensor->element_limit)};
}

static bool is_wrong(const view *v, int64_t b, int64_t t)
{
    return !(v->tensor->bin_errors[b * v->bins->bins + t] <= v->tensor->element_limit);
}

static bool is_real(const view *v, int64_t b, int64_t t)
{
    return v->bins->document[b * v->bins->bins + t] != CP_BIN_PADDING;
}

static int32_t document_at(const view *v, int64_t b, int64_t t)
{
    return v->bins->document[b * v->bins->bins + t];
}

static bool is_first_of_document(const view *v, int64_t b, int64_t t)
{
    return t == 0 || document_at(v, b, t - 1) != document_at(v, b, t);
}

static bool is_last_of_document(const view *v, int64_t b, int64_t t)
{
    return t + 1 == v->bins->T || document_at(v, b, t + 1) != document_at(v, b, t);
}

/* Where a position may be; counts of those that are, and are wrong. */
typedef bool (*place)(const view *v, int64_t b, int64_t t);

static bool is_later_document(const view *v, int64_t b, int64_t t)
{
    return document_at(v, b, t) > 0;
}

static bool is_first_of_later_document(const view *v, int64_t b, int64_t t)
{
    return is_later_document(v, b, t) && is_first_of_document(v, b, t);
}

static bool is_beside_padding(const view *v, int64_t b, int64_t t)
{
    return (t > 0 && !is_real(v, b, t - 1)) || (t + 1 < v->bins->T && !is_real(v, b, t + 1));
}

static bool is_in_padded_row(const view *v, int64_t b, int64_t t)
{
    (void)t;
    for (int64_t i = 0; i < v->bins->T; i++)
        if (!is_real(v, b, i))
            return true;
    return false;
}

static bool is_first_of_row(const view *v, int64_t b, int64_t t)
{
    for (int64_t i = 0; i < t; i++)
        if (is_real(v, b, i))
            return false;
    return true;
}

typedef struct tally {
    int64_t inside, wrong_inside, outside, wrong_outside;
} tally;

static tally count(const view *v, place is_there)
{
    tally of = {0};
    for (int64_t b = 0; b < v->bins->B; b++) {
        for (int64_t t = 0; t < v->bins->T; t++) {
            if (!is_real(v, b, t))
                continue;
            bool wrong = is_wrong(v, b, t);
            if (is_there(v, b, t)) {
                of.inside++;
                of.wrong_inside += wrong;
            } else {
                of.outside++;
                of.wrong_outside += wrong;
            }
        }
    }
    return of;
}

/* Nothing is wrong elsewhere, and there is an elsewhere. */
static bool is_confined(const view *v, place is_there)
{
    tally of = count(v, is_there);
    return of.wrong_inside > 0 && of.wrong_outside == 0 && of.outside > 0;
}

/* The rank that holds all wrong positions; -1: several do, or it is not known. */
static int rank_of_wrong(const view *v, bool *all)
{
    int rank = -1;
    *all = true;
    if (!v->bins->owner || v->bins->ranks < 2)
        return -1;
    for (int64_t b = 0; b < v->bins->B; b++) {
        for (int64_t t = 0; t < v->bins->T; t++) {
            int owner = v->bins->owner[b * v->bins->bins + t];
            if (!is_real(v, b, t) || !is_wrong(v, b, t))
                continue;
            if (owner < 0 || (rank >= 0 && owner != rank))
                return -1;
            rank = owner;
        }
    }
    for (int64_t b = 0; b < v->bins->B; b++)
        for (int64_t t = 0; t < v->bins->T; t++)
            *all = *all &&
                   (!is_real(v, b, t) || v->bins->owner[b * v->bins->bins + t] != rank || is_wrong(v, b, t));
    return rank;
}

/* In every row that is wrong anywhere its first token is, which sees itself alone. */
static bool begins_with_the_first(const view *v)
{
    int64_t rows = 0;
    for (int64_t b = 0; b < v->bins->B; b++) {
        bool wrong = false, first = false;
        for (int64_t t = 0; t < v->bins->T; t++) {
            if (!is_real(v, b, t) || !is_wrong(v, b, t))
                continue;
            wrong = true;
            first = first || is_first_of_row(v, b, t);
        }
        if (wrong && !first)
            return false;
        rows += wrong;
    }
    return rows > 0;
}

/* ---- what lies at a position ---- */

/* What a judge sees of the forward pass: "logits are", or "out is". */
static const char *forward_is(const cp_tensor_result *tensor)
{
    return tensor->kind == CP_TENSOR_LOGITS   ? "logits are"
           : strcmp(tensor->name, "lse") == 0 ? "lse is"
                                              : "out is";
}

static bool is_whole_number(const cp_json *value)
{
    return value && cp_json_kind_of(value) == CP_JSON_INTEGER;
}

/* A window of the configuration of which this position is the first that it hides a key from, or the last that it does
 * not; 0: none. */
static int64_t window_at(const cp_clues *clues, int64_t position, const char **called)
{
    static const struct {
        const char *name, *called;
    } lengths[] = {{"sliding_window", "the sliding window"}, {"attention_chunk_size", "the attention chunk"}};
    const cp_fixture *fixture = clues->sides->fixture;
    for (size_t i = 0; fixture && fixture->config && i < sizeof lengths / sizeof *lengths; i++) {
        const cp_json *length = cp_json_member(fixture->config, lengths[i].name);
        if (!is_whole_number(length) || position <= 0)
            continue;
        int64_t W = cp_json_integer(length);
        *called = lengths[i].called;
        if (position == W || position == W - 1)
            return W;
    }
    return 0;
}

/* Where every row that is wrong begins to be, as far as something begins there. */
static void say_cut(char *out, size_t room, const cp_clues *clues, const view *v)
{
    const cp_tensor_result *tensor = clues->first;
    const char *called = "";
    int64_t cut = tensor->first_bad_position, P = clues->actual->cp_size;
    int64_t shard = P > 1 && tensor->dims >= 2 ? (tensor->extent[1] + P - 1) / P : 0;
    bool contiguous = shard > 0 && strcmp(clues->actual->layout, "contiguous") == 0 && cut % shard == 0;
    int rank = contiguous ? (int)(cut / shard) : -1;
    if (rank < 0 && v->known && v->bins->owner && cut > 0 && v->bins->owner[cut] >= 0 &&
        v->bins->owner[cut] != v->bins->owner[cut - 1])
        rank = v->bins->owner[cut];
    bool documents = v->known && cut > 0;
    for (int64_t b = 0; documents && b < v->bins->B; b++)
        documents = !is_wrong(v, b, cut) || (is_later_document(v, b, cut) && is_first_of_document(v, b, cut));
    int64_t window = window_at(clues, cut, &called);
    char where[200] = "";
    size_t used = 0;
    if (rank >= 0)
        used += (size_t)snprintf(where, sizeof where, ", where rank %d's shard begins", rank);
    if (documents)
        used += (size_t)snprintf(where + used, sizeof where - used, "%s where a document begins",
                                 used ? " and" : ",");
    if (window > 0)
        used += (size_t)snprintf(where + used, sizeof where - used,
                                 "%s where %s of %" PRId64 " begins to hide keys", used ? " and" : ",",
                                 called, window);
    snprintf(
        out, room, "%s right before position %" PRId64 "%s%s and wrong from there on: look at %s%s%s%s",
        forward_is(tensor), cut, where, used ? "," : "",
        rank >= 0
            ? "what crosses that cut: keys and values, masks, positions; at which tokens that rank was given"
            : "",
        rank >= 0 && (documents || window > 0) ? "; and at " : "",
        documents    ? "what tells documents apart, and where positions begin again"
        : window > 0 ? "the length of that window, and what it is counted from"
                     : "",
        rank >= 0 || documents ? ""
        : window > 0           ? "; else at masks, positions and the order of tokens there"
                               : "masks, positions and the order of tokens there");
}

/* ---- logits ---- */

static const struct {
    place is_there;
    const char *sentence;
} CONFINED[] = {
    {is_first_of_later_document,
     "only first tokens of later documents are wrong: look at where documents begin, in masks and positions"},
    {is_last_of_document, "only last tokens of documents are wrong: look at where documents and rows end"},
    {is_beside_padding,
     "only tokens beside padding are wrong: look at how far the padding reaches, and what it is masked by"},
    {is_later_document,
     "first documents of rows are right and later ones wrong: look at what tells documents apart, and where "
     "positions begin again"},
    {is_in_padded_row,
     "rows with padding are wrong and those without are right: look at the padding's mask, and positions"},
};

/* The last token of a row is the last of much else: of what the last rank has, of what a window reaches. */
static bool ends_inside_a_row(const view *v)
{
    for (int64_t b = 0; b < v->bins->B; b++)
        for (int64_t t = 0; t + 1 < v->bins->T; t++)
            if (is_real(v, b, t) && is_wrong(v, b, t))
                return true;
    return false;
}

static bool fits(const view *v, size_t at)
{
    return is_confined(v, CONFINED[at].is_there) &&
           (CONFINED[at].is_there != is_last_of_document || ends_inside_a_row(v));
}

/* The place that is wrong altogether, or else one that is wrong somewhere; nothing is wrong outside of it. */
static bool say_confined(char *out, size_t room, const view *v)
{
    int chosen = -1;
    for (int i = (int)(sizeof CONFINED / sizeof *CONFINED) - 1; i >= 0; i--)
        if (fits(v, (size_t)i))
            chosen = i;
    for (int i = (int)(sizeof CONFINED / sizeof *CONFINED) - 1; i >= 0; i--) {
        tally of = count(v, CONFINED[i].is_there);
        if (fits(v, (size_t)i) && of.wrong_inside == of.inside)
            chosen = i;
    }
    if (chosen >= 0)
        snprintf(out, room, "%s", CONFINED[chosen].sentence);
    return chosen >= 0;
}

static bool say_rank(char *out, size_t room, const view *v)
{
    bool all;
    int rank = rank_of_wrong(v, &all);
    if (rank < 0)
        return false;
    snprintf(out, room,
             "%s of rank %d %s wrong, and those of other ranks are right: look at what that rank was given",
             all ? "all positions" : "positions", rank, all ? "are" : "alone are");
    return true;
}

/* Errors as large as another type's rounding, and no larger. */
static const char *rounding_of(const cp_tensor_result *tensor)
{
    double error = tensor->relative_error;
    return error > 0x1p-13 && error < 0x1p-6    ? "bfloat16"
           : error > 0x1p-28 && error < 0x1p-22 ? "float32"
                                                : NULL;
}

/* Nothing is known of the pattern: what the first wrong position is. */
static void say_first(char *out, size_t room, const view *v)
{
    size_t used =
        (size_t)snprintf(out, room, "look at the forward pass: masks, positions, the order of tokens");
    for (int64_t i = 0; v->known && i < v->bins->B * v->bins->T; i++) {
        int64_t b = i / v->bins->T, t = i % v->bins->T;
        if (!is_real(v, b, t) || !is_wrong(v, b, t))
            continue;
        used += (size_t)snprintf(out + used, room - used,
                                 "; the first wrong position is %" PRId64 " of row %" PRId64, t, b);
        if (v->bins->owner && v->bins->owner[i] >= 0)
            used += (size_t)snprintf(out + used, room - used, ", on rank %d", (int)v->bins->owner[i]);
        if (t > 0 && is_first_of_document(v, b, t))
            snprintf(out + used, room - used, ", where a document begins");
        return;
    }
}

bool cp_say_logits(char *out, size_t room, const cp_clues *clues)
{
    const cp_tensor_result *logits = clues->first;
    const char *rounding = clues->result->dtype == CP_F64 ? rounding_of(logits) : NULL;
    view v = view_of(clues, logits);
    size_t used = 0;
    if (rounding && fabs(logits->factor - 1) < 0x1p-7 && logits->cosine > 1 - 0x1p-11) {
        used = (size_t)snprintf(out, room, "errors are no larger than rounding to %s; ", rounding);
        out += used;
        room -= used;
    }
    bool last_alone = logits->bad_from_there_on && logits->bad_positions == logits->bad_rows;
    if (last_alone && v.known && say_confined(out, room, &v))
        return true;
    if (logits->bad_from_there_on)
        say_cut(out, room, clues, &v);
    else if (logits->bad_in_whole_rows)
        snprintf(out, room,
                 "every position of %lld row%s is wrong and the other rows are right%s: look at padding and "
                 "documents there",
                 (long long)logits->bad_rows, logits->bad_rows == 1 ? "" : "s",
                 v.known && is_confined(&v, is_in_padded_row) ? " (only rows with padding are wrong)" : "");
    else if (v.known && say_confined(out, room, &v))
        return true;
    else if (v.known && say_rank(out, room, &v))
        return true;
    else if (v.known && begins_with_the_first(&v))
        snprintf(
            out, room,
            "the first token of a row, which sees itself alone, is wrong: look at what lets it see "
            "later tokens (the causal mask), at what parts in which it sees nothing bring to a merge, and "
            "at what is the same for all (the order of heads and tokens in an exchange, sinks, caps)");
    else
        say_first(out, room, &v);
    return true;
}

/* ---- token losses, and gradients of embeddings ---- */

bool cp_say_token_loss(char *out, size_t room, const cp_clues *clues)
{
    const cp_tensor_result *losses = clues->first;
    view v = view_of(clues, losses);
    if (!cp_clue_right(clues->result, CP_TENSOR_LOGITS))
        return false;
    if (losses->bad_at_shard_ends)
        snprintf(out, room,
                 "logits are right, and only the last token of a shard has a wrong loss: labels are shifted "
                 "inside the shard instead of on the whole row");
    else if (v.known && is_confined(&v, is_last_of_document))
        snprintf(
            out, room,
            "logits are right, and only last tokens of documents have a wrong loss: look at which labels are "
            "ignored there, and over what they are shifted");
    else
        snprintf(out, room, "logits are right: look at the labels, their shift, order and ignored positions");
    return true;
}

bool cp_say_embeds(char *out, size_t room, const cp_clues *clues)
{
    const cp_tensor_result *embeds = clues->first;
    char where[256];
    if (strcmp(embeds->name, CP_INPUTS_EMBEDS) != 0)
        return false;
    for (size_t i = 0; i < clues->result->count; i++)
        if (&clues->result->tensors[i] != embeds && cp_clue_different(&clues->result->tensors[i]))
            return false;
    view v = view_of(clues, embeds);
    bool rank = v.known && say_rank(where, sizeof where, &v);
    snprintf(out, room, "%s%s%s",
             embeds->must_be_zero_violations > 0
                 ? "only the gradient of inputs_embeds is wrong, at padding: it has to be left out there"
                 : "only the gradient of inputs_embeds is wrong: each rank has its own rows of it, placed by "
                   "token_index; look at their order, and whether it was reduced like a parameter's",
             rank ? "; " : "", rank ? where : "");
    return true;
}

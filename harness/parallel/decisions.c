#include "harness/parallel/decisions.h"

#include <stdio.h>
#include <string.h>

/* ---- the table, from decisions.def ------------------------------------------------------------------------------- */

/* clang-format off */
#define CP_DECISION(name, field, count, question) static const cp_decision_value values_of_##name[count] = {
#define CP_VALUE(constant, name, needs, formula, shows, where, reports)                                      \
    [constant] = {name, formula, shows, where, CP_NEEDS_##needs, reports},
#define CP_END };
/* clang-format on */
#include "harness/parallel/decisions.def"
#undef CP_DECISION
#undef CP_VALUE
#undef CP_END

typedef struct entry {
    cp_decision decision;
    size_t offset; /* of its enum in cp_decisions */
} entry;

/* Every field is an enum of one size, so that a value can be read and set through its offset. */
#define CP_DECISION(name, field, count, question)                                                            \
    _Static_assert(sizeof(((cp_decisions *)0)->field) == sizeof(unsigned), #name);
#define CP_VALUE(...)
#define CP_END
#include "harness/parallel/decisions.def"
#undef CP_DECISION

#define CP_DECISION(name, field, count, question)                                                            \
    {{#name, question, count, values_of_##name}, offsetof(cp_decisions, field)},
static const entry table[] = {
#include "harness/parallel/decisions.def"
};

enum { DECISIONS = sizeof table / sizeof *table };

int cp_decisions_count(void)
{
    return DECISIONS;
}

const cp_decision *cp_decision_at(int decision)
{
    cp_check(decision >= 0 && decision < DECISIONS, "decision %d of %d", decision, DECISIONS);
    return &table[decision].decision;
}

int cp_decision_get(const cp_decisions *decisions, int decision)
{
    cp_check(decision >= 0 && decision < DECISIONS, "decision %d of %d", decision, DECISIONS);
    unsigned value;
    memcpy(&value, (const char *)decisions + table[decision].offset, sizeof value);
    return (int)value;
}

void cp_decision_put(cp_decisions *decisions, int decision, int value)
{
    const cp_decision *about = cp_decision_at(decision);
    cp_check(value >= 0 && value < about->count, "%s: value %d of %d", about->name, value, about->count);
    unsigned stored = (unsigned)value;
    memcpy((char *)decisions + table[decision].offset, &stored, sizeof stored);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

enum { LIST_BYTES = 1024 };

static void append(char *text, size_t bytes, const char *separator, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s", used > 0 ? separator : "", word);
}

static cp_status unknown_decision(const char *text, int length)
{
    char known[LIST_BYTES] = "";
    for (int i = 0; i < DECISIONS; i++)
        append(known, sizeof known, ", ", table[i].decision.name);
    return cp_fail(CP_BAD_USAGE, "'%.*s': no such decision; there are %s", length, text, known);
}

static cp_status unknown_value(const cp_decision *decision, const char *value)
{
    char known[LIST_BYTES] = "";
    for (int i = 0; i < decision->count; i++)
        append(known, sizeof known, ", ", decision->values[i].name);
    return cp_fail(CP_BAD_USAGE, "'%s=%s': no such value; %s is one of %s", decision->name, value,
                   decision->name, known);
}

static int find_decision(const char *name, size_t length)
{
    for (int i = 0; i < DECISIONS; i++)
        if (strlen(table[i].decision.name) == length && memcmp(table[i].decision.name, name, length) == 0)
            return i;
    return -1;
}

cp_status cp_decisions_set(cp_decisions *decisions, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    int decision = find_decision(text, length);
    if (decision < 0)
        return unknown_decision(text, (int)length);
    const cp_decision *about = cp_decision_at(decision);
    const char *name = equals ? equals + 1 : "";
    for (int value = 0; value < about->count; value++)
        if (strcmp(about->values[value].name, name) == 0) {
            cp_decision_put(decisions, decision, value);
            return CP_OK;
        }
    return unknown_value(about, name);
}

const char *cp_decisions_describe(const cp_decisions *decisions, char text[CP_DECISIONS_TEXT])
{
    text[0] = 0;
    for (int i = 0; i < DECISIONS; i++) {
        const cp_decision *about = cp_decision_at(i);
        int value = cp_decision_get(decisions, i);
        if (value == 0)
            continue;
        append(text, CP_DECISIONS_TEXT, " ", about->name);
        size_t used = strlen(text);
        snprintf(text + used, CP_DECISIONS_TEXT - used, "=%s", about->values[value].name);
    }
    if (text[0] == 0)
        snprintf(text, CP_DECISIONS_TEXT, "right");
    return text;
}

/* ---- combinations ----------------------------------------------------------------------------------------------- */

static bool has_ranks(const cp_setting *setting)
{
    return setting->P > 1;
}

static bool has_any_ranks(const cp_setting *setting)
{
    return has_ranks(setting) || setting->D > 1;
}

static bool shares_heads(const cp_setting *setting)
{
    return setting->exchange.ulysses > 1 ||
           (has_ranks(setting) && setting->exchange.kind == CP_EXCHANGE_ULYSSES);
}

static bool is_ring(const cp_setting *setting)
{
    return has_ranks(setting) && setting->exchange.kind == CP_EXCHANGE_RING;
}

static bool has_ring(const cp_setting *setting)
{
    return is_ring(setting) || setting->exchange.ring > 1;
}

static bool is_allgather(const cp_setting *setting)
{
    return has_ranks(setting) && setting->exchange.kind == CP_EXCHANGE_ALLGATHER;
}

static bool permutes(const cp_setting *setting)
{
    return has_ranks(setting) && cp_layout_permutes(&setting->layout);
}

static bool pads(const cp_setting *setting)
{
    return has_ranks(setting) && cp_layout_pads(&setting->layout);
}

/* A striped shard that is padded at its end is the row padded at its end. */
static bool pads_pieces(const cp_setting *setting)
{
    return pads(setting) && setting->layout.kind != CP_LAYOUT_STRIPED;
}

static bool has_groups(const cp_setting *setting)
{
    return setting->D > 1;
}

static bool has_groups_of_ranks(const cp_setting *setting)
{
    return has_groups(setting) && has_ranks(setting);
}

static bool has_microbatches(const cp_setting *setting)
{
    return setting->M > 1;
}

static const struct {
    const char *text;
    bool (*met)(const cp_setting *setting); /* NULL: always */
} needs[CP_NEEDS_KINDS] = {
    [CP_NEEDS_NOTHING] = {"", NULL},
    [CP_NEEDS_RANKS] = {"more than one rank in a group", has_ranks},
    [CP_NEEDS_ANY_RANKS] = {"more than one rank", has_any_ranks},
    [CP_NEEDS_ULYSSES] = {"more than one rank to share the heads (ulysses, usp)", shares_heads},
    [CP_NEEDS_RING] = {"more than one rank on a ring, under ring or usp", has_ring},
    [CP_NEEDS_RING_ALONE] = {"the ring exchange on more than one rank", is_ring},
    [CP_NEEDS_ALLGATHER] = {"the allgather exchange on more than one rank", is_allgather},
    [CP_NEEDS_PERMUTATION] = {"a layout that permutes, on more than one rank", permutes},
    [CP_NEEDS_PADDING] = {"a layout that pads, on more than one rank", pads},
    [CP_NEEDS_PADDED_PIECES] =
        {"a layout whose shards end in pieces of the row and are padded, on more than one rank", pads_pieces},
    [CP_NEEDS_GROUPS] = {"more than one data-parallel group", has_groups},
    [CP_NEEDS_GROUPS_OF_RANKS] = {"more than one data-parallel group of more than one rank",
                                  has_groups_of_ranks},
    [CP_NEEDS_MICROBATCHES] = {"more than one micro-batch", has_microbatches},
};

const char *cp_needs_text(cp_needs which)
{
    return needs[which].text;
}

cp_status cp_decisions_check(const cp_decisions *decisions, const cp_setting *setting)
{
    for (int i = 0; i < DECISIONS; i++) {
        const cp_decision *about = cp_decision_at(i);
        const cp_decision_value *value = &about->values[cp_decision_get(decisions, i)];
        if (needs[value->needs].met && !needs[value->needs].met(setting))
            return cp_fail(CP_REFUSED, "%s=%s needs %s", about->name, value->name,
                           cp_needs_text(value->needs));
    }
    return CP_OK;
}

/* ---- equivalents ------------------------------------------------------------------------------------------------ */

static const cp_equivalent equivalents[] = {
    {"label_shift", "shard", "no target crosses a cut", "only targets at the end of a shard are lost"},
    {"label_shift", "rolled", "a shard's first label is -100, and no target crosses a cut",
     "only the target at the end of a shard is another"},
    {"auto_pad", "label_0", "the length is a multiple", "there is no automatic padding"},
    {"auto_pad", "counted", "the length is a multiple", "there is no automatic padding"},
    {"auto_pad", "per_shard", "the length is a multiple", "there is no automatic padding"},
    {"auto_pad", "truncate", "the length is a multiple, or shorter than one", "nothing is cut off"},
    {"position_ids", "shard", "no query sees a key of another shard",
     "rotations depend on differences of positions, and inside a shard these are right"},
    {"position_ids", "arange", "no query sees a key of another shard, or the permutation changes nothing",
     "where a shard is a shifted piece of the row, differences of positions are right"},
    {"document_ids", "shard", "the row is one document, and every shard a piece of it",
     "no shard has a jump"},
    {"document_ids", "divided", "the row is one document", "there is no boundary"},
    {"document_ids", "ignored", "the row is one document", "there is no boundary"},
    {"document_ids", "mask_given", "the row is one document, or the batch gives document_ids",
     "no jump is needed"},
    {"causal", "off_when_one", "a shard holds more than one token", "the switch is not touched"},
    {"causal", "full_diagonal", "a shard holds one token", "it sees itself anyway"},
    {"causal", "local_bottom_right", "the shards before the last one are empty",
     "the last rank's queries are there"},
    {"window", "local", "no layer has a window", "there is nothing to shift"},
    {"window", "plus_one", "the row is not longer than the window", "no key is at the window's edge"},
    {"window", "minus_one", "the row is shorter than the window, or the window is 1",
     "no key is at the window's edge, and a window of 1 is left alone"},
    {"window", "dropped", "the row is not longer than the window", "nothing is hidden by it"},
    {"window", "local_length", "the shard is longer than the window, or the row is not",
     "the window is kept, or hides nothing"},
    {"chunk", "local",
     "no layer is chunked, or the first rank holds all of rows of one document without padding on the left",
     "l = g; elsewhere the first tokens of every shard are one chunk"},
    {"chunk", "no_padding", "nothing is padded on the left", "there is nothing to take off"},
    {"chunk", "dropped", "no layer is chunked, or the row is not longer than the chunk",
     "nothing is hidden by it"},
    {"softcap_order", "mask_then_cap", "no layer caps its scores", "there is no cap to go through"},
    {"padding_mask", "dropped", "padding is on the right alone", "causal attention does not look there"},
    {"padding_mask", "shard", "padding is on the right alone", "causal attention does not look there"},
    {"padding_mask", "rotated", "there is no padding", "there is nothing to hide"},
    {"attention_scope", "shard", "every document lies inside one shard", "no query sees a key of another"},
    {"attention_scope", "last_step_skipped", "no query sees a key of the next rank",
     "the last step sees nothing"},
    {"attention_scope", "first_only", "no query sees beyond the rank before its own",
     "later steps see nothing"},
    {"alltoall_layout", "batch_sequence", "the batch has one row", "[P,1,S] and [1,(P,S)] are one order"},
    {"alltoall_layout", "rank_head", "a rank has one query head", "jP + p = ph + j where h = 1 and j = 0"},
    {"alltoall_layout", "strides_ignored", "a rank holds one token, of one row",
     "[P,1,1,h] and [1,1,(P,h)] are one order"},
    {"gqa_map", "modulo", "K is 1 or H", "h mod K = floor(hK/H)"},
    {"gqa_map", "replica_order", "K is 1, or P divides K", "there is one head, or no replica"},
    {"gqa_grad", "one", "no head goes to two ranks", "there is one replica"},
    {"gqa_grad", "mean", "no head goes to two ranks", "there is one replica"},
    {"sink", "dropped", "the model has no sinks", "there is nothing to drop"},
    {"sink", "once_per_block", "the model has no sinks, or no query sees a key of another shard",
     "there is one block"},
    {"sink", "rank0_slice", "the model has no sinks", "there is nothing to cut"},
    {"sink_grad", "own_only", "the model has no sinks", "there is no such gradient"},
    {"sink_grad", "summed_again", "the model has no sinks", "there is no such gradient"},
    {"gather_backward", "slice", "no query sees a key of another shard", "the others' gradients are 0"},
    {"merge", "average", "no query sees a key of another shard", "there is nothing to merge"},
    {"merge", "log2_mixed", "no query sees a key of another shard", "there is nothing to merge"},
    {"merge", "no_maximum", "no log-sum-exp is above 88.72", "nothing overflows"},
    {"merge", "inf_from_empty", "every query of a rank sees something of each block that the rank meets",
     "no part is empty"},
    {"ring_backward_kv", "first", "no query sees a key of another shard", "there is one step"},
    {"ring_backward_kv", "forward_order", "no query sees a key of another shard", "there is one step"},
    {"ring_backward_stats", "block_lse", "no query sees a key of another shard, and the model has no sinks",
     "there is one block, and nothing comes after it"},
    {"ring_backward_stats", "block_delta", "no query sees a key of another shard, and the model has no sinks",
     "there is one block, and nothing comes after it"},
    {"dkv_return", "dropped", "no query sees a key of another shard", "nobody else asks"},
    {"dkv_return", "overwritten", "every key is seen by one rank", "nothing else has arrived"},
    {"loss_count", "per_rank", "all shards have the same number of targets", "the mean of means is the mean"},
    {"loss_count", "pads_counted", "there is no padding", "nothing is added"},
    {"loss_count", "before_shift", "the first label of every row is -100, or the batch gives shift_labels",
     "the shift drops the first label alone"},
    {"loss_count", "per_group", "all groups have the same number of targets",
     "the mean of means is the mean"},
    {"accumulation", "mean_of_means", "all micro-batches have the same number of targets",
     "the mean of means is the mean"},
    {"accumulation", "last_count", "one micro-batch has all targets", "its count is the batch's"},
    {"empty_shard", "nan", "every rank has a target", "no shard is empty"},
    {"empty_shard", "skipped", "no empty shard holds keys that a query with a target sees",
     "its gradients are 0"},
    {"moe_statistics", "shard_mean", "the model has no balancing loss of experts",
     "there is nothing to count"},
    {"moe_statistics", "pads_counted",
     "the model has no balancing loss of experts, or there is no padding of any kind", "nothing is added"},
    {"moe_scale", "local_count", "the model has no balancing loss of experts, or one rank holds every token",
     "n_r = N"},
    {"moe_scale", "times_count", "the model has no balancing loss of experts, or the batch has one target",
     "N = 1"},
    {"moe_scale", "divided_by_p", "the model has no balancing loss of experts",
     "there is nothing to multiply"},
    {"grad_reduce", "none", "rank 0 holds every token with a gradient", "the others' gradients are 0"},
    {"grad_reduce", "skip_norms", "rank 0 holds every token with a gradient", "the others' gradients are 0"},
    {"grad_reduce", "wrong_group", "ranks 0, 2, 4, ... hold every token with a gradient",
     "the others' gradients are 0"},
    {"grad_reduce", "cp_only", "the first group has all targets", "the others' gradients are 0"},
    {"grad_reduce", "dp_only", "rank 0 of each group holds every token with a gradient",
     "the others' gradients are 0"},
    {"grad_reduce", "skip_embeddings", "the batch gives embeddings, which are not tied",
     "the table is not used"},
    {"grad_reduce", "skip_head", "the output projection is tied", "it is no parameter of its own"},
    {"grad_reduce", "skip_biases", "the model has no biases", "there is nothing to leave out"},
    {"tied_embedding", "twice", "embeddings are not tied", "there is no such parameter"},
    {"tied_embedding", "lost", "embeddings are not tied", "there is no such parameter"},
    {"layout_inverse", "none", "the permutation changes nothing", "the shards are contiguous"},
    {"layout_inverse", "again", "the permutation is its own inverse", "twice the same is none"},
    {"layout_inverse", "contiguous_mask", "the permutation changes nothing", "the shards are contiguous"},
    {"dump_order", "pads_included", "the length is a multiple", "there is no automatic padding"},
    {"embeds_grad", "summed", "the batch gives ids", "there is no such gradient"},
    {"embeds_grad", "permuted", "the batch gives ids, or ranks hold tokens in the row's order",
     "there is no such gradient, or nothing to put back"},
    {"embeds_grad", "pads_nonzero", "the batch gives ids, or there is no padding of its own",
     "there is no such gradient, or no such place"},
};

int cp_equivalents_count(void)
{
    return (int)(sizeof equivalents / sizeof *equivalents);
}

const cp_equivalent *cp_equivalent_at(int index)
{
    cp_check(index >= 0 && index < cp_equivalents_count(), "equivalent %d", index);
    return &equivalents[index];
}

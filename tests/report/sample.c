#include "tests/report/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

char *sample_text(sample *s, const char *text)
{
    char *copy = s->texts[s->text_count++];
    snprintf(copy, sizeof *s->texts, "%s", text);
    return copy;
}

static cp_tensor_result *add(sample *s, const char *name, cp_tensor_kind kind, int dims,
                             const int64_t *extent)
{
    cp_tensor_result *tensor = &s->tensors[s->result.count++];
    *tensor = (cp_tensor_result){.kind = kind,
                                 .dims = dims,
                                 .first_bad_position = -1,
                                 .layer = -1,
                                 .factor = NAN,
                                 .cosine = NAN,
                                 .norm_limit = NAN,
                                 .element_limit = NAN};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    if (dims > 0)
        memcpy(tensor->extent, extent, (size_t)dims * sizeof *extent);
    return tensor;
}

static cp_tensor_result *measured(sample *s, const char *name, cp_tensor_kind kind, int dims,
                                  const int64_t *extent)
{
    cp_tensor_result *tensor = add(s, name, kind, dims, extent);
    tensor->measured = true;
    tensor->judged = 4;
    tensor->expected_norm = tensor->actual_norm = 2;
    tensor->error_norm = 4e-15;
    tensor->relative_error = tensor->scaled_error = 2e-15;
    tensor->largest_error = 2e-15;
    tensor->norm_limit = tensor->element_limit = 2e-12;
    tensor->worst_expected = tensor->worst_actual = 1.25;
    tensor->factor = tensor->cosine = 1;
    return tensor;
}

static void fail(cp_tensor_result *tensor, double factor)
{
    tensor->verdict = CP_DIFFERENT;
    tensor->error_norm = tensor->largest_error = 2 * fabs(factor - 1);
    tensor->relative_error = tensor->scaled_error = fabs(factor - 1);
    tensor->actual_norm = 2 * factor;
    tensor->factor = factor;
    tensor->over_limit = 3;
    tensor->worst_actual = factor * tensor->worst_expected;
    snprintf(tensor->reason, sizeof tensor->reason, "%.3g times its limit", cp_tensor_excess(tensor));
}

static void open_sample(sample *s)
{
    *s = (sample){.result = {.dtype = CP_F64, .limits = CP_LIMITS_UNCALIBRATED}};
    s->result.expected_label = sample_text(s, "golden/llama/packed7.h5");
    s->result.actual_label = sample_text(s, "run.h5");
    s->result.tensors = s->tensors;
    s->result.notes = s->notes;
    s->result.failures = s->failures;
    s->result.next = sample_text(s, "");
    s->result.worst_loss = 0;
    s->result.worst_logits = 8.8e-16;
    s->result.worst_gradient = NAN;
}

static const int64_t LOGITS[] = {1, 7, 37};
static const int64_t HEAD[] = {37, 16};
static const int64_t NORM[] = {16};

/* Two documents and a padding position, cut once. */
static void add_bins(sample *s, cp_tensor_result *tensor)
{
    static int32_t documents[] = {0, 0, 0, 1, 1, 1, CP_BIN_PADDING};
    static int32_t owners[] = {0, 0, 0, 0, 1, 1, 1};
    static int64_t tokens[] = {4, 2};
    static double errors[] = {0, 0, 0, 0, 0.25, INFINITY, 0};
    static double shares[] = {0, 1};
    s->result.bins = (cp_bins){1, 7, 7, 1, 2, documents, owners, tokens};
    tensor->bin_errors = errors;
    tensor->rank_share = shares;
}

void sample_same(sample *s)
{
    open_sample(s);
    measured(s, "logits", CP_TENSOR_LOGITS, 3, LOGITS);
    measured(s, "loss", CP_TENSOR_LOSS, 0, NULL);
    measured(s, "grads/model.norm.weight", CP_TENSOR_GRADIENT, 1, NORM);
    s->result.worst_gradient = 2e-15;
    strcpy(s->result.worst_tensor, "grads/model.norm.weight");
}

void sample_mixed(sample *s)
{
    open_sample(s);
    s->result.verdict = CP_NOT_COMPARABLE;
    cp_tensor_result *logits = measured(s, "logits", CP_TENSOR_LOGITS, 3, LOGITS);
    fail(logits, 1.5);
    memcpy(logits->worst_index, (int64_t[]){0, 5, 12}, 3 * sizeof(int64_t));
    add_bins(s, logits);
    cp_tensor_result *loss = measured(s, "loss", CP_TENSOR_LOSS, 0, NULL);
    loss->error_norm = loss->relative_error = loss->largest_error = 0;
    cp_tensor_result *norm = measured(s, "grads/model.norm.weight", CP_TENSOR_GRADIENT, 1, NORM);
    norm->verdict = CP_DIFFERENT;
    norm->nonfinite_actual = 1;
    norm->worst_actual = NAN;
    strcpy(norm->reason, "1 of 16 values are not finite; the first: nan at (3), expected 0.5");
    cp_tensor_result *head = add(s, "grads/lm_head.weight", CP_TENSOR_GRADIENT, 2, HEAD);
    head->verdict = CP_NOT_COMPARABLE;
    strcpy(head->reason, "missing from run.h5");
    s->notes[s->result.note_count++] =
        sample_text(s, "run.h5 has no token losses: judged by loss and logits");
    s->result.next =
        sample_text(s, "nothing is said about the whole before both sides hold the same tensors");
}

void sample_many(sample *s, size_t count, size_t notes, size_t failures)
{
    static char names[SAMPLE_TENSORS][64];
    static const char sentence[] =
        "one of those sentences that do not stop where a line does, since they have to "
        "name two files, an object in "
        "each of them, what was found there and what was expected instead of it, so "
        "that nobody must look it up";
    open_sample(s);
    s->result.verdict = failures > 0 ? CP_NOT_COMPARABLE : CP_DIFFERENT;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "grads/model.layers.%zu.self_attn.k_proj.weight", i);
        fail(measured(s, names[i], CP_TENSOR_GRADIENT, 2, HEAD), 2);
    }
    while (s->result.note_count < notes)
        s->notes[s->result.note_count++] = sample_text(s, sentence);
    while (s->result.failure_count < failures)
        s->failures[s->result.failure_count++] = sample_text(s, sentence);
    s->result.next = sample_text(s, sentence);
}

void sample_hostile(sample *s)
{
    open_sample(s);
    s->result.verdict = CP_DIFFERENT;
    s->result.actual_label = sample_text(s, "a\033[31m<b>&\"'|`x`.h5");
    cp_tensor_result *tensor = measured(s, "grads/\001\377\xc3\xa9|<x>]]>&amp;", CP_TENSOR_GRADIENT, 1, NORM);
    fail(tensor, 2);
    strcpy(tensor->reason, "a reason\nof two lines with \xef\xbf\xbe");
    s->notes[s->result.note_count++] = sample_text(s, "\r\nnote <!-- -->");
    s->result.next = sample_text(s, "\xe2\x80\xae"
                                    "backwards");
}

void sample_trials(cp_trial_row rows[SAMPLE_TRIALS])
{
    enum { SPLIT = 3 }; /* is of groups and micro-batches */
    static const char refusal[] = "chunked attention needs the dense mask";
    static const struct {
        cp_trial_outcome outcome;
        const char *fixture, *exchange, *attention, *sentence;
    } table[SAMPLE_TRIALS] = {
        {CP_TRIAL_SAME, "llama/packed7", "local", "dense", ""},
        {CP_TRIAL_DIFFERENT, "llama/packed7", "ulysses", "dense", "logits: 2.5e+11 times its limit"},
        {CP_TRIAL_REFUSED, "llama4_text/full7", "ulysses", "varlen", refusal},
        {CP_TRIAL_NOT_COMPARABLE, "llama/full7", "ulysses", "dense", "no limits for bfloat16"},
        {CP_TRIAL_ERROR, "llama/broken", "ulysses", "dense", "broken.h5: truncated"},
        {CP_TRIAL_REFUSED, "llama4_text/left7", "ulysses", "varlen", refusal},
    };
    for (int i = 0; i < SAMPLE_TRIALS; i++) {
        cp_trial_row *row = &rows[i];
        *row = (cp_trial_row){
            .cp = i > 0 ? 2 : 1, .dtype = CP_F64, .outcome = table[i].outcome, .seconds = 0.25};
        bool has_numbers = i < 2;
        row->status = row->outcome == CP_TRIAL_ERROR ? CP_BAD_INPUT : CP_OK;
        row->dp = i == SPLIT ? 2 : 0;
        row->micro = i == SPLIT ? 3 : 0;
        row->loss = has_numbers ? 1.1e-16 : NAN;
        row->logits = has_numbers ? 8.8e-16 : NAN;
        row->gradients = has_numbers ? 2.1e-15 : NAN;
        strcpy(row->worst_tensor, has_numbers ? "grads/model.layers.0.self_attn.k_proj.weight" : "");
        strcpy(row->fixture, table[i].fixture);
        strcpy(row->exchange, table[i].exchange);
        strcpy(row->layout, "contiguous");
        strcpy(row->attention, table[i].attention);
        strcpy(row->sentence, table[i].sentence);
    }
}

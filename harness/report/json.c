#include "harness/report/forms.h"

#include "base/json.h"
#include "harness/report/words.h"

#include <stdlib.h>
#include <string.h>

/* Grows by one when a member changes its meaning or goes; new members do not count. */
enum { SCHEMA_VERSION = 1 };

static void set_text(cp_json *object, const char *name, const char *text)
{
    char clean[CP_WORD];
    cp_json_set_string(object, name, cp_word_clean(clean, text));
}

static cp_json *indices(const int64_t *values, int count)
{
    cp_json *array = cp_json_new_array();
    for (int i = 0; i < count; i++)
        cp_json_append_integer(array, values[i]);
    return array;
}

static cp_json *list(char *const *sentences, size_t count)
{
    cp_json *array = cp_json_new_array();
    for (size_t i = 0; i < count; i++) {
        char clean[CP_WORD];
        cp_json_append_string(array, cp_word_clean(clean, sentences[i]));
    }
    return array;
}

static cp_json *document(const char *kind)
{
    cp_json *root = cp_json_new_object();
    cp_json_set_integer(root, "schema_version", SCHEMA_VERSION);
    cp_json_set_string(root, "kind", kind);
    return root;
}

static char *finish(cp_json *root)
{
    char *text = cp_json_text(root);
    cp_json_close(root);
    return text;
}

static void set_limits(cp_json *object, cp_limit_rule rule, int64_t runs, size_t blind)
{
    char words[CP_WORD];
    cp_json_set_string(object, "limits", cp_limit_rule_name(rule));
    cp_json_set_integer(object, "limit_runs", runs);
    cp_json_set_string(object, "limit_words", cp_word_limits(words, rule, runs));
    cp_json_set_integer(object, "blind", (int64_t)blind);
}

/* ---- one judgement ---- */

static void set_numbers(cp_json *object, const cp_tensor_result *tensor)
{
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {
        {"judged", tensor->judged},
        {"unjudged", tensor->unjudged},
        {"mismatches", tensor->mismatches},
        {"over_limit", tensor->over_limit},
        {"nonfinite_expected", tensor->nonfinite_expected},
        {"nonfinite_actual", tensor->nonfinite_actual},
        {"must_be_zero_violations", tensor->must_be_zero_violations},
    };
    const struct {
        const char *name;
        double value;
    } reals[] = {
        {"expected_norm", tensor->expected_norm},
        {"actual_norm", tensor->actual_norm},
        {"error_norm", tensor->error_norm},
        {"norm_limit", tensor->norm_limit},
        {"largest_error", tensor->largest_error},
        {"element_limit", tensor->element_limit},
        {"relative_error", tensor->relative_error},
        {"scaled_error", tensor->scaled_error},
        {"of_limit", cp_tensor_excess(tensor)},
        {"factor", tensor->factor},
        {"cosine", tensor->cosine},
        {"replica_difference", tensor->replica_difference},
    };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        cp_json_set_integer(object, integers[i].name, integers[i].value);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        cp_json_set_real(object, reals[i].name, reals[i].value);
}

static cp_json *worst_of(const cp_tensor_result *tensor)
{
    cp_json *worst = cp_json_new_object();
    cp_json_set(worst, "index", indices(tensor->worst_index, tensor->dims));
    cp_json_set_real(worst, "actual", tensor->worst_actual);
    cp_json_set_real(worst, "expected", tensor->worst_expected);
    return worst;
}

static cp_json *positions_of(const cp_tensor_result *tensor)
{
    cp_json *positions = cp_json_new_object();
    cp_json_set_integer(positions, "first", tensor->first_bad_position);
    cp_json_set_integer(positions, "bad", tensor->bad_positions);
    cp_json_set_integer(positions, "judged", tensor->judged_positions);
    return positions;
}

static cp_json *reals(const double *values, int64_t count)
{
    cp_json *array = cp_json_new_array();
    for (int64_t i = 0; i < count; i++)
        cp_json_append_real(array, values[i]);
    return array;
}

/* Rows of bins, as an array of arrays. */
static cp_json *rows_of_integers(const int32_t *values, const cp_bins *bins)
{
    cp_json *rows = cp_json_new_array();
    for (int64_t b = 0; b < bins->B; b++) {
        cp_json *row = cp_json_new_array();
        for (int64_t i = 0; i < bins->bins; i++)
            cp_json_append_integer(row, values[b * bins->bins + i]);
        cp_json_append(rows, row);
    }
    return rows;
}

static cp_json *rows_of_reals(const double *values, const cp_bins *bins)
{
    cp_json *rows = cp_json_new_array();
    for (int64_t b = 0; b < bins->B; b++)
        cp_json_append(rows, reals(values + b * bins->bins, bins->bins));
    return rows;
}

static cp_json *tensor_of(const cp_tensor_result *tensor, const cp_bins *bins)
{
    cp_json *object = cp_json_new_object();
    set_text(object, "name", tensor->name);
    cp_json_set_string(object, "kind", cp_tensor_kind_name(tensor->kind));
    cp_json_set_string(object, "verdict", cp_verdict_name(tensor->verdict));
    set_text(object, "reason", tensor->reason);
    cp_json_set(object, "shape", indices(tensor->extent, tensor->dims));
    cp_json_set_integer(object, "layer", tensor->layer);
    cp_json_set_bool(object, "numbers_speak", cp_word_numbers_speak(tensor));
    if (!tensor->measured)
        return object;
    set_numbers(object, tensor);
    cp_json_set_bool(object, "blind", tensor->blind);
    cp_json_set(object, "worst", worst_of(tensor));
    if (tensor->bad_positions > 0)
        cp_json_set(object, "positions", positions_of(tensor));
    if (tensor->bin_errors)
        cp_json_set(object, "bin_errors", rows_of_reals(tensor->bin_errors, bins));
    if (tensor->rank_share)
        cp_json_set(object, "rank_share", reals(tensor->rank_share, bins->ranks));
    return object;
}

static cp_json *batch_of(const cp_bins *bins)
{
    cp_json *batch = cp_json_new_object();
    cp_json_set_integer(batch, "rows", bins->B);
    cp_json_set_integer(batch, "length", bins->T);
    cp_json_set_integer(batch, "bin_width", bins->width);
    cp_json_set(batch, "documents", rows_of_integers(bins->document, bins));
    cp_json_set_integer(batch, "ranks", bins->ranks);
    if (bins->ranks == 0)
        return batch;
    cp_json *tokens = cp_json_new_array();
    for (int rank = 0; rank < bins->ranks; rank++)
        cp_json_append_integer(tokens, bins->rank_tokens[rank]);
    cp_json_set(batch, "owners", rows_of_integers(bins->owner, bins));
    cp_json_set(batch, "rank_tokens", tokens);
    return batch;
}

char *cp_json_result(const cp_result *result)
{
    char tally[CP_WORD];
    cp_json *root = document("diff");
    cp_json *tensors = cp_json_new_array();
    cp_json_set_string(root, "verdict", cp_verdict_name(result->verdict));
    cp_json_set_integer(root, "exit_status", cp_verdict_exit(result->verdict));
    set_text(root, "expected", result->expected_label);
    set_text(root, "actual", result->actual_label);
    cp_json_set_string(root, "dtype", cp_dtype_name(result->dtype));
    set_limits(root, result->limits, result->limit_runs, result->blind);
    cp_json_set_real(root, "loss", result->worst_loss);
    cp_json_set_real(root, "logits", result->worst_logits);
    cp_json_set_real(root, "gradients", result->worst_gradient);
    set_text(root, "worst_tensor", result->worst_tensor);
    cp_json_set(root, "failures", list(result->failures, result->failure_count));
    cp_json_set(root, "notes", list(result->notes, result->note_count));
    set_text(root, "next", result->next);
    set_text(root, "tally", cp_word_tally(tally, result));
    if (result->bins.T > 0)
        cp_json_set(root, "batch", batch_of(&result->bins));
    for (size_t i = 0; i < result->count; i++)
        cp_json_append(tensors, tensor_of(&result->tensors[i], &result->bins));
    cp_json_set(root, "tensors", tensors);
    return finish(root);
}

/* ---- trials ---- */

static cp_json *trial_of(const cp_trial_row *row)
{
    cp_json *object = cp_json_new_object();
    set_text(object, "fixture", row->fixture);
    cp_json_set_integer(object, "cp", row->cp);
    cp_json_set_integer(object, "dp", row->dp > 1 ? row->dp : 1);
    cp_json_set_integer(object, "micro", row->micro > 1 ? row->micro : 1);
    set_text(object, "exchange", row->exchange);
    set_text(object, "layout", row->layout);
    cp_json_set_string(object, "dtype", cp_dtype_name(row->dtype));
    set_text(object, "attention", row->attention);
    cp_json_set_string(object, "verdict", cp_trial_outcome_name(row->outcome));
    cp_json_set_real(object, "loss", row->loss);
    cp_json_set_real(object, "logits", row->logits);
    cp_json_set_real(object, "gradients", row->gradients);
    set_text(object, "worst_tensor", row->worst_tensor);
    set_text(object, "sentence", row->sentence);
    cp_json_set_real(object, "seconds", row->seconds);
    set_limits(object, row->limits, row->limit_runs, row->blind);
    return object;
}

char *cp_json_trials(const cp_trial_row *rows, size_t count)
{
    cp_json *root = document("verify");
    cp_json *runs = cp_json_new_array();
    cp_trial_tally tally = cp_trials_tally(rows, count);
    char *summary = cp_word_summary(rows, count);
    cp_json_set_integer(root, "exit_status", cp_trials_exit(rows, count));
    cp_json_set_string(root, "summary", summary);
    free(summary);
    cp_json_set_integer(root, "runs", (int64_t)tally.runs);
    for (int outcome = 0; outcome < CP_TRIAL_OUTCOMES; outcome++)
        cp_json_set_integer(root, cp_trial_outcome_name((cp_trial_outcome)outcome),
                            (int64_t)tally.of[outcome]);
    for (size_t i = 0; i < count; i++)
        cp_json_append(runs, trial_of(&rows[i]));
    cp_json_set(root, "trials", runs);
    return finish(root);
}

/* ---- a gate ---- */

/* The report of a judgement is text that this file has made. */
static cp_json *judgement_of(const cp_gate_row *row)
{
    cp_json *report = NULL;
    cp_status status = cp_json_parse(&report, row->report, strlen(row->report), row->name);
    cp_check(status == CP_OK, "%s", cp_error());
    return report;
}

static cp_json *dump_of(const cp_gate_row *row)
{
    const cp_trial_row *found = &row->found;
    cp_json *object = cp_json_new_object();
    set_text(object, "name", row->name);
    set_text(object, "against", row->against);
    set_text(object, "dump", row->dump);
    set_text(object, "only", row->only);
    cp_json_set_string(object, "verdict", cp_gate_outcome_name(row->outcome));
    cp_json_set_string(object, "expect", cp_gate_outcome_name(row->known));
    set_text(object, "because", row->because);
    cp_json_set_bool(object, "as_expected", cp_gate_as_expected(row));
    set_text(object, "fixture", found->fixture);
    cp_json_set_integer(object, "cp", found->cp);
    cp_json_set_integer(object, "dp", found->dp);
    set_text(object, "exchange", found->exchange);
    set_text(object, "layout", found->layout);
    if (row->limited) {
        cp_json_set_string(object, "dtype", cp_dtype_name(found->dtype));
        set_limits(object, found->limits, found->limit_runs, found->blind);
    }
    cp_json_set_real(object, "loss", found->loss);
    cp_json_set_real(object, "logits", found->logits);
    cp_json_set_real(object, "gradients", found->gradients);
    set_text(object, "worst_tensor", found->worst_tensor);
    set_text(object, "sentence", found->sentence);
    cp_json_set_real(object, "seconds", found->seconds);
    if (row->report)
        cp_json_set(object, "report", judgement_of(row));
    return object;
}

char *cp_json_gate(const cp_gate_row *rows, size_t count)
{
    cp_json *root = document("gate");
    cp_json *dumps = cp_json_new_array();
    cp_gate_tally tally = cp_gate_count(rows, count);
    char *summary = cp_word_gate_summary(rows, count);
    cp_json_set_integer(root, "exit_status", cp_gate_exit(rows, count));
    cp_json_set_string(root, "summary", summary);
    free(summary);
    for (int outcome = 0; outcome < CP_GATE_OUTCOMES; outcome++)
        cp_json_set_integer(root, cp_gate_outcome_name((cp_gate_outcome)outcome), (int64_t)tally.of[outcome]);
    cp_json_set_integer(root, "known", (int64_t)tally.known);
    cp_json_set_integer(root, "changed", (int64_t)tally.changed);
    for (size_t i = 0; i < count; i++)
        cp_json_append(dumps, dump_of(&rows[i]));
    cp_json_set(root, "dumps", dumps);
    return finish(root);
}

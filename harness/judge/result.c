#include "harness/judge/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void free_all(char **sentences, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(sentences[i]);
    free(sentences);
}

static void close_bins(cp_bins *bins)
{
    free(bins->document);
    free(bins->owner);
    free(bins->rank_tokens);
}

void cp_result_close(cp_result *result)
{
    free(result->expected_label);
    free(result->actual_label);
    for (size_t i = 0; i < result->count; i++) {
        free(result->tensors[i].bin_errors);
        free(result->tensors[i].rank_share);
    }
    close_bins(&result->bins);
    free(result->tensors);
    free_all(result->notes, result->note_count);
    free_all(result->failures, result->failure_count);
    free(result->next);
    *result = (cp_result){0};
}

static double in_units(double error, double limit)
{
    return error > 0 ? error / limit : 0;
}

double cp_tensor_excess(const cp_tensor_result *tensor)
{
    double of_norm = in_units(tensor->error_norm, tensor->norm_limit);
    double of_element = in_units(tensor->largest_error, tensor->element_limit);
    return of_norm >= of_element ? of_norm : of_element;
}

const char *cp_result_forward(const cp_result *result)
{
    for (size_t i = 0; i < result->count; i++)
        if (result->tensors[i].kind == CP_TENSOR_OUTPUT)
            return "outputs";
    return "logits";
}

size_t cp_result_tally(const cp_result *result, cp_verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++)
        count += result->tensors[i].verdict == verdict;
    return count;
}

int cp_verdict_exit(cp_verdict verdict)
{
    return (int)verdict;
}

const char *cp_verdict_name(cp_verdict verdict)
{
    static const char *const names[] = {"same", "different", "not comparable"};
    return names[verdict];
}

const char *cp_limit_rule_name(cp_limit_rule rule)
{
    static const char *const names[] = {"uncalibrated limits", "user limits", "calibrated limits",
                                        "control runs"};
    return names[rule];
}

const char *cp_tensor_kind_name(cp_tensor_kind kind)
{
    static const char *const names[] = {"loss",     "token loss", "logits",      "attention output",
                                        "gradient", "trace",      "what was run"};
    return names[kind];
}

int cp_exit_worse(int a, int b)
{
    return a > b ? a : b;
}

/* ---- trials ---- */

/* The first tensor that is not same is the first in execution order. */
static void say_where(cp_trial_row *row, const cp_result *result)
{
    if (result->failure_count > 0) {
        snprintf(row->sentence, sizeof row->sentence, "%s", result->failures[0]);
        return;
    }
    for (size_t i = 0; i < result->count; i++) {
        const cp_tensor_result *tensor = &result->tensors[i];
        if (tensor->verdict == result->verdict) {
            snprintf(row->sentence, sizeof row->sentence, "%s: %.300s", tensor->name, tensor->reason);
            return;
        }
    }
}

void cp_trial_judged(cp_trial_row *row, const cp_result *result)
{
    row->outcome = result->sightless ? CP_TRIAL_REFUSED : (cp_trial_outcome)result->verdict;
    row->status = CP_OK;
    row->loss = result->worst_loss;
    row->logits = result->worst_logits;
    row->gradients = result->worst_gradient;
    row->limits = result->limits;
    row->limit_runs = result->limit_runs;
    row->blind = result->blind;
    snprintf(row->worst_tensor, sizeof row->worst_tensor, "%s", result->worst_tensor);
    row->sentence[0] = '\0';
    if (result->verdict != CP_SAME)
        say_where(row, result);
}

void cp_trial_failed(cp_trial_row *row, cp_status status, const char *sentence)
{
    row->outcome = status == CP_REFUSED ? CP_TRIAL_REFUSED : CP_TRIAL_ERROR;
    row->status = status;
    row->loss = row->logits = row->gradients = NAN;
    row->worst_tensor[0] = '\0';
    snprintf(row->sentence, sizeof row->sentence, "%s", sentence);
}

const char *cp_trial_outcome_name(cp_trial_outcome outcome)
{
    static const char *const names[] = {"same", "different", "not comparable", "refused", "error"};
    return names[outcome];
}

cp_trial_tally cp_trials_tally(const cp_trial_row *rows, size_t count)
{
    cp_trial_tally tally = {.runs = count};
    for (size_t i = 0; i < count; i++)
        tally.of[rows[i].outcome]++;
    return tally;
}

int cp_trials_exit(const cp_trial_row *rows, size_t count)
{
    int exit_status = 0;
    bool ran = false;
    for (size_t i = 0; i < count; i++) {
        switch (rows[i].outcome) {
        case CP_TRIAL_REFUSED: continue;
        case CP_TRIAL_ERROR: exit_status = cp_exit_worse(exit_status, cp_exit_status(rows[i].status)); break;
        default:
            exit_status = cp_exit_worse(exit_status, cp_verdict_exit((cp_verdict)rows[i].outcome));
            break;
        }
        ran = true;
    }
    return ran ? exit_status : 2;
}

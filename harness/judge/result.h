/* What a judgement found: the one structure that every report is made from. */
#ifndef CPEQ_HARNESS_JUDGE_RESULT_H
#define CPEQ_HARNESS_JUDGE_RESULT_H

#include "base/dtype.h"
#include "base/status.h"
#include "base/tokens/layout.h"

enum { CP_RESULT_DIMS = 4, CP_RESULT_NAME = 192, CP_RESULT_SENTENCE = 512 };

typedef enum cp_verdict { CP_SAME, CP_DIFFERENT, CP_NOT_COMPARABLE } cp_verdict; /* worse is larger */

typedef enum cp_tensor_kind {
    CP_TENSOR_LOSS,
    CP_TENSOR_TOKEN_LOSS,
    CP_TENSOR_LOGITS,
    CP_TENSOR_OUTPUT, /* of an attention function: out, lse */
    CP_TENSOR_GRADIENT,
    CP_TENSOR_TRACE,
    CP_TENSOR_RAN, /* an input or all weights, which are compared by themselves: never measured */
    CP_TENSOR_KINDS
} cp_tensor_kind;

/* One tensor. Numbers are over the judged elements only, as double; all are 0 or NaN where nothing was `measured`
 * (missing, another shape, …). Elements that are not finite are counted and left out of the other numbers. */
typedef struct cp_tensor_result {
    char name[CP_RESULT_NAME]; /* "grads/model.norm.weight" */
    cp_tensor_kind kind;
    cp_verdict verdict;
    char reason[CP_RESULT_SENTENCE]; /* "" when same; else one sentence: what is wrong */
    int dims;
    int64_t extent[CP_RESULT_DIMS];
    bool measured;
    int64_t judged, unjudged; /* elements: real positions, padding */
    int64_t mismatches;       /* elements that are not equal */
    int64_t over_limit;       /* elements whose error exceeds their limit */
    int64_t nonfinite_expected, nonfinite_actual, must_be_zero_violations;
    double expected_norm, actual_norm;
    double error_norm, norm_limit; /* Frobenius; the limit is NaN where there is none */
    /* Of one element; with user limits, whose limits differ, of the one farthest over its own. */
    double largest_error, element_limit;
    /* Of the largest error; else of the first value that is not finite, or not zero where it must be. */
    int64_t worst_index[CP_RESULT_DIMS];
    double worst_expected, worst_actual;
    double factor, cosine;     /* best fit <actual,expected>/<expected,expected>; NaN where undefined */
    double relative_error;     /* error_norm / expected_norm, for display; 0/0 is 0 */
    double scaled_error;       /* error_norm / what the limit is a multiple of */
    bool blind;                /* the limit is a large part of the norm: nothing is seen here */
    double replica_difference; /* the largest between the ranks' own copies, over the norm */
    /* Of [B,T,…] tensors over their limit, by (row, position) that holds an element over it; else -1, 0, false. */
    int64_t first_bad_position, bad_positions, judged_positions, bad_rows;
    bool bad_from_there_on; /* a bad row stays bad from the cut on, and some bad row is right before it */
    bool bad_in_whole_rows; /* rows are bad altogether or not at all, and both occur */
    bool bad_at_shard_ends; /* all are last in a contiguous shard, as far as the dump says what that is */
    int64_t layer;          /* as its name says; -1: of none */
    /* Of a measured tensor that has a row for each position of cp_result's bins; else NULL. Owned. */
    double *bin_errors; /* [B,bins]: the largest error there; infinite where a value is not finite */
    double *rank_share; /* [ranks]: of the squared error; 0 where there is none; NULL where ranks is 0 */
} cp_tensor_result;

/* The batch as it was judged, for pictures of any length: each row cut into bins of `width` positions that follow each
 * other. A bin is one position where the batch is short. */
enum { CP_BIN_PADDING = -1, CP_BIN_MIXED = -2 };
typedef struct cp_bins {
    int64_t B, T, bins, width; /* all 0: nothing that was compared has positions */
    int ranks;                 /* 0: the actual side does not say which rank held what */
    int32_t *document; /* [B,bins]: 0, 1, … in each row; CP_BIN_PADDING, or CP_BIN_MIXED where several meet */
    int32_t *owner;    /* [B,bins]: the rank, or CP_BIN_MIXED; NULL where ranks is 0 */
    int64_t *rank_tokens; /* [ranks]: judged positions; NULL where ranks is 0 */
} cp_bins;

/* How the limits came about: a rule for all, the user's word, noise that was measured by replicates of cpeq's reference
 * or by runs of somebody's own. */
typedef enum cp_limit_rule {
    CP_LIMITS_UNCALIBRATED,
    CP_LIMITS_USER,
    CP_LIMITS_CALIBRATED,
    CP_LIMITS_CONTROLS
} cp_limit_rule;

typedef struct cp_result {
    char *expected_label, *actual_label;
    cp_verdict verdict; /* the worst of all */
    cp_dtype dtype;     /* in which the actual side was computed */
    cp_limit_rule limits;
    int64_t limit_runs; /* that they were measured from; 0: they were not */
    size_t blind;       /* tensors that are */
    bool sightless;     /* too many: nothing is different, and that says nothing */
    size_t count;
    cp_tensor_result *tensors; /* in execution order */
    size_t note_count;
    char **notes; /* sentences that the reader needs: what was assumed, what was not judged, replicas */
    size_t failure_count;
    char **failures; /* why the whole is not comparable, where it is not one tensor's fault */
    char *next;      /* one sentence: what to look at next; "" when same */
    double worst_loss, worst_logits, worst_gradient; /* scaled errors, for tables; NaN where not judged */
    char worst_tensor[CP_RESULT_NAME]; /* the gradient nearest to (or farthest over) its limit */
    cp_bins bins;
} cp_result;

void cp_result_close(cp_result *result); /* a zeroed result is closed */

/* How far over its limits a tensor is: the larger of both errors in units of its limit; 0 where both are 0. */
double cp_tensor_excess(const cp_tensor_result *tensor);

/* What worst_logits is of: "logits", or "outputs" of an attention function. */
const char *cp_result_forward(const cp_result *result);

/* How many tensors have this verdict. */
size_t cp_result_tally(const cp_result *result, cp_verdict verdict);

/* Exit status: 0, 1, 2. */
int cp_verdict_exit(cp_verdict verdict);
const char *cp_verdict_name(cp_verdict verdict); /* "same", "different", "not comparable" */

const char *
cp_limit_rule_name(cp_limit_rule rule); /* "uncalibrated limits", "user limits", "calibrated limits",
                                                       "control runs" */
const char *cp_tensor_kind_name(
    cp_tensor_kind kind); /* "loss", "token loss", "logits", "attention output", "gradient", "trace", … */

/* Of several exit statuses the one that a command returns: 4, 3, 2, 1, 0 in that order. */
int cp_exit_worse(int a, int b);

/* ---- trials: what `verify` found -------------------------------------------------------------------------------- */

typedef enum cp_trial_outcome {
    CP_TRIAL_SAME,
    CP_TRIAL_DIFFERENT,
    CP_TRIAL_NOT_COMPARABLE,
    CP_TRIAL_REFUSED, /* a combination that means nothing: listed, never skipped in silence */
    CP_TRIAL_ERROR,   /* it should have run and could not */
    CP_TRIAL_OUTCOMES
} cp_trial_outcome;

/* One fixture run in one way. A value: nothing to close. */
typedef struct cp_trial_row {
    char fixture[CP_RESULT_NAME]; /* "llama/packed7" */
    int cp, dp, micro; /* ranks, data-parallel groups and micro-batches that were asked for; 0: nothing was */
    char exchange[48], layout[CP_LAYOUT_TEXT], attention[16]; /* names of values; the command-line document */
    cp_dtype dtype;
    cp_trial_outcome outcome;
    double loss, logits, gradients; /* cp_result's worst …; NaN where not judged */
    char worst_tensor[CP_RESULT_NAME];
    char sentence[CP_RESULT_SENTENCE]; /* "" when same; where it differs; why it was refused; the error */
    cp_status status;                  /* of an error */
    double seconds;                    /* of run and judgement; 0: not measured */
    cp_limit_rule limits;              /* cp_result's, with the next two */
    int64_t limit_runs;
    size_t blind;
} cp_trial_row;

/* Fill in what a judged, or a failed, trial came to; the columns before `outcome` are the caller's. A status of
 * CP_REFUSED is a refusal, and so is a result without sight: this fixture says nothing in this dtype. Any other status
 * is an error. */
void cp_trial_judged(cp_trial_row *row, const cp_result *result);
void cp_trial_failed(cp_trial_row *row, cp_status status, const char *sentence);

const char *cp_trial_outcome_name(cp_trial_outcome outcome); /* "same", …, "refused", "error" */

typedef struct cp_trial_tally {
    size_t runs, of[CP_TRIAL_OUTCOMES];
} cp_trial_tally;

cp_trial_tally cp_trials_tally(const cp_trial_row *rows, size_t count);

/* 0: something ran and all that ran is same. 2: nothing ran. Refusals alone change nothing. */
int cp_trials_exit(const cp_trial_row *rows, size_t count);

#endif

/* What a judgement found: the one structure that every report is made from. */
#ifndef CPEQ_HARNESS_JUDGE_RESULT_H
#define CPEQ_HARNESS_JUDGE_RESULT_H

#include "base/dtype.h"

enum { CP_RESULT_DIMS = 4, CP_RESULT_NAME = 192, CP_RESULT_SENTENCE = 512 };

typedef enum cp_verdict { CP_SAME, CP_DIFFERENT, CP_NOT_COMPARABLE } cp_verdict; /* worse is larger */

typedef enum cp_tensor_kind {
    CP_TENSOR_LOSS,
    CP_TENSOR_TOKEN_LOSS,
    CP_TENSOR_LOGITS,
    CP_TENSOR_GRADIENT,
    CP_TENSOR_TRACE,
    CP_TENSOR_KINDS
} cp_tensor_kind;

/* One tensor. Numbers are over the judged elements only, as double. */
typedef struct cp_tensor_result {
    char name[CP_RESULT_NAME]; /* "grads/model.norm.weight" */
    cp_tensor_kind kind;
    cp_verdict verdict;
    char reason[CP_RESULT_SENTENCE]; /* "" when same; else one sentence: what is wrong */
    int dims;
    int64_t extent[CP_RESULT_DIMS];
    int64_t judged, unjudged; /* elements: real positions, padding */
    int64_t over_limit;       /* elements whose error exceeds element_limit */
    int64_t nonfinite_expected, nonfinite_actual, must_be_zero_violations;
    double expected_norm, actual_norm;
    double error_norm, norm_limit;        /* Frobenius */
    double largest_error, element_limit;  /* of one element */
    int64_t worst_index[CP_RESULT_DIMS];  /* of the largest error */
    double worst_expected, worst_actual;
    double factor, cosine;                /* best fit <actual,expected>/<expected,expected>; NaN where undefined */
    double relative_error;                /* error_norm / expected_norm, for display; 0/0 is 0 */
} cp_tensor_result;

/* How the limits came about. */
typedef enum cp_limit_rule { CP_LIMITS_UNCALIBRATED, CP_LIMITS_USER } cp_limit_rule;

typedef struct cp_result {
    char *expected_label, *actual_label;
    cp_verdict verdict; /* the worst of all */
    cp_dtype dtype;     /* in which the actual side was computed */
    cp_limit_rule limits;
    size_t count;
    cp_tensor_result *tensors; /* in execution order */
    size_t note_count;
    char **notes; /* sentences that the reader needs: what was assumed, what was not judged, replicas */
    size_t failure_count;
    char **failures; /* why the whole is not comparable, where it is not one tensor's fault */
    char *next; /* one sentence: what to look at next; "" when same */
    double worst_loss, worst_logits, worst_gradient; /* relative errors, for tables; NaN where not judged */
    char worst_tensor[CP_RESULT_NAME];               /* the gradient nearest to (or farthest over) its limit */
} cp_result;

void cp_result_close(cp_result *result);

/* Exit status: 0, 1, 2. */
int cp_verdict_exit(cp_verdict verdict);
const char *cp_verdict_name(cp_verdict verdict); /* "same", "different", "not comparable" */

#endif

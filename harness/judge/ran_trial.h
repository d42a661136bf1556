/* One comparison of what was run: what a dump tells against a fixture, or against what another dump tells. */
#ifndef CPEQ_HARNESS_JUDGE_RAN_TRIAL_H
#define CPEQ_HARNESS_JUDGE_RAN_TRIAL_H

#include "base/hash.h"
#include "harness/files/ran.h"
#include "harness/judge/ran.h"

typedef struct cp_ran_side {
    const cp_source *source;
    cp_source *const *parts;
    const cp_place *places;
    size_t count; /* of parts */
} cp_ran_side;

typedef struct cp_ran_trial {
    cp_result *result;
    const cp_fixture *fixture; /* NULL: `expected` instead */
    cp_ran_side expected, found;
    const cp_places *real;
    const char *whose;               /* "" or "expected.h5: ", before each sentence */
    char agreed[CP_RESULT_SENTENCE]; /* what was the same, with commas between */
} cp_ran_trial;

cp_status cp_ran_inputs(cp_ran_trial *trial);
cp_status cp_ran_weights(cp_ran_trial *trial);

/* A finding; `name` without "ran/". */
void cp_ran_find_fault(cp_ran_trial *trial, const char *name, cp_verdict verdict, int dims,
                       const int64_t *extent, const char *format, ...) __attribute__((format(printf, 6, 7)));
void cp_ran_agree(cp_ran_trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* " on rank 1", or "" where the side has but one part. */
enum { CP_RAN_WHERE = 32 };
const char *cp_ran_where(char out[CP_RAN_WHERE], const cp_ran_side *side, int32_t part);

/* Adds numbers as float64, rounded to `dtype` first. */
void cp_ran_hash(cp_hash *hash, const double *values, int64_t count, cp_dtype dtype);

/* What a number of the fixture may have been rounded to when it was loaded: the dtype that the dump computes in. */
cp_dtype cp_ran_rounding(const cp_ran_trial *trial, cp_dtype stored);

#endif

/* Structure first, exact: which tensor of one side is judged against which of the other, and what is missing, extra or
 * of another shape. Nothing passes by omission. */
#ifndef CPEQ_HARNESS_JUDGE_PAIRS_H
#define CPEQ_HARNESS_JUDGE_PAIRS_H

#include "harness/judge/diff.h"

enum { CP_NO_TENSOR = -1 };

typedef struct cp_pair {
    const char *name;         /* borrowed from a source; what sentences call it */
    int64_t expected, actual; /* tensors of the sources; CP_NO_TENSOR: declared None (grad_absent), so zero */
} cp_pair;

typedef struct cp_sides {
    const cp_source *expected, *actual;
    const cp_fixture *fixture; /* NULL: none */
    const char *only;          /* NULL: all */
    bool truth;                /* the expected side is the fixture's own */
} cp_sides;

/* Whether the expected side is the fixture's own. */
bool cp_sides_truth(const cp_sides *sides);

/* Pairs what can be measured, in no particular order; `*pairs` is freed by free(). What cannot goes into `result`: a
 * tensor with its reason (missing, extra, another shape, empty), or a failure or a note of the whole. */
void cp_pairs_find(cp_pair **pairs, size_t *count, cp_result *result, const cp_sides *sides);

/* A tensor of the result, appended; the pointer is good until the next one. */
cp_tensor_result *cp_result_append(cp_result *result, const char *name, const cp_source_tensor *shape);

#endif

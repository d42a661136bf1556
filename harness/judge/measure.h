/* Streams pairs of tensors through the statistics, a block at a time and on several threads: memory does not depend on
 * their size, and results do not depend on the threads. */
#ifndef CPEQ_HARNESS_JUDGE_MEASURE_H
#define CPEQ_HARNESS_JUDGE_MEASURE_H

#include "harness/judge/pairs.h"
#include "harness/judge/places.h"
#include "harness/judge/spread.h"

typedef struct cp_measure {
    const cp_sides *sides;
    cp_places places;
} cp_measure;

void cp_measure_open(cp_measure *measure, const cp_sides *sides);
void cp_measure_close(cp_measure *measure);

/* False: the tensor does not fit the batch. */
bool cp_measure_rows(cp_rows *rows, const cp_measure *measure, const cp_tensor_result *tensor);

/* A pair that is to be measured. Its shape is that of `tensor`. */
typedef struct cp_measuring {
    const cp_pair *pair;
    const cp_tensor_result *tensor;
    cp_statistics *statistics;
    cp_spread *spread; /* where its error lies; NULL: not asked */
} cp_measuring;

/* Statistics of many pairs in one pass, with atol + rtol·|expected| as the bound of an element. */
cp_status cp_measure_pairs(const cp_measure *measure, const cp_measuring *pairs, size_t count, double atol,
                           double rtol);

/* The norm of a whole tensor of the expected side. */
cp_status cp_measure_norm(double *norm, const cp_measure *measure, int64_t expected);

/* Counts the elements over their bound into `tensor`, and where a tensor has positions, says which hold any. */
cp_status cp_measure_excess(cp_tensor_result *tensor, const cp_measure *measure, const cp_pair *pair,
                            double atol, double rtol);

#endif

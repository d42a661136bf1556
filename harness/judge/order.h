/* The order in which results are told. */
#ifndef CPEQ_HARNESS_JUDGE_ORDER_H
#define CPEQ_HARNESS_JUDGE_ORDER_H

#include "harness/judge/result.h"

/* Sorts the tensors as they are computed: by `order`, a fixture's, or "" for the order that names tell. */
void cp_order_results(cp_result *result, const char *order);

#endif

/* /ran of dumps: what they say reached the model. */
#ifndef CPEQ_HARNESS_FILES_RAN_H
#define CPEQ_HARNESS_FILES_RAN_H

#include "harness/files/results.h"

/* Lists the group /ran of a dump, where it has one, into the source of its results. Prefixes of wrappers are dropped
 * from the names of weights; what this version does not know is left out, and the notes say so. CP_BAD_INPUT: no group,
 * an integer input that is no integers, a float one that is no floats, a text that is no digest. */
cp_status cp_ran_collect(cp_results *results, cp_pool *pool);

/* The index of a member of /ran by name; -1: this file has none. */
int64_t cp_ran_find(const cp_source *part, const char *name);

/* Whether an array has a row of `length` tokens for each of `rows` rows, or one for all of them, and `width` numbers a
 * token where that is not 0 (then a third extent). */
bool cp_ran_fits(const cp_ran *ran, int64_t rows, int64_t length, int64_t width);

/* `count` tokens of an input from the `first` on, in global order, `width` numbers each, from the ranks that hold it as
 * an array that fits. owner[i] is the part it was read from, -1 where the token's part has none (out is not set then). */
cp_status cp_ran_read(const cp_source *joined, const char *name, int64_t first, int64_t count, int64_t width,
                      double *out, int32_t *owner);

#endif

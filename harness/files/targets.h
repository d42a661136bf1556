/* What the positions of a batch are to predict, decided on its whole rows. */
#ifndef CPEQ_HARNESS_FILES_TARGETS_H
#define CPEQ_HARNESS_FILES_TARGETS_H

#include "base/tokens/batch.h"

/* labels[b,t+1], CP_IGNORED at the row's end; or shift_labels[b,t]. */
int64_t cp_batch_target(const cp_batch *batch, int64_t b, int64_t t);

/* num_items_in_batch, or the number of targets where the batch has none. */
double cp_batch_divisor(const cp_batch *batch);

#endif

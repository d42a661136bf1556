/* Gradients of which every rank has a slice: put together from boxes of the whole tensor. */
#ifndef CPEQ_HARNESS_FILES_SLICES_H
#define CPEQ_HARNESS_FILES_SLICES_H

#include "harness/files/h5file.h"
#include "harness/files/source.h"
#include "harness/files/view.h"

/* Reads global_shape, offset and replicated of a dataset into `tensor`. CP_BAD_INPUT where they do not fit its extents. */
cp_status cp_slice_read(cp_source_tensor *tensor, cp_h5 *file, const char *object);

/* `index` [count]: where each part has the tensor; negative: it holds nothing of it. `*sliced`: whether any part's is a
 * slice; then `whole` is the tensor that they make. CP_INCOMPARABLE, with file and object, where they do not make one:
 * an element on no rank, or on two of which not both declare `replicated` for the same slice. */
cp_status cp_slices_join(bool *sliced, cp_source_tensor *whole, cp_source *const *parts, const int64_t *index,
                         size_t count);

/* `count` elements from the `first` on of such a tensor. */
cp_status cp_slices_read(const cp_source_tensor *whole, cp_source *const *parts, const int64_t *index,
                         size_t parts_count, cp_view *views, int64_t first, int64_t count, double *out);

/* The part before `part` whose slice is the same one; -1: none. */
int64_t cp_slices_twin(cp_source *const *parts, const int64_t *index, size_t part);

#endif

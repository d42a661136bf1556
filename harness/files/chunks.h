/* Chunks of a dataset, unpacked outside the HDF5 library, which does so for one thread at a time. */
#ifndef CPEQ_HARNESS_FILES_CHUNKS_H
#define CPEQ_HARNESS_FILES_CHUNKS_H

#include "harness/files/h5file.h"
#include "harness/files/view.h"

/* A row of chunks is unpacked at a time: those that hold the same rows along the first axis that is cut. Elements 1 and
 * bytes 0 where an array is not stored in chunks that can be unpacked here. */
cp_grain cp_chunks_grain(const cp_h5_array *array);

/* Elements as stored, in a row of chunks that the view has or unpacks. The view's allowance is at least the grain's bytes.
 * `owner` and `tensor` tell one array from another. */
cp_status cp_chunks_look(cp_view *view, const void *owner, size_t tensor, cp_h5 *file, const char *path,
                         const cp_h5_array *array, int64_t first, int64_t count, const void **data);

#endif

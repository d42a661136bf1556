/* What reading and writing share. */
#ifndef CPEQ_LIBRARY_COMMON_H
#define CPEQ_LIBRARY_COMMON_H

#include "base/dtype.h"
#include "base/tensor.h"
#include "library/cpeq.h"

enum { CPEQ_SENTENCE_BYTES = 1024 };

/* What a cp_status is to a caller; its sentence is kept. */
cpeq_status cp_library_report(char sentence[CPEQ_SENTENCE_BYTES], cp_status status);

/* Calls `move` for each run of elements that are neighbours both in the array and in the slab: from `first` in the
 * array, from `packed` in the slab. */
typedef cp_status cp_slab_move(void *state, int64_t first, int64_t packed, int64_t count);
cp_status cp_slab_each_run(int dims, const int64_t *shape, const int64_t *offset, const int64_t *count,
                           cp_slab_move *move, void *state);

/* CP_BAD_USAGE unless the slab lies in the array; `elements` of it. Without offset and count it is everything. */
cp_status cp_slab_check(int64_t *elements, const char *name, int dims, const int64_t *shape,
                        const int64_t *offset, const int64_t *count);

#endif

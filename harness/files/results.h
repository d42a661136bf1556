/* The named results of an open HDF5 file as a source: the datasets of one group and of its groups grads and trace. */
#ifndef CPEQ_HARNESS_FILES_RESULTS_H
#define CPEQ_HARNESS_FILES_RESULTS_H

#include "harness/files/h5file.h"
#include "harness/files/source.h"

typedef struct cp_results {
    cp_source source;
    cp_h5 *file; /* borrowed */
    bool finite; /* a value that is not finite is bad input */
    cp_source_tensor *tensors;
    const char **paths;     /* of each tensor in the file */
    cp_h5_array *arrays;    /* how each is stored */
    int descriptor;         /* of the file; -1: its bytes are read through HDF5 alone */
    const char **ran_paths; /* of each member of /ran */
} cp_results;

/* Lists the results under `root` ("" or "/expected"), all but the datasets named in the list `apart`. Everything is
 * taken from `pool`, which outlives the results as the file does. Fills in `source` but its label and declaration.
 * CP_BAD_INPUT for what is no dataset of floats. */
cp_status cp_results_collect(cp_results *results, cp_h5 *file, cp_pool *pool, const char *root,
                             const char *apart);

/* Sorts again after names were changed; CP_INCOMPARABLE where two datasets have one name. */
cp_status cp_results_sort(cp_results *results, cp_pool *pool);

/* Writes all tensors of a source under `root`, streamed; float16 becomes float32. With `finite`, CP_BAD_INPUT for a
 * value that is not. */
cp_status cp_results_write(cp_h5 *file, const char *root, const cp_source *source, bool finite);

#endif

/* What is had of a file past the library's own reading. */
#include "harness/files/h5lib.h"

#include <hdf5.h>

bool cp_h5lib_read_chunk(cp_h5_id dataset, int dims, const int64_t at[], void *out, size_t most,
                         size_t *bytes, unsigned *skipped)
{
    hsize_t from[CP_MAX_DIMS], size = 0;
    uint32_t mask = 0;
    for (int axis = 0; axis < dims; axis++)
        from[axis] = (hsize_t)at[axis];
    if (H5Dget_chunk_storage_size(dataset, from, &size) < 0 || size == 0 || size > most ||
        H5Dread_chunk(dataset, H5P_DEFAULT, from, &mask, out) < 0)
        return false;
    *bytes = size;
    *skipped = mask;
    return true;
}

int cp_h5lib_descriptor(cp_h5_id file)
{
    void *handle = NULL;
    hid_t access = H5Fget_access_plist(file);
    bool plain = H5Pget_driver(access) == H5FD_SEC2 && H5Fget_vfd_handle(file, access, &handle) >= 0;
    H5Pclose(access);
    return plain && handle ? *(int *)handle : -1;
}

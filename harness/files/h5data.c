#include "harness/files/h5lib.h"

#include <inttypes.h>
#include <pthread.h>

static cp_status damaged(const cp_h5 *file, const char *object)
{
    return cp_fail(CP_BAD_INPUT, "%s: %s: cannot be read; the file is damaged", file->path, object);
}

/* The library is one for the whole process, and not made for several threads. */
static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

static cp_status read_elements(cp_h5 *file, const char *path, int64_t first, int64_t count, void *out)
{
    if (file->folder)
        return file->calls->read(file->folder, path, first, count, out);
    CP_TRY(cp_h5_use(file, path));
    cp_check(first >= 0 && count >= 0 && first <= file->array.count - count,
             "%s: %s: elements [%" PRId64 ", +%" PRId64 ") of %" PRId64, file->path, path, first, count,
             file->array.count);
    size_t width = cp_dtype_bytes(file->array.dtype);
    for (int64_t done = 0; done < count;) {
        uint64_t begin[CP_MAX_DIMS], size[CP_MAX_DIMS];
        int64_t box = cp_h5_box(&file->array, first + done, count - done, begin, size);
        if (!cp_h5lib_read(file->dataset, file->array.dims, begin, size, box,
                           (char *)out + (size_t)done * width))
            return damaged(file, path);
        done += box;
    }
    return CP_OK;
}

cp_status cp_h5_read(cp_h5 *file, const char *path, int64_t first, int64_t count, void *out)
{
    CP_H5_READING(file->path);
    pthread_mutex_lock(&library);
    cp_status status = read_elements(file, path, first, count, out);
    pthread_mutex_unlock(&library);
    return status;
}

cp_status cp_h5_read_chunk(cp_h5 *file, const char *path, const int64_t at[CP_MAX_DIMS], void *out,
                           size_t most, size_t *bytes, unsigned *skipped)
{
    CP_H5_READING(file->path);
    pthread_mutex_lock(&library);
    cp_status status = cp_h5_use(file, path);
    if (status == CP_OK &&
        !cp_h5lib_read_chunk(file->dataset, file->array.dims, at, out, most, bytes, skipped))
        status = damaged(file, path);
    pthread_mutex_unlock(&library);
    return status;
}

int cp_h5_descriptor(const cp_h5 *file)
{
    return file->writing || file->folder ? -1 : cp_h5lib_descriptor(file->id);
}

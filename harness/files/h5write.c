#include "harness/files/dump.h"
#include "harness/files/h5lib.h"

#include <errno.h>
#include <string.h>

cp_status cp_h5_create(cp_h5 **out, const char *path)
{
    *out = NULL;
    cp_h5_id id = cp_h5lib_create(path);
    if (id < 0)
        return cp_fail(CP_INTERNAL, "%s: cannot be created: %s", path, strerror(errno));
    return cp_h5_wrap(out, id, path, true, INT64_MAX);
}

static cp_status written(const cp_h5 *file, const char *path, bool done)
{
    return done ? CP_OK
                : cp_fail(CP_INTERNAL, "%s: %s: cannot be written; is the disk full?", file->path, path);
}

cp_status cp_h5_make_group(cp_h5 *file, const char *path)
{
    cp_h5_id group = cp_h5lib_make_group(file->id, path);
    cp_h5lib_release(group);
    return written(file, path, group >= 0);
}

cp_status cp_h5_make_array(cp_h5 *file, const char *path, cp_dtype dtype, int dims, const int64_t extent[])
{
    cp_h5_id dataset = cp_h5lib_make_array(file->id, path, dtype, dims, extent);
    const char *words = "bfloat16";
    bool done = dataset >= 0 && (dtype != CP_BF16 || cp_h5lib_set_texts(dataset, "dtype", -1, &words));
    cp_h5lib_release(dataset);
    return written(file, path, done);
}

cp_status cp_h5_write(cp_h5 *file, const char *path, int64_t first, int64_t count, const void *data)
{
    CP_TRY(cp_h5_use(file, path));
    size_t width = cp_dtype_bytes(file->array.dtype);
    bool done = true;
    for (int64_t moved = 0; done && moved < count;) {
        uint64_t begin[CP_MAX_DIMS], size[CP_MAX_DIMS];
        int64_t box = cp_h5_box(&file->array, first + moved, count - moved, begin, size);
        done = cp_h5lib_write(file->dataset, file->array.dims, begin, size, box,
                              (const char *)data + (size_t)moved * width);
        moved += box;
    }
    return written(file, path, done);
}

cp_status cp_h5_write_text(cp_h5 *file, const char *path, const char *text)
{
    return written(file, path, cp_h5lib_make_text(file->id, path, text));
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

cp_status cp_h5_copy(cp_h5 *file, cp_h5 *from, const char *name)
{
    CP_H5_READING(from->path);
    return written(file, name, cp_h5lib_copy(file->id, from->id, name));
}

cp_status cp_h5_copy_attributes(cp_h5 *file, cp_h5 *from)
{
    CP_H5_READING(from->path);
    cp_h5_id to = cp_h5lib_object(file->id, "/"), root = cp_h5lib_object(from->id, "/");
    bool done = to >= 0 && root >= 0 && cp_h5lib_copy_attributes(to, root);
    cp_h5lib_release(to);
    cp_h5lib_release(root);
    return written(file, "/", done);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

cp_status cp_h5_set_text(cp_h5 *file, const char *object, const char *name, const char *value)
{
    cp_h5_id owner = cp_h5lib_object(file->id, object);
    bool done = owner >= 0 && cp_h5lib_set_texts(owner, name, -1, &value);
    cp_h5lib_release(owner);
    return written(file, object, done);
}

cp_status cp_h5_set_lines(cp_h5 *file, const char *object, const char *name, const char *lines)
{
    cp_pool pool = {0};
    const char *const *names;
    size_t count;
    cp_status status = cp_lines_split(&pool, lines, &names, &count);
    if (status == CP_OK) {
        cp_h5_id owner = cp_h5lib_object(file->id, object);
        bool done = owner >= 0 && cp_h5lib_set_texts(owner, name, (int64_t)count, names);
        cp_h5lib_release(owner);
        status = written(file, object, done);
    }
    cp_pool_close(&pool);
    return status;
}

cp_status cp_h5_set_integer(cp_h5 *file, const char *object, const char *name, int64_t value)
{
    cp_h5_id owner = cp_h5lib_object(file->id, object);
    bool done = owner >= 0 && cp_h5lib_set_integer(owner, name, value);
    cp_h5lib_release(owner);
    return written(file, object, done);
}

cp_status cp_h5_set_real(cp_h5 *file, const char *object, const char *name, double value)
{
    cp_h5_id owner = cp_h5lib_object(file->id, object);
    bool done = owner >= 0 && cp_h5lib_set_real(owner, name, value);
    cp_h5lib_release(owner);
    return written(file, object, done);
}

cp_status cp_h5_write_file(const char *path, cp_h5_filler *fill, const void *content)
{
    char temporary[CP_PATH_BYTES];
    cp_h5 *file;
    CP_TRY(cp_temporary_name(temporary, path));
    CP_TRY(cp_h5_create(&file, temporary));
    cp_status status = fill(file, content);
    if (status == CP_OK)
        status = cp_h5_close(file);
    else
        cp_h5_close(file);
    if (status == CP_OK)
        return cp_temporary_commit(temporary, path);
    cp_temporary_discard(temporary);
    return status;
}

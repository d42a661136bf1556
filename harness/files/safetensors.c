#include "harness/files/safetensors.h"

#include "base/json.h"
#include "harness/files/pool.h"
#include "harness/files/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LENGTH_BYTES = 8, /* the header's length comes first */
    MOST_HEADER_BYTES = 100 * 1000 * 1000
};

typedef struct opened {
    cp_safetensors file;
    cp_pool pool;
    int descriptor;
    int64_t data, data_bytes; /* where the data begins; how much there is */
} opened;

static cp_status read_at(const opened *o, int64_t offset, int64_t count, void *out)
{
    char *place = out;
    while (count > 0) {
        ssize_t got = pread(o->descriptor, place, (size_t)count, offset);
        if (got <= 0)
            return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", o->file.path,
                           got == 0 ? "it has become shorter" : strerror(errno));
        place += got;
        offset += got;
        count -= got;
    }
    return CP_OK;
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

static cp_status bad(const opened *o, const char *name, const char *expected)
{
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected %s", o->file.path, name, expected);
}

const char *cp_safetensors_dtype(cp_dtype dtype)
{
    static const char *const names[CP_DTYPES] = {
        [CP_F64] = "F64", [CP_F32] = "F32", [CP_F16] = "F16", [CP_BF16] = "BF16",
        [CP_I64] = "I64", [CP_I32] = "I32", [CP_U8] = "U8",
    };
    return names[dtype];
}

static bool named_dtype(cp_dtype *dtype, const char *name)
{
    for (*dtype = 0; *dtype < CP_DTYPES; ++*dtype)
        if (strcmp(cp_safetensors_dtype(*dtype), name) == 0)
            return true;
    return false;
}

/* A list of integers that are not negative; how many, or -1. */
static int natural_numbers(int64_t *out, int room, const cp_json *list)
{
    if (!list || cp_json_kind_of(list) != CP_JSON_ARRAY || cp_json_size(list) > (size_t)room)
        return -1;
    int count = (int)cp_json_size(list);
    for (int i = 0; i < count; i++) {
        const cp_json *number = cp_json_element(list, (size_t)i);
        if (cp_json_kind_of(number) != CP_JSON_INTEGER || cp_json_integer(number) < 0)
            return -1;
        out[i] = cp_json_integer(number);
    }
    return count;
}

static cp_status read_entry(opened *o, cp_safetensor *tensor, const char *name, const cp_json *entry)
{
    int64_t offsets[2];
    if (strlen(name) >= CP_NAME_BYTES || !cp_text_plain(name, strlen(name)) || *name == '\0')
        return bad(o, "header", "names of tensors that are short and without control characters");
    CP_TRY(cp_pool_text(&o->pool, &tensor->name, name));
    const cp_json *dtype = cp_json_member(entry, "dtype");
    if (cp_json_kind_of(entry) != CP_JSON_OBJECT || cp_json_size(entry) != 3 || !dtype ||
        cp_json_kind_of(dtype) != CP_JSON_STRING)
        return bad(o, name, "dtype, shape and data_offsets, and nothing else");
    if (!named_dtype(&tensor->dtype, cp_json_string(dtype)))
        return cp_fail(CP_BAD_INPUT,
                       "%s: %s: expected dtype F64, F32, F16, BF16, I64, I32 or U8, found \"%.32s\"",
                       o->file.path, name, cp_json_string(dtype));
    tensor->dims = natural_numbers(tensor->extent, CP_MAX_DIMS, cp_json_member(entry, "shape"));
    if (tensor->dims < 0)
        return bad(o, name, "a shape of at most 4 extents");
    if (natural_numbers(offsets, 2, cp_json_member(entry, "data_offsets")) != 2)
        return bad(o, name, "two data_offsets");

    tensor->count = 1;
    bool too_large = false;
    for (int axis = 0; axis < tensor->dims; axis++)
        too_large |= __builtin_mul_overflow(tensor->count, tensor->extent[axis], &tensor->count);
    too_large |=
        __builtin_mul_overflow(tensor->count, (int64_t)cp_dtype_bytes(tensor->dtype), &tensor->bytes);
    if (too_large || offsets[1] < offsets[0] || offsets[1] - offsets[0] != tensor->bytes)
        return bad(o, name, "data_offsets that are as far apart as dtype and shape say");
    if (offsets[1] > o->data_bytes)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected %" PRId64 " bytes of data, found %" PRId64,
                       o->file.path, name, offsets[1], o->data_bytes);
    tensor->begin = offsets[0];
    return CP_OK;
}

static int compare_begins(const void *a, const void *b)
{
    const cp_safetensor *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const cp_safetensor *)a)->name, ((const cp_safetensor *)b)->name);
}

static cp_status check_tiling(const opened *o, cp_safetensor *tensors, size_t count)
{
    int64_t end = 0;
    if (count > 0)
        qsort(tensors, count, sizeof *tensors, compare_begins);
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].begin != end)
            return cp_fail(CP_BAD_INPUT,
                           "%s: %s: expected its data at %" PRId64 ", found it at %" PRId64 ": %s",
                           o->file.path, tensors[i].name, end, tensors[i].begin,
                           tensors[i].begin < end ? "an overlap" : "a hole");
        end += tensors[i].bytes;
    }
    if (end != o->data_bytes)
        return cp_fail(CP_BAD_INPUT, "%s: expected %" PRId64 " bytes of data, found %" PRId64, o->file.path,
                       end, o->data_bytes);
    if (count > 0)
        qsort(tensors, count, sizeof *tensors, compare_names);
    return CP_OK;
}

static cp_status read_entries(opened *o, const cp_json *header)
{
    if (cp_json_kind_of(header) != CP_JSON_OBJECT)
        return bad(o, "header", "an object");
    void *memory;
    CP_TRY(cp_pool_take(&o->pool, &memory, cp_json_size(header), sizeof(cp_safetensor)));
    cp_safetensor *tensors = memory;
    size_t count = 0;
    void *at = NULL;
    const char *name;
    for (const cp_json *entry; (entry = cp_json_next(header, &at, &name)) != NULL;) {
        if (strcmp(name, "__metadata__") != 0)
            CP_TRY(read_entry(o, &tensors[count++], name, entry));
    }
    CP_TRY(check_tiling(o, tensors, count));
    for (size_t i = 0; i < count; i++)
        tensors[i].begin += o->data;
    o->file.tensors = tensors;
    o->file.count = count;
    return CP_OK;
}

static cp_status read_header(opened *o, int64_t file_bytes)
{
    unsigned char stored[LENGTH_BYTES];
    uint64_t length = 0;
    if (file_bytes >= LENGTH_BYTES)
        CP_TRY(read_at(o, 0, LENGTH_BYTES, stored));
    for (int i = LENGTH_BYTES; file_bytes >= LENGTH_BYTES && i-- > 0;)
        length = length << 8 | stored[i];
    if (file_bytes < LENGTH_BYTES || length > (uint64_t)(file_bytes - LENGTH_BYTES) ||
        length > MOST_HEADER_BYTES)
        return cp_fail(CP_BAD_INPUT,
                       "%s: expected a safetensors file, found %" PRId64 " bytes with a header of %" PRIu64,
                       o->file.path, file_bytes, length);
    o->data = LENGTH_BYTES + (int64_t)length;
    o->data_bytes = file_bytes - o->data;
    void *memory;
    CP_TRY(cp_pool_take(&o->pool, &memory, (size_t)length + 1, 1));
    CP_TRY(read_at(o, LENGTH_BYTES, (int64_t)length, memory));
    const char *where;
    cp_json *header;
    CP_TRY(cp_pool_format(&o->pool, &where, "%s: header", o->file.path));
    CP_TRY(cp_json_parse(&header, memory, (size_t)length, where));
    cp_status status = read_entries(o, header);
    cp_json_close(header);
    return status;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static cp_status open_file(opened *o, const char *path)
{
    struct stat status;
    CP_TRY(cp_pool_text(&o->pool, &o->file.path, path));
    o->descriptor = open(path, O_RDONLY);
    if (o->descriptor < 0 || fstat(o->descriptor, &status) != 0)
        return cp_fail(CP_BAD_INPUT, "%s: expected a safetensors file: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return cp_fail(CP_BAD_INPUT, "%s: expected a safetensors file, found no regular file", path);
    return read_header(o, status.st_size);
}

cp_status cp_safetensors_open(cp_safetensors **out, const char *path)
{
    *out = NULL;
    opened *o = calloc(1, sizeof *o);
    if (!o)
        return cp_fail(CP_INTERNAL, "%s: no memory to open it", path);
    o->file.state = o;
    o->descriptor = -1;
    cp_status status = open_file(o, path);
    if (status != CP_OK) {
        cp_safetensors_close(&o->file);
        return status;
    }
    *out = &o->file;
    return CP_OK;
}

void cp_safetensors_close(cp_safetensors *file)
{
    if (!file)
        return;
    opened *o = file->state;
    if (o->descriptor >= 0)
        close(o->descriptor);
    cp_pool_close(&o->pool);
    free(o);
}

const cp_safetensor *cp_safetensors_find(const cp_safetensors *file, const char *name)
{
    cp_safetensor key = {.name = name};
    return file->count ? bsearch(&key, file->tensors, file->count, sizeof key, compare_names) : NULL;
}

cp_status cp_safetensors_read(const cp_safetensors *file, const cp_safetensor *tensor, void *out)
{
    return read_at(file->state, tensor->begin, tensor->bytes, out);
}

cp_status cp_safetensors_read_some(const cp_safetensors *file, const cp_safetensor *tensor, int64_t first,
                                   int64_t count, void *out)
{
    int64_t width = (int64_t)cp_dtype_bytes(tensor->dtype);
    cp_check(first >= 0 && count >= 0 && first <= tensor->count - count,
             "%s: %s: elements [%" PRId64 ", +%" PRId64 ") of %" PRId64, file->path, tensor->name, first,
             count, tensor->count);
    return read_at(file->state, tensor->begin + first * width, count * width, out);
}

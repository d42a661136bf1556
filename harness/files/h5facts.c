#include "harness/files/h5facts.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_DEFLATED = 1100 }; /* deflate does not pack tighter than 1032 to 1 */

static cp_status check_shape(cp_h5_array *array, const cp_h5_facts *facts, const char *file,
                             const char *object)
{
    if (facts->no_space)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected data, found an empty dataspace", file, object);
    if (facts->dims > CP_MAX_DIMS)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected at most %d dimensions, found %d", file, object,
                       CP_MAX_DIMS, facts->dims);
    *array = (cp_h5_array){.dims = facts->dims, .count = 1};
    int64_t bytes = (int64_t)facts->bytes;
    bool too_large = false;
    for (int axis = 0; axis < facts->dims; axis++) {
        too_large |= facts->extent[axis] > INT64_MAX;
        array->extent[axis] = (int64_t)facts->extent[axis];
        too_large |= __builtin_mul_overflow(array->count, array->extent[axis], &array->count);
        too_large |= __builtin_mul_overflow(bytes, array->extent[axis], &bytes);
    }
    if (too_large)
        return cp_fail(CP_BAD_INPUT, "%s: %s: its extents multiply to more than a file can hold", file,
                       object);
    return CP_OK;
}

static uint64_t chunks_needed(const cp_h5_facts *facts)
{
    uint64_t needed = 1;
    for (int axis = 0; axis < facts->dims; axis++)
        needed *= (facts->extent[axis] + facts->chunk[axis] - 1) / facts->chunk[axis];
    return needed;
}

/* What was never written reads as zeros, and a few bytes can claim to be petabytes: neither is data. */
static cp_status check_amount(const cp_h5_array *array, const cp_h5_facts *facts, int64_t file_bytes,
                              const char *file, const char *object)
{
    uint64_t bytes = (uint64_t)array->count * facts->bytes;
    if (bytes == 0)
        return CP_OK;
    bool packed_too_well = facts->storage == CP_H5_CHUNKED && bytes / MOST_DEFLATED > (uint64_t)file_bytes;
    if (facts->stored_bytes > (uint64_t)file_bytes || packed_too_well)
        return cp_fail(CP_BAD_INPUT,
                       "%s: %s: claims %" PRIu64 " bytes, more than its file of %" PRId64 " can hold", file,
                       object, bytes, file_bytes);
    if (facts->storage == CP_H5_CHUNKED && facts->chunks != chunks_needed(facts))
        return cp_fail(CP_BAD_INPUT,
                       "%s: %s: expected all of its %" PRIu64 " chunks, found %" PRIu64 " written", file,
                       object, chunks_needed(facts), facts->chunks);
    if (facts->storage != CP_H5_CHUNKED && facts->stored_bytes < bytes)
        return cp_fail(CP_BAD_INPUT,
                       "%s: %s: expected %" PRIu64 " bytes of data, found %" PRIu64 ": it was never written",
                       file, object, bytes, facts->stored_bytes);
    return CP_OK;
}

/* What can be had past the library. */
static void find_pieces(cp_h5_array *array, const cp_h5_facts *facts)
{
    array->offset = -1;
    if (!facts->as_in_memory)
        return;
    if (facts->storage == CP_H5_CONTIGUOUS && facts->offset <= INT64_MAX)
        array->offset = (int64_t)facts->offset;
    bool usable = facts->storage == CP_H5_CHUNKED && !facts->other_filters;
    for (int axis = 0; axis < array->dims; axis++)
        usable = usable && facts->chunk[axis] <= INT32_MAX;
    for (int axis = 0; axis < array->dims && usable; axis++)
        array->chunk[axis] = (int64_t)facts->chunk[axis];
    array->shuffled = facts->shuffled;
    array->deflated = facts->deflated;
}

cp_status cp_h5_check_storage(cp_h5_array *array, const cp_h5_facts *facts, int64_t file_bytes,
                              const char *file, const char *object)
{
    if (facts->storage == CP_H5_ELSEWHERE)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected data, found a virtual dataset that maps other files",
                       file, object);
    if (facts->external_files > 0)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected data, found external storage in %zu other files", file,
                       object, facts->external_files);
    if (facts->foreign_filter)
        return cp_fail(CP_BAD_INPUT,
                       "%s: %s: expected no filter but deflate, shuffle and fletcher32, found %s", file,
                       object, facts->filter);
    CP_TRY(check_shape(array, facts, file, object));
    find_pieces(array, facts);
    return check_amount(array, facts, file_bytes, file, object);
}

static bool float_dtype(cp_dtype *dtype, const cp_h5_facts *facts)
{
    static const struct {
        cp_dtype dtype;
        size_t exponent_bits, mantissa_bits;
    } formats[] = {{CP_F64, 11, 52}, {CP_F32, 8, 23}, {CP_F16, 5, 10}, {CP_BF16, 8, 7}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t e = formats[i].exponent_bits;
        size_t m = formats[i].mantissa_bits;
        *dtype = formats[i].dtype;
        if (facts->bytes * 8 == 1 + e + m && facts->sign == e + m && facts->exponent == m &&
            facts->exponent_bits == e && facts->mantissa == 0 && facts->mantissa_bits == m &&
            facts->bias == ((size_t)1 << (e - 1)) - 1 && facts->implied_one && facts->whole_word)
            return true;
    }
    return false;
}

static bool integer_dtype(cp_dtype *dtype, const cp_h5_facts *facts)
{
    static const struct {
        cp_dtype dtype;
        size_t bytes;
        bool is_signed, bfloat16_words;
    } formats[] = {{CP_I64, 8, true, false},
                   {CP_I32, 4, true, false},
                   {CP_U8, 1, false, false},
                   {CP_BF16, 2, false, true}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        *dtype = formats[i].dtype;
        if (facts->bytes == formats[i].bytes && facts->is_signed == formats[i].is_signed &&
            facts->bfloat16_words == formats[i].bfloat16_words && facts->whole_word)
            return true;
    }
    return false;
}

cp_status cp_h5_check_type(cp_h5_array *array, const cp_h5_facts *facts, const char *file, const char *object)
{
    bool number = facts->class == CP_H5_INTEGER || facts->class == CP_H5_FLOAT;
    bool known = facts->class == CP_H5_FLOAT     ? float_dtype(&array->dtype, facts)
                 : facts->class == CP_H5_INTEGER ? integer_dtype(&array->dtype, facts)
                                                 : false;
    if (known && (facts->byte_order || facts->bytes == 1))
        return CP_OK;
    char found[96];
    if (number)
        snprintf(found, sizeof found, "%s of %zu bits", facts->class_name, facts->bytes * 8);
    else
        snprintf(found, sizeof found, "%s", facts->class_name);
    return cp_fail(CP_BAD_INPUT,
                   "%s: %s: expected float64, float32, float16, bfloat16, int64, int32 or uint8, found %s",
                   file, object, found);
}

int64_t cp_h5_box(const cp_h5_array *array, int64_t first, int64_t count, uint64_t begin[CP_MAX_DIMS],
                  uint64_t size[CP_MAX_DIMS])
{
    int64_t row[CP_MAX_DIMS]; /* elements of one step along an axis */
    int64_t elements = 1;
    for (int axis = array->dims - 1; axis >= 0; axis--) {
        row[axis] = elements;
        elements *= array->extent[axis];
    }
    int64_t box = 1;
    bool inside = false; /* below the axis along which the box is cut */
    for (int axis = 0; axis < array->dims; axis++) {
        int64_t index = first / row[axis] % array->extent[axis];
        begin[axis] = inside ? 0 : (uint64_t)index;
        size[axis] = inside ? (uint64_t)array->extent[axis] : 1;
        if (!inside && first % row[axis] == 0 && count >= row[axis]) {
            int64_t rows = count / row[axis];
            int64_t left = array->extent[axis] - index;
            rows = rows < left ? rows : left;
            size[axis] = (uint64_t)rows;
            box = rows * row[axis];
            inside = true;
        }
    }
    return box;
}

#include "harness/judge/blocks.h"

#include "harness/judge/crew.h"

#include <string.h>

enum { PIECE = 1 << 18, FEW = 1 << 20 }; /* elements; so few are not worth a second thread */

static const size_t MOST_UNPACKED = 44 << 20; /* bytes of all threads together */

void cp_blocks_open(cp_blocks *blocks, const cp_sides *sides, size_t allowance)
{
    blocks->sides = sides;
    cp_view_open(&blocks->views[0], allowance);
    cp_view_open(&blocks->views[1], allowance);
}

void cp_blocks_close(cp_blocks *blocks)
{
    cp_view_close(&blocks->views[0]);
    cp_view_close(&blocks->views[1]);
}

/* ---- one block --------------------------------------------------------------------------------------------------- */

typedef struct side {
    const void *data;
    cp_dtype dtype;
} side;

static cp_status look(cp_blocks *blocks, int which, side *out, int64_t tensor, int64_t first, int64_t count)
{
    static const double zeros[CP_BLOCK] = {0};
    *out = (side){zeros, CP_F32};
    if (tensor == CP_NO_TENSOR)
        return CP_OK;
    const cp_source *source = which == 0 ? blocks->sides->expected : blocks->sides->actual;
    return cp_view_look(&blocks->views[which], source, (size_t)tensor, first, count, &out->data, &out->dtype);
}

static bool fits_float(cp_dtype dtype)
{
    return dtype == CP_F32 || dtype == CP_BF16 || dtype == CP_F16;
}

static const float *as_floats(const side *from, double room[CP_BLOCK], int64_t count)
{
    if (from->dtype == CP_F32 && (uintptr_t)from->data % sizeof(float) == 0)
        return from->data;
    cp_view_float((float *)room, from->data, from->dtype, count);
    return (float *)room;
}

static const double *as_doubles(const side *from, double room[CP_BLOCK], int64_t count)
{
    if (from->dtype == CP_F64 && (uintptr_t)from->data % sizeof(double) == 0)
        return from->data;
    cp_view_double(room, from->data, from->dtype, count);
    return room;
}

cp_status cp_blocks_look(cp_blocks *blocks, cp_block *block, const cp_pair *pair, cp_rows rows, int64_t first,
                         int64_t count, bool doubles)
{
    side expected, actual;
    *block = (cp_block){.first = first, .count = count};
    CP_TRY(look(blocks, 0, &expected, pair->expected, first, count));
    CP_TRY(look(blocks, 1, &actual, pair->actual, first, count));
    if (!doubles && fits_float(expected.dtype) && fits_float(actual.dtype)) {
        block->expected_floats = as_floats(&expected, blocks->values[0], count);
        block->actual_floats = as_floats(&actual, blocks->values[1], count);
    } else {
        block->expected = as_doubles(&expected, blocks->values[0], count);
        block->actual = as_doubles(&actual, blocks->values[1], count);
    }
    if (rows.places) {
        cp_rows_fill(blocks->places, rows, first, count);
        block->places = blocks->places;
    }
    return CP_OK;
}

/* ---- how to cut -------------------------------------------------------------------------------------------------- */

static cp_grain grain_of(const cp_source *source, int64_t tensor)
{
    return tensor == CP_NO_TENSOR ? (cp_grain){1, 0} : cp_view_grain(source, (size_t)tensor);
}

int64_t cp_blocks_piece(const cp_sides *sides, const cp_pair *pair, int64_t elements)
{
    int64_t a = grain_of(sides->expected, pair->expected).elements;
    int64_t b = grain_of(sides->actual, pair->actual).elements;
    int64_t grain = a > b ? a : b;
    int64_t piece = grain < PIECE ? (PIECE + grain - 1) / grain * grain : grain;
    return piece < elements ? piece : elements;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

int cp_blocks_threads(size_t *allowance, const cp_sides *sides, const cp_pair *const pairs[], size_t count,
                      int64_t elements)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++) {
        most = larger(grain_of(sides->expected, pairs[i]->expected).bytes, most);
        most = larger(grain_of(sides->actual, pairs[i]->actual).bytes, most);
    }
    size_t threads = MOST_UNPACKED / 2 / most;
    int processors = elements < FEW ? 1 : cp_crew_size();
    if (threads > (size_t)processors)
        threads = (size_t)processors;
    if (threads < 1)
        threads = 1;
    *allowance = MOST_UNPACKED / 2 / threads;
    return (int)threads;
}

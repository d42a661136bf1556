#include "harness/judge/measure.h"

#include "harness/judge/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16 };

void cp_measure_open(cp_measure *measure, const cp_sides *sides)
{
    *measure = (cp_measure){
        .sides = sides,
        .expected = malloc(BLOCK * sizeof(double)),
        .actual = malloc(BLOCK * sizeof(double)),
        .block_places = malloc(BLOCK),
    };
    cp_check(measure->expected && measure->actual && measure->block_places, "no memory for blocks");
    cp_places_open(&measure->places, sides->fixture);
}

void cp_measure_close(cp_measure *measure)
{
    free(measure->expected);
    free(measure->actual);
    free(measure->block_places);
    cp_places_close(&measure->places);
}

bool cp_measure_rows(cp_rows *rows, const cp_measure *measure, const cp_tensor_result *tensor)
{
    return cp_places_rows(rows, &measure->places, tensor->name, tensor->kind, tensor->dims, tensor->extent);
}

/* A tensor that is declared None is zero. */
static cp_status read_block(const cp_source *source, int64_t tensor, int64_t first, int64_t count,
                            double *out)
{
    if (tensor == CP_NO_TENSOR) {
        memset(out, 0, (size_t)count * sizeof *out);
        return CP_OK;
    }
    return source->read(source, (size_t)tensor, first, count, out);
}

static int64_t elements(const cp_tensor_result *tensor)
{
    int64_t count = 1;
    for (int axis = 0; axis < tensor->dims; axis++)
        count *= tensor->extent[axis];
    return count;
}

/* Reads elements [first, first + count) of both sides and their places; `*places` is NULL where all are judged. */
static cp_status read_pair(const uint8_t **places, const cp_measure *measure, const cp_pair *pair,
                           cp_rows rows, int64_t first, int64_t count)
{
    CP_TRY(read_block(measure->sides->expected, pair->expected, first, count, measure->expected));
    CP_TRY(read_block(measure->sides->actual, pair->actual, first, count, measure->actual));
    *places = NULL;
    if (rows.places) {
        cp_rows_fill(measure->block_places, rows, first, count);
        *places = measure->block_places;
    }
    return CP_OK;
}

static int64_t block_length(int64_t whole, int64_t first)
{
    return whole - first < BLOCK ? whole - first : BLOCK;
}

cp_status cp_measure_pair(cp_statistics *statistics, cp_spread *spread, const cp_measure *measure,
                          const cp_pair *pair, const cp_tensor_result *tensor, double atol, double rtol)
{
    cp_rows rows;
    cp_measure_rows(&rows, measure, tensor);
    cp_compare_begin(statistics, atol, rtol);
    int64_t whole = elements(tensor);
    for (int64_t first = 0; first < whole; first += BLOCK) {
        int64_t count = block_length(whole, first);
        const uint8_t *places;
        CP_TRY(read_pair(&places, measure, pair, rows, first, count));
        cp_compare_add(statistics, measure->expected, measure->actual, places, count);
        if (spread)
            cp_spread_add(spread, measure->expected, measure->actual, places, count);
    }
    cp_compare_finish(statistics);
    return CP_OK;
}

cp_status cp_measure_norm(double *norm, const cp_measure *measure, int64_t expected)
{
    const cp_source_tensor *tensor = &measure->sides->expected->tensors[expected];
    cp_tensor_result shape = {.dims = tensor->dims};
    memcpy(shape.extent, tensor->extent, sizeof shape.extent);
    cp_pair pair = {tensor->name, expected, CP_NO_TENSOR};
    cp_statistics statistics;
    CP_TRY(cp_measure_pair(&statistics, NULL, measure, &pair, &shape, 0, 0));
    *norm = statistics.expected_norm;
    return CP_OK;
}

/* ---- what is over ---- */

/* [B,T] of marks; POSITION_BAD where an element of that position is over its bound. */
enum { POSITION_UNJUDGED, POSITION_GOOD, POSITION_BAD };

typedef struct position_map {
    int64_t B, T, width; /* elements of a position */
    uint8_t *marks;      /* NULL: the tensor has no positions */
} position_map;

static position_map open_map(const cp_tensor_result *tensor)
{
    position_map map = {0};
    bool has = tensor->kind == CP_TENSOR_LOGITS || tensor->kind == CP_TENSOR_TOKEN_LOSS ||
               tensor->kind == CP_TENSOR_OUTPUT ||
               (tensor->kind == CP_TENSOR_GRADIENT && cp_name_has_rows(tensor->name));
    if (!has || tensor->dims < 2)
        return map;
    map.B = tensor->extent[0];
    map.T = tensor->extent[1];
    map.width = elements(tensor) / (map.B * map.T);
    map.marks = calloc((size_t)(map.B * map.T), 1);
    cp_check(map.marks, "no memory for %lld positions", (long long)(map.B * map.T));
    return map;
}

static void mark(position_map *map, int64_t element, bool bad)
{
    if (!map->marks)
        return;
    uint8_t *at = &map->marks[element / map->width];
    uint8_t wanted = bad ? POSITION_BAD : POSITION_GOOD;
    if (*at < wanted)
        *at = wanted;
}

/* Length of a contiguous shard; 0: the dump does not say, or there is but one. */
static int64_t shard_length(const cp_declaration *declaration, int64_t T)
{
    if (declaration->cp_size < 2 || strcmp(declaration->layout, "contiguous") != 0)
        return 0;
    return (T + declaration->cp_size - 1) / declaration->cp_size;
}

static int64_t first_bad(const position_map *map)
{
    for (int64_t t = 0; t < map->T; t++) {
        for (int64_t b = 0; b < map->B; b++) {
            if (map->marks[b * map->T + t] == POSITION_BAD)
                return t;
        }
    }
    return -1;
}

/* One row: positions before a cut and from it on. */
typedef struct row_count {
    int64_t bad, good_before, good_after;
} row_count;

static row_count count_row(const uint8_t *marks, int64_t T, int64_t cut)
{
    row_count row = {0};
    for (int64_t t = 0; t < T; t++) {
        row.bad += marks[t] == POSITION_BAD;
        row.good_before += marks[t] == POSITION_GOOD && t < cut;
        row.good_after += marks[t] == POSITION_GOOD && t >= cut;
    }
    return row;
}

static bool only_at_shard_ends(const position_map *map, int64_t shard)
{
    for (int64_t i = 0; i < map->B * map->T && shard > 0; i++) {
        if (map->marks[i] == POSITION_BAD && (i % map->T + 1) % shard != 0)
            return false;
    }
    return shard > 1;
}

static void summarise(cp_tensor_result *tensor, const position_map *map, int64_t shard)
{
    int64_t good_rows = 0, cut_rows = 0;
    int64_t cut = tensor->first_bad_position = first_bad(map);
    bool to_the_end = true, whole = true;
    for (int64_t b = 0; b < map->B; b++) {
        row_count row = count_row(map->marks + b * map->T, map->T, cut);
        int64_t good = row.good_before + row.good_after;
        tensor->judged_positions += row.bad + good;
        tensor->bad_positions += row.bad;
        tensor->bad_rows += row.bad > 0;
        good_rows += row.bad == 0 && good > 0;
        if (row.bad == 0)
            continue;
        to_the_end = to_the_end && row.good_after == 0;
        whole = whole && good == 0;
        cut_rows += row.good_before > 0;
    }
    tensor->bad_from_there_on = to_the_end && cut_rows > 0;
    tensor->bad_in_whole_rows = whole && good_rows > 0;
    tensor->bad_at_shard_ends = only_at_shard_ends(map, shard);
}

cp_status cp_measure_excess(cp_tensor_result *tensor, const cp_measure *measure, const cp_pair *pair,
                            double atol, double rtol)
{
    cp_rows rows;
    cp_measure_rows(&rows, measure, tensor);
    position_map map = open_map(tensor);
    cp_status status = CP_OK;
    int64_t whole = elements(tensor);
    tensor->over_limit = 0;
    for (int64_t first = 0; first < whole && status == CP_OK; first += BLOCK) {
        int64_t count = block_length(whole, first);
        const uint8_t *places;
        status = read_pair(&places, measure, pair, rows, first, count);
        for (int64_t i = 0; i < count && status == CP_OK; i++) {
            if (places && places[i] == CP_PLACE_UNJUDGED)
                continue;
            double error = fabs(measure->actual[i] - measure->expected[i]);
            bool bad = !(error <= atol + rtol * fabs(measure->expected[i])); /* NaN is bad */
            tensor->over_limit += bad;
            mark(&map, first + i, bad);
        }
    }
    if (map.marks && tensor->over_limit > 0)
        summarise(tensor, &map, shard_length(&measure->sides->actual->declaration, map.T));
    free(map.marks);
    return status;
}

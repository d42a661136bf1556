#include "harness/judge/measure.h"

#include "harness/judge/blocks.h"
#include "harness/judge/crew.h"

#include <stdlib.h>
#include <string.h>

void cp_measure_open(cp_measure *measure, const cp_sides *sides)
{
    *measure = (cp_measure){.sides = sides};
    cp_places_open(&measure->places, sides->fixture);
}

void cp_measure_close(cp_measure *measure)
{
    cp_places_close(&measure->places);
}

bool cp_measure_rows(cp_rows *rows, const cp_measure *measure, const cp_tensor_result *tensor)
{
    return cp_places_rows(rows, &measure->places, tensor->name, tensor->kind, tensor->dims, tensor->extent);
}

static int64_t elements(const cp_tensor_result *tensor)
{
    int64_t count = 1;
    for (int axis = 0; axis < tensor->dims; axis++)
        count *= tensor->extent[axis];
    return count;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* One pair, and which pieces of all are its own. */
typedef struct item {
    const cp_measuring *pair;
    cp_rows rows;
    int64_t elements, piece; /* elements of a piece */
    int64_t begin;           /* its first piece */
} item;

/* What one thread has of a piece. */
typedef struct worker {
    cp_blocks blocks;
    cp_statistics statistics;
    cp_spread_part spread;
} worker;

typedef struct stream {
    double atol, rtol;
    item *items;
    size_t count;
    int64_t pieces;
    worker *workers;
} stream;

static const item *item_of(const stream *s, int64_t piece)
{
    size_t low = 0, high = s->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (s->items[middle].begin <= piece)
            low = middle;
        else
            high = middle;
    }
    return &s->items[low];
}

static void add_block(worker *w, const cp_spread *spread, const cp_block *block)
{
    if (block->expected_floats)
        cp_compare_add_floats(&w->statistics, block->expected_floats, block->actual_floats, block->places,
                              block->count);
    else
        cp_compare_add(&w->statistics, block->expected, block->actual, block->places, block->count);
    if (spread)
        cp_spread_add(&w->spread, spread, block->expected, block->actual, block->places, block->count);
}

static cp_status compute(void *context, int number, int64_t piece)
{
    stream *s = context;
    worker *w = &s->workers[number];
    const item *i = item_of(s, piece);
    const cp_spread *spread = i->pair->spread && i->pair->spread->width > 0 ? i->pair->spread : NULL;
    int64_t first = (piece - i->begin) * i->piece;
    int64_t end = i->elements - first < i->piece ? i->elements : first + i->piece;
    cp_compare_begin(&w->statistics, s->atol, s->rtol);
    w->statistics.first = first;
    if (spread)
        cp_spread_part_begin(&w->spread, spread, first, end);
    for (int64_t at = first; at < end; at += CP_BLOCK) {
        cp_block block;
        int64_t count = end - at < CP_BLOCK ? end - at : CP_BLOCK;
        CP_TRY(cp_blocks_look(&w->blocks, &block, i->pair->pair, i->rows, at, count, spread != NULL));
        add_block(w, spread, &block);
    }
    return CP_OK;
}

static void merge(void *context, int number, int64_t piece)
{
    stream *s = context;
    const cp_measuring *pair = item_of(s, piece)->pair;
    cp_compare_merge(pair->statistics, &s->workers[number].statistics);
    if (pair->spread && pair->spread->width > 0)
        cp_spread_merge(pair->spread, &s->workers[number].spread);
}

static int64_t open_items(stream *s, const cp_measure *measure, const cp_measuring *pairs)
{
    int64_t all = 0;
    for (size_t i = 0; i < s->count; i++) {
        item *made = &s->items[i];
        *made = (item){.pair = &pairs[i], .elements = elements(pairs[i].tensor), .begin = s->pieces};
        made->piece = cp_blocks_piece(measure->sides, pairs[i].pair, made->elements);
        cp_measure_rows(&made->rows, measure, pairs[i].tensor);
        cp_compare_begin(pairs[i].statistics, s->atol, s->rtol);
        s->pieces += made->elements > 0 ? (made->elements + made->piece - 1) / made->piece : 0;
        all += made->elements;
    }
    return all;
}

static cp_status run(stream *s, int threads, size_t allowance, const cp_sides *sides)
{
    s->workers = calloc((size_t)threads, sizeof *s->workers);
    cp_check(s->workers, "no memory for %d threads", threads);
    for (int w = 0; w < threads; w++)
        cp_blocks_open(&s->workers[w].blocks, sides, allowance);
    cp_status status = cp_crew_run(threads, &(cp_crew_task){s, s->pieces, compute, merge});
    for (int w = 0; w < threads; w++) {
        cp_blocks_close(&s->workers[w].blocks);
        cp_spread_part_close(&s->workers[w].spread);
    }
    free(s->workers);
    return status;
}

cp_status cp_measure_pairs(const cp_measure *measure, const cp_measuring *pairs, size_t count, double atol,
                           double rtol)
{
    if (count == 0)
        return CP_OK;
    stream s = {.atol = atol, .rtol = rtol, .count = count};
    const cp_pair **all = malloc(count * sizeof *all);
    s.items = malloc(count * sizeof *s.items);
    cp_check(all && s.items, "no memory for %zu pairs", count);
    for (size_t i = 0; i < count; i++)
        all[i] = pairs[i].pair;
    size_t allowance;
    int64_t whole = open_items(&s, measure, pairs);
    int threads = cp_blocks_threads(&allowance, measure->sides, all, count, whole);
    cp_status status = run(&s, threads, allowance, measure->sides);
    for (size_t i = 0; i < count; i++)
        cp_compare_finish(pairs[i].statistics);
    free(s.items);
    free(all);
    return status;
}

cp_status cp_measure_norm(double *norm, const cp_measure *measure, int64_t expected)
{
    const cp_source_tensor *tensor = &measure->sides->expected->tensors[expected];
    cp_tensor_result shape = {.dims = tensor->dims};
    memcpy(shape.extent, tensor->extent, sizeof shape.extent);
    cp_pair pair = {tensor->name, expected, CP_NO_TENSOR};
    cp_statistics statistics;
    CP_TRY(cp_measure_pairs(measure, &(cp_measuring){&pair, &shape, &statistics, NULL}, 1, 0, 0));
    *norm = statistics.expected_norm;
    return CP_OK;
}

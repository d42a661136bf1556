/* What is over its bound, and where. */
#include "harness/judge/blocks.h"
#include "harness/judge/crew.h"
#include "harness/judge/measure.h"
#include "harness/judge/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t elements(const cp_tensor_result *tensor)
{
    int64_t count = 1;
    for (int axis = 0; axis < tensor->dims; axis++)
        count *= tensor->extent[axis];
    return count;
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

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

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* What one thread has of a piece: how many, and marks of the positions from `position` on. */
typedef struct worker {
    cp_blocks blocks;
    int64_t over, position, positions;
    uint8_t *marks;
} worker;

typedef struct pass {
    const cp_pair *pair;
    double atol, rtol;
    cp_rows rows;
    int64_t elements, piece, over;
    position_map map;
    worker *workers;
} pass;

/* Elements of one position, or of none. */
static int64_t count_over(const pass *p, const cp_block *block, int64_t from, int64_t count, int64_t *judged)
{
    int64_t bad = 0, seen = 0;
    for (int64_t i = from; i < from + count; i++) {
        double error = fabs(block->actual[i] - block->expected[i]);
        bool looked_at = !block->places || block->places[i] != CP_PLACE_UNJUDGED;
        bool within = error <= p->atol + p->rtol * fabs(block->expected[i]); /* NaN is not */
        seen += looked_at;
        bad += looked_at && !within;
    }
    *judged += seen;
    return bad;
}

static void look_at_block(const pass *p, worker *w, const cp_block *block)
{
    int64_t width = p->map.marks ? p->map.width : block->count;
    for (int64_t done = 0; done < block->count;) {
        int64_t at = block->first + done;
        int64_t left = p->map.marks ? width - at % width : block->count;
        int64_t run = left < block->count - done ? left : block->count - done;
        int64_t judged = 0, bad = count_over(p, block, done, run, &judged);
        uint8_t found = bad > 0 ? POSITION_BAD : judged > 0 ? POSITION_GOOD : POSITION_UNJUDGED;
        w->over += bad;
        if (p->map.marks && w->marks[at / width - w->position] < found)
            w->marks[at / width - w->position] = found;
        done += run;
    }
}

static cp_status compute(void *context, int number, int64_t piece)
{
    pass *p = context;
    worker *w = &p->workers[number];
    int64_t first = piece * p->piece;
    int64_t end = p->elements - first < p->piece ? p->elements : first + p->piece;
    w->over = 0;
    if (p->map.marks) {
        w->position = first / p->map.width;
        w->positions = (end - 1) / p->map.width + 1 - w->position;
        memset(w->marks, POSITION_UNJUDGED, (size_t)w->positions);
    }
    for (int64_t at = first; at < end; at += CP_BLOCK) {
        cp_block block;
        int64_t count = end - at < CP_BLOCK ? end - at : CP_BLOCK;
        CP_TRY(cp_blocks_look(&w->blocks, &block, p->pair, p->rows, at, count, true));
        look_at_block(p, w, &block);
    }
    return CP_OK;
}

static void merge(void *context, int number, int64_t piece)
{
    pass *p = context;
    const worker *w = &p->workers[number];
    (void)piece;
    p->over += w->over;
    for (int64_t i = 0; p->map.marks && i < w->positions; i++)
        if (p->map.marks[w->position + i] < w->marks[i])
            p->map.marks[w->position + i] = w->marks[i];
}

static cp_status run(pass *p, const cp_sides *sides)
{
    size_t allowance;
    int threads = cp_blocks_threads(&allowance, sides, &p->pair, 1, p->elements);
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    cp_check(p->workers, "no memory for %d threads", threads);
    for (int w = 0; w < threads; w++) {
        cp_blocks_open(&p->workers[w].blocks, sides, allowance);
        p->workers[w].marks = p->map.marks ? malloc((size_t)(p->piece / p->map.width + 2)) : NULL;
        cp_check(!p->map.marks || p->workers[w].marks, "no memory for marks");
    }
    int64_t pieces = p->elements > 0 ? (p->elements + p->piece - 1) / p->piece : 0;
    cp_status status = cp_crew_run(threads, &(cp_crew_task){p, pieces, compute, merge});
    for (int w = 0; w < threads; w++) {
        cp_blocks_close(&p->workers[w].blocks);
        free(p->workers[w].marks);
    }
    free(p->workers);
    return status;
}

cp_status cp_measure_excess(cp_tensor_result *tensor, const cp_measure *measure, const cp_pair *pair,
                            double atol, double rtol)
{
    pass p = {
        .pair = pair, .atol = atol, .rtol = rtol, .elements = elements(tensor), .map = open_map(tensor)};
    cp_measure_rows(&p.rows, measure, tensor);
    p.piece = cp_blocks_piece(measure->sides, pair, p.elements);
    cp_status status = run(&p, measure->sides);
    tensor->over_limit = p.over;
    if (p.map.marks && p.over > 0)
        summarise(tensor, &p.map, shard_length(&measure->sides->actual->declaration, p.map.T));
    free(p.map.marks);
    return status;
}

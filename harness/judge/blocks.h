/* Pairs of tensors cut into pieces, each looked at a block at a time: what runs over the values of both sides is made of
 * these. */
#ifndef CPEQ_HARNESS_JUDGE_BLOCKS_H
#define CPEQ_HARNESS_JUDGE_BLOCKS_H

#include "harness/files/view.h"
#include "harness/judge/pairs.h"
#include "harness/judge/places.h"

enum { CP_BLOCK = 1 << 12 };

/* Elements [first, first + count) of both sides: stored floats where both are no wider, else doubles. */
typedef struct cp_block {
    int64_t first, count;
    const float *expected_floats, *actual_floats; /* NULL: given as doubles */
    const double *expected, *actual;              /* NULL: given as floats */
    const uint8_t *places;                        /* NULL: all are judged */
} cp_block;

/* One reader of pairs. */
typedef struct cp_blocks {
    const cp_sides *sides;
    cp_view views[2];
    double values[2][CP_BLOCK]; /* what had to be converted */
    uint8_t places[CP_BLOCK];
} cp_blocks;

/* `allowance`: bytes that unpacked chunks of one side may take. */
void cp_blocks_open(cp_blocks *blocks, const cp_sides *sides, size_t allowance);
void cp_blocks_close(cp_blocks *blocks);

/* At most CP_BLOCK elements. A tensor that is declared None is zero. */
cp_status cp_blocks_look(cp_blocks *blocks, cp_block *block, const cp_pair *pair, cp_rows rows, int64_t first,
                         int64_t count, bool doubles);

/* How pairs are cut: the same way whatever is run, so that sums are the same too. */
int64_t cp_blocks_piece(const cp_sides *sides, const cp_pair *pair, int64_t elements);

/* How many threads may look at such pairs at once, and what each may unpack of a side, without taking more memory than
 * the judge allows itself. */
int cp_blocks_threads(size_t *allowance, const cp_sides *sides, const cp_pair *const pairs[], size_t count,
                      int64_t elements);

#endif

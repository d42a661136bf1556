/* Where along the rows, and on which ranks, the error of a tensor lies. Told, never judged. */
#ifndef CPEQ_HARNESS_JUDGE_SPREAD_H
#define CPEQ_HARNESS_JUDGE_SPREAD_H

#include "harness/judge/pairs.h"
#include "harness/judge/places.h"

enum { CP_MOST_BINS = 2048 }; /* of all rows together, unless there are more rows */

/* [B,T]: the rank that held each position; NULL: not known. */
typedef int32_t *cp_owners;

/* Cuts the batch (the fixture's; else as long as the actual side's logits, token losses or attention output) into bins, and says which
 * rank held what: as the parts' token indices say, or for one whole file as the layout that it declares says. */
cp_owners cp_bins_open(cp_bins *bins, const cp_sides *sides, const cp_places *places);
void cp_owners_close(cp_owners owners);

/* Errors of one tensor; everything is skipped where it has no row for each position. */
typedef struct cp_spread {
    const cp_bins *bins;
    const int32_t *owners;
    int64_t width;  /* elements of a position; 0: the tensor has no positions */
    double *errors; /* [B,bins] */
    cp_sum *sums;   /* [ranks], of squares; NULL: no owners */
} cp_spread;

void cp_spread_begin(cp_spread *spread, const cp_tensor_result *tensor, const cp_bins *bins,
                     cp_owners owners);

/* The same of a piece of the tensor's elements, by one thread; begins zeroed and is used for one piece after another. */
typedef struct cp_spread_part {
    int64_t next;            /* element */
    int64_t first_bin, bins; /* those that the piece touches */
    double *errors;          /* [bins] */
    cp_sum *sums;            /* [ranks] */
    size_t error_room, ranks;
} cp_spread_part;

void cp_spread_part_begin(cp_spread_part *part, const cp_spread *spread, int64_t first, int64_t end);
void cp_spread_part_close(cp_spread_part *part);

/* The next `count` elements of a tensor that has positions; `places` as cp_compare_add has them. */
void cp_spread_add(cp_spread_part *part, const cp_spread *spread, const double *expected,
                   const double *actual, const uint8_t *places, int64_t count);
void cp_spread_merge(cp_spread *spread, const cp_spread_part *part);

/* Hands over to the tensor; to be called after a failure too. */
void cp_spread_finish(cp_spread *spread, cp_tensor_result *tensor);

#endif

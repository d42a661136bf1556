/* Which query heads attention computes together: a matter of integers, for any width. */
#ifndef CPEQ_REFERENCE_HEAD_GROUPS_H
#define CPEQ_REFERENCE_HEAD_GROUPS_H

#include "base/arena.h"

#include <stdint.h>

/* A stack: query heads that read the same head of k and the same head of v; their rows are one matrix.
 * A unit: stacks that are joined, through any chain, by reading a head of k or a head of v in common. Two units share
 * no element of dk or dv. */
typedef struct cp_head_groups {
    int32_t *heads;     /* [H]: every query head once; those of a unit together, and in it those of a stack */
    int32_t *stack_end; /* [stacks]: where in `heads` each ends */
    int32_t *unit_end;  /* [units]: where in the list of stacks each ends */
    int32_t stacks, units;
} cp_head_groups;

/* How many heads the largest stack has, `most` at the most: larger ones are cut. */
int64_t cp_largest_stack(const int32_t *key_head, const int32_t *value_head, int64_t H, int64_t most);

/* The lists are taken from `scratch`; where it measures, they are NULL and there are no stacks. */
cp_head_groups cp_head_groups_plan(const int32_t *key_head, const int32_t *value_head, int64_t H,
                                   int64_t most, cp_arena *scratch);

#endif

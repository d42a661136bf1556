/* How the gradients of gathered keys and values come home. */
#ifndef CPEQ_HARNESS_PARALLEL_GATHER_PLAN_H
#define CPEQ_HARNESS_PARALLEL_GATHER_PLAN_H

#include "base/arena.h"

typedef enum cp_gather_backward {
    CP_GATHER_BACKWARD_SUM,     /* a rank's own part of every rank's gradients, added in rank order */
    CP_GATHER_BACKWARD_SLICE,   /* its own part of its own gradients */
    CP_GATHER_BACKWARD_DOUBLED, /* twice the sum */
    CP_GATHER_BACKWARD_NONE,    /* nothing: the gather has no backward */
    CP_GATHER_BACKWARDS
} cp_gather_backward;

/* [P]: the factor of what rank r found for this rank's keys and values. In `arena`. */
double *cp_gather_weights(cp_gather_backward rule, int P, int rank, cp_arena *arena);

#endif

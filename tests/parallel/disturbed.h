/* A transport that is in the way of another: every move of a group and of its subgroups is late, and one may fail. */
#ifndef CPEQ_TESTS_PARALLEL_DISTURBED_H
#define CPEQ_TESTS_PARALLEL_DISTURBED_H

#include "tests/parallel/world.h"

typedef struct disturbance {
    world *world;
    uint64_t delays;        /* seed of waits before and after each move; 0: none */
    int failing_rank, move; /* that rank fails before its move of this number, from 1; 0: nobody */
    int moves[WORLD_RANKS]; /* that each rank has made */
} disturbance;

/* A rank body: world_body, disturbed; `context` is a disturbance. */
void disturbed_body(cp_comm *comm, void *context);

#endif

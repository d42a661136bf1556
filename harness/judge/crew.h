/* Work in pieces on several threads, whose results are taken in the order of the pieces: what comes out does not depend
 * on how many threads there are. */
#ifndef CPEQ_HARNESS_JUDGE_CREW_H
#define CPEQ_HARNESS_JUDGE_CREW_H

#include "base/status.h"

#include <stdint.h>

enum { CP_CREW_MOST = 8 };

typedef struct cp_crew_task {
    void *context;
    int64_t pieces;
    /* Piece by worker: 0 … threads − 1, each in one thread. */
    cp_status (*compute)(void *context, int worker, int64_t piece);
    /* What `compute` found, right after it in the same thread, one piece at a time and in their order. */
    void (*merge)(void *context, int worker, int64_t piece);
} cp_crew_task;

/* How many threads there is a processor for, CP_CREW_MOST at most. */
int cp_crew_size(void);

/* Runs all pieces, or up to the first that fails, and returns its status. The caller's thread is worker 0. */
cp_status cp_crew_run(int threads, const cp_crew_task *task);

#endif

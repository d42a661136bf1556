/* One block of memory for a whole run: allocations are dealt out in order and never freed singly.
 *
 * The same layout code runs twice: first over a measuring arena, which hands out NULL and counts, then over a real
 * one of the measured size. So a plan cannot disagree with what it plans. */
#ifndef CPEQ_BASE_ARENA_H
#define CPEQ_BASE_ARENA_H

#include "base/status.h"

enum { CP_ARENA_ALIGNMENT = 64 };

typedef struct cp_arena {
    unsigned char *block; /* owned; NULL when measuring */
    size_t capacity;      /* bytes; 0 when measuring */
    size_t used, peak;    /* bytes; of a growing arena: in its newest block */
    bool measuring, growing;
} cp_arena;

/* An arena that counts only. Nothing to close. */
cp_arena cp_arena_measuring(void);

/* An arena of `capacity` bytes; memory is filled with NaN patterns where the build asks for it (debug, sanitizers).
 * CP_INTERNAL when the system has not enough memory. */
cp_status cp_arena_open(cp_arena *arena, size_t capacity);
void cp_arena_close(cp_arena *arena);

/* An arena for plans and tables, whose size is not worth a plan of its own: it grows by blocks and knows no marks.
 * Stops the job when the system has no memory. */
cp_arena cp_arena_growing(void);

/* `bytes` of memory aligned to CP_ARENA_ALIGNMENT, not initialised; NULL when measuring. Stops the job when the
 * plan was too small: that is a bug of ours. */
void *cp_arena_take(cp_arena *arena, size_t bytes);

/* Scratch: everything taken after the mark is given back by the release. */
size_t cp_arena_mark(const cp_arena *arena);
void cp_arena_release(cp_arena *arena, size_t mark);

#endif

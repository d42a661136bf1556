/* Which rank holds which token: a pure index map over one padded batch, with its inverse. */
#ifndef CPEQ_BASE_TOKENS_LAYOUT_H
#define CPEQ_BASE_TOKENS_LAYOUT_H

#include "base/arena.h"

#include <stdint.h>

typedef enum cp_layout_kind { CP_LAYOUT_CONTIGUOUS, CP_LAYOUT_KINDS } cp_layout_kind;

typedef struct cp_layout {
    cp_layout_kind kind;
    int P;
    int64_t B, T;    /* T: padded to a multiple of cp_layout_multiple */
    int64_t *tokens; /* [P]: S of each rank (the same for every row) */
    int64_t **index; /* [P] -> [B,S]: global index in its row of each local token */
    int32_t *owner;  /* [B,T]: the rank that holds a token */
    int64_t *slot;   /* [B,T]: its local index there */
} cp_layout;

const char *cp_layout_name(cp_layout_kind kind);              /* "contiguous" */
bool cp_layout_named(cp_layout_kind *kind, const char *name); /* false: no such layout */

/* The padded length must be a multiple of this: P for contiguous. */
int64_t cp_layout_multiple(cp_layout_kind kind, int P);

/* Every token of [B,T] is owned once; `index` and (`owner`, `slot`) are inverses. All arrays in `arena`, which must
 * not measure. contiguous: rank r holds [rT/P, (r+1)T/P).
 * T must be a multiple of cp_layout_multiple (stops the job otherwise). */
void cp_layout_plan(cp_layout *layout, cp_layout_kind kind, int P, int64_t B, int64_t T, cp_arena *arena);

#endif

/* Which rank holds which token: a pure index map over one padded batch, with its inverse. */
#ifndef CPEQ_BASE_TOKENS_LAYOUT_H
#define CPEQ_BASE_TOKENS_LAYOUT_H

#include "base/arena.h"

#include <stdint.h>

typedef enum cp_layout_kind {
    CP_LAYOUT_CONTIGUOUS,   /* rank r holds the r-th of P equal pieces */
    CP_LAYOUT_ZIGZAG,       /* of 2P equal pieces the r-th and the (2P-1-r)-th */
    CP_LAYOUT_STRIPED,      /* blocks are dealt out in turn: block n to rank n mod P */
    CP_LAYOUT_UNEVEN,       /* pieces of given lengths, 0 among them; never padded */
    CP_LAYOUT_PER_DOCUMENT, /* every document of a row zigzagged by itself, one after the other */
    CP_LAYOUT_KINDS
} cp_layout_kind;

enum { CP_LAYOUT_CUTS = 64 };

/* A layout before it is planned. All zero: contiguous. */
typedef struct cp_layout_spec {
    cp_layout_kind kind;
    int64_t block; /* striped: tokens of a block; 0 means 1 */
    int cuts;      /* uneven: how many of … */
    int64_t cut
        [CP_LAYOUT_CUTS]; /* … these, each a rank's tokens. None: as equal as can be, the first T mod P ranks
                                    one more */
} cp_layout_spec;

const char *cp_layout_name(cp_layout_kind kind); /* "per_document" */

/* "contiguous", "zigzag", "striped", "striped:4", "uneven", "uneven:3:1:0" (commas too), "per_document".
 * CP_BAD_USAGE: no such layout (the sentence lists them), or parameters that it does not take. */
cp_status cp_layout_parse(cp_layout_spec *spec, const char *text);

/* The same form, cuts between colons, into `text`; returns it. */
enum { CP_LAYOUT_TEXT = 1024 };
const char *cp_layout_text(const cp_layout_spec *spec, char text[CP_LAYOUT_TEXT]);

/* CP_REFUSED where P ranks cannot hold rows of T tokens so: cuts that are not P, or do not add up to T. */
cp_status cp_layout_check(const cp_layout_spec *spec, int P, int64_t T);

/* Whether ranks hold tokens in another order than the row's, and whether rows may need padding. */
bool cp_layout_permutes(const cp_layout_spec *spec);
bool cp_layout_pads(const cp_layout_spec *spec);

/* Every token of [B,T] is owned once; `index` and (`owner`, `slot`) are inverses. A rank may hold no token. Planned by
 * cp_tokens_plan, since the rows' documents and padding decide it too. */
typedef struct cp_layout {
    int P;
    int64_t B, T;    /* T: padded */
    int64_t *tokens; /* [P]: S of each rank (the same for every row) */
    int64_t **index; /* [P] -> [B,S]: global index in its row of each local token */
    int32_t *owner;  /* [B,T]: the rank that holds a token */
    int64_t *slot;   /* [B,T]: its local index there */
} cp_layout;

#endif

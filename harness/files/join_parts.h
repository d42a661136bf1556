/* Do the parts of a join belong together, and where in them does each global token lie? */
#ifndef CPEQ_HARNESS_FILES_JOIN_PARTS_H
#define CPEQ_HARNESS_FILES_JOIN_PARTS_H

#include "harness/files/pool.h"
#include "harness/files/source.h"

/* Sorts the parts by rank. CP_INCOMPARABLE: a rank missing, twice or of another run; a whole dump beside others. */
cp_status cp_join_check(cp_source **parts, size_t count);

/* The union of all parts' names, sorted. */
cp_status cp_join_names(cp_pool *pool, const char ***names, size_t *name_count, cp_source *const *parts,
                        size_t count);

/* places[b · T + t] for all tokens of the batch. B and T that are 0 are set to what the parts reach. CP_INCOMPARABLE:
 * a token index outside [-1, T), a row outside [0, B), a token that two positions give or that none does. */
cp_status cp_join_places(cp_pool *pool, const cp_place **places, int64_t *B, int64_t *T,
                         cp_source *const *parts, size_t count);

/* The same of logits that are kept of some positions alone, and `kept` [B,T], 1 where they are; both NULL where no part
 * says so. Elsewhere the part is CP_NO_PART. CP_INCOMPARABLE: an index outside of the batch, or one twice. */
enum { CP_NO_PART = -1 };
cp_status cp_join_kept_places(cp_pool *pool, const cp_place **places, const uint8_t **kept, int64_t *B,
                              int64_t *T, cp_source *const *parts, size_t count);

#endif

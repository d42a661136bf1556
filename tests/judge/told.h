/* Two ranks' dumps of a world that tell what they ran. */
#ifndef CPEQ_TESTS_JUDGE_TOLD_H
#define CPEQ_TESTS_JUDGE_TOLD_H

#include "base/hash.h"
#include "tests/judge/world.h"

enum { RANKS = 2, S = 2, ITEMS = 24, TOKENS = WORLD_B * WORLD_T, PADDING = TOKENS - 1 };

/* What one rank tells; `items` first, so that a reader finds the values. */
typedef struct told {
    cp_ran items[ITEMS];
    double values[ITEMS][WORLD_ROOM];
    char digests[ITEMS][CP_HASH_TEXT];
    size_t count;
} told;

extern world told_world;
extern told told_by[RANKS];
extern const int64_t told_labels[TOKENS], told_positions[TOKENS], told_targets[TOKENS];

/* Setup and teardown: a world with labels, of which nobody tells anything. */
int told_open(void **state);
int told_close(void **state);

/* The global token at a rank's position. */
int64_t told_token(int rank, int64_t at);

/* One rank's array, which is returned to be filled, or digest of these bytes. */
double *tell_array(int rank, const char *name, cp_dtype dtype, int dims, const int64_t *extent);
void tell_digest(int rank, const char *name, const void *bytes, size_t count);

/* values[token] at each place of both ranks; returns where rank 1 has them. */
double *tell(const char *name, const int64_t *values);

/* Weights of this world are zeros; `wrong` of them get a one. */
void tell_weights(int rank, size_t wrong);

void told_attach(cp_source *source, told *all);
cp_source *told_join(void); /* both ranks' dumps */

/* Judges them, and asserts the verdict; and the first finding and its whole sentence. */
void told_expect(cp_verdict verdict);
void told_expect_first(cp_verdict verdict, const char *name, const char *words);

#endif

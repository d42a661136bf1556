/* Fixtures computed by the reference itself, in float64: consistency, not truth. */
#ifndef CPEQ_HARNESS_RUN_MAKE_H
#define CPEQ_HARNESS_RUN_MAKE_H

#include "harness/files/fixture.h"

/* Writes a fixture whose expectations are those of an unsharded float64 run. `weights` in any order; they must be
 * exactly the parameters of the configuration. `producer` and the truth attribute say "self-made". */
cp_status cp_make_fixture(const char *path, const char *config_text, const cp_weight *weights,
                          size_t weight_count, const cp_batch *batch);

/* Weights from a seed, by name: matrices N(0, 1/fan_in), embeddings 0.5 N, norm weights 1 + 0.1 N (0.1 N where the
 * family multiplies by 1 + w), biases 0.1 N, rounded to bfloat16; float32 storage. Sorted by name; freed by cp_make_weights_close. */
cp_status cp_make_weights(cp_weight **out, size_t *count, const char *config_text, const char *where,
                          uint64_t seed);
void cp_make_weights_close(cp_weight *weights, size_t count);

/* A configuration of a family, small enough to run in a blink and with every field that code branches on; NULL: no
 * such family. Static. */
const char *cp_make_config(const char *family);

/* The same configuration made small: hidden 16, 4 query heads, 2 key/value heads (as many as query heads where they
 * were equal), head_dim 8, intermediate 32, vocabulary 37, at most one layer of each kind, windows and chunks 3; every
 * other field stays. Freed by free(). */
cp_status cp_make_shrunk(char **out, const char *config_text, const char *where);

#endif

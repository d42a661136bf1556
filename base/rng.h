/* Random numbers by name and index: a value depends on (seed, name, global index) alone, so every rank makes its own
 * piece and all P agree. The generator is SplitMix64, whose state is the index; values stay the same from version to
 * version (a normal number to the last digits of the C library's logarithm and cosine). */
#ifndef CPEQ_BASE_RNG_H
#define CPEQ_BASE_RNG_H

#include <stdint.h>

typedef struct cp_rng {
    uint64_t key;
} cp_rng;

cp_rng cp_rng_named(uint64_t seed, const char *name);
uint64_t cp_rng_bits(cp_rng rng, uint64_t index);                /* 64 random bits */
double cp_rng_uniform(cp_rng rng, uint64_t index);               /* in [0, 1) */
double cp_rng_normal(cp_rng rng, uint64_t index);                /* mean 0, deviation 1; Box and Muller */
int64_t cp_rng_below(cp_rng rng, uint64_t index, int64_t bound); /* in [0, bound), bias < bound/2^64 */

#endif

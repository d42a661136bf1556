/* What becomes of a result at a named point (ops.h), one element at a time. Private to the kernels.
 *
 *                   no noise                          noise
 *   CP_ROUND_NONE   nothing: the point is not visited the neighbour above or below, as a fair coin falls
 *   CP_ROUND_BF16   the nearest bfloat16, ties even   one of the two bfloat16 around it, the likelier the nearer
 *
 * The coin is a hash of the seed, of the element's bits and of its place in its row: the same for every number of
 * threads and every tiling. Zero stays zero, so that what is not computed stays so; NaN and infinity stay. */
#ifndef CPEQ_REFERENCE_ROUNDING_H
#define CPEQ_REFERENCE_ROUNDING_H

#include "reference/precision.h"
#include "reference/vector_math.h"

/* bits' = ((bits + nearest half + (hash & spread)) − back) & keep, for every kind alike: loops have no branch. */
typedef struct cp_rounder {
    bool on; /* else nobody needs to call */
    uint32_t key[2];
    real_bits nearest, spread, back, keep;
} cp_rounder;

enum { BF16_DROPPED_BITS = 16 };

static inline cp_rounder cp_rounder_of(cp_precision precision)
{
    bool narrow = precision.rounding == CP_ROUND_BF16, noisy = precision.noise != 0;
    cp_check(!narrow || CP_SHAPE_ONLY || CP_REAL_DTYPE == CP_F32, "bfloat16 rounding of float64");
    const real_bits dropped = ((real_bits)1 << BF16_DROPPED_BITS) - 1, none = 0;
    uint64_t mixed = (precision.noise ^ (precision.noise >> 31)) * 0x9e3779b97f4a7c15U;
    return (cp_rounder){.on = narrow || noisy,
                        .key = {(uint32_t)mixed, (uint32_t)(mixed >> 32)},
                        .nearest = narrow && !noisy ? dropped : none,
                        .spread = noisy ? (narrow ? dropped : 2) : none,
                        .back = noisy && !narrow ? 1 : none,
                        .keep = narrow ? ~dropped : ~none};
}

/* Finalizer of murmur3, twice, with a key before each. */
CP_INLINE uint32_t mixed_bits(uint32_t hash)
{
    hash = (hash ^ (hash >> 16)) * 0x85ebca6bU;
    hash = (hash ^ (hash >> 13)) * 0xc2b2ae35U;
    return hash ^ (hash >> 16);
}

CP_INLINE uint32_t coin(real_bits bits, int64_t place, const cp_rounder *rounder)
{
    uint32_t folded = (uint32_t)(bits ^ (real_bits)((uint64_t)bits >> 32));
    uint32_t hash = mixed_bits(folded ^ rounder->key[0]);
    return mixed_bits(hash ^ rounder->key[1] ^ ((uint32_t)place * 0x9e3779b9U));
}

CP_INLINE real rounded(real x, int64_t place, const cp_rounder *rounder)
{
    real_bits bits = bits_of_real(x);
    real_bits half = (((rounder->nearest >> 1) + ((bits >> BF16_DROPPED_BITS) & 1U)) & rounder->nearest);
    real_bits moved = bits + half + ((real_bits)coin(bits, place, rounder) & rounder->spread) - rounder->back;
    bool kept = !(x - x == 0) || x == 0;
    return kept ? x : real_from_bits(moved & rounder->keep);
}

/* For loops that serve both: what is not on costs nothing once it is taken out of the loop. */
CP_INLINE real stored(real value, int64_t place, const cp_rounder *rounder)
{
    return rounder->on ? rounded(value, place, rounder) : value;
}

/* x[n] of a row, where it stands; `first`: the place of x[0] in it. */
CP_INLINE void round_row(real *x, int64_t n, int64_t first, const cp_rounder *rounder)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = rounded(x[i], first + i, rounder);
}

#endif

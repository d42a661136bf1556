/* The sums of a tile of ordinary numbers: what the judge spends its time on. Plain C on vectors, compiled twice where
 * the processor may have wider ones; both add in the same order, so the results are the same to the bit. */
#ifndef CPEQ_HARNESS_JUDGE_TILE_H
#define CPEQ_HARNESS_JUDGE_TILE_H

#include <stdbool.h>
#include <stdint.h>

/* A tile is short enough that plain sums inside it lose nothing that matters, and stays in the first cache. LANES sums
 * run side by side. */
enum { CP_TILE = 512, CP_TILE_LANES = 4 };

typedef struct cp_tile_sums {
    double expected_squares, actual_squares, products, error_squares, bound_squares;
    double expected, actual, error,
        bound; /* the largest magnitudes; what is not finite shows in the sums alone */
    int64_t mismatches;
    bool candidate; /* some error is at least `worst` times its bound */
} cp_tile_sums;

/* Of `count` elements, a multiple of CP_TILE_LANES. Bounds are looked at only where one of atol and rtol is above 0. */
void cp_tile_doubles(cp_tile_sums *sums, const double *expected, const double *actual, int count, double atol,
                     double rtol, double worst);
void cp_tile_floats(cp_tile_sums *sums, const float *expected, const float *actual, int count, double atol,
                    double rtol, double worst);

#endif

#include "harness/judge/tile.h"

#include <string.h>

typedef struct tile_bounds {
    double atol, rtol, worst;
} tile_bounds;

typedef struct tile_lanes {
    double expected_squares[CP_TILE_LANES], actual_squares[CP_TILE_LANES], products[CP_TILE_LANES];
    double error_squares[CP_TILE_LANES], bound_squares[CP_TILE_LANES];
    double expected[CP_TILE_LANES], actual[CP_TILE_LANES], error[CP_TILE_LANES], bound[CP_TILE_LANES];
    int64_t equal[CP_TILE_LANES], over[CP_TILE_LANES]; /* -1 for each element that is */
} tile_lanes;                                          /* without bounds theirs are not set */

/* ---- vectors of two: every processor has them, or the compiler makes do ---- */

#define WIDTH 2
#define FOR_WIDTH

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define LARGER(a, b)       _mm_max_pd(a, b)
#define LOAD_FLOATS(from)  _mm_cvtps_pd(_mm_castpd_ps(_mm_load_sd((const double *)(const void *)(from))))
#define LOAD_DOUBLES(from) _mm_loadu_pd(from)
#else
typedef double pair __attribute__((vector_size(2 * sizeof(double))));

static inline pair larger_of(pair a, pair b)
{
    return (pair){a[0] > b[0] ? a[0] : b[0], a[1] > b[1] ? a[1] : b[1]};
}

#define LARGER(a, b) larger_of(a, b)
#define LOAD_FLOATS(from)                                                                                    \
    (pair)                                                                                                   \
    {                                                                                                        \
        (from)[0], (from)[1]                                                                                 \
    }
#define LOAD_DOUBLES(from)                                                                                   \
    (pair)                                                                                                   \
    {                                                                                                        \
        (from)[0], (from)[1]                                                                                 \
    }
#endif

#define REAL       double
#define LOAD       LOAD_DOUBLES
#define NAME(name) name##_2_doubles
#include "harness/judge/tile_sums.def"
#undef REAL
#undef LOAD
#undef NAME

#define REAL       float
#define LOAD       LOAD_FLOATS
#define NAME(name) name##_2_floats
#include "harness/judge/tile_sums.def"
#undef REAL
#undef LOAD
#undef NAME

#undef WIDTH
#undef FOR_WIDTH
#undef LARGER

/* ---- vectors of four, where the processor has them ---- */

#if defined(__x86_64__) && defined(__GNUC__)
#define WIDTH        4
#define FOR_WIDTH    __attribute__((target("avx2")))
#define LARGER(a, b) _mm256_max_pd(a, b)

#define REAL       double
#define LOAD       _mm256_loadu_pd
#define NAME(name) name##_4_doubles
#include "harness/judge/tile_sums.def"
#undef REAL
#undef LOAD
#undef NAME

#define REAL       float
#define LOAD(from) _mm256_cvtps_pd(_mm_loadu_ps(from))
#define NAME(name) name##_4_floats
#include "harness/judge/tile_sums.def"

#define IS_WIDE __builtin_cpu_supports("avx2")
#else
#define sum_4_doubles sum_2_doubles
#define sum_4_floats  sum_2_floats
#define IS_WIDE       false
#endif

/* ---- a tile ---- */

static double total_of(const double lane[CP_TILE_LANES])
{
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static double largest_of(const double lane[CP_TILE_LANES])
{
    double largest = 0;
    for (int i = 0; i < CP_TILE_LANES; i++)
        largest = lane[i] > largest ? lane[i] : largest;
    return largest;
}

static void join_lanes(cp_tile_sums *sums, const tile_lanes *lanes, int count, const tile_bounds *given)
{
    const int64_t *equal = lanes->equal;
    const int64_t *over = lanes->over;
    sums->expected_squares = total_of(lanes->expected_squares);
    sums->actual_squares = total_of(lanes->actual_squares);
    sums->products = total_of(lanes->products);
    sums->error_squares = total_of(lanes->error_squares);
    sums->expected = largest_of(lanes->expected);
    sums->actual = largest_of(lanes->actual);
    sums->error = largest_of(lanes->error);
    sums->mismatches = count + equal[0] + equal[1] + equal[2] + equal[3];
    sums->bound_squares = given ? total_of(lanes->bound_squares) : 0;
    sums->bound = given ? largest_of(lanes->bound) : 0;
    sums->candidate = given && (over[0] | over[1] | over[2] | over[3]) != 0;
}

void cp_tile_doubles(cp_tile_sums *sums, const double *expected, const double *actual, int count, double atol,
                     double rtol, double worst)
{
    tile_lanes lanes;
    tile_bounds bounds = {atol, rtol, worst};
    const tile_bounds *given = atol > 0 || rtol > 0 ? &bounds : NULL;
    if (IS_WIDE)
        sum_4_doubles(&lanes, expected, actual, count, given);
    else
        sum_2_doubles(&lanes, expected, actual, count, given);
    join_lanes(sums, &lanes, count, given);
}

void cp_tile_floats(cp_tile_sums *sums, const float *expected, const float *actual, int count, double atol,
                    double rtol, double worst)
{
    tile_lanes lanes;
    tile_bounds bounds = {atol, rtol, worst};
    const tile_bounds *given = atol > 0 || rtol > 0 ? &bounds : NULL;
    if (IS_WIDE)
        sum_4_floats(&lanes, expected, actual, count, given);
    else
        sum_2_floats(&lanes, expected, actual, count, given);
    join_lanes(sums, &lanes, count, given);
}

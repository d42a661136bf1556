#include "harness/judge/compare.h"

#include "harness/judge/tile.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { TILE = CP_TILE, LANES = CP_TILE_LANES };

/* A square of anything in 2^±SAFE, summed over any number of elements that fits a disk, stays a normal number. */
enum { SAFE = 400, LARGEST_SCALE = 1022 };

typedef struct block {
    int count; /* a multiple of LANES: what is left out, or beyond the end, is zero */
    double expected[TILE], actual[TILE], error[TILE], bound[TILE];
} block;

void cp_compare_begin(cp_statistics *statistics, double atol, double rtol)
{
    *statistics = (cp_statistics){
        .atol = atol,
        .rtol = rtol,
        .worst.index = -1,
        .first_nonfinite.index = -1,
        .first_violation.index = -1,
    };
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* ---- sums ---- */

void cp_sum_add(cp_sum *sum, double value, int exponent)
{
    if (value == 0)
        return;
    if (sum->high == 0 && sum->low == 0)
        sum->exponent = exponent;
    if (exponent > sum->exponent) {
        sum->high = ldexp(sum->high, sum->exponent - exponent);
        sum->low = ldexp(sum->low, sum->exponent - exponent);
        sum->exponent = exponent;
    } else if (exponent < sum->exponent) {
        value = ldexp(value, exponent - sum->exponent);
    }
    double total = sum->high + value; /* Neumaier: `low` collects what `total` cannot hold */
    if (fabs(sum->high) >= fabs(value))
        sum->low += (sum->high - total) + value;
    else
        sum->low += (value - total) + sum->high;
    sum->high = total;
}

void cp_sum_merge(cp_sum *sum, const cp_sum *other)
{
    cp_sum_add(sum, other->high, other->exponent);
    cp_sum_add(sum, other->low, other->exponent);
}

static double sum_value(const cp_sum *sum)
{
    return sum->high + sum->low;
}

/* Exponents of squares are even: each is twice a scale. */
static double sum_root(const cp_sum *squares)
{
    return smaller(ldexp(sqrt(larger(sum_value(squares), 0)), squares->exponent / 2), DBL_MAX);
}

/* The power of two by which values up to `magnitude` are divided before they are multiplied. */
static int scale_of(double magnitude)
{
    if (magnitude == 0)
        return 0;
    int exponent = ilogb(magnitude);
    if (exponent >= -SAFE && exponent <= SAFE)
        return 0;
    return exponent > LARGEST_SCALE ? LARGEST_SCALE : exponent < -LARGEST_SCALE ? -LARGEST_SCALE : exponent;
}

static double largest(const double *values, int count)
{
    double magnitude[LANES] = {0};
    for (int i = 0; i < count; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            magnitude[lane] = larger(fabs(values[i + lane]), magnitude[lane]);
    }
    return larger(larger(magnitude[0], magnitude[1]), larger(magnitude[2], magnitude[3]));
}

static void add_products(cp_sum *sum, const double *a, int scale_a, const double *b, int scale_b, int count)
{
    double factor_a = ldexp(1, -scale_a);
    double factor_b = ldexp(1, -scale_b);
    double total[LANES] = {0};
    for (int i = 0; i < count; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            total[lane] += (a[i + lane] * factor_a) * (b[i + lane] * factor_b);
    }
    cp_sum_add(sum, (total[0] + total[1]) + (total[2] + total[3]), scale_a + scale_b);
}

/* ---- the worst ---- */

static int64_t next_index(const cp_statistics *statistics)
{
    return statistics->first + statistics->judged + statistics->unjudged;
}

static double error_of(double expected, double actual)
{
    return smaller(fabs(actual - expected), DBL_MAX);
}

static double bound_of(const cp_statistics *statistics, double expected)
{
    return smaller(statistics->atol + statistics->rtol * fabs(expected), DBL_MAX);
}

static double excess_of(const cp_statistics *statistics, double error, double bound)
{
    if (statistics->rtol == 0)
        return error;
    return bound > 0 ? error / bound : error > 0 ? HUGE_VAL : 0;
}

static void note_worst(cp_statistics *statistics, const double *expected, const double *actual, int count,
                       int64_t first)
{
    for (int i = 0; i < count; i++) {
        double error = error_of(expected[i], actual[i]);
        double bound = bound_of(statistics, expected[i]);
        double excess = excess_of(statistics, error, bound);
        if (excess > statistics->worst_excess) {
            statistics->worst_excess = excess;
            statistics->largest_error = error;
            statistics->worst_bound = bound;
            statistics->worst = (cp_element){first + i, expected[i], actual[i]};
        }
    }
}

/* ---- a tile of ordinary numbers ---- */

static bool needs_no_scale(double magnitude)
{
    return magnitude == 0 || (magnitude >= 0x1p-400 && magnitude < 0x1p401);
}

/* False: something in it is not finite, or needs a scale, and nothing is to be added. */
static bool is_ordinary(const cp_tile_sums *tile)
{
    bool finite = tile->expected_squares + tile->actual_squares <= DBL_MAX; /* not where one is NaN */
    return finite && needs_no_scale(tile->expected) && needs_no_scale(tile->actual) &&
           needs_no_scale(tile->error) && needs_no_scale(tile->bound);
}

static bool may_be_worst(const cp_statistics *statistics, const cp_tile_sums *tile)
{
    if (tile->error == 0)
        return false;
    return statistics->rtol > 0 ? tile->candidate : tile->error > statistics->worst_excess;
}

/* A little below the largest excess yet: rounding lets no worse element slip. */
static double nearly_worst(const cp_statistics *statistics)
{
    return statistics->worst_excess * (1 - DBL_EPSILON);
}

static void add_ordinary(cp_statistics *statistics, const cp_tile_sums *tile, int count)
{
    cp_sum_add(&statistics->expected_squares, tile->expected_squares, 0);
    cp_sum_add(&statistics->actual_squares, tile->actual_squares, 0);
    cp_sum_add(&statistics->products, tile->products, 0);
    cp_sum_add(&statistics->error_squares, tile->error_squares, 0);
    cp_sum_add(&statistics->bound_squares, tile->bound_squares, 0);
    statistics->judged += count;
    statistics->mismatches += tile->mismatches;
    statistics->largest_expected = larger(tile->expected, statistics->largest_expected);
    statistics->largest_actual = larger(tile->actual, statistics->largest_actual);
}

static bool add_doubles(cp_statistics *statistics, const double *expected, const double *actual, int count)
{
    cp_tile_sums tile;
    cp_tile_doubles(&tile, expected, actual, count, statistics->atol, statistics->rtol,
                    nearly_worst(statistics));
    if (!is_ordinary(&tile))
        return false;
    if (may_be_worst(statistics, &tile))
        note_worst(statistics, expected, actual, count, next_index(statistics));
    add_ordinary(statistics, &tile, count);
    return true;
}

/* ---- any tile ---- */

/* Whether an element takes part in the sums; counts it either way. */
static bool admit(cp_statistics *statistics, int64_t index, double expected, double actual, int place)
{
    if (place == CP_PLACE_UNJUDGED) {
        statistics->unjudged++;
        return false;
    }
    statistics->judged++;
    cp_element here = {index, expected, actual};
    if (place == CP_PLACE_ZERO && !(expected == 0 && actual == 0)) {
        if (statistics->zero_violations++ == 0)
            statistics->first_violation = here;
    }
    if (isfinite(expected) && isfinite(actual))
        return true;
    if (statistics->nonfinite_expected + statistics->nonfinite_actual == 0)
        statistics->first_nonfinite = here;
    statistics->nonfinite_expected += !isfinite(expected);
    statistics->nonfinite_actual += !isfinite(actual);
    return false;
}

/* Nearly every tile: all judged, all finite. */
static bool is_plain(const double *expected, const double *actual, const uint8_t *places, int count)
{
    int odd = 0;
    for (int i = 0; i < count; i++)
        odd += !(fabs(expected[i]) <= DBL_MAX) + !(fabs(actual[i]) <= DBL_MAX);
    for (int i = 0; places && i < count; i++)
        odd += places[i] != CP_PLACE_JUDGED;
    return odd == 0;
}

static void fill_tile(block *tile, cp_statistics *statistics, const double *expected, const double *actual,
                      const uint8_t *places, int count)
{
    int64_t first = next_index(statistics);
    bool plain = is_plain(expected, actual, places, count);
    statistics->judged += plain ? count : 0;
    tile->count = (count + LANES - 1) / LANES * LANES;
    for (int i = 0; i < tile->count; i++) {
        bool admitted = i < count && (plain || admit(statistics, first + i, expected[i], actual[i],
                                                     places ? places[i] : CP_PLACE_JUDGED));
        tile->expected[i] = admitted ? expected[i] : 0;
        tile->actual[i] = admitted ? actual[i] : 0;
        tile->bound[i] = admitted ? statistics->atol : 0;
    }
    for (int i = 0; i < tile->count; i++) {
        tile->error[i] = smaller(fabs(tile->actual[i] - tile->expected[i]), DBL_MAX);
        tile->bound[i] = smaller(tile->bound[i] + statistics->rtol * fabs(tile->expected[i]), DBL_MAX);
    }
}

static int64_t count_mismatches(const block *tile)
{
    int count = 0;
    for (int i = 0; i < tile->count; i++)
        count += tile->error[i] != 0;
    return count;
}

static void add_tile(cp_statistics *statistics, const block *tile, int64_t first)
{
    double magnitude_e = largest(tile->expected, tile->count);
    double magnitude_a = largest(tile->actual, tile->count);
    double magnitude_d = largest(tile->error, tile->count);
    int e = scale_of(magnitude_e);
    int a = scale_of(magnitude_a);
    int d = scale_of(magnitude_d);
    int b = scale_of(largest(tile->bound, tile->count));
    add_products(&statistics->expected_squares, tile->expected, e, tile->expected, e, tile->count);
    add_products(&statistics->actual_squares, tile->actual, a, tile->actual, a, tile->count);
    add_products(&statistics->products, tile->actual, a, tile->expected, e, tile->count);
    add_products(&statistics->error_squares, tile->error, d, tile->error, d, tile->count);
    add_products(&statistics->bound_squares, tile->bound, b, tile->bound, b, tile->count);
    statistics->mismatches += count_mismatches(tile);
    if (statistics->rtol > 0 || magnitude_d > statistics->worst_excess)
        note_worst(statistics, tile->expected, tile->actual, tile->count, first);
    statistics->largest_expected = larger(magnitude_e, statistics->largest_expected);
    statistics->largest_actual = larger(magnitude_a, statistics->largest_actual);
}

static bool holds_only(const uint8_t *places, uint8_t place, int count)
{
    int other = 0;
    for (int i = 0; i < count; i++)
        other += places[i] != place;
    return other == 0;
}

static void add_any(cp_statistics *statistics, const double *expected, const double *actual,
                    const uint8_t *places, int count)
{
    if (places && holds_only(places, CP_PLACE_UNJUDGED, count)) {
        statistics->unjudged += count;
        return;
    }
    bool whole = count % LANES == 0 && (!places || holds_only(places, CP_PLACE_JUDGED, count));
    if (whole && add_doubles(statistics, expected, actual, count))
        return;
    int64_t first = next_index(statistics);
    block tile;
    fill_tile(&tile, statistics, expected, actual, places, count);
    add_tile(statistics, &tile, first);
}

void cp_compare_add(cp_statistics *statistics, const double *expected, const double *actual,
                    const uint8_t *places, int64_t count)
{
    for (int64_t begin = 0; begin < count; begin += TILE) {
        int length = count - begin < TILE ? (int)(count - begin) : TILE;
        add_any(statistics, expected + begin, actual + begin, places ? places + begin : NULL, length);
    }
}

static void add_floats(cp_statistics *statistics, const float *expected, const float *actual,
                       const uint8_t *places, int count)
{
    cp_tile_sums tile = {0};
    bool whole = count % LANES == 0 && (!places || holds_only(places, CP_PLACE_JUDGED, count));
    if (whole)
        cp_tile_floats(&tile, expected, actual, count, statistics->atol, statistics->rtol,
                       nearly_worst(statistics));
    bool ordinary = whole && is_ordinary(&tile);
    if (ordinary && !may_be_worst(statistics, &tile)) {
        add_ordinary(statistics, &tile, count);
        return;
    }
    double e[TILE], a[TILE];
    for (int i = 0; i < count; i++) {
        e[i] = expected[i];
        a[i] = actual[i];
    }
    add_any(statistics, e, a, places, count);
}

void cp_compare_add_floats(cp_statistics *statistics, const float *expected, const float *actual,
                           const uint8_t *places, int64_t count)
{
    for (int64_t begin = 0; begin < count; begin += TILE) {
        int length = count - begin < TILE ? (int)(count - begin) : TILE;
        add_floats(statistics, expected + begin, actual + begin, places ? places + begin : NULL, length);
    }
}

void cp_compare_merge(cp_statistics *statistics, const cp_statistics *next)
{
    if (statistics->nonfinite_expected + statistics->nonfinite_actual == 0)
        statistics->first_nonfinite = next->first_nonfinite;
    if (statistics->zero_violations == 0)
        statistics->first_violation = next->first_violation;
    statistics->judged += next->judged;
    statistics->unjudged += next->unjudged;
    statistics->mismatches += next->mismatches;
    statistics->nonfinite_expected += next->nonfinite_expected;
    statistics->nonfinite_actual += next->nonfinite_actual;
    statistics->zero_violations += next->zero_violations;
    if (next->worst_excess > statistics->worst_excess) {
        statistics->worst = next->worst;
        statistics->largest_error = next->largest_error;
        statistics->worst_bound = next->worst_bound;
        statistics->worst_excess = next->worst_excess;
    }
    statistics->largest_expected = larger(next->largest_expected, statistics->largest_expected);
    statistics->largest_actual = larger(next->largest_actual, statistics->largest_actual);
    cp_sum_merge(&statistics->expected_squares, &next->expected_squares);
    cp_sum_merge(&statistics->actual_squares, &next->actual_squares);
    cp_sum_merge(&statistics->error_squares, &next->error_squares);
    cp_sum_merge(&statistics->products, &next->products);
    cp_sum_merge(&statistics->bound_squares, &next->bound_squares);
}

double cp_sum_add_squares(cp_sum *sum, const double *values, int64_t count)
{
    double whole = 0;
    for (int64_t begin = 0; begin < count; begin += TILE) {
        double padded[TILE] = {0};
        int length = count - begin < TILE ? (int)(count - begin) : TILE;
        memcpy(padded, values + begin, (size_t)length * sizeof *padded);
        int room = (length + LANES - 1) / LANES * LANES;
        double magnitude = largest(padded, room);
        int scale = scale_of(magnitude);
        add_products(sum, padded, scale, padded, scale, room);
        whole = larger(magnitude, whole);
    }
    return whole;
}

void cp_compare_finish(cp_statistics *statistics)
{
    const cp_sum *ee = &statistics->expected_squares;
    const cp_sum *aa = &statistics->actual_squares;
    const cp_sum *ae = &statistics->products;
    statistics->expected_norm = sum_root(ee);
    statistics->actual_norm = sum_root(aa);
    statistics->error_norm = sum_root(&statistics->error_squares);
    statistics->bound_norm = sum_root(&statistics->bound_squares);
    statistics->factor = statistics->cosine = NAN;
    double ee_value = sum_value(ee);
    double aa_value = sum_value(aa);
    if (ee_value > 0)
        statistics->factor = ldexp(sum_value(ae) / ee_value, ae->exponent - ee->exponent);
    if (ee_value > 0 && aa_value > 0)
        statistics->cosine = ldexp(sum_value(ae) / (sqrt(ee_value) * sqrt(aa_value)),
                                   ae->exponent - ee->exponent / 2 - aa->exponent / 2);
}

/* Statistics of two blocks of numbers in one pass: pure, without files, names or limits of its own.
 *
 * Elements that are not finite on either side are counted and then left out of every sum, so that one NaN cannot hide
 * what the others do. An error |actual − expected| that overflows counts as DBL_MAX. Sums are good to 3e-14 for any
 * number of elements and carry their own exponent: values near 1e300 or 1e-300 neither overflow nor vanish when
 * squared. */
#ifndef CPEQ_HARNESS_JUDGE_COMPARE_H
#define CPEQ_HARNESS_JUDGE_COMPARE_H

#include <stdint.h>

/* What an element is to the judge. */
enum {
    CP_PLACE_JUDGED,
    CP_PLACE_UNJUDGED, /* may hold anything, NaN too: counted, never looked at */
    CP_PLACE_ZERO      /* judged, and exactly zero on both sides */
};

typedef struct cp_sum {
    double high, low; /* the sum is (high + low)·2^exponent */
    int exponent;
} cp_sum;

typedef struct cp_element {
    int64_t index; /* flat; -1: no such element */
    double expected, actual;
} cp_element;

typedef struct cp_statistics {
    double atol, rtol; /* the bound of an element is atol + rtol·|expected| */

    int64_t first; /* flat index of the first element that was added; 0, or set after cp_compare_begin */
    int64_t judged, unjudged;
    int64_t mismatches; /* elements that are not equal */
    int64_t nonfinite_expected, nonfinite_actual, zero_violations;
    cp_element worst; /* the largest error; where rtol is given, the largest in units of its bound */
    double largest_error, worst_bound;       /* of that element */
    double worst_excess;                     /* what makes it the worst */
    double largest_expected, largest_actual; /* magnitudes */
    cp_element first_nonfinite, first_violation;
    cp_sum expected_squares, actual_squares, error_squares, products, bound_squares;

    /* set by cp_compare_finish */
    double expected_norm, actual_norm, error_norm, bound_norm; /* Frobenius; at most DBL_MAX */
    double factor, cosine; /* <actual,expected>/<expected,expected>; NaN where undefined */
} cp_statistics;

void cp_compare_begin(cp_statistics *statistics, double atol, double rtol);

/* The next `count` elements. `places` holds CP_PLACE_… for each; NULL: all are judged. */
void cp_compare_add(cp_statistics *statistics, const double *expected, const double *actual,
                    const uint8_t *places, int64_t count);

/* The same to the bit, of float32. */
void cp_compare_add_floats(cp_statistics *statistics, const float *expected, const float *actual,
                           const uint8_t *places, int64_t count);

/* What was counted behind `statistics`, by itself, up to its end. Both have the same bounds. */
void cp_compare_merge(cp_statistics *statistics, const cp_statistics *next);

void cp_compare_finish(cp_statistics *statistics);

/* value·2^exponent more; the exponents of a sum of squares are even. */
void cp_sum_add(cp_sum *sum, double value, int exponent);
void cp_sum_merge(cp_sum *sum, const cp_sum *other);

/* The squares of finite values. Returns the largest magnitude. */
double cp_sum_add_squares(cp_sum *sum, const double *values, int64_t count);

#endif

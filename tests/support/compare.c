#include "tests/support/support.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

test_verdict test_failure(const char *format, ...)
{
    test_verdict verdict = {.fails = true};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict.text, sizeof verdict.text, format, arguments);
    va_end(arguments);
    return verdict;
}

/* fmax() would hide a NaN: what is not finite is counted before anything is compared. */
static int64_t non_finite(const double *values, int64_t count, int64_t *first)
{
    int64_t found = 0;
    for (int64_t i = count - 1; i >= 0; i--)
        if (!isfinite(values[i])) {
            found++;
            *first = i;
        }
    return found;
}

test_verdict test_compare(const double *actual, const double *expected, int64_t count, double absolute,
                          double relative)
{
    int64_t first = 0;
    int64_t bad = non_finite(expected, count, &first);
    if (bad > 0)
        return test_failure("%" PRId64 " expected values are not finite, first [%" PRId64 "] = %g", bad,
                            first, expected[first]);
    bad = non_finite(actual, count, &first);
    if (bad > 0)
        return test_failure("%" PRId64 " of %" PRId64 " values are not finite, first [%" PRId64
                            "] = %g, expected %g",
                            bad, count, first, actual[first], expected[first]);
    double largest = 0, worst = -1;
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs(actual[i] - expected[i]);
        largest = fmax(largest, fabs(expected[i]));
        if (error > worst) {
            worst = error;
            at = i;
        }
    }
    double limit = absolute + relative * largest;
    if (worst <= limit)
        return (test_verdict){0};
    return test_failure("[%" PRId64 "] of %" PRId64 ": %.17g, expected %.17g: error %.3g, limit %.3g", at,
                        count, actual[at], expected[at], worst, limit);
}

static const char *element(cp_tensor tensor, int64_t number)
{
    int64_t offset = 0;
    for (int axis = tensor.dims - 1; axis >= 0; axis--) {
        offset += number % tensor.extent[axis] * tensor.stride[axis];
        number /= tensor.extent[axis];
    }
    return (const char *)tensor.data + offset * (int64_t)cp_dtype_bytes(tensor.dtype);
}

double *test_doubles(cp_tensor tensor)
{
    int64_t count = cp_tensor_count(tensor);
    double *values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
    cp_check(values, "%" PRId64 " values", count);
    for (int64_t i = 0; i < count; i++)
        cp_dtype_to_double(&values[i], element(tensor, i), tensor.dtype, 1);
    return values;
}

static test_verdict compare_shapes(cp_tensor actual, cp_tensor expected)
{
    char a[CP_SHAPE_TEXT], e[CP_SHAPE_TEXT];
    if (cp_tensor_same_shape(actual, expected))
        return (test_verdict){0};
    return test_failure("shape %s, expected %s", cp_shape_text(a, actual.dims, actual.extent),
                        cp_shape_text(e, expected.dims, expected.extent));
}

test_verdict test_compare_tensors(cp_tensor actual, cp_tensor expected, double absolute, double relative)
{
    test_verdict verdict = compare_shapes(actual, expected);
    if (verdict.fails)
        return verdict;
    double *a = test_doubles(actual);
    double *e = test_doubles(expected);
    verdict = test_compare(a, e, cp_tensor_count(expected), absolute, relative);
    free(a);
    free(e);
    return verdict;
}

test_verdict test_compare_bitwise(cp_tensor actual, cp_tensor expected)
{
    test_verdict verdict = compare_shapes(actual, expected);
    if (verdict.fails)
        return verdict;
    if (actual.dtype != expected.dtype)
        return test_failure("%s, expected %s", cp_dtype_name(actual.dtype), cp_dtype_name(expected.dtype));
    int64_t count = cp_tensor_count(expected), different = 0, first = 0;
    for (int64_t i = count - 1; i >= 0; i--)
        if (memcmp(element(actual, i), element(expected, i), cp_dtype_bytes(actual.dtype)) != 0) {
            different++;
            first = i;
        }
    if (different == 0)
        return verdict;
    double a, e;
    cp_dtype_to_double(&a, element(actual, first), actual.dtype, 1);
    cp_dtype_to_double(&e, element(expected, first), expected.dtype, 1);
    return test_failure("%" PRId64 " of %" PRId64 " elements differ, first [%" PRId64
                        "]: %.17g, expected %.17g",
                        different, count, first, a, e);
}

void test_assert_verdict(test_verdict verdict, const char *file, int line)
{
    if (!verdict.fails)
        return;
    print_error("%s\n", verdict.text);
    _fail(file, line);
}

void test_assert_near(double actual, double expected, double absolute, const char *what, const char *file,
                      int line)
{
    test_verdict verdict = test_compare(&actual, &expected, 1, absolute, 0);
    if (verdict.fails)
        print_error("%s: ", what);
    test_assert_verdict(verdict, file, line);
}

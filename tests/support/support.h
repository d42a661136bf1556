/* What every test includes: cmocka, and the assertions and helpers that it has not.
 *
 * Only the main thread asserts. The body of a rank returns a test_verdict, which the main thread hands to
 * assert_verdict. */
#ifndef CPEQ_TESTS_SUPPORT_SUPPORT_H
#define CPEQ_TESTS_SUPPORT_SUPPORT_H

#include "base/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- statuses ---------------------------------------------------------------------------------------------------- */

#define assert_ok(call) test_assert_ok(call, #call, __FILE__, __LINE__)
/* The call gives `code`, and its sentence holds `words`. */
#define assert_status(call, code, words) test_assert_status(call, code, words, #call, __FILE__, __LINE__)
/* body(argument) stops the job with status 4, and its sentence holds `words`. It runs in a process of its own. */
#define assert_stops(body, argument, words) test_assert_stops(body, argument, words, __FILE__, __LINE__)
#define assert_text_holds(text, words)      test_assert_text_holds(text, words, __FILE__, __LINE__)

void test_assert_ok(cp_status status, const char *call, const char *file, int line);
void test_assert_status(cp_status status, cp_status code, const char *words, const char *call,
                        const char *file, int line);
void test_assert_stops(void (*body)(void *argument), void *argument, const char *words, const char *file,
                       int line);
void test_assert_text_holds(const char *text, const char *words, const char *file, int line);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

enum { TEST_TEXT = 512 };

typedef struct test_verdict {
    bool fails;
    char text[TEST_TEXT]; /* one sentence where it fails */
} test_verdict;

/* |actual[i] − expected[i]| ≤ absolute + relative · max |expected|, and everything finite. */
test_verdict test_compare(const double *actual, const double *expected, int64_t count, double absolute,
                          double relative);
/* The same for tensors of any dtype and any strides; shapes must agree. */
test_verdict test_compare_tensors(cp_tensor actual, cp_tensor expected, double absolute, double relative);
/* Every byte of every element. */
test_verdict test_compare_bitwise(cp_tensor actual, cp_tensor expected);
test_verdict test_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define assert_verdict(verdict) test_assert_verdict(verdict, __FILE__, __LINE__)
#define assert_near(actual, expected, absolute)                                                              \
    test_assert_near(actual, expected, absolute, #actual, __FILE__, __LINE__)
#define assert_tensors_near(actual, expected, absolute, relative)                                            \
    assert_verdict(test_compare_tensors(actual, expected, absolute, relative))
#define assert_tensors_equal(actual, expected) assert_verdict(test_compare_bitwise(actual, expected))

void test_assert_verdict(test_verdict verdict, const char *file, int line);
void test_assert_near(double actual, double expected, double absolute, const char *what, const char *file,
                      int line);

/* The elements of a tensor in index order, as doubles; freed by the caller. */
double *test_doubles(cp_tensor tensor);

/* ---- randomness and files ---------------------------------------------------------------------------------------- */

/* CPEQ_TEST_SEED where it is set, else a constant; printed, so that a failure can be repeated. */
uint64_t test_seed(void);

/* A new empty directory; test_remove_directory takes it away with all that is in it, and frees the path. */
char *test_new_directory(void);
void test_remove_directory(char *path);

#endif

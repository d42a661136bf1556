#include "harness/files/dump.h"
#include "harness/files/h5file.h"
#include "harness/judge/crew.h"
#include "harness/judge/diff.h"
#include "tests/judge/groups.h"
#include "tests/support/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- pieces in order --------------------------------------------------------------------------------------------- */

enum { PIECES = 300 };

typedef struct orders {
    int64_t found[CP_CREW_MOST], merged, bad; /* a piece that fails; -1: none */
    bool ordered;
} orders;

static cp_status compute(void *context, int worker, int64_t piece)
{
    orders *o = context;
    o->found[worker] = piece;
    if (o->bad >= 0 && piece >= o->bad)
        return cp_fail(CP_BAD_INPUT, "piece %lld", (long long)piece);
    return CP_OK;
}

static void merge(void *context, int worker, int64_t piece)
{
    orders *o = context;
    o->ordered = o->ordered && o->found[worker] == piece && o->merged == piece;
    o->merged++;
}

static void pieces_are_merged_in_order(void **state)
{
    (void)state;
    for (int threads = 1; threads <= CP_CREW_MOST; threads++) {
        orders o = {.bad = -1, .ordered = true};
        assert_ok(cp_crew_run(threads, &(cp_crew_task){&o, PIECES, compute, merge}));
        assert_true(o.ordered);
        assert_int_equal(o.merged, PIECES);
        /* of several that fail it is the first, as one thread would find it */
        o = (orders){.bad = 200, .ordered = true};
        assert_status(cp_crew_run(threads, &(cp_crew_task){&o, PIECES, compute, merge}), CP_BAD_INPUT,
                      "piece 200");
        assert_true(o.ordered);
        assert_int_equal(o.merged, 200);
    }
}

/* ---- a large pair ------------------------------------------------------------------------------------------------ */

/* Holes of a sparse file are read as zeros and cost nothing to write. Sanitizers keep notes of every byte that is read,
 * so there the pair is small and memory is not looked at. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROWS = 512, MOST_ANONYMOUS = INT32_MAX };
#else
enum { ROWS = 16384, MOST_ANONYMOUS = 64 << 20 };
#endif
enum { COLUMNS = 4096 };

static const char NAME[] = "/grads/model.norm.weight";

static void make_dump(const char *path, float last)
{
    cp_h5 *file;
    const int64_t extent[] = {ROWS, COLUMNS};
    const float first = 1;
    int64_t count = (int64_t)ROWS * COLUMNS;
    assert_ok(cp_h5_create(&file, path));
    assert_ok(cp_h5_set_text(file, "/", "format", "cpeq"));
    assert_ok(cp_h5_set_integer(file, "/", "format_version", 1));
    assert_ok(cp_h5_set_text(file, "/", "kind", "dump"));
    assert_ok(cp_h5_set_text(file, "/", "compute_dtype", "float32"));
    assert_ok(cp_h5_make_group(file, "/grads"));
    assert_ok(cp_h5_make_array(file, NAME, CP_F32, 2, extent));
    assert_ok(cp_h5_write(file, NAME, 0, 1, &first));
    assert_ok(cp_h5_write(file, NAME, count - 1, 1, &last));
    assert_ok(cp_h5_close(file));
}

typedef struct watch {
    atomic_bool over;
    int64_t most; /* bytes of private memory */
} watch;

static int64_t anonymous_bytes(void)
{
    long long pages = 0, resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    bool read = file && fscanf(file, "%lld %lld %lld", &pages, &resident, &shared) == 3;
    if (file)
        fclose(file);
    return read ? (resident - shared) * sysconf(_SC_PAGESIZE) : INT64_MAX;
}

static void *watch_memory(void *state)
{
    watch *w = state;
    while (!w->over) {
        int64_t bytes = anonymous_bytes();
        w->most = bytes > w->most ? bytes : w->most;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return NULL;
}

static void judge(cp_result *result, const char *expected, const char *actual)
{
    cp_source *sides[2];
    assert_ok(cp_dumps_open(&sides[0], &expected, 1, NULL, NULL));
    assert_ok(cp_dumps_open(&sides[1], &actual, 1, NULL, NULL));
    assert_ok(cp_diff(result, sides[0], sides[1], NULL, &(cp_diff_options){.only = "grads/*"}));
    cp_source_close(sides[0]);
    cp_source_close(sides[1]);
}

/* 256 MiB a side: neither is ever in memory, and the last of all elements is found. */
static void memory_does_not_grow_with_tensors(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char expected[512], actual[512];
    snprintf(expected, sizeof expected, "%s/expected.h5", directory);
    snprintf(actual, sizeof actual, "%s/actual.h5", directory);
    make_dump(expected, 2);
    make_dump(actual, 4);
    watch w = {0};
    pthread_t thread;
    cp_result result;
    assert_int_equal(pthread_create(&thread, NULL, watch_memory, &w), 0);
    judge(&result, expected, actual);
    w.over = true;
    pthread_join(thread, NULL);
    assert_true(w.most > 0 && w.most <= MOST_ANONYMOUS);
    const cp_tensor_result *tensor = &result.tensors[0];
    assert_int_equal(result.verdict, CP_DIFFERENT);
    assert_int_equal(tensor->judged, (int64_t)ROWS * COLUMNS);
    assert_int_equal(tensor->mismatches, 1);
    assert_int_equal(tensor->over_limit, 1);
    assert_int_equal(tensor->worst_index[0], ROWS - 1);
    assert_int_equal(tensor->worst_index[1], COLUMNS - 1);
    assert_near(tensor->expected_norm * tensor->expected_norm, 5, 1e-14);
    assert_near(tensor->error_norm, 2, 0);
    cp_result_close(&result);
    test_remove_directory(directory);
}

int streams_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_merged_in_order),
        cmocka_unit_test(memory_does_not_grow_with_tensors),
    };
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}

#include "harness/files/view.h"

#include "base/rng.h"
#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is looked at where it lies is what is read, however it is stored. */

enum { MOST = 4096 };

typedef struct storage {
    odd_type type;
    int dims;
    uint64_t extent[4], chunk[4]; /* chunk 0: contiguous */
    bool shuffled, packed;
} storage;

static const storage STORAGES[] = {
    {ODD_F32, 2, {40, 30}, {0}, false, false},
    {ODD_F64, 1, {1000}, {0}, false, false},
    {ODD_F32, 2, {40, 30}, {8, 30}, true, true},
    {ODD_F32, 2, {41, 31}, {8, 7}, true, true},        /* chunks stick out along both axes */
    {ODD_F64, 3, {3, 10, 37}, {1, 4, 10}, true, true}, /* rows of chunks that do not divide the axis */
    {ODD_F32, 3, {3, 10, 37}, {2, 4, 10}, false, true},
    {ODD_BF16, 4, {2, 3, 7, 50}, {1, 1, 3, 16}, true, true},
    {ODD_F16, 2, {64, 33}, {64, 1}, true, false},
    {ODD_F64, 1, {1000}, {13}, false, false},
    {ODD_F32, 1, {1000}, {64}, true, true},
    {ODD_F32_BIG, 2, {40, 30}, {8, 7}, true, true}, /* left to the library */
    {ODD_F32_BIG, 2, {40, 30}, {0}, false, false},
};
enum { STORAGES_COUNT = sizeof STORAGES / sizeof *STORAGES };

static size_t width_of(odd_type type)
{
    return type == ODD_F64 ? 8 : type == ODD_F16 || type == ODD_BF16 ? 2 : 4;
}

static int64_t count_of(const storage *s)
{
    int64_t count = 1;
    for (int axis = 0; axis < s->dims; axis++)
        count *= (int64_t)s->extent[axis];
    return count;
}

/* Numbers whose bytes are all different, finite in every type. */
static void make(const char *path, const char *name, const storage *s)
{
    static uint8_t bytes[MOST * 8];
    cp_rng rng = cp_rng_named(test_seed(), name);
    size_t width = width_of(s->type);
    for (int64_t i = 0; i < count_of(s) * (int64_t)width; i++)
        bytes[i] = (uint8_t)cp_rng_below(rng, (uint64_t)i, (size_t)i % width == width - 1 ? 60 : 256);
    if (s->chunk[0] == 0)
        odd_dataset(path, name, s->type, ODD_CONTIGUOUS, s->dims, s->extent, bytes);
    else
        odd_chunks(path, name, s->type, s->dims, s->extent, s->chunk, s->shuffled, s->packed, bytes);
}

static void look_everywhere(const cp_source *source, const char *name, size_t allowance)
{
    double whole[MOST], piece[MOST];
    int64_t tensor = cp_source_find(source, name);
    assert_true(tensor >= 0);
    int64_t count = 1;
    for (int axis = 0; axis < source->tensors[tensor].dims; axis++)
        count *= source->tensors[tensor].extent[axis];
    assert_ok(cp_source_read_all(source, (size_t)tensor, whole));
    cp_view view;
    cp_view_open(&view, allowance);
    cp_rng rng = cp_rng_named(test_seed(), "pieces");
    for (uint64_t i = 0; i < 200; i++) {
        int64_t first = (int64_t)cp_rng_below(rng, 2 * i, (uint64_t)count);
        int64_t length = 1 + (int64_t)cp_rng_below(rng, 2 * i + 1, (uint64_t)(count - first));
        assert_ok(cp_view_read(&view, source, (size_t)tensor, first, length, piece));
        if (memcmp(piece, whole + first, (size_t)length * sizeof *piece) != 0)
            fail_msg("%s: elements [%lld, +%lld) are not those that are read", name, (long long)first,
                     (long long)length);
    }
    cp_view_close(&view);
}

static void every_storage_looks_the_same(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], name[32];
    sample_dump(path, directory);
    for (int s = 0; s < STORAGES_COUNT; s++) {
        snprintf(name, sizeof name, "/grads/s%d", s);
        make(path, name, &STORAGES[s]);
    }
    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    for (int s = 0; s < STORAGES_COUNT; s++) {
        snprintf(name, sizeof name, "grads/s%d", s);
        cp_grain grain = cp_view_grain(source, (size_t)cp_source_find(source, name));
        bool unpacked = STORAGES[s].chunk[0] > 0 && STORAGES[s].type != ODD_F32_BIG;
        assert_int_equal(grain.bytes > 0, unpacked);
        look_everywhere(source, name, 1 << 20);
        look_everywhere(source, name, 0); /* no room to unpack: left to the library */
    }
    cp_source_close(source);
    test_remove_directory(directory);
}

/* Of a whole dump, and of one that is joined of itself alone. */
static void joined_sources_look_the_same(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    cp_source *part, *joined;
    assert_ok(cp_dump_open(&part, path));
    assert_ok(cp_source_join(&joined, &part, 1, 0, 0));
    for (size_t t = 0; t < joined->count; t++)
        look_everywhere(joined, joined->tensors[t].name, 1 << 20);
    cp_source_close(joined);
    test_remove_directory(directory);
}

/* A file that is cut while it is open is an error, not a signal. */
static void a_shorter_file_is_told(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    make(path, "/grads/large", &STORAGES[1]);
    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    size_t tensor = (size_t)cp_source_find(source, "grads/large");
    assert_int_equal(truncate(path, 512), 0);
    cp_view view;
    const void *data;
    cp_dtype dtype;
    cp_view_open(&view, 0);
    assert_null(cp_view_mapped(path));
    assert_status(cp_view_look(&view, source, tensor, 0, 1000, &data, &dtype), CP_BAD_INPUT,
                  "it has become shorter");
    cp_view_close(&view);
    cp_source_close(source);
    test_remove_directory(directory);
}

/* What a signal at an address is about. */
static void mapped_addresses_have_a_file(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    make(path, "/grads/large", &STORAGES[1]);
    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    cp_view view;
    const void *data;
    cp_dtype dtype;
    cp_view_open(&view, 0);
    assert_ok(
        cp_view_look(&view, source, (size_t)cp_source_find(source, "grads/large"), 0, 1000, &data, &dtype));
    assert_true(view.map != NULL);
    assert_string_equal(cp_view_mapped(data), path);
    assert_string_equal(cp_view_mapped((const char *)data + 7999), path);
    assert_null(cp_view_mapped(&view));
    cp_view_close(&view);
    cp_source_close(source);
    test_remove_directory(directory);
}

int view_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_storage_looks_the_same),
        cmocka_unit_test(joined_sources_look_the_same),
        cmocka_unit_test(a_shorter_file_is_told),
        cmocka_unit_test(mapped_addresses_have_a_file),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}

#include "harness/files/h5file.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every storage that is read gives the same numbers as every other; what leads out of the file, or to data that is not
 * there, is refused. */

enum { ROWS = 5, COLUMNS = 3, CELLS = ROWS * COLUMNS };
static const uint64_t extent[] = {ROWS, COLUMNS};

static void bits_are_kept(void **state)
{
    (void)state;
    /* a number, an infinity, a NaN with a payload, the smallest denormal, −0 */
    static const uint16_t halves[CELLS] = {0x3c00, 0x7c00, 0x7e31, 0x0001, 0x8000};
    static const uint16_t brains[CELLS] = {0x3f80, 0x7f80, 0x7fd5, 0x0001, 0x8000};
    static const uint32_t singles[CELLS] = {0x3f800000, 0x7f800000, 0x7fc12345, 0x00000001, 0x80000000};
    static const uint64_t doubles[CELLS] = {0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8123456789abc, 1,
                                            0x8000000000000000};
    static const int64_t longs[CELLS] = {1, -1, INT64_MAX, INT64_MIN, 0x0102030405060708};
    static const int32_t ints[CELLS] = {1, -1, INT32_MAX, INT32_MIN, 0x01020304};
    static const uint8_t bytes[CELLS] = {1, 0, 255};
    static const struct {
        odd_type type;
        const void *data;
        cp_dtype dtype;
        const char *note; /* an attribute dtype */
    } types[] = {
        {ODD_F64, doubles, CP_F64, ""},
        {ODD_F64_BIG, doubles, CP_F64, ""},
        {ODD_F32, singles, CP_F32, ""},
        {ODD_F32_BIG, singles, CP_F32, ""},
        {ODD_F16, halves, CP_F16, ""},
        {ODD_F16_BIG, halves, CP_F16, ""},
        {ODD_BF16, brains, CP_BF16, ""},
        {ODD_BF16_BIG, brains, CP_BF16, ""},
        {ODD_I64, longs, CP_I64, ""},
        {ODD_I64_BIG, longs, CP_I64, ""},
        {ODD_I32, ints, CP_I32, ""},
        {ODD_U8, bytes, CP_U8, ""},
        {ODD_U16, brains, CP_BF16, "bfloat16"},
    };
    static const odd_storage storages[] = {ODD_CONTIGUOUS, ODD_COMPACT, ODD_CHUNKED, ODD_PACKED};
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], name[32];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        sample_dump(path, directory);
        for (size_t s = 0; s < sizeof storages / sizeof *storages; s++) {
            snprintf(name, sizeof name, "/data%zu", s);
            odd_dataset(path, name, types[t].type, storages[s], 2, extent, types[t].data);
            if (*types[t].note)
                odd_text(path, name, "dtype", types[t].note);
            cp_h5 *file;
            cp_h5_array array;
            uint64_t whole[CELLS], piece[CELLS];
            assert_ok(cp_h5_open(&file, path));
            assert_ok(cp_h5_describe(file, name, &array));
            assert_int_equal(array.dtype, types[t].dtype);
            assert_int_equal(array.dims, 2);
            assert_int_equal(array.count, CELLS);
            size_t width = cp_dtype_bytes(array.dtype);
            assert_ok(cp_h5_read(file, name, 0, CELLS, whole));
            assert_memory_equal(whole, types[t].data, CELLS * width);
            for (int64_t first = 0; first <= CELLS; first++)
                for (int64_t count = 0; first + count <= CELLS; count++) {
                    assert_ok(cp_h5_read(file, name, first, count, piece));
                    assert_memory_equal(piece, (char *)whole + (size_t)first * width, (size_t)count * width);
                }
            assert_ok(cp_h5_close(file));
        }
    }
    test_remove_directory(directory);
}

static void pieces_of_four_dimensions(void **state)
{
    (void)state;
    const uint64_t four[] = {2, 3, 2, 3};
    double values[36], piece[36];
    for (int i = 0; i < 36; i++)
        values[i] = i;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    odd_dataset(path, "/data", ODD_F64, ODD_CHUNKED, 4, four, values);
    cp_h5 *file;
    assert_ok(cp_h5_open(&file, path));
    for (int64_t first = 0; first <= 36; first++)
        for (int64_t count = 0; first + count <= 36; count++) {
            assert_ok(cp_h5_read(file, "/data", first, count, piece));
            assert_memory_equal(piece, values + first, (size_t)count * sizeof *piece);
        }
    assert_ok(cp_h5_close(file));
    test_remove_directory(directory);
}

static void an_empty_array(void **state)
{
    (void)state;
    const uint64_t nothing[] = {0, 3};
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    odd_dataset(path, "/data", ODD_F64, ODD_CONTIGUOUS, 2, nothing, NULL);
    cp_h5 *file;
    cp_h5_array array;
    double out;
    assert_ok(cp_h5_open(&file, path));
    assert_ok(cp_h5_describe(file, "/data", &array));
    assert_int_equal(array.count, 0);
    assert_ok(cp_h5_read(file, "/data", 0, 0, &out));
    assert_ok(cp_h5_close(file));
    test_remove_directory(directory);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refused_datasets(void **state)
{
    (void)state;
    static const uint64_t five[] = {1, 1, 1, 1, 1}, absurd[] = {1ull << 31, 1ull << 31},
                          beyond[] = {1ull << 40, 1ull << 40};
    static const double zeros[CELLS];
    static const struct {
        odd_type type;
        odd_storage storage;
        int dims;
        const uint64_t *extent;
        const char *words;
    } cases[] = {
        {ODD_F64, ODD_SCALEOFFSET, 2, extent,
         "expected no filter but deflate, shuffle and fletcher32, found scaleoffset"},
        {ODD_F64, ODD_EXTERNAL, 2, extent, "found external storage in 1 other files"},
        {ODD_F64, ODD_VIRTUAL, 2, extent, "found a virtual dataset that maps other files"},
        {ODD_F64, ODD_NEVER_WRITTEN, 2, extent, "expected 120 bytes of data, found 0: it was never written"},
        {ODD_F64, ODD_NEVER_WRITTEN_CHUNKED, 2, extent, "expected all of its 3 chunks, found 0 written"},
        {ODD_F64, ODD_HALF_WRITTEN, 2, extent, "expected all of its 3 chunks, found 1 written"},
        {ODD_F64, ODD_NULL_SPACE, 0, NULL, "expected data, found an empty dataspace"},
        {ODD_F64, ODD_CONTIGUOUS, 5, five, "expected at most 4 dimensions, found 5"},
        {ODD_U8, ODD_NEVER_WRITTEN, 2, absurd, "never written"},
        {ODD_U8, ODD_NEVER_WRITTEN, 2, beyond, "its extents multiply to more than a file can hold"},
        {ODD_U8, ODD_NEVER_WRITTEN_CHUNKED, 1, absurd, "claims 2147483648 bytes, more than its file of "},
        {ODD_F24, ODD_CONTIGUOUS, 2, extent, "found floating-point numbers of 24 bits"},
        {ODD_F32_EXPLICIT, ODD_CONTIGUOUS, 2, extent, "found floating-point numbers of 32 bits"},
        {ODD_I16, ODD_CONTIGUOUS, 2, extent, "found integers of 16 bits"},
        {ODD_U16, ODD_CONTIGUOUS, 2, extent, "found integers of 16 bits"},
        {ODD_ENUM, ODD_CONTIGUOUS, 2, extent, "found an enumeration"},
        {ODD_RECORD, ODD_CONTIGUOUS, 2, extent, "found records"},
        {ODD_REFERENCE, ODD_CONTIGUOUS, 2, extent, "found references"},
        {ODD_STRING, ODD_NEVER_WRITTEN, 0, NULL, "never written"},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_dump(path, directory);
        odd_dataset(path, "/grads/odd", cases[i].type, cases[i].storage, cases[i].dims, cases[i].extent,
                    zeros);
        cp_source *source;
        assert_status(cp_dump_open(&source, path), CP_BAD_INPUT, cases[i].words);
        assert_text_holds(cp_error(), path);
        assert_text_holds(cp_error(), "/grads/odd: ");
        assert_null(source);
    }
    test_remove_directory(directory);
}

static void refused_links(void **state)
{
    (void)state;
    static const struct {
        const char *removed, *path;
        odd_link link;
        const char *target, *words;
    } cases[] = {
        {NULL, "/grads/odd", ODD_SOFT, "/loss", "/grads/odd: expected the object itself, found a soft link"},
        {NULL, "/grads/odd", ODD_DANGLING, "", "/grads/odd: expected the object itself, found a soft link"},
        {NULL, "/grads/odd", ODD_EXTERNAL_LINK, "/x",
         "/grads/odd: expected the object itself, found an external link"},
        {"/trace", "/trace", ODD_SOFT, "/grads", "/trace: expected the object itself, found a soft link"},
        {"/trace", "/trace", ODD_EXTERNAL_LINK, "/x",
         "/trace: expected the object itself, found an external link"},
        {"/loss", "/loss", ODD_SOFT, "/grads/w", "/loss: expected the object itself, found a soft link"},
        {NULL, "/token_index", ODD_SOFT, "/grads/w",
         "/token_index: expected the object itself, found a soft link"},
        {NULL, "/grads/odd", ODD_HARD, "/grads",
         "/grads/odd: expected a dataset, found a group"}, /* a cycle */
        {NULL, "/trace/odd", ODD_HARD, "/", "/trace/odd: expected a dataset, found a group"},
        {"/trace", "/trace", ODD_HARD, "/", "/trace/grads: expected a dataset, found a group"},
        {"/trace", "/trace", ODD_HARD, "/loss", "/trace: expected a group"},
        {NULL, "/grads/a\nb", ODD_HARD, "/loss", "/grads: holds a name that is"},
        {NULL, "/grads/\xff", ODD_HARD, "/loss", "/grads: holds a name that is"},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_dump(path, directory);
        if (cases[i].removed)
            odd_remove(path, cases[i].removed);
        odd_make_link(path, cases[i].path, cases[i].link, cases[i].target);
        cp_source *source;
        assert_status(cp_dump_open(&source, path), CP_BAD_INPUT, cases[i].words);
        assert_text_holds(cp_error(), path);
    }
    test_remove_directory(directory);
}

static void a_name_that_is_too_long(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], name[1200] = "/grads/";
    memset(name + 7, 'a', sizeof name - 8);
    sample_dump(path, directory);
    odd_make_link(path, name, ODD_HARD, "/loss");
    cp_source *source;
    assert_status(cp_dump_open(&source, path), CP_BAD_INPUT, "/grads: holds a name that is too long");
    test_remove_directory(directory);
}

static void named_types(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    odd_named_type(path, "/bfloat16"); /* nothing to us */
    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    cp_source_close(source);
    odd_named_type(path, "/grads/odd");
    assert_status(cp_dump_open(&source, path), CP_BAD_INPUT,
                  "/grads/odd: expected a dataset, found a named type");
    test_remove_directory(directory);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static void attributes(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    const char *const texts[] = {"a", "é", ""};
    const char *const broken[] = {"a\xff"};
    odd_texts(path, "/", "list", texts, 3);
    odd_texts(path, "/", "one", texts, 1);
    odd_texts(path, "/", "broken", broken, 1);
    odd_fixed_text(path, "/", "fixed", "abc", 8);
    odd_fixed_text(path, "/", "full", "abcd", 4);
    odd_integer(path, "/", "integer", -3);
    odd_real(path, "/", "real", 0.5);
    cp_h5 *file;
    cp_pool pool = {0};
    const char *text;
    bool found;
    int64_t integer;
    double real;
    assert_ok(cp_h5_open(&file, path));
    assert_ok(cp_h5_lines(file, &pool, "/", "list", &text, &found));
    assert_string_equal(text, "a\né\n\n");
    assert_ok(cp_h5_lines(file, &pool, "/", "fixed", &text, &found));
    assert_string_equal(text, "abc\n");
    assert_ok(cp_h5_text(file, &pool, "/", "full", &text, &found));
    assert_string_equal(text, "abcd");
    assert_ok(cp_h5_text(file, &pool, "/", "one", &text, &found));
    assert_string_equal(text, "a");
    assert_status(cp_h5_text(file, &pool, "/", "list", &text, &found), CP_BAD_INPUT, "expected one string");
    assert_status(cp_h5_text(file, &pool, "/", "broken", &text, &found), CP_BAD_INPUT, "expected UTF-8");
    assert_status(cp_h5_text(file, &pool, "/", "integer", &text, &found), CP_BAD_INPUT,
                  "expected one string");
    assert_ok(cp_h5_integer(file, "/", "integer", &integer, &found));
    assert_int_equal(integer, -3);
    assert_ok(cp_h5_real(file, "/", "integer", &real, &found));
    assert_near(real, -3, 0);
    assert_ok(cp_h5_real(file, "/", "real", &real, &found));
    assert_near(real, 0.5, 0);
    assert_status(cp_h5_integer(file, "/", "real", &integer, &found), CP_BAD_INPUT, "expected one integer");
    assert_status(cp_h5_real(file, "/", "one", &real, &found), CP_BAD_INPUT, "expected one number");
    assert_ok(cp_h5_real(file, "/", "none", &real, &found));
    assert_false(found);
    assert_ok(cp_h5_has(file, "/grads/w", "none", &found));
    assert_false(found);
    cp_pool_close(&pool);
    assert_ok(cp_h5_close(file));
    test_remove_directory(directory);
}

static void long_lists(void **state)
{
    (void)state;
    enum { NAMES = 20000 }; /* more than an old object header could hold */
    char *directory = test_new_directory(), *lines = malloc(NAMES * 32), *end = lines;
    for (int i = 0; i < NAMES; i++)
        end += sprintf(end, "model.layers.%d.weight\n", i);
    char path[CP_PATH_BYTES];
    snprintf(path, sizeof path, "%s/a.h5", directory);
    cp_h5 *file;
    cp_pool pool = {0};
    const char *text;
    bool found;
    assert_ok(cp_h5_create(&file, path));
    assert_ok(cp_h5_set_lines(file, "/", "order", lines));
    assert_ok(cp_h5_close(file));
    assert_ok(cp_h5_open(&file, path));
    assert_ok(cp_h5_lines(file, &pool, "/", "order", &text, &found));
    assert_string_equal(text, lines);
    assert_ok(cp_h5_close(file));
    cp_pool_close(&pool);
    free(lines);
    test_remove_directory(directory);
}

int storage_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_kept),  cmocka_unit_test(pieces_of_four_dimensions),
        cmocka_unit_test(an_empty_array), cmocka_unit_test(refused_datasets),
        cmocka_unit_test(refused_links),  cmocka_unit_test(a_name_that_is_too_long),
        cmocka_unit_test(named_types),    cmocka_unit_test(attributes),
        cmocka_unit_test(long_lists),
    };
    return cmocka_run_group_tests_name("storage", tests, NULL, NULL);
}

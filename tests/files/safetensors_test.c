#include "harness/files/dump.h"
#include "harness/files/safetensors.h"

#include "tests/files/groups.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double wide[6] = {0, 1, 2, 3, 4, 5};
static float narrow[3] = {0.5f, -1, 3};
static uint16_t words[5] = {0x3f80, 0xc000, 1, 2, 3};
static int64_t ids[4] = {1, -100, 3, 4};
static uint8_t mask[3] = {1, 0, 1};
static double one = 23;

static const char *path_in(char path[CP_PATH_BYTES], const char *directory, const char *name)
{
    snprintf(path, CP_PATH_BYTES, "%s/%s", directory, name);
    return path;
}

static void written_and_read_back(void **state)
{
    (void)state;
    const cp_memory_tensor tensors[] = {
        {"mask", CP_VIEW(mask, CP_U8, 3), false},      {"a.weight", CP_VIEW(narrow, CP_F32, 3), false},
        {"wide", CP_VIEW(wide, CP_F64, 2, 3), false},  {"b.weight", CP_VIEW(words, CP_BF16, 5), false},
        {"half", CP_VIEW(words, CP_F16, 1, 5), false}, {"ids", CP_VIEW(ids, CP_I64, 2, 2), false},
        {"items", CP_VIEW(&one, CP_F64, 1), true},     {"none", CP_VIEW(NULL, CP_F32, 0, 3), false},
    };
    enum { COUNT = sizeof tensors / sizeof *tensors };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], other[CP_PATH_BYTES];
    assert_ok(cp_safetensors_write(path_in(path, directory, "a.safetensors"), tensors, COUNT));
    cp_safetensors *file;
    assert_ok(cp_safetensors_open(&file, path));
    assert_int_equal(file->count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const cp_safetensor *found = cp_safetensors_find(file, tensors[i].name);
        assert_non_null(found);
        assert_int_equal(found->dtype, tensors[i].tensor.dtype);
        assert_int_equal(found->dims, tensors[i].scalar ? 0 : tensors[i].tensor.dims);
        assert_int_equal(found->begin % (int64_t)cp_dtype_bytes(found->dtype), 0);
        assert_int_equal(found->bytes, cp_tensor_bytes(tensors[i].tensor));
        unsigned char out[64];
        assert_ok(cp_safetensors_read(file, found, out));
        if (found->bytes > 0)
            assert_memory_equal(out, tensors[i].tensor.data, (size_t)found->bytes);
    }
    assert_null(cp_safetensors_find(file, "c"));
    cp_safetensors_close(file);
    cp_safetensors_close(NULL);

    cp_memory_tensor backwards[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        backwards[i] = tensors[COUNT - 1 - i];
    assert_ok(cp_safetensors_write(path_in(other, directory, "b.safetensors"), backwards, COUNT));
    size_t first_count, second_count;
    unsigned char *first = sample_bytes(path, &first_count), *second = sample_bytes(other, &second_count);
    assert_int_equal(first_count, second_count);
    assert_memory_equal(first, second, first_count);
    first[first_count] = '\0';
    assert_text_holds((char *)first + 8, "\"format\": \"pt\"");
    free(first);
    free(second);
    test_remove_directory(directory);
}

/* A file with this header, and `data` bytes behind it. */
static void write_raw(const char *path, const char *header, uint64_t length, size_t data)
{
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> 8 * i & 0xff), file);
    fputs(header, file);
    for (size_t i = 0; i < data; i++)
        fputc((int)i, file);
    fclose(file);
}

/* The header of a large model; what takes a step for each pair of tensors would not end here. */
static void many_tensors(void **state)
{
    (void)state;
    enum { MANY = 100000, EACH = 96 };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    char *header = malloc((size_t)MANY * EACH);
    size_t length = 0;
    assert_non_null(header);
    for (int i = 0; i < MANY; i++)
        length += (size_t)sprintf(header + length,
                                  "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                                  i == 0 ? '{' : ',', i, i, i + 1);
    header[length++] = '}';
    header[length] = '\0';
    write_raw(path_in(path, directory, "many.safetensors"), header, length, MANY);
    cp_safetensors *file;
    assert_ok(cp_safetensors_open(&file, path));
    assert_int_equal(file->count, MANY);
    for (int i = 0; i < MANY; i += 999) {
        char name[16];
        unsigned char byte;
        snprintf(name, sizeof name, "t%d", i);
        const cp_safetensor *tensor = cp_safetensors_find(file, name);
        assert_non_null(tensor);
        assert_ok(cp_safetensors_read(file, tensor, &byte));
        assert_int_equal(byte, i & 0xff);
    }
    cp_safetensors_close(file);
    free(header);
    test_remove_directory(directory);
}

static void headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *words; /* NULL: it is read */
    } cases[] = {
        {"{}", 0, NULL},
        {"{\"__metadata__\":{\"format\":\"pt\"}}   ", 0, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, NULL},
        {"{\"a\":{\"data_offsets\":[4,8],\"dtype\":\"F32\",\"shape\":[]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}}",
         8, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         4, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
         "a: expected 8 bytes of data, found 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5,
         "expected 4 bytes of data, found 5"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "a: expected data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "a: expected data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "a: expected a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "a: expected a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "a: expected a shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
         "a: expected data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4,
         "a: expected data_offsets"},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "found \"F8_E4M3\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a: expected dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "and nothing else"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "a: expected two data_offsets"},
        {"{\"a\":1}", 0, "a: expected dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
         6, "b: expected its data at 4, found it at 2: an overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "an overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
         12, "b: expected its data at 4, found it at 8: a hole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "header"},
        {"{\"\\u001b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "names of tensors"},
        {"[]", 0, "header: expected an object"},
        {"{", 0, "header"},
        {"", 0, "header"},
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    path_in(path, directory, "a.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_raw(path, cases[i].header, strlen(cases[i].header), cases[i].data);
        cp_safetensors *file;
        if (cases[i].words) {
            assert_status(cp_safetensors_open(&file, path), CP_BAD_INPUT, cases[i].words);
            assert_text_holds(cp_error(), path);
            assert_null(file);
            continue;
        }
        assert_ok(cp_safetensors_open(&file, path));
        cp_safetensors_close(file);
    }
    test_remove_directory(directory);
}

static void lengths(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {3, 1000, UINT64_MAX, 1ull << 63, (1ull << 63) - 8};
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    path_in(path, directory, "a.safetensors");
    cp_safetensors *file;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_raw(path, "{}", wrong[i], 0);
        assert_status(cp_safetensors_open(&file, path), CP_BAD_INPUT,
                      "expected a safetensors file, found 10 bytes");
    }
    FILE *raw = fopen(path, "w");
    fputs("short", raw);
    fclose(raw);
    assert_status(cp_safetensors_open(&file, path), CP_BAD_INPUT, "found 5 bytes");
    assert_status(cp_safetensors_open(&file, directory), CP_BAD_INPUT, "no regular file");
    assert_status(cp_safetensors_open(&file, "/nowhere/a"), CP_BAD_INPUT, "No such file");
    assert_status(cp_safetensors_write("/nowhere/a", NULL, 0), CP_INTERNAL, "cannot be written");
    test_remove_directory(directory);
}

/* ---- a dump as a folder ------------------------------------------------------------------------------------------- */

static void write_text(const char *directory, const char *name, const char *text)
{
    char path[CP_PATH_BYTES];
    FILE *file = fopen(path_in(path, directory, name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char ROOT[] =
    "{\"format\": \"cpeq\", \"format_version\": 1, \"kind\": \"dump\", \"fixture_id\": \"f1\","
    " \"compute_dtype\": \"float32\", \"grad_scale\": 2, \"grad_absent\": [\"c\", \"d\"],"
    " \"name_map\": [{\"theirs\": \"w(.*)\", \"ours\": [\"a\\\\1\"], \"transpose\": true}],"
    " \"/grads/b.weight\": {\"global_shape\": [5], \"offset\": 0}}";

static void write_folder(const char *directory, const char *json)
{
    char path[CP_PATH_BYTES];
    const cp_memory_tensor first[] = {{"grads/wide", CP_VIEW(wide, CP_F64, 2, 3), false},
                                      {"loss", CP_VIEW(&one, CP_F64, 1), true}};
    const cp_memory_tensor second[] = {{"grads/b.weight", CP_VIEW(words, CP_BF16, 5), false},
                                       {"token_loss", CP_VIEW(narrow, CP_F32, 1, 3), false},
                                       {"ran/input_ids", CP_VIEW(ids, CP_I64, 1, 3), false}};
    assert_ok(cp_safetensors_write(path_in(path, directory, "a.safetensors"), first, 2));
    assert_ok(cp_safetensors_write(path_in(path, directory, "b.safetensors"), second, 3));
    write_text(directory, "dump.json", json);
}

static void a_folder_is_a_dump(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    cp_source *source;
    double values[6];
    write_folder(directory, ROOT);
    assert_ok(cp_dumps_open(&source, (const char *const[]){directory}, 1, NULL, NULL));
    assert_int_equal(source->count, 4);
    size_t wide_at = (size_t)cp_source_find(source, "grads/aide"),
           words_at = (size_t)cp_source_find(source, "grads/b.weight");
    assert_int_equal(source->tensors[wide_at].extent[0], 3);
    assert_ok(cp_source_read_all(source, wide_at, values));
    assert_verdict(
        test_compare(values, (double[]){0, 1.5, 0.5, 2, 1, 2.5}, 6, 0, 0)); /* transposed, unscaled */
    assert_int_equal(source->tensors[words_at].dtype, CP_BF16);
    assert_ok(source->read(source, words_at, 1, 1, values));
    assert_near(values[0], -1, 0);
    assert_ok(cp_source_read_all(source, (size_t)cp_source_find(source, "loss"), values));
    assert_near(values[0], 23, 0);
    assert_string_equal(source->declaration.grad_absent, "c\nd\n");
    assert_int_equal(source->declaration.compute_dtype, CP_F32);
    cp_source_close(source);
    test_remove_directory(directory);
}

static void folders_that_are_no_dump(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        cp_status status;
        const char *words;
    } rows[] = {
        {"[]", CP_BAD_INPUT, "dump.json: expected an object"},
        {"{", CP_BAD_INPUT, "dump.json"},
        {"{}", CP_BAD_INPUT, "attribute format: expected \"cpeq\""},
        {"{\"format\": 1}", CP_BAD_INPUT, "dump.json: attribute format: expected one string, found"},
        {"{\"format\": \"cpeq\", \"format_version\": 2, \"kind\": \"dump\"}", CP_BAD_INPUT,
         "attribute format_version: expected 1, found 2"},
        {"{\"format\": \"cpeq\", \"format_version\": 1, \"kind\": \"dump\", \"cp_size\": \"2\"}",
         CP_BAD_INPUT, "attribute cp_size: expected one integer"},
        {"{\"format\": \"cpeq\", \"format_version\": 1, \"kind\": \"dump\", \"grad_scale\": \"2\"}",
         CP_BAD_INPUT, "attribute grad_scale: expected one number"},
        {"{\"format\": \"cpeq\", \"format_version\": 1, \"kind\": \"dump\", \"strip\": [1]}", CP_BAD_INPUT,
         "attribute strip: expected strings"},
        {"{\"format\": \"cpeq\", \"format_version\": 1, \"kind\": \"dump\", \"gradients\": \"all\"}",
         CP_INCOMPARABLE, "declares gradients = \"all\""},
    };
    char *directory = test_new_directory();
    cp_source *source;
    char path[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_folder(directory, rows[i].json);
        assert_status(cp_dumps_open(&source, (const char *const[]){directory}, 1, NULL, NULL), rows[i].status,
                      rows[i].words);
    }
    write_folder(directory, ROOT);
    const cp_memory_tensor again[] = {{"loss", CP_VIEW(&one, CP_F64, 1), true}};
    assert_ok(cp_safetensors_write(path_in(path, directory, "c.safetensors"), again, 1));
    assert_status(cp_dump_open(&source, directory), CP_BAD_INPUT, "c.safetensors: loss is also in ");
    const cp_memory_tensor group[] = {{"loss/0", CP_VIEW(&one, CP_F64, 1), true}};
    assert_ok(cp_safetensors_write(path, group, 1));
    assert_status(cp_dump_open(&source, directory), CP_BAD_INPUT, "loss: a tensor, and a group of others");
    const cp_memory_tensor slash[] = {{"/loss", CP_VIEW(&one, CP_F64, 1), true}};
    assert_ok(cp_safetensors_write(path, slash, 1));
    assert_status(cp_dump_open(&source, directory), CP_BAD_INPUT, "without its first slash");
    sample_dump(path, directory);
    assert_status(cp_dumps_open(&source, (const char *const[]){directory}, 1, NULL, NULL), CP_INCOMPARABLE,
                  "dump.json beside *.h5");
    test_remove_directory(directory);
}

int safetensors_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_folder_is_a_dump),
                                       cmocka_unit_test(folders_that_are_no_dump),
                                       cmocka_unit_test(written_and_read_back),
                                       cmocka_unit_test(many_tensors),
                                       cmocka_unit_test(headers),
                                       cmocka_unit_test(lengths)};
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}

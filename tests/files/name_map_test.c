#include "harness/files/dump.h"
#include "harness/files/name_map.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 4, MOST = ROWS * COLUMNS };

/* Element (i, j) of every matrix is 10 i + j. */
static double matrix[MOST], padded[MOST];

static cp_source *open_theirs(const char *absent)
{
    static const int64_t shape[] = {ROWS, COLUMNS}, rows[] = {1, 1, ROWS, COLUMNS};
    cp_declaration said = cp_declaration_whole();
    said.grad_absent = absent;
    for (int i = 0; i < MOST; i++) {
        matrix[i] = 10 * (i / COLUMNS) + i % COLUMNS;
        padded[i] = i / COLUMNS < 4 ? matrix[i] : 0;
    }
    const cp_memory_tensor tensors[] = {
        {"grads/h.0.fused", cp_tensor_view(matrix, CP_F64, 2, shape), false},
        {"grads/h.0.padded", cp_tensor_view(padded, CP_F64, 2, shape), false},
        {"grads/h.1.fused", cp_tensor_view(matrix, CP_F64, 2, shape), false},
        {"logits", cp_tensor_view(matrix, CP_F64, 4, rows), false},
    };
    cp_source *source;
    assert_ok(cp_source_memory(&source, "theirs", &said, tensors, sizeof tensors / sizeof *tensors));
    return source;
}

/* Values of `name` (rows as (i, j) of the matrix, 10 i + j each), read whole and in pieces of every length. */
static void expect_values(const cp_source *source, const char *name, int dims, const int64_t *extent,
                          const double *values)
{
    int64_t found = cp_source_find(source, name), count = 1;
    if (found < 0)
        fail_msg("no %s", name);
    const cp_source_tensor *tensor = &source->tensors[found];
    assert_int_equal(tensor->dims, dims);
    for (int axis = 0; axis < dims; axis++) {
        assert_int_equal(tensor->extent[axis], extent[axis]);
        count *= extent[axis];
    }
    for (int64_t step = 1; step <= count; step++) {
        double read[MOST] = {0};
        for (int64_t first = 0; first < count; first += step) {
            int64_t n = count - first < step ? count - first : step;
            assert_ok(source->read(source, (size_t)found, first, n, read + first));
        }
        assert_verdict(test_compare(read, values, count, 0, 0));
    }
}

static const struct {
    const char *map, *name;
    int dims;
    int64_t extent[4];
    double values[MOST];
} MAPS[] = {
    /* a new name, and what the pattern's groups held */
    {"[{'theirs': 'h.(\\\\d).fused', 'ours': ['layers.\\\\1.qkv']}]",
     "grads/layers.1.qkv",
     2,
     {6, 4},
     {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33, 40, 41, 42, 43, 50, 51, 52, 53}},
    {"[{'theirs': 'h.0.fused', 'ours': 'w', 'transpose': true}]",
     "grads/w",
     2,
     {4, 6},
     {0, 10, 20, 30, 40, 50, 1, 11, 21, 31, 41, 51, 2, 12, 22, 32, 42, 52, 3, 13, 23, 33, 43, 53}},
    {"[{'theirs': 'h.0.fused', 'ours': ['q', 'k', 'v'], 'split': {'axis': 0, 'sizes': [3, 1, 2]}}]",
     "grads/v",
     2,
     {2, 4},
     {40, 41, 42, 43, 50, 51, 52, 53}},
    {"[{'theirs': 'h.0.fused', 'ours': ['gate', 'up'], 'split': {'axis': 1, 'sizes': [3, 1]}}]",
     "grads/gate",
     2,
     {6, 3},
     {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42, 50, 51, 52}},
    /* two turns of q, k, v */
    {"[{'theirs': 'h.0.fused', 'ours': ['q', 'k', 'v'], 'split': {'axis': 0, 'sizes': [1, 1, 1],"
     " 'interleave': 'per_head'}}]",
     "grads/k",
     2,
     {2, 4},
     {10, 11, 12, 13, 40, 41, 42, 43}},
    {"[{'theirs': 'h.0.fused', 'ours': ['q', 'kv'], 'split': {'axis': 1, 'sizes': [1, 1],"
     " 'interleave': 'per_kv_group'}}]",
     "grads/kv",
     2,
     {6, 2},
     {1, 3, 11, 13, 21, 23, 31, 33, 41, 43, 51, 53}},
    /* axes are counted after transposition */
    {"[{'theirs': 'h.0.fused', 'ours': ['q', 'kv'], 'transpose': true, 'split': {'axis': 0, 'sizes': [1, "
     "3]}}]",
     "grads/kv",
     2,
     {3, 6},
     {1, 11, 21, 31, 41, 51, 2, 12, 22, 32, 42, 52, 3, 13, 23, 33, 43, 53}},
    {"[{'theirs': 'h.0.fused', 'ours': ['q', 'kv'], 'transpose': true,"
     " 'split': {'axis': 1, 'sizes': [1, 2], 'interleave': 'per_head'}}]",
     "grads/kv",
     2,
     {4, 4},
     {10, 20, 40, 50, 11, 21, 41, 51, 12, 22, 42, 52, 13, 23, 43, 53}},
    {"[{'theirs': '.*padded', 'ours': ['embed'], 'pad': {'axis': 0, 'size': 4}}]",
     "grads/embed",
     2,
     {4, 4},
     {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33}},
    /* padding of logits may hold anything */
    {"[{'theirs': 'logits', 'ours': ['logits'], 'pad': {'axis': 3, 'size': 1}}]",
     "logits",
     4,
     {1, 1, 6, 1},
     {0, 10, 20, 30, 40, 50}},
    /* the first that fits; what no entry names stays as it is */
    {"[{'theirs': 'h.0.*', 'ours': '\\\\1x'}, {'theirs': 'h.0.padded', 'ours': 'y'}, {'theirs': 'h[.]0', "
     "'ours': 'z'}]",
     NULL,
     0,
     {0},
     {0}},
    {"[{'theirs': 'h', 'ours': 'x'}]", "grads/h.1.fused", 2, {6, 4}, {0,  1,  2,  3,  10, 11, 12, 13,
                                                                      20, 21, 22, 23, 30, 31, 32, 33,
                                                                      40, 41, 42, 43, 50, 51, 52, 53}},
};

/* JSON with the quotes that C need not escape. */
static char *quoted(const char *map)
{
    char *text = strdup(map);
    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return text;
}

static void maps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof MAPS / sizeof *MAPS; i++) {
        cp_source *source = open_theirs("");
        char *text = quoted(MAPS[i].map);
        if (MAPS[i].name) {
            assert_ok(cp_name_map_apply(&source, text));
            expect_values(source, MAPS[i].name, MAPS[i].dims, MAPS[i].extent, MAPS[i].values);
            assert_text_holds(source->notes, "theirs: name_map: ");
        } else {
            assert_status(cp_name_map_apply(&source, text), CP_INCOMPARABLE,
                          "two tensors of one name, grads/x");
        }
        free(text);
        cp_source_close(source);
    }
}

static void none_has_names_too(void **state)
{
    (void)state;
    cp_source *source = open_theirs("a.fused\nother\n");
    char *text = quoted(
        "[{'theirs': '(.*).fused', 'ours': ['\\\\1.q', '\\\\1.k'], 'split': {'axis': 0, 'sizes': [4, 2]}}]");
    assert_ok(cp_name_map_apply(&source, text));
    assert_string_equal(source->declaration.grad_absent, "a.q\na.k\nother\n");
    free(text);
    cp_source_close(source);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *map;
        cp_status status;
        const char *words;
    } rows[] = {
        {"[", CP_BAD_INPUT, "theirs: attribute name_map"},
        {"{}", CP_BAD_INPUT, "expected a list, found an object"},
        {"[1]", CP_BAD_INPUT, "an entry: expected an object"},
        {"[{'theirs': 'h', 'ours': 'x', 'concat': 1}]", CP_INCOMPARABLE, "declares concat"},
        {"[{'ours': 'x'}]", CP_BAD_INPUT, "theirs: expected a name or a regular expression, found nothing"},
        {"[{'theirs': 'h'}]", CP_BAD_INPUT, "ours: expected a list of names"},
        {"[{'theirs': 'h', 'ours': []}]", CP_BAD_INPUT, "ours: expected 1 to 8 names, found 0"},
        {"[{'theirs': 'h', 'ours': ['']}]", CP_BAD_INPUT, "ours: expected names"},
        {"[{'theirs': 'h', 'ours': ['a', 'b']}]", CP_BAD_INPUT, "or sizes in split, found 2 names"},
        {"[{'theirs': 'h', 'ours': 'x', 'transpose': 1}]", CP_BAD_INPUT, "transpose: expected true or false"},
        {"[{'theirs': 'h', 'ours': 'x', 'split': {'axis': 0, 'sizes': [1, 2]}}]", CP_BAD_INPUT,
         "as many sizes as names"},
        {"[{'theirs': 'h', 'ours': 'x', 'split': {'axis': 0, 'sizes': [0]}}]", CP_BAD_INPUT, "sizes above 0"},
        {"[{'theirs': 'h', 'ours': 'x', 'split': {'axis': -1, 'sizes': [1]}}]", CP_BAD_INPUT,
         "an axis from 0"},
        {"[{'theirs': 'h', 'ours': 'x', 'split': {'axis': 0, 'sizes': [1], 'interleave': 'odd'}}]",
         CP_INCOMPARABLE, "an interleave that this version does not know"},
        {"[{'theirs': 'h', 'ours': 'x', 'pad': {'axis': 0}}]", CP_BAD_INPUT, "pad: expected sizes above 0"},
        {"[{'theirs': 'h', 'ours': 'x', 'pad': {'axis': 0, 'size': 1},"
         " 'split': {'axis': 0, 'sizes': [1]}}]",
         CP_INCOMPARABLE, "split and pad of one tensor"},
        {"[{'theirs': 'h(', 'ours': 'x'}]", CP_BAD_INPUT, "theirs \"h(\": "},
        {"[{'theirs': '(a){9}', 'ours': 'x'}]", CP_INCOMPARABLE, "counts repetitions"},
        {"[{'theirs': '(a)\\\\1', 'ours': 'x'}]", CP_INCOMPARABLE, "has a back-reference"},
        {"[{'theirs': '((((((((((a))))))))))', 'ours': 'x'}]", CP_INCOMPARABLE, "more than 9 groups"},
        /* what does not fit the tensors */
        {"[{'theirs': 'logits', 'ours': 'x', 'transpose': true}]", CP_INCOMPARABLE,
         "/logits: shape [1,1,6,4], which name_map transposes as a matrix"},
        {"[{'theirs': 'h.0.fused', 'ours': 'x', 'pad': {'axis': 2, 'size': 1}}]", CP_INCOMPARABLE,
         "cuts along an axis that it has not"},
        {"[{'theirs': 'h.0.fused', 'ours': ['q', 'k'], 'split': {'axis': 0, 'sizes': [3, 2]}}]",
         CP_INCOMPARABLE, "/grads/h.0.fused: shape [6,4], which name_map cuts into 5"},
        {"[{'theirs': 'h.0.fused', 'ours': ['q', 'k'], 'split': {'axis': 0, 'sizes': [2, 2],"
         " 'interleave': 'per_head'}}]",
         CP_INCOMPARABLE, "cuts into turns of 4"},
        {"[{'theirs': 'h.0.padded', 'ours': 'x', 'pad': {'axis': 0, 'size': 7}}]", CP_INCOMPARABLE,
         "cuts into 7"},
        {"[{'theirs': 'h.0.padded', 'ours': 'x', 'pad': {'axis': 0, 'size': 3}}]", CP_INCOMPARABLE,
         "declares padding from 3 on, where a gradient is 30 and not zero"},
        {"[{'theirs': 'h.0.padded', 'ours': 'x', 'transpose': true, 'pad': {'axis': 1, 'size': 3}}]",
         CP_INCOMPARABLE, "declares padding from 3 on"},
        {"[{'theirs': 'h.0.fused', 'ours': 'h.1.fused'}]", CP_INCOMPARABLE, "two tensors of one name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cp_source *source = open_theirs("");
        char *text = quoted(rows[i].map);
        assert_status(cp_name_map_apply(&source, text), rows[i].status, rows[i].words);
        assert_null(source);
        free(text);
    }
}

/* As an attribute of a file, beside prefixes that the file declares. */
static void in_a_file(void **state)
{
    (void)state;
    static const uint64_t shape[] = {2, 3};
    static const double values[] = {1, 2, 3, 4, 5, 6};
    static const char *const strip[] = {"student.", "net."};
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    cp_source *source;
    sample_dump(path, directory);
    odd_dataset(path, "/grads/net.student.module.c_fc", ODD_F64, ODD_PACKED, 2, shape, values);
    odd_texts(path, "/", "strip", strip, 2);
    char *text = quoted("[{'theirs': 'c_(.*)', 'ours': ['mlp.\\\\1'],\n 'transpose': true}]");
    odd_text(path, "/", "name_map", text);
    free(text);
    assert_ok(cp_dump_open(&source, path));
    expect_values(source, "grads/mlp.fc", 2, (int64_t[]){3, 2}, (double[]){1, 4, 2, 5, 3, 6});
    assert_text_holds(source->notes, "names of 1 gradients: dropped what strip declares");
    assert_text_holds(source->notes, "dropped module.");
    cp_source_close(source);
    odd_dataset(path, "/grads/student.w", ODD_F64, ODD_CONTIGUOUS, 2, shape, values);
    assert_status(cp_dump_open(&source, path), CP_INCOMPARABLE, "two tensors of one name");
    test_remove_directory(directory);
}

int name_map_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps), cmocka_unit_test(none_has_names_too),
                                       cmocka_unit_test(refusals), cmocka_unit_test(in_a_file)};
    return cmocka_run_group_tests_name("name map", tests, NULL, NULL);
}

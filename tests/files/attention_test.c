#include "harness/files/dump.h"
#include "harness/files/fixture.h"
#include "tests/files/groups.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESULTS = 6, ROOM = 1024 };
static const char *const names[RESULTS] = {"dk", "dq", "dsink", "dv", "lse", "out"}; /* sorted */

static cp_fixture *fixture;
static char *folder;

static int open_fixture(void **state)
{
    (void)state;
    folder = test_new_directory();
    assert_ok(cp_fixture_open(&fixture, CPEQ_ATTENTION "/sink16.h5"));
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    cp_fixture_close(fixture);
    test_remove_directory(folder);
    return 0;
}

static const char *path_in_folder(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

/* ---- fixtures ---------------------------------------------------------------------------------------------------- */

static void a_golden_fixture_is_read(void **state)
{
    (void)state;
    const cp_attention_inputs *a = fixture->attention;
    assert_non_null(a);
    assert_int_equal(fixture->batch.B, 2);
    assert_int_equal(fixture->batch.T, 16);
    assert_true(cp_tensor_has_shape(a->q, 4, CP_EXTENTS(2, 16, 4, 8)));
    assert_true(cp_tensor_has_shape(a->k, 4, CP_EXTENTS(2, 16, 2, 8)));
    assert_true(cp_tensor_has_shape(a->sink, 1, CP_EXTENTS(4)));
    assert_true(a->causal);
    assert_int_equal(a->window, 5);
    assert_int_equal(a->chunk, 0);
    assert_true(a->softcap == 0);
    assert_near(a->scale, 1 / sqrt(8), 1e-16);
    assert_int_equal(fixture->expected->count, RESULTS);
    char kind[CP_KIND_TEXT];
    assert_ok(cp_file_kind(kind, CPEQ_ATTENTION "/sink16.h5"));
    assert_string_equal(kind, "attention fixture");
    cp_source *dump;
    assert_status(cp_dump_open(&dump, CPEQ_ATTENTION "/sink16.h5"), CP_BAD_INPUT, "this is a fixture");
}

static void written_and_read_it_is_the_same(void **state)
{
    (void)state;
    char path[256];
    cp_fixture *again;
    assert_ok(cp_fixture_write(path_in_folder(path, "again.h5"), fixture));
    assert_ok(cp_fixture_open(&again, path));
    assert_string_equal(again->id, fixture->id);
    assert_int_equal(again->attention->window, 5);
    assert_true(again->attention->scale == fixture->attention->scale);
    for (int i = 0; i < RESULTS; i++) {
        double before[ROOM], after[ROOM];
        memset(before, 0, sizeof before);
        memset(after, 0, sizeof after);
        assert_ok(cp_source_read_all(fixture->expected, (size_t)i, before));
        assert_ok(cp_source_read_all(again->expected, (size_t)i, after));
        assert_memory_equal(before, after, sizeof before);
    }
    cp_fixture_close(again);
}

/* The fixture with one thing wrong, written and read. */
static void assert_refused(const cp_fixture *wrong, const char *words)
{
    char path[256];
    cp_fixture *opened = NULL;
    assert_ok(cp_fixture_write(path_in_folder(path, "wrong.h5"), wrong));
    assert_status(cp_fixture_open(&opened, path), CP_BAD_INPUT, words);
}

static void what_means_nothing_is_refused(void **state)
{
    (void)state;
    cp_attention_inputs wrong = *fixture->attention;
    cp_fixture file = *fixture;
    file.attention = &wrong;
    wrong.scale = 0;
    assert_refused(&file, "attribute scale: expected a number other than 0");
    wrong.scale = NAN;
    assert_refused(&file, "attribute scale");
    wrong = *fixture->attention;
    wrong.window = 0;
    wrong.k = cp_tensor_view(wrong.q.data, CP_F32, 4, CP_EXTENTS(2, 16, 3, 8));
    assert_refused(&file, "/batch/k: expected float64, float32 or bfloat16 [2,16,4,8], with as many heads");
    wrong = *fixture->attention;
    wrong.v = wrong.q;
    assert_refused(&file, "/batch/v: expected float64, float32 or bfloat16 [2,16,2,8], found float32");
    wrong = *fixture->attention;
    wrong.dout = cp_tensor_view(wrong.q.data, CP_F32, 3, CP_EXTENTS(2, 16, 32));
    assert_refused(&file, "/batch/dout: expected");
    wrong = *fixture->attention;
    wrong.sink = cp_tensor_view(wrong.q.data, CP_F32, 1, CP_EXTENTS(3));
    assert_refused(&file, "/batch/sink: expected float64, float32 or bfloat16 [4]");
    wrong = *fixture->attention;
    float infinite[4] = {0, 1, INFINITY, 2};
    wrong.sink = cp_tensor_view(infinite, CP_F32, 1, CP_EXTENTS(4));
    assert_refused(&file, "/batch/sink: expected finite numbers, found inf");
}

static void expectations_are_complete(void **state)
{
    (void)state;
    static double nothing[ROOM];
    const int64_t places[CP_MAX_DIMS] = {2, 16, 4, 8};
    cp_memory_tensor given[] = {{"out", cp_tensor_view(nothing, CP_F64, 4, places), false},
                                {"lse", cp_tensor_view(nothing, CP_F64, 2, places), false}};
    cp_declaration said = cp_declaration_whole();
    cp_fixture file = *fixture;
    assert_ok(cp_source_memory(&file.expected, "expected", &said, given, 1));
    assert_refused(&file, "/expected/lse: expected shape [2,16,4], found nothing");
    cp_source_close(file.expected);
    assert_ok(cp_source_memory(&file.expected, "expected", &said, given, 2));
    assert_refused(&file, "/expected/lse: expected shape [2,16,4], found [2,16]");
    cp_source_close(file.expected);
}

/* ---- dumps of ranks ---------------------------------------------------------------------------------------------- */

enum { P = 3, T = 16, B = 2, MOST = 6 };

/* Dealt out one by one, last first: rank r has r, r + P, … backwards. */
static int64_t deal(int64_t index[MOST], int rank)
{
    int64_t S = 0;
    for (int64_t t = T - 1; t >= 0; t--)
        if (t % P == rank)
            index[S++] = t;
    return S;
}

static void write_rank(int rank, const char *path, double scale)
{
    static double values[RESULTS][ROOM], whole[ROOM];
    cp_memory_tensor memory[RESULTS];
    int64_t index[B * MOST], S = deal(index, rank);
    memcpy(index + S, index, (size_t)S * sizeof *index);
    for (int i = 0; i < RESULTS; i++) {
        const cp_source_tensor *tensor = &fixture->expected->tensors[i];
        assert_string_equal(tensor->name, names[i]);
        assert_ok(cp_source_read_all(fixture->expected, (size_t)i, whole));
        int64_t extent[CP_MAX_DIMS];
        memcpy(extent, tensor->extent, sizeof extent);
        bool shared = tensor->dims == 1;
        int64_t width = shared ? 1 : tensor->extent[2] * (tensor->dims == 4 ? tensor->extent[3] : 1);
        double factor = names[i][0] == 'd' ? scale : 1;
        if (!shared)
            extent[1] = S;
        for (int64_t row = 0; !shared && row < B * S; row++)
            for (int64_t x = 0; x < width; x++)
                values[i][row * width + x] = factor * whole[(row / S * T + index[row % S]) * width + x];
        for (int64_t x = 0; shared && x < extent[0]; x++) /* parts that make one: -1, 0 and 2 of it */
            values[i][x] = factor * whole[x] * (rank == 0 ? -1 : rank == 1 ? 0 : 2);
        memory[i] =
            (cp_memory_tensor){names[i], cp_tensor_view(values[i], CP_F64, tensor->dims, extent), false};
    }
    cp_declaration said = cp_declaration_whole();
    said.attention = said.dtype_declared = true;
    said.fixture_id = fixture->id;
    said.cp_size = P;
    said.cp_rank = rank;
    said.gradients = CP_GRADIENTS_PARTIAL;
    said.grad_scale = scale;
    said.B = B;
    said.S = S;
    said.token_index = index;
    cp_source *part;
    assert_ok(cp_source_memory(&part, "rank", &said, memory, RESULTS));
    assert_ok(cp_dump_write(path, part));
    cp_source_close(part);
}

static void ranks_are_joined(void **state)
{
    (void)state;
    char paths[P][256];
    const char *files[P];
    for (int rank = 0; rank < P; rank++) {
        char name[32];
        snprintf(name, sizeof name, "rank-%04d.h5", rank);
        files[P - 1 - rank] = path_in_folder(paths[rank], name);
        write_rank(rank, paths[rank], 4);
    }
    cp_source *whole;
    assert_ok(cp_dumps_open(&whole, files, P, &fixture->batch, NULL));
    assert_true(whole->declaration.attention);
    for (int i = 0; i < RESULTS; i++) {
        double expected[ROOM], joined[ROOM];
        const cp_source_tensor *tensor = &whole->tensors[i];
        assert_string_equal(tensor->name, names[i]);
        int64_t count = 1;
        for (int axis = 0; axis < tensor->dims; axis++)
            count *= tensor->extent[axis];
        assert_ok(cp_source_read_all(fixture->expected, (size_t)i, expected));
        assert_ok(cp_source_read_all(whole, (size_t)i, joined));
        assert_verdict(test_compare(joined, expected, count, 0, 1e-15));
    }
    cp_source_close(whole);
    assert_status(cp_dumps_open(&whole, files, P - 1, &fixture->batch, NULL), CP_INCOMPARABLE, "is missing");
}

int attention_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_golden_fixture_is_read),
        cmocka_unit_test(written_and_read_it_is_the_same),
        cmocka_unit_test(what_means_nothing_is_refused),
        cmocka_unit_test(expectations_are_complete),
        cmocka_unit_test(ranks_are_joined),
    };
    return cmocka_run_group_tests_name("kind attention", tests, open_fixture, close_fixture);
}

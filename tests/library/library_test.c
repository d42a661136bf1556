/* libcpeq as a caller sees it, and what cpeq reads of what it wrote. */
#include "harness/files/dump.h"
#include "library/cpeq.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;

static int open_folder(void **state)
{
    (void)state;
    folder = test_new_directory();
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    test_remove_directory(folder);
    return 0;
}

static const char *path_in_folder(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

/* ---- fixtures ---------------------------------------------------------------------------------------------------- */

static cpeq_fixture *opened(const char *path)
{
    cpeq_fixture *fixture;
    cpeq_status status = cpeq_fixture_open(&fixture, path);
    if (status != CPEQ_OK)
        fail_msg("%s", cpeq_fixture_error(fixture));
    assert_string_equal(cpeq_fixture_error(fixture), "");
    return fixture;
}

static void a_fixture_is_read(void **state)
{
    (void)state;
    cpeq_fixture *fixture = opened(CPEQ_GOLDEN "/llama/left7.h5");
    assert_string_equal(cpeq_fixture_kind(fixture), "fixture");
    assert_int_equal(strlen(cpeq_fixture_id(fixture)), 64);
    assert_text_holds(cpeq_fixture_config(fixture), "\"model_type\": \"llama\"");
    const char *const *names;
    size_t count;
    assert_int_equal(cpeq_fixture_names(fixture, "batch", &names, &count), CPEQ_OK);
    assert_int_equal(count, 4);
    assert_string_equal(names[0], "attention_mask");
    assert_int_equal(cpeq_fixture_names(fixture, "nothing", &names, &count), CPEQ_OK);
    assert_int_equal(count, 0);

    cpeq_array array;
    assert_int_equal(cpeq_fixture_describe(fixture, "batch/labels", &array), CPEQ_OK);
    assert_true(array.dtype == CPEQ_INT64 && array.dims == 2 && array.extent[0] == 3 && array.extent[1] == 7);
    uint8_t mask[21];
    int64_t wide[21];
    assert_int_equal(cpeq_fixture_read(fixture, "batch/attention_mask", CPEQ_UINT8, NULL, NULL, mask),
                     CPEQ_OK);
    assert_int_equal(cpeq_fixture_read(fixture, "batch/attention_mask", CPEQ_INT64, NULL, NULL, wide),
                     CPEQ_OK);
    for (int i = 0; i < 21; i++)
        assert_true(wide[i] == mask[i] && mask[i] == (i % 7 >= (i < 7 ? 0 : i < 14 ? 3 : 5)));

    const char *text = NULL;
    int found;
    assert_int_equal(cpeq_fixture_text(fixture, "expected", "source", &text, &found), CPEQ_OK);
    assert_true(found);
    assert_text_holds(text, "transformers");
    assert_int_equal(cpeq_fixture_text(fixture, "/", "nothing", &text, &found), CPEQ_OK);
    assert_false(found);
    assert_int_equal(cpeq_fixture_has(fixture, "batch/document_ids", &found), CPEQ_OK);
    assert_true(found);
    assert_int_equal(cpeq_fixture_has(fixture, "batch", &found), CPEQ_OK);
    assert_false(found);
    cpeq_fixture_close(fixture);
}

/* Every element of a slab is where it is in the whole. */
static void slabs_are_read(void **state)
{
    (void)state;
    enum { B = 2, T = 16, H = 4, D = 8 };
    static double whole[B][T][H][D], slab[B * T * H * D];
    cpeq_fixture *fixture = opened(CPEQ_ATTENTION "/sink16.h5");
    assert_string_equal(cpeq_fixture_kind(fixture), "attention");
    assert_int_equal(cpeq_fixture_read(fixture, "batch/q", CPEQ_FLOAT64, NULL, NULL, whole), CPEQ_OK);
    const int64_t slabs[][2][4] = {{{0, 0, 0, 0}, {2, 16, 4, 8}}, {{0, 5, 0, 0}, {2, 3, 4, 8}},
                                   {{1, 2, 1, 0}, {1, 9, 2, 8}},  {{0, 0, 3, 1}, {2, 16, 1, 3}},
                                   {{1, 15, 0, 7}, {1, 1, 4, 1}}, {{0, 16, 0, 0}, {2, 0, 4, 8}}};
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++) {
        const int64_t *from = slabs[i][0], *many = slabs[i][1];
        assert_int_equal(cpeq_fixture_read(fixture, "batch/q", CPEQ_FLOAT64, from, many, slab), CPEQ_OK);
        const double *at = slab;
        for (int64_t b = 0; b < many[0]; b++)
            for (int64_t t = 0; t < many[1]; t++)
                for (int64_t h = 0; h < many[2]; h++)
                    for (int64_t d = 0; d < many[3]; d++)
                        assert_true(*at++ == whole[from[0] + b][from[1] + t][from[2] + h][from[3] + d]);
    }
    int64_t window = 0;
    double scale = 0;
    int found;
    assert_int_equal(cpeq_fixture_integer(fixture, "/", "window", &window, &found), CPEQ_OK);
    assert_true(found && window == 5);
    assert_int_equal(cpeq_fixture_real(fixture, "/", "scale", &scale, &found), CPEQ_OK);
    assert_true(found && fabs(scale - 1 / sqrt(8)) < 1e-15);
    cpeq_fixture_close(fixture);
}

static void what_cannot_be_read_is_told(void **state)
{
    (void)state;
    cpeq_fixture *fixture;
    assert_int_equal(cpeq_fixture_open(&fixture, "/nowhere/x.h5"), CPEQ_BAD_INPUT);
    assert_text_holds(cpeq_fixture_error(fixture), "/nowhere/x.h5");
    double value;
    assert_int_equal(cpeq_fixture_read(fixture, "loss", CPEQ_FLOAT64, NULL, NULL, &value), CPEQ_BAD_USAGE);
    cpeq_fixture_close(fixture);
    cpeq_fixture_close(NULL);

    fixture = opened(CPEQ_GOLDEN "/llama/full7.h5");
    cpeq_array array;
    assert_int_equal(cpeq_fixture_describe(fixture, "batch/nothing", &array), CPEQ_BAD_INPUT);
    assert_text_holds(cpeq_fixture_error(fixture), "/batch/nothing");
    const int64_t offset[] = {0, 5}, count[] = {2, 3};
    int64_t labels[14];
    assert_int_equal(cpeq_fixture_read(fixture, "batch/labels", CPEQ_INT64, offset, count, labels),
                     CPEQ_BAD_USAGE);
    assert_text_holds(cpeq_fixture_error(fixture),
                      "axis 1: expected a slab within 7 elements, found 3 from 5 on");
    assert_int_equal(cpeq_fixture_read(fixture, "batch/labels", CPEQ_FLOAT64, NULL, NULL, labels),
                     CPEQ_BAD_USAGE);
    assert_text_holds(cpeq_fixture_error(fixture), "is int64, which is not read as float64");
    cpeq_fixture_close(fixture);
}

/* ---- dumps ------------------------------------------------------------------------------------------------------- */

static cpeq_dump *begun(const char *path)
{
    cpeq_dump *dump;
    if (cpeq_dump_create(&dump, path, "dump") != CPEQ_OK)
        fail_msg("%s", cpeq_dump_error(dump));
    return dump;
}

static void a_dump_written_by_slabs_is_read_by_cpeq(void **state)
{
    (void)state;
    enum { B = 2, S = 3, V = 4 };
    char path[256];
    const int64_t shape[] = {B, S, V}, index[] = {4, 0, 2};
    cpeq_dump *dump = begun(path_in_folder(path, "d.h5"));
    assert_int_equal(cpeq_dump_set_text(dump, "fixture_id", "abc"), CPEQ_OK);
    assert_int_equal(cpeq_dump_set_text(dump, "compute_dtype", "float32"), CPEQ_OK);
    assert_int_equal(cpeq_dump_set_text(dump, "loss_kind", "share"), CPEQ_OK);
    assert_int_equal(cpeq_dump_set_text(dump, "gradients", "partial"), CPEQ_OK);
    assert_int_equal(cpeq_dump_set_integer(dump, "cp_size", 2), CPEQ_OK);
    assert_int_equal(cpeq_dump_set_integer(dump, "cp_rank", 1), CPEQ_OK);
    assert_int_equal(cpeq_dump_set_real(dump, "grad_scale", 8), CPEQ_OK);
    assert_int_equal(cpeq_dump_set_lines(dump, "grad_absent", "a.bias\nb.bias\n"), CPEQ_OK);
    assert_int_equal(cpeq_dump_write(dump, "token_index", CPEQ_INT64, 1, (int64_t[]){S}, NULL, NULL, index),
                     CPEQ_OK);
    double loss = 0.5;
    assert_int_equal(cpeq_dump_write(dump, "loss", CPEQ_FLOAT64, 0, NULL, NULL, NULL, &loss), CPEQ_OK);
    for (int64_t s = S - 1; s >= 0; s--) { /* one position of both rows at a time, last first */
        float slab[B][V];
        for (int b = 0; b < B; b++)
            for (int v = 0; v < V; v++)
                slab[b][v] = (float)(100 * b + 10 * (int)s + v);
        assert_int_equal(cpeq_dump_write(dump, "logits", CPEQ_FLOAT32, 3, shape, (int64_t[]){0, s, 0},
                                         (int64_t[]){B, 1, V}, slab),
                         CPEQ_OK);
    }
    double gradient[] = {1, 2};
    assert_int_equal(cpeq_dump_write(dump, "grads/model.norm.weight", CPEQ_FLOAT64, 1, (int64_t[]){2}, NULL,
                                     NULL, gradient),
                     CPEQ_OK);
    assert_int_equal(access(path, F_OK), -1); /* not before it is whole */
    assert_int_equal(cpeq_dump_finish(dump), CPEQ_OK);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(cpeq_dump_finish(dump), CPEQ_BAD_USAGE);
    cpeq_dump_close(dump);

    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    const cp_declaration *said = &source->declaration;
    assert_string_equal(said->fixture_id, "abc");
    assert_true(said->cp_size == 2 && said->cp_rank == 1 && said->grad_scale == 8);
    assert_true(said->compute_dtype == CP_F32 && said->loss_kind == CP_LOSS_SHARE);
    assert_string_equal(said->grad_absent, "a.bias\nb.bias\n");
    assert_true(said->S == S && said->token_index[0] == 4);
    assert_int_equal(source->count, 3);
    double logits[B * S * V];
    assert_ok(cp_source_read_all(source, (size_t)cp_source_find(source, "logits"), logits));
    for (int i = 0; i < B * S * V; i++)
        assert_true(logits[i] == 100 * (i / V / S) + 10 * (i / V % S) + i % V);
    cp_source_close(source);
}

/* What ranks share without a declaration of what it is cannot be judged; without a sink they share nothing. */
static void an_attention_dump_declares_what_its_dsink_is(void **state)
{
    (void)state;
    for (int with_sink = 0; with_sink < 2; with_sink++) {
        char path[256];
        cpeq_dump *dump;
        double result[] = {1, 2};
        int64_t index[] = {0};
        assert_int_equal(cpeq_dump_create(&dump, path_in_folder(path, "a.h5"), "attention"), CPEQ_OK);
        cpeq_dump_set_text(dump, "compute_dtype", "float64");
        cpeq_dump_set_integer(dump, "cp_size", 2);
        cpeq_dump_set_integer(dump, "cp_rank", 0);
        cpeq_dump_write(dump, "token_index", CPEQ_INT64, 1, (int64_t[]){1}, NULL, NULL, index);
        cpeq_dump_write(dump, "out", CPEQ_FLOAT64, 4, (int64_t[]){1, 1, 1, 2}, NULL, NULL, result);
        if (with_sink)
            cpeq_dump_write(dump, "dsink", CPEQ_FLOAT64, 1, (int64_t[]){2}, NULL, NULL, result);
        assert_int_equal(cpeq_dump_finish(dump), CPEQ_OK);
        cpeq_dump_close(dump);
        cp_source *source = NULL;
        if (with_sink)
            assert_status(cp_dump_open(&source, path), CP_INCOMPARABLE, "attribute gradients: expected");
        else
            assert_ok(cp_dump_open(&source, path));
        assert_true(with_sink || source->declaration.attention);
        cp_source_close(source);
    }
}

typedef struct mistake {
    const char *what, *words;
    cpeq_status (*make)(cpeq_dump *dump);
} mistake;

static const double numbers[6];

static cpeq_status unfinished(cpeq_dump *dump)
{
    cpeq_dump_write(dump, "logits", CPEQ_FLOAT64, 1, (int64_t[]){6}, (int64_t[]){0}, (int64_t[]){4}, numbers);
    return cpeq_dump_finish(dump);
}

static cpeq_status twice(cpeq_dump *dump)
{
    cpeq_dump_write(dump, "logits", CPEQ_FLOAT64, 1, (int64_t[]){6}, NULL, NULL, numbers);
    return cpeq_dump_write(dump, "logits", CPEQ_FLOAT64, 1, (int64_t[]){6}, NULL, NULL, numbers);
}

static cpeq_status outside(cpeq_dump *dump)
{
    return cpeq_dump_write(dump, "logits", CPEQ_FLOAT64, 1, (int64_t[]){6}, (int64_t[]){4}, (int64_t[]){3},
                           numbers);
}

static cpeq_status other_shape(cpeq_dump *dump)
{
    cpeq_dump_write(dump, "logits", CPEQ_FLOAT64, 1, (int64_t[]){6}, (int64_t[]){0}, (int64_t[]){3}, numbers);
    return cpeq_dump_write(dump, "logits", CPEQ_FLOAT64, 1, (int64_t[]){5}, (int64_t[]){0}, (int64_t[]){3},
                           numbers);
}

static cpeq_status unknown_group(cpeq_dump *dump)
{
    return cpeq_dump_write(dump, "gradients/x", CPEQ_FLOAT64, 1, (int64_t[]){6}, NULL, NULL, numbers);
}

static cpeq_status unknown_type(cpeq_dump *dump)
{
    return cpeq_dump_write(dump, "logits", (cpeq_dtype)77, 1, (int64_t[]){6}, NULL, NULL, numbers);
}

static cpeq_status no_data(cpeq_dump *dump)
{
    return cpeq_dump_write(dump, "logits", CPEQ_FLOAT64, 1, (int64_t[]){6}, NULL, NULL, NULL);
}

static cpeq_status declared_twice(cpeq_dump *dump)
{
    cpeq_dump_set_text(dump, "layout", "zigzag");
    return cpeq_dump_set_text(dump, "layout", "contiguous");
}

static cpeq_status other_kind(cpeq_dump *dump)
{
    return cpeq_dump_set_text(dump, "kind", "fixture");
}

static void mistakes_are_told_and_leave_no_file(void **state)
{
    (void)state;
    static const mistake mistakes[] = {
        {"unfinished", "/logits: expected 6 elements in all its slabs, found 4", unfinished},
        {"twice", "logits: more than its 6 elements: a slab was written twice", twice},
        {"outside", "axis 0: expected a slab within 6 elements, found 3 from 4 on", outside},
        {"other shape", "another type or shape than that of its first slab", other_shape},
        {"unknown group", "gradients/x: expected a name in grads, trace", unknown_group},
        {"unknown type", "a type 77 is not written", unknown_type},
        {"no data", "data: expected 6 elements, found NULL", no_data},
        {"declared twice", "attribute layout: is declared already", declared_twice},
        {"other kind", "attribute kind: is written by the library", other_kind},
    };
    char path[256];
    path_in_folder(path, "mistake.h5");
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        cpeq_dump *dump = begun(path);
        cpeq_status status = mistakes[i].make(dump);
        assert_text_holds(cpeq_dump_error(dump), mistakes[i].words);
        assert_int_equal(status, CPEQ_BAD_USAGE);
        assert_int_equal(cpeq_dump_finish(dump), CPEQ_BAD_USAGE); /* it stays failed */
        assert_text_holds(cpeq_dump_error(dump), mistakes[i].words);
        cpeq_dump_close(dump);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(rmdir(folder), 0); /* nothing is left behind: no temporary file either */
    cpeq_dump *dump;
    assert_int_equal(cpeq_dump_create(&dump, path, "dump"), CPEQ_FAILED);
    assert_text_holds(cpeq_dump_error(dump), "cannot be created");
    cpeq_dump_close(dump);
    assert_int_equal(cpeq_dump_create(&dump, path, "fixture"), CPEQ_BAD_USAGE);
    cpeq_dump_close(dump);
    assert_int_equal(mkdir(folder, 0700), 0);
}

/* What is there stays as it is until the new one is whole, and where the new one is given up. */
static void a_dump_that_is_given_up_changes_nothing(void **state)
{
    (void)state;
    char path[256];
    double loss[] = {1, 2};
    for (int round = 0; round < 2; round++) {
        cpeq_dump *dump = begun(path_in_folder(path, "loss.h5"));
        cpeq_dump_write(dump, "loss", CPEQ_FLOAT64, 0, NULL, NULL, NULL, &loss[round]);
        if (round == 0)
            assert_int_equal(cpeq_dump_finish(dump), CPEQ_OK);
        cpeq_dump_close(dump);
    }
    cp_source *source;
    double kept = 0;
    assert_ok(cp_dump_open(&source, path));
    assert_ok(cp_source_read_all(source, 0, &kept));
    assert_true(kept == 1);
    cp_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fixture_is_read, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(slabs_are_read, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_told, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(a_dump_written_by_slabs_is_read_by_cpeq, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(an_attention_dump_declares_what_its_dsink_is, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(mistakes_are_told_and_leave_no_file, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(a_dump_that_is_given_up_changes_nothing, open_folder, close_folder),
    };
    return cmocka_run_group_tests_name("libcpeq", tests, NULL, NULL);
}

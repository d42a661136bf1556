#include "harness/files/dump.h"

#include "tests/files/groups.h"
#include "tests/files/odd_files.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS = SAMPLE_B * SAMPLE_T };

static const int64_t no_labels[TOKENS];
static const cp_batch sample_batch = {.B = SAMPLE_B, .T = SAMPLE_T, .labels = no_labels};

/* ---- written and read back --------------------------------------------------------------------------------------- */

static void everything_is_kept(void **state)
{
    (void)state;
    const int64_t tokens[TOKENS] = {0, 4, -1, 1, 2, 3, 1, 0, -1, 2}, rows[SAMPLE_B] = {1, 0};
    const cp_declaration said = {.fixture_id = "f1",
                                 .implementation = "theirs 1.0",
                                 .exchange = "usp:2x2",
                                 .layout = "striped:4",
                                 .cp_size = 4,
                                 .cp_rank = 3,
                                 .dp_size = 1,
                                 .dtype_declared = true,
                                 .compute_dtype = CP_BF16,
                                 .islands = true,
                                 .loss_kind = CP_LOSS_LOCAL_MEAN,
                                 .loss_count = 8,
                                 .gradients = CP_GRADIENTS_MEAN,
                                 .grad_scale = 1024,
                                 .grad_absent = "a\nb.weight\n",
                                 .B = SAMPLE_B,
                                 .S = SAMPLE_T,
                                 .token_index = tokens,
                                 .batch_index = rows};
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    snprintf(path, sizeof path, "%s/rank-0003.h5", directory);
    cp_source *source = sample_source(&said), *again;
    assert_ok(cp_dump_write(path, source));
    assert_ok(cp_dump_open(&again, path));
    const cp_declaration *read = &again->declaration;
    assert_string_equal(again->label, path);
    assert_string_equal(read->fixture_id, said.fixture_id);
    assert_string_equal(read->implementation, said.implementation);
    assert_string_equal(read->exchange, said.exchange);
    assert_string_equal(read->layout, said.layout);
    assert_string_equal(read->grad_absent, said.grad_absent);
    assert_int_equal(read->cp_size, 4);
    assert_int_equal(read->cp_rank, 3);
    assert_int_equal(read->dp_size, 1);
    assert_true(read->dtype_declared);
    assert_int_equal(read->compute_dtype, CP_BF16);
    assert_true(read->islands);
    assert_int_equal(read->loss_kind, CP_LOSS_LOCAL_MEAN);
    assert_int_equal(read->loss_count, 8);
    assert_int_equal(read->gradients, CP_GRADIENTS_MEAN);
    assert_near(read->grad_scale, 1024, 0);
    assert_int_equal(read->B, SAMPLE_B);
    assert_int_equal(read->S, SAMPLE_T);
    assert_memory_equal(read->token_index, tokens, sizeof tokens);
    assert_memory_equal(read->batch_index, rows, sizeof rows);
    assert_int_equal(again->count, source->count);
    for (size_t t = 0; t < source->count; t++) {
        double values[64];
        assert_string_equal(again->tensors[t].name, source->tensors[t].name);
        assert_ok(cp_source_read_all(again, t, values));
        assert_near(values[0], sample_value(source->tensors[t].name, 0), 0);
    }
    cp_source_close(again);
    cp_source_close(source);
    test_remove_directory(directory);
}

static void defaults(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    static const char *const attributes[] = {"cp_size", "compute_dtype", "loss_kind", "gradients"};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        odd_no_attribute(path, "/", attributes[i]);
    const uint64_t extent[] = {3};
    const uint16_t words[3] = {0x3f80};
    odd_dataset(path, "/grads/narrow", ODD_BF16, ODD_CONTIGUOUS, 1, extent, words);
    cp_source *source;
    assert_ok(cp_dump_open(&source, path));
    const cp_declaration *said = &source->declaration;
    assert_int_equal(said->cp_size, 1);
    assert_int_equal(said->cp_rank, -1);
    assert_int_equal(said->loss_kind, CP_LOSS_GLOBAL);
    assert_int_equal(said->loss_count, -1);
    assert_int_equal(said->gradients, CP_GRADIENTS_REDUCED);
    assert_near(said->grad_scale, 1, 0);
    assert_false(said->dtype_declared);
    assert_int_equal(said->compute_dtype, CP_BF16); /* the narrowest that is stored */
    assert_null(said->token_index);
    assert_string_equal(source->notes, "");
    cp_source_close(source);
    test_remove_directory(directory);
}

static void values_that_are_not_finite_are_kept(void **state)
{
    (void)state;
    double values[3] = {NAN, -INFINITY, -0.0}, out[3];
    const cp_memory_tensor tensor = {"grads/w", CP_VIEW(values, CP_F64, 3), false};
    cp_declaration said = cp_declaration_whole();
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    snprintf(path, sizeof path, "%s/a.h5", directory);
    cp_source *source;
    assert_ok(cp_source_memory(&source, "run", &said, &tensor, 1));
    assert_ok(cp_dump_write(path, source));
    cp_source_close(source);
    assert_ok(cp_dump_open(&source, path));
    assert_ok(cp_source_read_all(source, 0, out));
    assert_true(isnan(out[0]) && out[1] == -INFINITY && signbit(out[2]));
    cp_source_close(source);
    test_remove_directory(directory);
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */

static void one_index_for_all_rows(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    const int32_t tokens[SAMPLE_T] = {4, 3, 2, 1, 0};
    const uint64_t extent[] = {SAMPLE_T};
    odd_dataset(path, "/token_index", ODD_I32, ODD_CONTIGUOUS, 1, extent, tokens);
    const char *const paths[] = {path};
    cp_source *joined;
    assert_ok(cp_dumps_open(&joined, paths, 1, &sample_batch, NULL));
    double loss[TOKENS];
    assert_ok(cp_source_read_all(joined, (size_t)cp_source_find(joined, "token_loss"), loss));
    for (int b = 0; b < SAMPLE_B; b++)
        for (int t = 0; t < SAMPLE_T; t++)
            assert_near(loss[b * SAMPLE_T + t], sample_value("token_loss", b * SAMPLE_T + SAMPLE_T - 1 - t),
                        0);
    cp_source_close(joined);
    test_remove_directory(directory);
}

static void rows_in_another_order(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    sample_dump(path, directory);
    const int64_t rows[SAMPLE_B] = {1, 0};
    const uint64_t extent[] = {SAMPLE_B};
    odd_dataset(path, "/batch_index", ODD_I64_BIG, ODD_CONTIGUOUS, 1, extent, rows);
    const char *const paths[] = {path};
    cp_source *joined;
    assert_ok(cp_dumps_open(&joined, paths, 1, &sample_batch, NULL));
    double loss[TOKENS];
    assert_ok(cp_source_read_all(joined, (size_t)cp_source_find(joined, "token_loss"), loss));
    assert_near(loss[0], sample_value("token_loss", SAMPLE_T), 0);
    assert_near(loss[SAMPLE_T], sample_value("token_loss", 0), 0);
    cp_source_close(joined);
    test_remove_directory(directory);
}

/* ---- prefixes ---------------------------------------------------------------------------------------------------- */

static void prefixes(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bare, *note;
    } cases[] = {
        {"module.a.weight", "a.weight", "dropped module."},
        {"_orig_mod.module.a", "a", "dropped module., _orig_mod."},
        {"base_model.model.model.layers.0.a", "model.layers.0.a", "dropped base_model.model."},
        {"model.layers.0._checkpoint_wrapped_module.a", "model.layers.0.a",
         "dropped _checkpoint_wrapped_module."},
        {"_fsdp_wrapped_module.a._fsdp_wrapped_module.b", "a.b", "dropped _fsdp_wrapped_module."},
        {"model.module.a", "model.module.a", ""}, /* module. counts in front alone */
        {"submodule.a", "submodule.a", ""},
        {"module.w", "module.w", "kept module., without which two would be one"}, /* /grads/w is there */
    };
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], name[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_dump(path, directory);
        const double values[2] = {5, 6};
        const uint64_t extent[] = {2};
        snprintf(name, sizeof name, "/grads/%s", cases[i].name);
        odd_dataset(path, name, ODD_F64, ODD_CONTIGUOUS, 1, extent, values);
        const char *const absent[] = {"module.b"};
        if (i == 0)
            odd_texts(path, "/", "grad_absent", absent, 1);
        cp_source *source;
        assert_ok(cp_dump_open(&source, path));
        snprintf(name, sizeof name, "grads/%s", cases[i].bare);
        int64_t tensor = cp_source_find(source, name);
        assert_true(tensor >= 0);
        double out[2];
        assert_ok(cp_source_read_all(source, (size_t)tensor, out));
        assert_near(out[1], 6, 0);
        assert_text_holds(source->notes, cases[i].note);
        assert_int_equal(*cases[i].note == '\0', *source->notes == '\0');
        if (i == 0)
            assert_string_equal(source->declaration.grad_absent, "b\n");
        cp_source_close(source);
    }
    test_remove_directory(directory);
}

/* ---- directories ------------------------------------------------------------------------------------------------- */

static void write_ranks(const char *directory, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        static int64_t tokens[TOKENS];
        for (int64_t i = 0; i < TOKENS; i++) /* striped, and everything else is padding */
            tokens[i] = i % SAMPLE_T % ranks == rank ? i % SAMPLE_T : -1;
        cp_declaration said = cp_declaration_whole();
        said.cp_size = ranks;
        said.cp_rank = rank;
        said.dtype_declared = true;
        said.gradients = CP_GRADIENTS_PARTIAL;
        said.B = SAMPLE_B;
        said.S = SAMPLE_T;
        said.token_index = tokens;
        char path[CP_PATH_BYTES];
        snprintf(path, sizeof path, "%s/rank-%04d.h5", directory, rank);
        cp_source *source = sample_source(&said);
        assert_ok(cp_dump_write(path, source));
        cp_source_close(source);
    }
}

static void directories(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    const char *const paths[] = {directory};
    cp_source *joined;
    assert_status(cp_dumps_open(&joined, paths, 1, NULL, NULL), CP_INCOMPARABLE, "expected dumps (*.h5)");
    write_ranks(directory, 3);
    char other[CP_PATH_BYTES];
    snprintf(other, sizeof other, "%s/rank-0007.h5.1.tmp", directory); /* somebody is still writing */
    fclose(fopen(other, "w"));
    assert_ok(cp_dumps_open(&joined, paths, 1, &sample_batch, NULL));
    assert_text_holds(joined->label, "(3 ranks)");
    double loss[TOKENS], w[SAMPLE_N];
    assert_ok(cp_source_read_all(joined, (size_t)cp_source_find(joined, "token_loss"), loss));
    for (int i = 0; i < TOKENS; i++)
        assert_near(loss[i], sample_value("token_loss", i), 0);
    assert_ok(cp_source_read_all(joined, (size_t)cp_source_find(joined, "grads/w"), w));
    assert_near(w[1], 3 * sample_value("grads/w", 1), 0);

    snprintf(other, sizeof other, "%s.joined.h5",
             directory); /* what was joined can be written and read again */
    assert_ok(cp_dump_write(other, joined));
    cp_source_close(joined);
    cp_source *whole;
    assert_ok(cp_dump_open(&whole, other));
    assert_ok(cp_source_read_all(whole, (size_t)cp_source_find(whole, "grads/w"), w));
    assert_near(w[1], 3 * sample_value("grads/w", 1), 0);
    cp_source_close(whole);
    unlink(other);

    snprintf(other, sizeof other, "%s/rank-0001.h5", directory);
    unlink(other);
    assert_status(cp_dumps_open(&joined, paths, 1, NULL, NULL), CP_INCOMPARABLE, "rank 1 of 3 is missing");
    const char *const twice[] = {directory, directory};
    assert_status(cp_dumps_open(&joined, twice, 2, NULL, NULL), CP_INCOMPARABLE, "rank 0, which");
    assert_status(cp_dumps_open(&joined, NULL, 0, NULL, NULL), CP_INCOMPARABLE, "no dump");
    const char *const nowhere[] = {"/nowhere/a.h5"};
    assert_status(cp_dumps_open(&joined, nowhere, 1, NULL, NULL), CP_BAD_INPUT, "/nowhere/a.h5");
    test_remove_directory(directory);
}

int dump_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_kept),
        cmocka_unit_test(defaults),
        cmocka_unit_test(values_that_are_not_finite_are_kept),
        cmocka_unit_test(one_index_for_all_rows),
        cmocka_unit_test(rows_in_another_order),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(directories),
    };
    return cmocka_run_group_tests_name("dump", tests, NULL, NULL);
}

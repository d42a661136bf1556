#include "tests/files/groups.h"
#include "tests/files/samples.h"
#include "tests/support/support.h"

static void in_memory(void **state)
{
    (void)state;
    const double wide[6] = {0, 1, 2, 3, 4, 5};
    const float narrow[2] = {0.5f, -1};
    const uint16_t words[2] = {0x3f80, 0xc000};
    double one = 7;
    const cp_memory_tensor tensors[] = {
        {"logits", CP_VIEW((void *)(uintptr_t)wide, CP_F64, 2, 3), false},
        {"grads/b", CP_VIEW((void *)(uintptr_t)narrow, CP_F32, 2), false},
        {"grads/a", CP_VIEW((void *)(uintptr_t)words, CP_BF16, 2), false},
        {"loss", CP_VIEW(&one, CP_F64, 1), true},
    };
    cp_declaration said = {.cp_size = 1, .cp_rank = -1};
    cp_source *source;
    char label[] = "run";
    assert_ok(cp_source_memory(&source, label, &said, tensors, 4));
    label[0] = 'x';
    assert_string_equal(source->label, "run");
    assert_string_equal(source->declaration.layout, "");
    assert_string_equal(source->declaration.grad_absent, "");
    assert_int_equal(source->count, 4);
    assert_string_equal(source->tensors[0].name, "grads/a"); /* sorted */
    assert_int_equal(cp_source_find(source, "grads/c"), -1);
    assert_int_equal(cp_source_find(source, ""), -1);

    size_t loss = (size_t)cp_source_find(source, "loss");
    assert_int_equal(source->tensors[loss].dims, 0);
    double out[6];
    assert_ok(cp_source_read_all(source, loss, out));
    assert_near(out[0], 7, 0);
    assert_ok(source->read(source, (size_t)cp_source_find(source, "logits"), 2, 3, out));
    assert_near(out[2], 4, 0);
    assert_ok(cp_source_read_all(source, (size_t)cp_source_find(source, "grads/b"), out));
    assert_near(out[0], 0.5, 0);
    assert_ok(cp_source_read_all(source, (size_t)cp_source_find(source, "grads/a"), out));
    assert_near(out[0], 1, 0);
    assert_near(out[1], -2, 0);
    cp_source_close(source);
    cp_source_close(NULL);
}

static void name_twice(void *unused)
{
    (void)unused;
    double one = 1;
    const cp_memory_tensor twice[] = {{"a", CP_VIEW(&one, CP_F64, 1), false},
                                      {"a", CP_VIEW(&one, CP_F64, 1), false}};
    cp_declaration said = cp_declaration_whole();
    cp_source *source;
    cp_source_memory(&source, "run", &said, twice, 2);
}

static void a_name_twice_is_our_bug(void **state)
{
    (void)state;
    assert_stops(name_twice, NULL, "a is given twice");
}

static void empty(void **state)
{
    (void)state;
    cp_declaration said = cp_declaration_whole();
    cp_source *source;
    assert_ok(cp_source_memory(&source, "nothing", &said, NULL, 0));
    assert_int_equal(cp_source_find(source, "loss"), -1);
    cp_source_close(source);
}

static void words(void **state)
{
    (void)state;
    for (int i = 0; i < CP_LOSS_KINDS; i++) {
        cp_loss_kind kind = CP_LOSS_KINDS;
        assert_true(cp_loss_kind_named(&kind, cp_loss_kind_name((cp_loss_kind)i)));
        assert_int_equal(kind, i);
    }
    for (int i = 0; i < CP_GRADIENT_KINDS; i++) {
        cp_gradient_kind kind = CP_GRADIENT_KINDS;
        assert_true(cp_gradient_kind_named(&kind, cp_gradient_kind_name((cp_gradient_kind)i)));
        assert_int_equal(kind, i);
    }
    cp_loss_kind kind;
    assert_false(cp_loss_kind_named(&kind, "average"));
}

int source_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_memory), cmocka_unit_test(a_name_twice_is_our_bug),
                                       cmocka_unit_test(empty), cmocka_unit_test(words)};
    return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}

#include "harness/judge/names.h"

#include "tests/judge/groups.h"
#include "tests/support/support.h"

#include <stdlib.h>

static void layers_are_read_from_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t layer;
    } rows[] = {
        {"grads/model.layers.0.self_attn.q_proj.weight", 0},
        {"grads/model.layers.17.mlp.experts.3.w1.weight", 17},
        {"grads/layers.2.norm.weight", 2},
        {"trace/layer.4.out", 4},
        {"trace/grad.layer.4.out", 4},
        {"grads/model.norm.weight", -1},
        {"grads/model.sublayers.3.weight", -1},
        {"grads/model.layers.x.weight", -1},
        {"grads/model.layers.3x.weight", -1},
        {"grads/model.layers.", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(cp_name_layer(rows[i].name), rows[i].layer);
}

static void kinds_are_read_from_names(void **state)
{
    (void)state;
    cp_tensor_kind kind;
    assert_true(cp_name_kind(&kind, "loss") && kind == CP_TENSOR_LOSS);
    assert_true(cp_name_kind(&kind, "token_loss") && kind == CP_TENSOR_TOKEN_LOSS);
    assert_true(cp_name_kind(&kind, "grads/logits") && kind == CP_TENSOR_GRADIENT);
    assert_true(cp_name_kind(&kind, "trace/embed") && kind == CP_TENSOR_TRACE);
    assert_false(cp_name_kind(&kind, "logits_index"));
    assert_false(cp_name_kind(&kind, "gradsx"));
}

static int compare_names(const void *a, const void *b, const char *order)
{
    cp_name_key x = cp_name_key_of(*(const char *const *)a, order);
    cp_name_key y = cp_name_key_of(*(const char *const *)b, order);
    return cp_name_compare(&x, &y);
}

static int by_default(const void *a, const void *b)
{
    return compare_names(a, b, "");
}

static int by_list(const void *a, const void *b)
{
    return compare_names(a, b, "model.norm.weight\ngrads/lm_head.weight\n");
}

static void assert_sorted(int (*compare)(const void *, const void *), const char *const *expected,
                          size_t count)
{
    const char *names[32];
    for (size_t i = 0; i < count; i++)
        names[i] = expected[count - 1 - i];
    qsort(names, count, sizeof *names, compare);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(names[i], expected[i]);
}

static void names_sort_by_execution(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "trace/embed",
        "trace/layer.0.out",
        "trace/layer.10.out",
        "trace/final",
        "logits",
        "token_loss",
        "loss",
        "trace/grad.final",
        "trace/grad.layer.10.out",
        "trace/grad.layer.0.out",
        "trace/grad.embed",
        "grads/inputs_embeds",
        "grads/model.embed_tokens.weight",
        "grads/model.layers.2.input_layernorm.weight",
        "grads/model.layers.2.self_attn.q_proj.weight",
        "grads/model.layers.10.input_layernorm.weight",
        "grads/model.norm.weight",
        "grads/lm_head.weight",
    };
    assert_sorted(by_default, expected, sizeof expected / sizeof *expected);
}

static void a_given_order_comes_first(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "logits",
        "grads/model.norm.weight",
        "grads/lm_head.weight",
        "grads/model.embed_tokens.weight",
        "grads/model.layers.2.input_layernorm.weight",
    };
    assert_sorted(by_list, expected, sizeof expected / sizeof *expected);
}

static void lists_hold_whole_lines(void **state)
{
    (void)state;
    assert_true(cp_name_listed("a.b\nc\n", "c"));
    assert_true(cp_name_listed("a.b\nc", "c"));
    assert_false(cp_name_listed("a.b\nc\n", "a"));
    assert_false(cp_name_listed("a.b\nc\n", "b"));
    assert_false(cp_name_listed("", "a"));
}

int names_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_read_from_names), cmocka_unit_test(kinds_are_read_from_names),
        cmocka_unit_test(names_sort_by_execution),    cmocka_unit_test(a_given_order_comes_first),
        cmocka_unit_test(lists_hold_whole_lines),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}

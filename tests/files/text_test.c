#include "harness/files/text.h"

#include "tests/files/groups.h"
#include "tests/support/support.h"

#include <string.h>

static void plain_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool plain;
    } cases[] = {
        {"", true},
        {"model.layers.0.mlp.up_proj.weight", true},
        {"név", true},
        {"\xe2\x82\xac", true},     /* three bytes */
        {"\xf0\x9f\x99\x82", true}, /* four */
        {"a\nb", false},
        {"a\x1b[31m", false}, /* would colour a terminal */
        {"a\x7f", false},
        {"\xc2\x85", false}, /* a control character in two bytes */
        {"\xff", false},
        {"\x80", false},             /* a follower without a leader */
        {"\xe2\x82", false},         /* cut short */
        {"\xc0\xaf", false},         /* "/" in a form that is too long */
        {"\xed\xa0\x80", false},     /* half of a surrogate pair */
        {"\xf4\x90\x80\x80", false}, /* beyond Unicode */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cp_text_plain(cases[i].text, strlen(cases[i].text)) != cases[i].plain)
            fail_msg("case %zu: \"%s\" is%s plain", i, cases[i].text, cases[i].plain ? " not" : "");
}

static void lines(void **state)
{
    (void)state;
    char line[CP_NAME_BYTES];
    const char *cursor = "a\nbc\n";
    assert_true(cp_lines_next(&cursor, line));
    assert_string_equal(line, "a");
    assert_true(cp_lines_next(&cursor, line));
    assert_string_equal(line, "bc");
    assert_false(cp_lines_next(&cursor, line));

    assert_true(cp_lines_have("a\nbc\n", "bc"));
    assert_false(cp_lines_have("a\nbc\n", "b"));
    assert_false(cp_lines_have("a\nbc\n", "c"));
    assert_false(cp_lines_have("", ""));
}

static void split_and_join(void **state)
{
    (void)state;
    cp_pool pool = {0};
    const char *const *names;
    size_t count, length;
    const char *text;
    assert_ok(cp_lines_split(&pool, "a\nbc\n", &names, &count));
    assert_int_equal(count, 2);
    assert_string_equal(names[1], "bc");
    assert_ok(cp_lines_join(&pool, names, count, 0, "\n", &text, &length));
    assert_string_equal(text, "a\nbc\n");
    assert_int_equal(length, 5);
    assert_ok(cp_lines_join(&pool, "ab\0\0cdef", 2, 4, "\n", &text, &length)); /* side by side, padded */
    assert_string_equal(text, "ab\ncdef\n");
    assert_ok(cp_lines_join(&pool, NULL, 0, 0, "\n", &text, &length));
    assert_string_equal(text, "");
    cp_pool_close(&pool);
}

static void a_pool_that_cannot_grow(void **state)
{
    (void)state;
    cp_pool pool = {0};
    void *memory;
    assert_status(cp_pool_take(&pool, &memory, SIZE_MAX / 2, 8), CP_INTERNAL, "memory");
    assert_status(cp_pool_take(&pool, &memory, SIZE_MAX / 2, 1), CP_INTERNAL, "memory");
    assert_ok(cp_pool_take(&pool, &memory, 3, 8));
    assert_int_equal(((const double *)memory)[2], 0);
    cp_pool_close(&pool);
}

int text_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_texts), cmocka_unit_test(lines),
                                       cmocka_unit_test(split_and_join),
                                       cmocka_unit_test(a_pool_that_cannot_grow)};
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}

#include "harness/report/words.h"

#include "tests/report/groups.h"
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

static void words_are_cleaned(void **state)
{
    (void)state;
    static const struct {
        const char *text, *clean;
    } rows[] = {
        {"plain [1,2] name.weight", "plain [1,2] name.weight"},
        {"\xc3\xa9 \xe2\x80\xa6 \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x80\xa6 \xf0\x9f\x98\x80"},
        {"a\tb\nc\rd\033[0m\177", "a\\x09b\\x0ac\\x0dd\\x1b[0m\\x7f"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"\x80", "\\x80"},                            /* a continuation alone */
        {"\xc3", "\\xc3"},                            /* cut short */
        {"\xe2\x80", "\\xe2\\x80"},                   /* the same */
        {"\xc0\xaf", "\\xc0\\xaf"},                   /* too long a form */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
        {"\xef\xbf\xbf", "\\xef\\xbf\\xbf"},          /* no character of XML */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond Unicode */
        {"\xc2\x85", "\\xc2\\x85"},                   /* C1 */
        {"\xe2\x80\xae", "\\xe2\\x80\\xae"},          /* reverses what follows */
        {"\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"},
    };
    char out[CP_WORD];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(cp_word_clean(out, rows[i].text), rows[i].clean);
}

static void long_words_are_cut(void **state)
{
    (void)state;
    static char text[4 * CP_WORD];
    char out[CP_WORD];
    memset(text, 1, sizeof text - 1);
    assert_true(strlen(cp_word_clean(out, text)) < CP_WORD);
    assert_int_equal(strlen(out) % 4, 0);
    memset(text, 'x', sizeof text - 1);
    assert_true(strlen(cp_word_clean(out, text)) > CP_WORD - 8);
}

static void numbers_are_short(void **state)
{
    (void)state;
    char out[CP_NUMBER];
    assert_string_equal(cp_word_number(out, 2.14e-15), "2.1e-15");
    assert_string_equal(cp_word_number(out, 0), "0");
    assert_string_equal(cp_word_number(out, NAN), "-");
    assert_string_equal(cp_word_number(out, INFINITY), "inf");
    assert_string_equal(cp_word_value(out, NAN), "nan");
    assert_string_equal(cp_word_value(out, -0.1234567), "-0.123457");
    char word[CP_WORD];
    assert_string_equal(cp_word_shape(word, 0, NULL), "scalar");
    assert_string_equal(cp_word_shape(word, 2, (int64_t[]){2, 7}), "[2,7]");
    assert_string_equal(cp_word_index(word, 2, (int64_t[]){0, 5}), "(0,5)");
    assert_string_equal(cp_word_index(word, 0, NULL), "-");
}

static void widths_count_characters(void **state)
{
    (void)state;
    assert_int_equal(cp_word_width("a\xc3\xa9\xe2\x80\xa6"), 3);
    assert_int_equal(cp_word_width(""), 0);
}

int words_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cleaned),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(widths_count_characters),
    };
    return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}

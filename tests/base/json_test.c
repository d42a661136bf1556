#include "base/json.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cp_json *parsed(const char *text)
{
    cp_json *document = NULL;
    assert_ok(cp_json_parse(&document, text, strlen(text), "config.json"));
    return document;
}

static void values_are_read(void **state)
{
    (void)state;
    cp_json *d = parsed(
        "{\"z\": [1, -2.5, \"\\u00e4\\\"x\", null, true, {}], \"a\": 9223372036854775807, \"m\": 1e3}");
    const cp_json *z = cp_json_member(d, "z");
    const cp_json_kind kinds[] = {CP_JSON_INTEGER, CP_JSON_REAL, CP_JSON_STRING,
                                  CP_JSON_NULL,    CP_JSON_BOOL, CP_JSON_OBJECT};
    assert_int_equal(cp_json_size(z), 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(cp_json_kind_of(cp_json_element(z, i)), kinds[i]);
    assert_int_equal(cp_json_integer(cp_json_element(z, 0)), 1);
    assert_near(cp_json_real(cp_json_element(z, 0)), 1, 0);
    assert_near(cp_json_real(cp_json_element(z, 1)), -2.5, 0);
    assert_string_equal(cp_json_string(cp_json_element(z, 2)), "\xc3\xa4\"x");
    assert_true(cp_json_bool(cp_json_element(z, 4)));
    assert_true(cp_json_integer(cp_json_member(d, "a")) == INT64_MAX);
    assert_near(cp_json_real(cp_json_member(d, "m")), 1000, 0);
    assert_null(cp_json_member(d, "absent"));
    assert_null(cp_json_member(z, "z"));
    assert_null(cp_json_member(NULL, "z"));
    cp_json_close(d);
}

static void members_keep_their_order(void **state)
{
    (void)state;
    cp_json *d = parsed("{\"z\": 0, \"a\": 1, \"m\": 2}");
    const char *const names[] = {"z", "a", "m"};
    assert_int_equal(cp_json_size(d), 3);
    void *at = NULL;
    const char *name;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(cp_json_integer(cp_json_next(d, &at, &name)), i);
        assert_string_equal(name, names[i]);
    }
    assert_null(cp_json_next(d, &at, &name));
    assert_null(name);
    cp_json_close(d);
}

static void integers_have_64_bits(void **state)
{
    (void)state;
    cp_json *d = parsed("[-9223372036854775808, 9007199254740993]");
    assert_true(cp_json_integer(cp_json_element(d, 0)) == INT64_MIN);
    assert_true(cp_json_integer(cp_json_element(d, 1)) == INT64_C(9007199254740993));
    cp_json_close(d);
}

/* Each of these is refused with a sentence that begins with the file and says what is wrong. */
static void what_is_not_strict_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *text, *words;
    } cases[] = {
        {"", "config.json: line 1: "},
        {"{\"a\": 1, \"b\": 2, \"a\": 3}", "duplicate object key"},
        {"{\n\n\"a\": {\"b\": 1, \"b\": 1}}", "config.json: line 3: duplicate object key"},
        {"{} x", "end of file expected"},
        {"{}{}", "end of file expected"},
        {"[1,]", "config.json: line 1: "},
        {"[1", "config.json: line 1: "},
        {"{'a': 1}", "config.json: line 1: "},
        {"[01]", "config.json: line 1: "},
        {"[9223372036854775808]", "too big integer"},
        {"[1e400]", "real number overflow"},
        {"[\"\xff\"]", "config.json: line 1: "},
        {"[\"\\ud800\"]", "config.json: line 1: "},
        {"[nan]", "config.json: line 1: "},
        {"[NaN]", "config.json: NaN stands where a number is expected"},
        {"{\"a\": -NaN}", "config.json: NaN stands where a number is expected"},
        {"{\"a\": NaN}", "config.json: NaN stands where a number is expected"},
        {"[{\"__float__\": \"NaN\"}]", "config.json: an object with \"__float__\" holds something else"},
        {"{\"a\": {\"__float__\": \"Infinity\", \"b\": 1}}",
         "an object with \"__float__\" holds something else"},
        {"{\"__float__\": 1}", "an object with \"__float__\" holds something else"},
        {"[--Infinity]", "config.json: line 1: "},
        {"[+Infinity]", "config.json: line 1: "},
        {"[xInfinity]", "config.json: line 1: "},
        {"[Infinityx]", "config.json: line 1: "},
        {"[1Infinity]", "config.json: line 1: "},
        {"[Infinity Infinity]", "config.json: line 1: "},
        {"{Infinity: 1}", "config.json: line 1: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_json *document = NULL;
        print_message("%s\n", cases[i].text);
        assert_status(cp_json_parse(&document, cases[i].text, strlen(cases[i].text), "config.json"),
                      CP_BAD_INPUT, cases[i].words);
    }
}

static void text_ends_where_its_length_says(void **state)
{
    (void)state;
    cp_json *document = NULL;
    assert_ok(cp_json_parse(&document, "[1]garbage", 3, "x"));
    cp_json_close(document);
    const char with_zero[] = "[1]\0[2]";
    assert_status(cp_json_parse(&document, with_zero, 7, "x"), CP_BAD_INPUT, "x: line 1: ");
}

static void infinities_are_numbers(void **state)
{
    (void)state;
    cp_json *d = parsed("{\"time_step_limit\": [0.0, Infinity], \"low\":-Infinity,\n"
                        " \"p\": {\"__float__\": \"Infinity\"}, \"m\": {\"__float__\": \"-Infinity\"},\n"
                        " \"text\": \"Infinity, NaN and \\\"-Infinity\\\" \\\\\", \"last\": Infinity}");
    const cp_json *limit = cp_json_member(d, "time_step_limit");
    const struct {
        const cp_json *value;
        double expected;
    } cases[] = {
        {cp_json_element(limit, 1), INFINITY}, {cp_json_member(d, "low"), -INFINITY},
        {cp_json_member(d, "p"), INFINITY},    {cp_json_member(d, "m"), -INFINITY},
        {cp_json_member(d, "last"), INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(cp_json_kind_of(cases[i].value), CP_JSON_REAL);
        assert_true(cp_json_real(cases[i].value) == cases[i].expected);
        assert_null(cp_json_member(cases[i].value, "__float__"));
    }
    assert_string_equal(cp_json_string(cp_json_member(d, "text")), "Infinity, NaN and \"-Infinity\" \\");
    cp_json_close(d);
}

static void depth_bomb_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 1000000 };
    char *text = malloc(2 * DEPTH);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    cp_json *document = NULL;
    assert_status(cp_json_parse(&document, text, 2 * DEPTH, "bomb.json"), CP_BAD_INPUT,
                  "maximum parsing depth");
    free(text);
}

static void write_file(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void files_of_any_size_are_read(void **state)
{
    (void)state;
    char *directory = test_new_directory(), path[512];
    snprintf(path, sizeof path, "%s/big.json", directory);
    const size_t numbers[] = {0,      1, (1 << 15) - 1, 1 << 15, (1 << 15) + 1,
                              3000000}; /* the block is 1 << 16 bytes */
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        size_t length = 2 * numbers[n] + 3;
        char *text = malloc(length + 1);
        assert_non_null(text);
        text[0] = '[';
        for (size_t i = 0; i < numbers[n]; i++)
            memcpy(text + 1 + 2 * i, "7,", 2);
        memcpy(text + 1 + 2 * numbers[n], "8]", 3);
        write_file(path, text, length);
        cp_json *document = NULL;
        assert_ok(cp_json_read(&document, path));
        assert_int_equal(cp_json_size(document), numbers[n] + 1);
        assert_int_equal(cp_json_integer(cp_json_element(document, numbers[n])), 8);
        cp_json_close(document);
        free(text);
    }
    test_remove_directory(directory);
}

static void unreadable_files_are_named(void **state)
{
    (void)state;
    char *directory = test_new_directory(), path[512], words[600];
    cp_json *document = NULL;
    snprintf(path, sizeof path, "%s/absent.json", directory);
    snprintf(words, sizeof words, "%s: cannot be opened: ", path);
    assert_status(cp_json_read(&document, path), CP_BAD_INPUT, words);
    snprintf(words, sizeof words, "%s: cannot be read: ", directory);
    assert_status(cp_json_read(&document, directory), CP_BAD_INPUT, words);
    write_file(path, "{\"a\": }", 7);
    snprintf(words, sizeof words, "%s: line 1: ", path);
    assert_status(cp_json_read(&document, path), CP_BAD_INPUT, words);
    test_remove_directory(directory);
}

static void text_is_as_it_was_built(void **state)
{
    (void)state;
    cp_json *root = cp_json_new_object(), *list = cp_json_new_array();
    cp_json_set_string(root, "z", "\"quoted\"\n");
    cp_json_set_bool(root, "a", false);
    cp_json_set_integer(root, "big", INT64_MIN);
    cp_json_set_real(root, "third", 1.0 / 3);
    cp_json_set_real(root, "nan", NAN);
    cp_json_set_real(root, "inf", INFINITY);
    cp_json_set_real(root, "-inf", -INFINITY);
    cp_json_append_integer(list, 1);
    cp_json_append_string(list, "two");
    cp_json_append(list, cp_json_new_object());
    cp_json_append_real(list, 0.25);
    cp_json_append_real(list, INFINITY);
    cp_json_set(root, "list", list);
    char *text = cp_json_text(root);
    assert_string_equal(text, "{\n"
                              "  \"z\": \"\\\"quoted\\\"\\n\",\n"
                              "  \"a\": false,\n"
                              "  \"big\": -9223372036854775808,\n"
                              "  \"third\": 0.33333333333333331,\n"
                              "  \"nan\": \"nan\",\n"
                              "  \"inf\": \"inf\",\n"
                              "  \"-inf\": \"-inf\",\n"
                              "  \"list\": [\n"
                              "    1,\n"
                              "    \"two\",\n"
                              "    {},\n"
                              "    0.25,\n"
                              "    \"inf\"\n"
                              "  ]\n"
                              "}");
    cp_json *again = parsed(text);
    assert_true(cp_json_real(cp_json_member(again, "third")) == 1.0 / 3);
    cp_json_close(again);
    free(text);
    cp_json_close(root);
}

static void foreign_bytes_do_not_stop_a_report(void **state)
{
    (void)state;
    cp_json *root = cp_json_new_object();
    cp_json_set_string(root, "na\xffme", "w\xc3\xa4re, \xe4");
    char *text = cp_json_text(root);
    assert_string_equal(text, "{\n  \"na?me\": \"w??re, ?\"\n}");
    free(text);
    cp_json_close(root);
}

static void take_string_for_integer(void *value)
{
    cp_json_integer(value);
}

static void take_integer_for_string(void *value)
{
    cp_json_string(cp_json_element(cp_json_member(value, "list"), 0));
}

static void ask_beyond(void *value)
{
    cp_json_element(cp_json_member(value, "list"), 1);
}

static void ask_a_list_for_members(void *value)
{
    void *at = NULL;
    const char *name;
    cp_json_next(cp_json_member(value, "list"), &at, &name);
}

static void size_of_a_string(void *value)
{
    cp_json_size(cp_json_member(value, "s"));
}

static void wrong_kinds_stop(void **state)
{
    (void)state;
    cp_json *d = parsed("{\"s\": \"x\", \"list\": [1]}");
    assert_stops(take_string_for_integer, d, "an object is taken for an integer");
    assert_stops(take_integer_for_string, d, "an integer is taken for a string");
    assert_stops(ask_beyond, d, "element 1 of 1");
    assert_stops(ask_a_list_for_members, d, "an array is taken for an object");
    assert_stops(size_of_a_string, d, "the size of a string");
    cp_json_close(d);
}

int json_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(members_keep_their_order),
        cmocka_unit_test(integers_have_64_bits),
        cmocka_unit_test(what_is_not_strict_is_refused),
        cmocka_unit_test(text_ends_where_its_length_says),
        cmocka_unit_test(infinities_are_numbers),
        cmocka_unit_test(depth_bomb_is_refused),
        cmocka_unit_test(files_of_any_size_are_read),
        cmocka_unit_test(unreadable_files_are_named),
        cmocka_unit_test(text_is_as_it_was_built),
        cmocka_unit_test(foreign_bytes_do_not_stop_a_report),
        cmocka_unit_test(wrong_kinds_stop),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}

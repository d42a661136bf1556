#include "harness/cli/suite.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 512 };

/* A folder with empty files; a suite looks at names alone. */
static char *folder_of(const char *const *files)
{
    char *folder = test_new_directory();
    for (; *files; files++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, *files);
        for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
            *slash = '\0';
            mkdir(path, 0777);
            *slash = '/';
        }
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
    return folder;
}

static const char *const FILES[] = {"f/a/one.h5",
                                    "f/a/two.h5",
                                    "f/b.h5",
                                    "d/a/one/rank-0000.h5",
                                    "d/a/one/rank-0001.h5",
                                    "d/a/two.h5",
                                    "d/a/.two.1.h5",
                                    "d/a/two/rank-0000.h5",
                                    "d/c/rank-0000.h5",
                                    "d/c/rank-0001.h5",
                                    "d/a/stray.h5",
                                    "d/notes.txt",
                                    "d/e/dump.json",
                                    "d/e/model.safetensors",
                                    "d/a/one/note.txt",
                                    NULL};

/* "name < expected: path path" a line, sorted as they come; paths below `folder` without it. */
static char *drawn(const cp_suite *suite, const char *folder)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    size_t skip = strlen(folder) + 1;
    for (size_t i = 0; i < suite->count; i++) {
        const cp_suite_row *row = &suite->rows[i];
        fprintf(out, "%s < %s:", row->name, row->expected[0] ? row->expected + skip : "nothing");
        for (size_t p = 0; p < row->path_count; p++)
            fprintf(out, " %s", row->paths[p] + skip);
        if (row->path_count == 0)
            fprintf(out, " no %s", row->wanted + skip);
        fputc('\n', out);
    }
    fclose(out);
    return text;
}

static void assert_suite(const char *folder, const char *text, const char *expected)
{
    cp_suite suite = {0};
    assert_ok(cp_suite_parse(&suite, text, strlen(text), "s.json", folder));
    char *found = drawn(&suite, folder);
    assert_string_equal(found, expected);
    free(found);
    cp_suite_close(&suite);
}

static void two_folders_are_matched_by_name(void **state)
{
    (void)state;
    char *folder = folder_of(FILES), fixtures[PATH_BYTES], dumps[PATH_BYTES];
    snprintf(fixtures, sizeof fixtures, "%s//./f/", folder);
    snprintf(dumps, sizeof dumps, "%s/d", folder);
    cp_suite suite = {0};
    assert_ok(cp_suite_folders(&suite, fixtures, dumps));
    char *found = drawn(&suite, folder);
    assert_string_equal(found, "a/one < f/a/one.h5: d/a/one\n"
                               "a/two < f/a/two.h5: d/a/two.h5\n"
                               "b < f/b.h5: no d/b\n"
                               "a/stray < nothing: no d/a/stray.h5\n"
                               "a/two/ < nothing: no d/a/two\n"
                               "c < nothing: no d/c\n"
                               "e < nothing: no d/e\n");
    free(found);
    cp_suite_close(&suite);
    assert_status(cp_suite_folders(&suite, fixtures, "/no/such/folder"), CP_BAD_INPUT, "cannot be read");
    cp_suite_close(&suite);
    test_remove_directory(folder);
}

static void entries_name_files_folders_and_patterns(void **state)
{
    (void)state;
    char *folder = folder_of(FILES);
    assert_suite(folder, "[]", "");
    assert_suite(folder, "[{\"fixture\": \"f/b.h5\", \"dump\": \"./d//a/one/\"}]",
                 "d/a/one < f/b.h5: d/a/one\n");
    assert_suite(folder, "[{\"fixture\": \"f/b.h5\", \"dump\": \"d/a/t*\"}]",
                 "d/a/two < f/b.h5: d/a/two\nd/a/two.h5 < f/b.h5: d/a/two.h5\n");
    assert_suite(folder, "[{\"name\": \"n\", \"fixture\": \"f/b.h5\", \"dump\": \"d/*/s*\"}]",
                 "n < f/b.h5: d/a/stray.h5\n");
    assert_suite(folder, "[{\"name\": \"n\", \"fixture\": \"f/b.h5\", \"dump\": \"d/no*/x\"}]",
                 "n < f/b.h5: no d/no*/x\n");
    assert_suite(folder, "[{\"fixture\": \"f/b.h5\", \"dump\": [\"d/c/rank-*.h5\", \"d/a/stray.h5\"]}]",
                 "d/c/rank-*.h5 < f/b.h5: d/c/rank-0000.h5 d/c/rank-0001.h5 d/a/stray.h5\n");
    assert_suite(folder, "[{\"fixture\": \"f/b.h5\", \"dump\": [\"d/c/rank-*.h5\", \"d/none\"]}]",
                 "d/none < f/b.h5: no d/none\n");
    assert_suite(folder, "[{\"fixture\": \"f/b.h5\", \"dump\": \"d/a/t*\", \"count\": 2}]",
                 "d/a/two < f/b.h5: d/a/two\nd/a/two.h5 < f/b.h5: d/a/two.h5\n");
    assert_suite(folder, "[{\"fixture\": \"f/b.h5\", \"dump\": \"d/a/s*\", \"count\": 2}]",
                 "d/a/stray.h5 < f/b.h5: d/a/stray.h5\nd/a/s*: count < f/b.h5: no d/a/s*\n");
    test_remove_directory(folder);
}

/* An entry of its own takes its dump out of the folders, and what any entry has is not extra. */
static void entries_come_before_folders(void **state)
{
    (void)state;
    char *folder = folder_of(FILES);
    assert_suite(
        folder,
        "[{\"fixtures\": \"f\", \"dumps\": \"d\"},"
        " {\"fixture\": \"f/a/one.h5\", \"dump\": [\"d/a/one/rank-*.h5\"]},"
        " {\"fixture\": \"f/b.h5\", \"dump\": \"d/b\", \"expect\": \"missing\", \"because\": \"why\"},"
        " {\"name\": \"own\", \"fixture\": \"f/b.h5\", \"dump\": \"d/a/two\"},"
        " {\"fixture\": \"f/b.h5\", \"dump\": \"d/c\"}]",
        "d/a/one/rank-*.h5 < f/a/one.h5: d/a/one/rank-0000.h5 d/a/one/rank-0001.h5\n"
        "d/b < f/b.h5: no d/b\n"
        "own < f/b.h5: d/a/two\n"
        "d/c < f/b.h5: d/c\n"
        "d/a/two < f/a/two.h5: d/a/two.h5\n"
        "d/a/stray < nothing: no d/a/stray.h5\n"
        "d/e < nothing: no d/e\n");
    test_remove_directory(folder);
}

static void properties_are_kept(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"name\": \"n\", \"expected\": \"d/a\", \"fixture\": \"f/b.h5\", \"dump\": \"/\","
        " \"only\": \"grads/*\", \"rtol\": 1e-3, \"expect\": \"not comparable\","
        " \"because\": \"why\", \"says\": \"words\"}]";
    cp_suite suite = {0};
    assert_ok(cp_suite_parse(&suite, text, strlen(text), "s.json", ""));
    const cp_suite_row *row = &suite.rows[0];
    assert_string_equal(row->expected, "d/a");
    assert_string_equal(row->fixture, "f/b.h5");
    assert_string_equal(row->paths[0], "/");
    assert_string_equal(row->only, "grads/*");
    assert_true(row->user_limits);
    assert_near(row->rtol, 1e-3, 0);
    assert_near(row->atol, 0, 0);
    assert_int_equal(row->known, CP_GATE_NOT_COMPARABLE);
    assert_string_equal(row->because, "why");
    assert_string_equal(row->says, "words");
    cp_suite_close(&suite);
}

#define PAIR "\"fixture\": \"f\", \"dump\": \"d\""

static void what_is_no_suite_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } table[] = {
        {"", "s.json"},
        {"[", "s.json"},
        {"[{" PAIR ",}]", "s.json"},
        {"{}", "s.json: found an object, expected a list of dumps to judge"},
        {"[1]", "s.json: [0]: found an integer, expected an object"},
        {"[{" PAIR "}, {" PAIR ", \"nmae\": \"x\"}]", "s.json: [1].nmae: no such property; there are name, "},
        {"[{" PAIR ", \"name\": \"\"}]",
         "s.json: [0].name: found a string, expected a text that is not empty"},
        {"[{" PAIR ", \"name\": null}]", "s.json: [0].name: found null"},
        {"[{" PAIR ", \"rtol\": -1}]",
         "s.json: [0].rtol: found an integer, expected a number that is not negative"},
        {"[{" PAIR ", \"atol\": \"1\"}]", "s.json: [0].atol: found a string"},
        {"[{" PAIR ", \"atol\": Infinity}]", "s.json: [0].atol: found a number"},
        {"[{\"fixture\": \"f\", \"dump\": []}]",
         "s.json: [0].dump: found an array, expected a path, or a list"},
        {"[{\"fixture\": \"f\", \"dump\": [\"a\", 1]}]", "s.json: [0].dump: found an array"},
        {"[{\"fixture\": \"f\"}]", "s.json: [0]: expected a dump, or two folders"},
        {"[{\"dump\": \"d\"}]", "s.json: [0]: expected what the dump is held against"},
        {"[{\"fixtures\": \"f\"}]", "s.json: [0]: expected both folders"},
        {"[{\"fixtures\": \"f\", \"dumps\": \"d\", \"dump\": \"d\"}]", "leave no room for a dump of its own"},
        {"[{\"fixtures\": \"/no/such\", \"dumps\": \"d\"}]", "/no/such: cannot be read: "},
        {"[{\"fixtures\": \"/dev/null\", \"dumps\": \"d\"}]", "/dev/null: expected a folder, found a file"},
        {"[{" PAIR ", \"atol\": 0, \"limits\": \"l\"}]", "s.json: [0].limits: not with rtol or atol"},
        {"[{" PAIR ", \"count\": 0}]",
         "s.json: [0].count: found an integer, expected a whole number above 0"},
        {"[{\"fixture\": \"f\", \"dump\": [\"d\"], \"count\": 2}]",
         "s.json: [0].count: of the dumps that fit"},
        {"[{" PAIR ", \"because\": \"x\"}]", "s.json: [0]: because and says are of what is expected"},
        {"[{" PAIR ", \"expect\": \"differnt\", \"because\": \"x\"}]",
         "s.json: [0].expect: 'differnt', expected same, different, not comparable or missing"},
        {"[{" PAIR ", \"expect\": \"different\"}]",
         "s.json: [0]: because is missing: why is 'different' expected?"},
        {"[{" PAIR ", \"expect\": \"same\", \"says\": \"x\"}]", "'same' is none"},
        {"[{" PAIR "}, {" PAIR "}]", "s.json: two dumps are called 'd': give one of them another name"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cp_suite suite = {0};
        assert_status(cp_suite_parse(&suite, table[i].text, strlen(table[i].text), "s.json", ""),
                      CP_BAD_INPUT, table[i].sentence);
        cp_suite_close(&suite);
    }
    cp_suite suite = {0};
    assert_status(cp_suite_read(&suite, "/no/such/suite.json"), CP_BAD_INPUT, "/no/such/suite.json: ");
    cp_suite_close(&suite);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_folders_are_matched_by_name),
        cmocka_unit_test(entries_name_files_folders_and_patterns),
        cmocka_unit_test(entries_come_before_folders),
        cmocka_unit_test(properties_are_kept),
        cmocka_unit_test(what_is_no_suite_is_refused),
    };
    return cmocka_run_group_tests_name("suite", tests, NULL, NULL);
}

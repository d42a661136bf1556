#include "base/json.h"
#include "harness/report/page.h"
#include "tests/report/groups.h"
#include "tests/report/sample.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BEGIN[] = "<script type=\"application/json\" id=\"report\">";
static const char END[] = "</script>";

/* What the page carries, as a browser would cut it out. */
static char *carried(const char *page)
{
    const char *begin = strstr(page, BEGIN);
    assert_non_null(begin);
    begin += strlen(BEGIN);
    const char *end = strstr(begin, END);
    assert_non_null(end);
    return strndup(begin, (size_t)(end - begin));
}

static cp_json *parsed(const char *text)
{
    cp_json *document = NULL;
    assert_ok(cp_json_parse(&document, text, strlen(text), "report"));
    return document;
}

static size_t count(const char *text, const char *words)
{
    size_t times = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at += strlen(words))
        times++;
    return times;
}

static const char *word(const cp_json *object, const char *name)
{
    const cp_json *member = cp_json_member(object, name);
    assert_non_null(member);
    return cp_json_string(member);
}

/* ---- the template ---- */

static void the_template_needs_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(count(cp_report_page, CP_PAGE_MARK), 1);
    static const char *const forbidden[] = {
        "https:",  " src=",     "<link",     "@import",           "fetch(", "XMLHttpRequest", "eval(",
        ".write(", "innerHTML", "outerHTML", "insertAdjacentHTML"};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        if (strstr(cp_report_page, forbidden[i]))
            fail_msg("the page holds %s", forbidden[i]);
    }
    assert_int_equal(count(cp_report_page, "http:"), count(cp_report_page, "'http://www.w3.org/2000/svg'"));
    assert_int_equal(count(cp_report_page, "url("), count(cp_report_page, "url(#"));
    assert_text_holds(cp_report_page, "default-src 'none'");
}

/* ---- what it carries ---- */

/* The page's JSON with an indentation of nothing is that of the JSON report. */
static void assert_carries(char *page, char *json)
{
    char *found = carried(page);
    assert_int_equal(count(found, "<") + count(found, ">") + count(found, "&") + count(found, "\n"), 0);
    cp_json *in_page = parsed(found), *alone = parsed(json);
    char *texts[2] = {cp_json_text(in_page), cp_json_text(alone)};
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    cp_json_close(in_page);
    cp_json_close(alone);
    free(found);
    free(page);
    free(json);
}

static void assert_page_of(const sample *s)
{
    assert_carries(cp_report_result(&s->result, CP_REPORT_HTML, (cp_report_style){0}),
                   cp_report_result(&s->result, CP_REPORT_JSON, (cp_report_style){0}));
}

static void a_page_carries_the_json_report(void **state)
{
    (void)state;
    static sample s;
    sample_same(&s);
    assert_page_of(&s);
    sample_mixed(&s);
    assert_page_of(&s);
    cp_trial_row rows[SAMPLE_TRIALS];
    sample_trials(rows);
    assert_carries(cp_report_trials(rows, SAMPLE_TRIALS, CP_REPORT_HTML),
                   cp_report_trials(rows, SAMPLE_TRIALS, CP_REPORT_JSON));
    assert_carries(cp_report_trials(NULL, 0, CP_REPORT_HTML), cp_report_trials(NULL, 0, CP_REPORT_JSON));
}

static void no_name_breaks_out(void **state)
{
    (void)state;
    static sample s;
    static const char *const names[] = {"</script><script>alert(1)</script>",
                                        "<!--<script>",
                                        "--></SCRIPT >",
                                        "]]>&lt;/script&gt;",
                                        "@REPORT@",
                                        "\\u003c/script>",
                                        "\"}</script>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sample_hostile(&s);
        assert_page_of(&s);
        snprintf(s.tensors[0].name, sizeof s.tensors[0].name, "%s", names[i]);
        s.result.next = sample_text(&s, names[i]);
        s.result.expected_label = sample_text(&s, names[i]);
        assert_page_of(&s);
        char *page = cp_report_result(&s.result, CP_REPORT_HTML, (cp_report_style){0});
        assert_int_equal(count(page, END), count(cp_report_page, END));
        assert_int_equal(count(page, "<!--"), count(cp_report_page, "<!--"));
        free(page);
    }
}

/* ---- the same in all forms ---- */

static void assert_verdicts(const cp_result *result, const char *shouted, const char *junit)
{
    const char *verdict = cp_verdict_name(result->verdict);
    char *forms[CP_REPORT_FORMATS];
    for (int i = 0; i < CP_REPORT_FORMATS; i++)
        forms[i] = cp_report_result(result, (cp_report_format)i, (cp_report_style){0});
    assert_true(strncmp(forms[CP_REPORT_TEXT], shouted, strlen(shouted)) == 0);
    char heading[64];
    snprintf(heading, sizeof heading, " %s: ", verdict);
    assert_int_equal(count(forms[CP_REPORT_MARKDOWN], heading), 1);
    assert_text_holds(forms[CP_REPORT_JUNIT], junit);
    char *page = carried(forms[CP_REPORT_HTML]);
    const char *const machine[] = {forms[CP_REPORT_JSON], page};
    for (int i = 0; i < 2; i++) {
        cp_json *root = parsed(machine[i]);
        const cp_json *tensors = cp_json_member(root, "tensors");
        assert_string_equal(word(root, "verdict"), verdict);
        assert_int_equal(cp_json_integer(cp_json_member(root, "exit_status")),
                         cp_verdict_exit(result->verdict));
        assert_int_equal(cp_json_size(tensors), result->count);
        for (size_t t = 0; t < result->count; t++)
            assert_string_equal(word(cp_json_element(tensors, t), "verdict"),
                                cp_verdict_name(result->tensors[t].verdict));
        assert_text_holds(forms[CP_REPORT_TEXT], word(root, "tally"));
        cp_json_close(root);
    }
    free(page);
    for (int i = 0; i < CP_REPORT_FORMATS; i++)
        free(forms[i]);
}

static void verdicts_are_the_same_in_all_forms(void **state)
{
    (void)state;
    static sample s;
    sample_same(&s);
    assert_verdicts(&s.result, "SAME  ", "failures=\"0\" errors=\"0\"");
    sample_many(&s, 3, 0, 0);
    assert_verdicts(&s.result, "DIFFERENT  ", "failures=\"3\" errors=\"0\"");
    sample_mixed(&s);
    assert_verdicts(&s.result, "NOT COMPARABLE  ", "failures=\"2\" errors=\"1\"");
}

static void outcomes_are_the_same_in_all_forms(void **state)
{
    (void)state;
    cp_trial_row rows[SAMPLE_TRIALS];
    sample_trials(rows);
    char *forms[CP_REPORT_FORMATS];
    for (int i = 0; i < CP_REPORT_FORMATS; i++)
        forms[i] = cp_report_trials(rows, SAMPLE_TRIALS, (cp_report_format)i);
    char *page = carried(forms[CP_REPORT_HTML]);
    cp_json *root = parsed(page);
    const char *summary = word(root, "summary");
    assert_text_holds(forms[CP_REPORT_TEXT], summary);
    assert_text_holds(forms[CP_REPORT_MARKDOWN], summary);
    assert_text_holds(forms[CP_REPORT_JSON], summary);
    assert_text_holds(forms[CP_REPORT_JUNIT], "tests=\"6\" failures=\"1\" errors=\"2\" skipped=\"2\"");
    const cp_json *trials = cp_json_member(root, "trials");
    assert_int_equal(cp_json_size(trials), SAMPLE_TRIALS);
    for (size_t i = 0; i < SAMPLE_TRIALS; i++)
        assert_string_equal(word(cp_json_element(trials, i), "verdict"),
                            cp_trial_outcome_name(rows[i].outcome));
    cp_json_close(root);
    free(page);
    for (int i = 0; i < CP_REPORT_FORMATS; i++)
        free(forms[i]);
}

int page_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_template_needs_nothing_else),
        cmocka_unit_test(a_page_carries_the_json_report),
        cmocka_unit_test(no_name_breaks_out),
        cmocka_unit_test(verdicts_are_the_same_in_all_forms),
        cmocka_unit_test(outcomes_are_the_same_in_all_forms),
    };
    return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}

#include "tests/report/groups.h"
#include "tests/report/sample.h"
#include "tests/support/support.h"

#include <libxml/parser.h>
#include <stdlib.h>
#include <string.h>

static xmlDocPtr parsed(char *text)
{
    xmlDocPtr document = xmlReadMemory(text, (int)strlen(text), "report.xml", NULL, XML_PARSE_NONET);
    if (!document)
        fail_msg("not well-formed:\n%s", text);
    free(text);
    return document;
}

static xmlNodePtr child(xmlNodePtr node, int index)
{
    xmlNodePtr at = xmlFirstElementChild(node);
    for (; at && index > 0; index--)
        at = xmlNextElementSibling(at);
    return at;
}

static void assert_attribute(xmlNodePtr node, const char *name, const char *expected)
{
    xmlChar *value = xmlGetProp(node, BAD_CAST name);
    assert_non_null(value);
    assert_string_equal((const char *)value, expected);
    xmlFree(value);
}

/* What comes before the cases: by which limits was judged. */
static void assert_limits(xmlNodePtr suite, const char *words)
{
    xmlNodePtr properties = child(suite, 0);
    assert_string_equal((const char *)properties->name, "properties");
    assert_attribute(child(properties, 0), "name", "limits");
    assert_attribute(child(properties, 0), "value", words);
    assert_null(child(properties, 1));
}

/* NULL: passed. */
static void assert_case(xmlNodePtr test, const char *name, const char *element, const char *message)
{
    assert_string_equal((const char *)test->name, "testcase");
    assert_attribute(test, "name", name);
    xmlNodePtr outcome = child(test, 0);
    assert_true((outcome == NULL) == (element == NULL));
    if (!element)
        return;
    assert_string_equal((const char *)outcome->name, element);
    assert_attribute(outcome, "message", message);
}

static xmlNodePtr suite_of(xmlDocPtr document, const char *const totals[4])
{
    static const char *const names[] = {"tests", "failures", "errors", "skipped"};
    xmlNodePtr root = xmlDocGetRootElement(document);
    assert_string_equal((const char *)root->name, "testsuites");
    xmlNodePtr suite = child(root, 0);
    for (int i = 0; i < 4; i++) {
        assert_attribute(root, names[i], totals[i]);
        assert_attribute(suite, names[i], totals[i]);
    }
    return suite;
}

static void a_judgement_is_a_suite(void **state)
{
    (void)state;
    static sample s;
    sample_mixed(&s);
    s.failures[s.result.failure_count++] = sample_text(&s, "no limits for bfloat16");
    xmlDocPtr document = parsed(cp_report_result(&s.result, CP_REPORT_JUNIT, (cp_report_style){0}));
    xmlNodePtr suite = suite_of(document, (const char *const[]){"5", "2", "2", "0"});
    assert_limits(suite, "uncalibrated limits");
    assert_case(child(suite, 1), "comparable", "error", "no limits for bfloat16");
    assert_case(child(suite, 2), "logits", "failure", "5e+11 times its limit");
    assert_case(child(suite, 3), "loss", NULL, NULL);
    assert_case(child(suite, 5), "grads/lm_head.weight", "error", "missing from run.h5");
    assert_null(child(suite, 6));
    xmlFreeDoc(document);
}

static void trials_are_a_suite(void **state)
{
    (void)state;
    cp_trial_row rows[SAMPLE_TRIALS];
    sample_trials(rows);
    xmlDocPtr document = parsed(cp_report_trials(rows, SAMPLE_TRIALS, CP_REPORT_JUNIT));
    xmlNodePtr suite = suite_of(document, (const char *const[]){"6", "1", "2", "2"});
    static const char *const elements[CP_TRIAL_OUTCOMES] = {NULL, "failure", "error", "skipped", "error"};
    static const char *const names[SAMPLE_TRIALS] = {
        "cp 1, local, contiguous, float64, dense",
        "cp 2, ulysses, contiguous, float64, dense",
        "cp 2, ulysses, contiguous, float64, varlen",
        "cp 2, dp 2, micro 3, ulysses, contiguous, float64, dense",
        "cp 2, ulysses, contiguous, float64, dense",
        "cp 2, ulysses, contiguous, float64, varlen"};
    for (int i = 0; i < SAMPLE_TRIALS; i++) {
        assert_case(child(suite, i), names[i], elements[rows[i].outcome], rows[i].sentence);
        assert_attribute(child(suite, i), "classname", rows[i].fixture);
        assert_attribute(child(suite, i), "time", "0.250");
    }
    xmlFreeDoc(document);
}

static void strange_names_are_well_formed(void **state)
{
    (void)state;
    static sample s;
    sample_hostile(&s);
    xmlDocPtr document = parsed(cp_report_result(&s.result, CP_REPORT_JUNIT, (cp_report_style){0}));
    xmlNodePtr suite = child(xmlDocGetRootElement(document), 0);
    assert_case(child(suite, 1), "grads/\\x01\\xff\xc3\xa9|<x>]]>&amp;", "failure",
                "a reason\\x0aof two lines with \\xef\\xbf\\xbe");
    assert_attribute(child(suite, 1), "classname", "a\\x1b[31m<b>&\"'|`x`.h5");
    xmlFreeDoc(document);
}

int junit_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_judgement_is_a_suite),
        cmocka_unit_test(trials_are_a_suite),
        cmocka_unit_test(strange_names_are_well_formed),
    };
    int failed = cmocka_run_group_tests_name("JUnit", tests, NULL, NULL);
    xmlCleanupParser();
    return failed;
}

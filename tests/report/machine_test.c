#include "base/json.h"
#include "tests/report/groups.h"
#include "tests/report/sample.h"
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

static cp_json *parsed(char *text)
{
    cp_json *document = NULL;
    assert_ok(cp_json_parse(&document, text, strlen(text), "report"));
    free(text);
    return document;
}

static const char *word(const cp_json *object, const char *name)
{
    const cp_json *member = cp_json_member(object, name);
    assert_non_null(member);
    return cp_json_string(member);
}

static int64_t number(const cp_json *object, const char *name)
{
    const cp_json *member = cp_json_member(object, name);
    assert_non_null(member);
    return cp_json_integer(member);
}

static void a_judgement_reads_back(void **state)
{
    (void)state;
    static sample s;
    sample_mixed(&s);
    cp_json *root = parsed(cp_report_result(&s.result, CP_REPORT_JSON, (cp_report_style){0}));
    assert_int_equal(number(root, "schema_version"), 1);
    assert_string_equal(word(root, "kind"), "diff");
    assert_string_equal(word(root, "verdict"), "not comparable");
    assert_int_equal(number(root, "exit_status"), 2);
    assert_string_equal(word(root, "dtype"), "float64");
    assert_string_equal(word(root, "limits"), "uncalibrated limits");
    assert_string_equal(word(root, "gradients"), "nan");
    assert_int_equal(cp_json_size(cp_json_member(root, "notes")), 1);
    const cp_json *tensors = cp_json_member(root, "tensors");
    assert_int_equal(cp_json_size(tensors), s.result.count);
    const cp_json *logits = cp_json_element(tensors, 0);
    assert_string_equal(word(logits, "name"), "logits");
    assert_string_equal(word(logits, "verdict"), "different");
    assert_near(cp_json_real(cp_json_member(logits, "factor")), 1.5, 0);
    assert_near(cp_json_real(cp_json_member(logits, "of_limit")), 5e11, 1);
    const cp_json *index = cp_json_member(cp_json_member(logits, "worst"), "index");
    assert_int_equal(cp_json_integer(cp_json_element(index, 2)), 12);
    const cp_json *errors = cp_json_element(cp_json_member(logits, "bin_errors"), 0);
    assert_int_equal(cp_json_size(errors), 7);
    assert_near(cp_json_real(cp_json_element(errors, 4)), 0.25, 0);
    assert_string_equal(cp_json_string(cp_json_element(errors, 5)), "inf");
    assert_near(cp_json_real(cp_json_element(cp_json_member(logits, "rank_share"), 1)), 1, 0);
    const cp_json *batch = cp_json_member(root, "batch");
    assert_int_equal(number(batch, "length"), 7);
    assert_int_equal(number(batch, "ranks"), 2);
    const cp_json *documents = cp_json_element(cp_json_member(batch, "documents"), 0);
    assert_int_equal(cp_json_integer(cp_json_element(documents, 3)), 1);
    assert_int_equal(cp_json_integer(cp_json_element(documents, 6)), CP_BIN_PADDING);
    const cp_json *owners = cp_json_element(cp_json_member(batch, "owners"), 0);
    assert_int_equal(cp_json_integer(cp_json_element(owners, 4)), 1);
    assert_int_equal(cp_json_integer(cp_json_element(cp_json_member(batch, "rank_tokens"), 0)), 4);
    const cp_json *head = cp_json_element(tensors, 3);
    assert_string_equal(word(head, "reason"), "missing from run.h5");
    assert_null(cp_json_member(head, "factor"));
    cp_json_close(root);
}

static void strange_names_read_back(void **state)
{
    (void)state;
    static sample s;
    sample_hostile(&s);
    cp_json *root = parsed(cp_report_result(&s.result, CP_REPORT_JSON, (cp_report_style){0}));
    const cp_json *tensor = cp_json_element(cp_json_member(root, "tensors"), 0);
    assert_string_equal(word(tensor, "name"), "grads/\\x01\\xff\xc3\xa9|<x>]]>&amp;");
    cp_json_close(root);
}

static void trials_read_back(void **state)
{
    (void)state;
    cp_trial_row rows[SAMPLE_TRIALS];
    sample_trials(rows);
    cp_json *root = parsed(cp_report_trials(rows, SAMPLE_TRIALS, CP_REPORT_JSON));
    assert_string_equal(word(root, "kind"), "verify");
    assert_int_equal(number(root, "exit_status"), cp_trials_exit(rows, SAMPLE_TRIALS));
    assert_int_equal(number(root, "runs"), SAMPLE_TRIALS);
    const cp_json *trials = cp_json_member(root, "trials");
    for (int i = 0; i < SAMPLE_TRIALS; i++) {
        const cp_json *trial = cp_json_element(trials, (size_t)i);
        assert_string_equal(word(trial, "verdict"), cp_trial_outcome_name(rows[i].outcome));
        assert_string_equal(word(trial, "sentence"), rows[i].sentence);
    }
    for (int outcome = 0; outcome < CP_TRIAL_OUTCOMES; outcome++)
        assert_int_equal(number(root, cp_trial_outcome_name((cp_trial_outcome)outcome)),
                         outcome == CP_TRIAL_REFUSED ? 2 : 1);
    cp_json_close(root);
}

int machine_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_judgement_reads_back),
        cmocka_unit_test(strange_names_read_back),
        cmocka_unit_test(trials_read_back),
    };
    return cmocka_run_group_tests_name("JSON", tests, NULL, NULL);
}

#include "tests/report/groups.h"
#include "tests/report/sample.h"
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

/* A line of a report is a line here. */
/* clang-format off */
static const char SAME[] =
    "SAME  run.h5 against golden/llama/packed7.h5\n"
    "float64, uncalibrated limits; 3 tensors: 3 same; errors: loss 0, logits 8.8e-16, gradients 2.0e-15\n";

static const char MIXED[] =
    "NOT COMPARABLE  run.h5 against golden/llama/packed7.h5\n"
    "float64, uncalibrated limits; 4 tensors: 1 same, 2 different, 1 not comparable; errors: loss 0, logits 8.8e-16\n"
    "  tensor                   shape       error  of limit  worst at  found  expected  factor    cosine\n"
    "  logits                   [1,7,37]  5.0e-01   5.0e+11  (0,5,12)  1.875      1.25     1.5  1.000000\n"
    "  grads/model.norm.weight  [16]      1 of 16 values are not finite; the first: nan at (3), expected 0.5\n"
    "  grads/lm_head.weight     [37,16]   missing from run.h5\n"
    "note: run.h5 has no token losses: judged by loss and logits\n"
    "next: nothing is said about the whole before both sides hold the same tensors\n";

static const char MIXED_ALL[] =
    "\033[1;33mNOT COMPARABLE\033[0m  run.h5 against golden/llama/packed7.h5\n"
    "float64, uncalibrated limits; 4 tensors: 1 same, 2 different, 1 not comparable; errors: loss 0, logits 8.8e-16\n"
    "  tensor                   shape       error  of limit  worst at  found  expected  factor    cosine\n"
    "  logits                   [1,7,37]  5.0e-01   5.0e+11  (0,5,12)  1.875      1.25     1.5  1.000000\n"
    "  loss                     scalar          0         0  -             -         -       1  1.000000\n"
    "  grads/model.norm.weight  [16]      1 of 16 values are not finite; the first: nan at (3), expected 0.5\n"
    "  grads/lm_head.weight     [37,16]   missing from run.h5\n"
    "note: run.h5 has no token losses: judged by loss and logits\n"
    "next: nothing is said about the whole before both sides hold the same tensors\n";

static const char MIXED_MARKDOWN[] =
    "### ⚠️ not comparable: run.h5 against golden/llama/packed7.h5\n"
    "\n"
    "float64, uncalibrated limits; 4 tensors: 1 same, 2 different, 1 not comparable\n"
    "\n"
    "| tensor | shape | verdict | relative error | of limit | factor | cosine | why |\n"
    "|---|---|---|---:|---:|---:|---:|---|\n"
    "| logits | \\[1,7,37\\] | different | 5.0e-01 | 5.0e+11 | 1.5 | 1 | 5e+11 times its limit |\n"
    "| grads/model.norm.weight | \\[16\\] | different | - | - | - | - | 1 of 16 values are not finite; the first: nan at (3), expected 0.5 |\n"
    "| grads/lm_head.weight | \\[37,16\\] | not comparable | - | - | - | - | missing from run.h5 |\n"
    "\n"
    "- run.h5 has no token losses: judged by loss and logits\n"
    "- **next:** nothing is said about the whole before both sides hold the same tensors\n";

static const char TRIALS[] =
    "fixture                          cp  exchange  layout      dtype    attention  loss     logits   gradients  worst tensor                            verdict\n"
    "llama/packed7                     1  local     contiguous  float64  dense      1.1e-16  8.8e-16  2.1e-15    model.layers.0.self_attn.k_proj.weight  same\n"
    "llama/packed7                     2  ulysses   contiguous  float64  dense      1.1e-16  8.8e-16  2.1e-15    model.layers.0.self_attn.k_proj.weight  different       logits: 2.5e+11 times its limit\n"
    "llama4_text/full7                 2  ulysses   contiguous  float64  varlen     -        -        -          -                                       refused         chunked attention needs the dense mask\n"
    "llama/full7        2, dp 2, micro 3  ulysses   contiguous  float64  dense      -        -        -          -                                       not comparable  no limits for bfloat16\n"
    "llama/broken                      2  ulysses   contiguous  float64  dense      -        -        -          -                                       error           broken.h5: truncated\n"
    "llama4_text/left7                 2  ulysses   contiguous  float64  varlen     -        -        -          -                                       refused         chunked attention needs the dense mask\n"
    "6 runs: 1 same, 1 different, 1 not comparable, 1 error, 2 refused (chunked attention needs the dense mask: 2)\n";

static const char TRIALS_MARKDOWN[] =
    "### ⚠️ 6 runs: 1 same, 1 different, 1 not comparable, 1 error, 2 refused (chunked attention needs the dense mask: 2)\n"
    "\n"
    "| fixture | cp | exchange | layout | dtype | attention | loss | logits | gradients | worst tensor | verdict | why |\n"
    "|---|---:|---|---|---|---|---:|---:|---:|---|---|---|\n"
    "| llama/packed7 | 2 | ulysses | contiguous | float64 | dense | 1.1e-16 | 8.8e-16 | 2.1e-15 | model.layers.0.self_attn.k_proj.weight | different | logits: 2.5e+11 times its limit |\n"
    "| llama4_text/full7 | 2 | ulysses | contiguous | float64 | varlen | - | - | - | - | refused | chunked attention needs the dense mask |\n"
    "| llama/full7 | 2, dp 2, micro 3 | ulysses | contiguous | float64 | dense | - | - | - | - | not comparable | no limits for bfloat16 |\n"
    "| llama/broken | 2 | ulysses | contiguous | float64 | dense | - | - | - | - | error | broken.h5: truncated |\n"
    "| llama4_text/left7 | 2 | ulysses | contiguous | float64 | varlen | - | - | - | - | refused | chunked attention needs the dense mask |\n"
    "| llama/packed7 | 1 | local | contiguous | float64 | dense | 1.1e-16 | 8.8e-16 | 2.1e-15 | model.layers.0.self_attn.k_proj.weight | same |  |\n";

/* clang-format on */

static void assert_report(const cp_result *result, cp_report_format format, cp_report_style style,
                          const char *expected)
{
    char *text = cp_report_result(result, format, style);
    assert_string_equal(text, expected);
    free(text);
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void same_is_short(void **state)
{
    (void)state;
    static sample s;
    sample_same(&s);
    assert_report(&s.result, CP_REPORT_TEXT, (cp_report_style){0}, SAME);
}

static void what_differs_is_a_table(void **state)
{
    (void)state;
    static sample s;
    sample_mixed(&s);
    assert_report(&s.result, CP_REPORT_TEXT, (cp_report_style){0}, MIXED);
}

static void all_lists_every_tensor(void **state)
{
    (void)state;
    static sample s;
    sample_mixed(&s);
    assert_report(&s.result, CP_REPORT_TEXT, (cp_report_style){.all = true, .color = true}, MIXED_ALL);
}

static void a_summary_in_markdown(void **state)
{
    (void)state;
    static sample s;
    sample_mixed(&s);
    assert_report(&s.result, CP_REPORT_MARKDOWN, (cp_report_style){0}, MIXED_MARKDOWN);
}

/* However much is wrong, the text stays short, and says how much it leaves out. */
static void a_failure_has_at_most_25_lines(void **state)
{
    (void)state;
    static sample s;
    for (size_t tensors = 0; tensors <= 60; tensors += 12) {
        for (size_t notes = 0; notes <= 12; notes += 3) {
            for (size_t failures = 0; failures <= 12; failures += 3) {
                sample_many(&s, tensors, notes, failures);
                char *text = cp_report_result(&s.result, CP_REPORT_TEXT, (cp_report_style){0});
                if (lines_of(text) > 25)
                    fail_msg("%zu lines with %zu tensors, %zu notes, %zu failures:\n%s", lines_of(text),
                             tensors, notes, failures, text);
                assert_text_holds(text, "next: ");
                if (tensors > 0)
                    assert_text_holds(text, "layers.0.self_attn");
                if (tensors > 20)
                    assert_text_holds(text, "more");
                free(text);
            }
        }
    }
    sample_many(&s, 60, 12, 12);
    char *text = cp_report_result(&s.result, CP_REPORT_TEXT, (cp_report_style){.all = true});
    assert_true(lines_of(text) > 84);
    assert_text_holds(text, "layers.59.self_attn");
    free(text);
}

static void nothing_of_a_stranger_reaches_the_terminal(void **state)
{
    (void)state;
    static sample s;
    sample_hostile(&s);
    for (int format = CP_REPORT_TEXT; format <= CP_REPORT_MARKDOWN; format++) {
        char *text = cp_report_result(&s.result, (cp_report_format)format, (cp_report_style){.all = true});
        for (const char *at = text; *at; at++)
            assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        assert_null(strstr(text, "\xe2\x80\xae"));
        assert_null(strchr(text, '\xff'));
        free(text);
    }
}

static void trials_are_a_table(void **state)
{
    (void)state;
    cp_trial_row rows[SAMPLE_TRIALS];
    sample_trials(rows);
    char *text = cp_report_trials(rows, SAMPLE_TRIALS, CP_REPORT_TEXT);
    assert_string_equal(text, TRIALS);
    free(text);
}

static void trials_in_markdown(void **state)
{
    (void)state;
    cp_trial_row rows[SAMPLE_TRIALS];
    sample_trials(rows);
    char *text = cp_report_trials(rows, SAMPLE_TRIALS, CP_REPORT_MARKDOWN);
    assert_string_equal(text, TRIALS_MARKDOWN);
    free(text);
}

static void no_trials_are_a_summary(void **state)
{
    (void)state;
    char *text = cp_report_trials(NULL, 0, CP_REPORT_TEXT);
    assert_string_equal(text, "0 runs: 0 same, 0 different\n");
    free(text);
}

int text_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_is_short),
        cmocka_unit_test(what_differs_is_a_table),
        cmocka_unit_test(all_lists_every_tensor),
        cmocka_unit_test(a_summary_in_markdown),
        cmocka_unit_test(a_failure_has_at_most_25_lines),
        cmocka_unit_test(nothing_of_a_stranger_reaches_the_terminal),
        cmocka_unit_test(trials_are_a_table),
        cmocka_unit_test(trials_in_markdown),
        cmocka_unit_test(no_trials_are_a_summary),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}

#include "base/json.h"
#include "harness/report/gate.h"
#include "tests/report/groups.h"
#include "tests/report/sample.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8 };

typedef struct gated {
    sample judged; /* what the reports of its rows are made from */
    cp_gate_row rows[ROWS];
} gated;

/* One of each outcome; a known failure as expected, one that is gone, one that is another now. */
static void begin_gate(gated *self)
{
    static const struct {
        const char *name, *only, *because, *says, *sentence;
        cp_gate_outcome known, outcome;
        int exit_status;
    } table[ROWS] = {
        {"right", "", "", "", "", CP_GATE_SAME, CP_GATE_SAME, 0},
        {"wrong|<b>", "", "", "", "loss: 2.5e+11 times its limit", CP_GATE_SAME, CP_GATE_DIFFERENT, 1},
        {"known", "", "shifted", "loss", "loss: 4.7e+11 times its limit", CP_GATE_DIFFERENT,
         CP_GATE_DIFFERENT, 0},
        {"gone", "logits", "shifted", "", "", CP_GATE_DIFFERENT, CP_GATE_SAME, 1},
        {"moved", "", "shifted", "loss", "logits: 2 times its limit", CP_GATE_DIFFERENT, CP_GATE_DIFFERENT,
         1},
        {"partial", "", "", "", "rank 1 of 2 is missing", CP_GATE_SAME, CP_GATE_NOT_COMPARABLE, 2},
        {"absent", "", "", "", "d/*: there is no such dump", CP_GATE_SAME, CP_GATE_MISSING, 2},
        {"broken", "", "", "", "b.h5: truncated", CP_GATE_SAME, CP_GATE_ERROR, 3},
    };
    sample_mixed(&self->judged);
    for (int i = 0; i < ROWS; i++) {
        cp_gate_row *row = &self->rows[i];
        bool judged = table[i].outcome <= CP_GATE_NOT_COMPARABLE;
        *row = (cp_gate_row){.name = table[i].name,
                             .against = "f/llama/full7.h5",
                             .dump = "d/full7",
                             .only = table[i].only,
                             .known = table[i].known,
                             .because = table[i].because,
                             .says = table[i].says,
                             .outcome = table[i].outcome};
        row->found = (cp_trial_row){.cp = judged ? 2 : 0,
                                    .loss = NAN,
                                    .logits = judged ? 6.3e-16 : NAN,
                                    .gradients = NAN,
                                    .status = CP_BAD_INPUT,
                                    .seconds = 0.25};
        strcpy(row->found.fixture, "llama/full7");
        strcpy(row->found.exchange, judged ? "ring" : "");
        strcpy(row->found.layout, judged ? "zigzag" : "");
        strcpy(row->found.sentence, table[i].sentence);
        row->limited = judged;
        row->found.limits = CP_LIMITS_USER;
        if (judged)
            row->report = cp_report_result(&self->judged.result, CP_REPORT_JSON, (cp_report_style){0});
        assert_int_equal(cp_gate_as_expected(row), table[i].exit_status == 0);
        if (judged) /* alone it gives the status of the whole */
            assert_int_equal(cp_gate_exit(row, 1), table[i].exit_status);
    }
}

static void end_gate(gated *self)
{
    for (int i = 0; i < ROWS; i++)
        free(self->rows[i].report);
}

static void the_worst_is_the_status(void **state)
{
    (void)state;
    static gated gate;
    begin_gate(&gate);
    assert_int_equal(cp_gate_exit(gate.rows, ROWS), 3);
    assert_int_equal(cp_gate_exit(gate.rows, ROWS - 1), 2);
    assert_int_equal(cp_gate_exit(gate.rows, 5), 1);
    assert_int_equal(cp_gate_exit(gate.rows, 1), 0);
    gate.rows[7].found.status = CP_INTERNAL;
    assert_int_equal(cp_gate_exit(gate.rows, ROWS), 4);
    end_gate(&gate);
}

/* Nothing that was judged is no pass, also if that is what was expected. */
static void nothing_is_no_pass(void **state)
{
    (void)state;
    cp_gate_row absent = {.name = "absent", .known = CP_GATE_MISSING, .outcome = CP_GATE_MISSING, .says = ""};
    assert_int_equal(cp_gate_exit(NULL, 0), 2);
    assert_true(cp_gate_as_expected(&absent));
    assert_int_equal(cp_gate_exit(&absent, 1), 2);
    char *text = cp_report_gate(NULL, 0, CP_REPORT_TEXT);
    assert_string_equal(text, "0 dumps: 0 same, 0 different\n");
    free(text);
}

static const char TABLE[] =
    "dump       fixture      cp  exchange  layout  dtype    limits       loss  logits   gradients"
    "  verdict                       why\n"
    "right      llama/full7   2  ring      zigzag  float64  user limits  -     6.3e-16  -        "
    "  same\n"
    "wrong|<b>  llama/full7   2  ring      zigzag  float64  user limits  -     6.3e-16  -        "
    "  different                     loss: 2.5e+11 times its limit\n"
    "known      llama/full7   2  ring      zigzag  float64  user limits  -     6.3e-16  -        "
    "  different, known              known: shifted; loss: 4.7e+11 times its limit\n"
    "gone       llama/full7   2  ring      zigzag  float64  user limits  -     6.3e-16  -        "
    "  same, expected different      only logits; known: shifted\n"
    "moved      llama/full7   2  ring      zigzag  float64  user limits  -     6.3e-16  -        "
    "  different, not the known one  known: shifted; logits: 2 times its limit\n"
    "partial    llama/full7   2  ring      zigzag  float64  user limits  -     6.3e-16  -        "
    "  not comparable                rank 1 of 2 is missing\n"
    "absent     llama/full7   -  -         -       -        -            -     -        -        "
    "  missing                       d/*: there is no such dump\n"
    "broken     llama/full7   -  -         -       -        -            -     -        -        "
    "  error                         b.h5: truncated\n"
    "8 dumps: 2 same, 3 different, 1 not comparable, 1 missing, 1 error; 3 known failures, 2 of t"
    "hem not as expected\n";

static void a_gate_is_a_table(void **state)
{
    (void)state;
    static gated gate;
    begin_gate(&gate);
    char *text = cp_report_gate(gate.rows, ROWS, CP_REPORT_TEXT);
    assert_string_equal(text, TABLE);
    free(text);
    text = cp_report_gate(gate.rows, ROWS, CP_REPORT_MARKDOWN);
    assert_text_holds(text, "### ⚠️ 8 dumps: 2 same, 3 different");
    assert_text_holds(text, "| wrong\\|\\<b\\> |");
    assert_true(strstr(text, "| broken |") < strstr(text, "| right |")); /* what is as expected comes last */
    free(text);
    end_gate(&gate);
}

static void a_gate_is_a_suite(void **state)
{
    (void)state;
    static gated gate;
    begin_gate(&gate);
    char *text = cp_report_gate(gate.rows, ROWS, CP_REPORT_JUNIT);
    assert_text_holds(text, "tests=\"8\" failures=\"3\" errors=\"3\" skipped=\"1\"");
    assert_text_holds(text, "<skipped message=\"different: known: shifted; loss: 4.7e+11 times its limit\"");
    assert_text_holds(text, "<failure message=\"same: only logits; known: shifted\"");
    assert_text_holds(text, "<error message=\"missing: d/*: there is no such dump\"");
    free(text);
    end_gate(&gate);
}

static const cp_json *member(const cp_json *object, const char *name)
{
    const cp_json *found = cp_json_member(object, name);
    assert_non_null(found);
    return found;
}

static void a_gate_reads_back(void **state)
{
    (void)state;
    static gated gate;
    begin_gate(&gate);
    char *text = cp_report_gate(gate.rows, ROWS, CP_REPORT_JSON);
    cp_json *root = NULL;
    assert_ok(cp_json_parse(&root, text, strlen(text), "report"));
    assert_string_equal(cp_json_string(member(root, "kind")), "gate");
    assert_int_equal(cp_json_integer(member(root, "exit_status")), 3);
    assert_int_equal(cp_json_integer(member(root, "changed")), 2);
    assert_int_equal(cp_json_size(member(root, "dumps")), ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        const cp_gate_row *row = &gate.rows[i];
        const cp_json *dump = cp_json_element(member(root, "dumps"), i);
        assert_string_equal(cp_json_string(member(dump, "name")), row->name);
        assert_string_equal(cp_json_string(member(dump, "verdict")), cp_gate_outcome_name(row->outcome));
        assert_string_equal(cp_json_string(member(dump, "expect")), cp_gate_outcome_name(row->known));
        assert_int_equal(cp_json_bool(member(dump, "as_expected")), cp_gate_as_expected(row));
        if (row->report)
            assert_string_equal(cp_json_string(member(member(dump, "report"), "kind")), "diff");
        else
            assert_null(cp_json_member(dump, "report"));
    }
    cp_json_close(root);
    free(text);
    text = cp_report_gate(gate.rows, ROWS, CP_REPORT_HTML);
    assert_text_holds(text, "\"kind\": \"gate\"");
    assert_text_holds(text, "\"name\": \"wrong|\\u003cb\\u003e\"");
    free(text);
    end_gate(&gate);
}

int gate_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_is_the_status), cmocka_unit_test(nothing_is_no_pass),
        cmocka_unit_test(a_gate_is_a_table),       cmocka_unit_test(a_gate_is_a_suite),
        cmocka_unit_test(a_gate_reads_back),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}

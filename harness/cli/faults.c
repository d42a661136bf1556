#include "harness/cli/command.h"
#include "harness/cli/coverage.h"
#include "harness/cli/output.h"
#include "harness/parallel/decisions.h"

#include <string.h>

const cp_option cp_faults_options[] = {
    {"coverage", 0, "SUITE", "run each wrong value on the fixtures there: which of them show, and where"},
    {"write", 0, "FILE", "with --coverage: the table of it, as the sources keep that of fixtures/golden"},
    {0},
};

/* ---- text --------------------------------------------------------------------------------------------------------- */

static void print_lines(const char *prefix, const char *lines)
{
    for (const char *line = lines; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        printf("%s%.*s\n", prefix, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* What running it on fixtures/golden gave. */
static void print_shown(const cp_shown *shown)
{
    char text[CP_SHOWN_TEXT];
    printf("        shows in: %s (%d of %d runs", cp_shown_text(text, shown),
           shown->cases + shown->structural, shown->runs);
    if (shown->loss)
        printf("; the loss alone tells by more than 1 %% in %d", shown->told);
    printf(")\n");
    if (shown->example[0] != '\0')
        printf("        such as: %s\n", shown->example);
}

static void print_wrong_value(const cp_decision_value *value, const cp_shown *shown)
{
    printf("    %s: %s\n", value->name, value->formula);
    if (value->shows[0] != '\0')
        printf("        expected in: %s\n", value->shows);
    if (value->where[0] != '\0')
        printf("        seen with: %s\n", value->where);
    if (shown)
        print_shown(shown);
    if (value->needs != CP_NEEDS_NOTHING)
        printf("        needs: %s\n", cp_needs_text(value->needs));
    print_lines("        reported: ", value->reports);
}

static void print_decision(int number)
{
    const cp_decision *decision = cp_decision_at(number);
    printf("%s: %s\n", decision->name, decision->question);
    printf("    %s (right): %s\n", decision->values[0].name, decision->values[0].formula);
    for (int v = 1; v < decision->count; v++)
        print_wrong_value(&decision->values[v], cp_shown_known(number, v));
    printf("\n");
}

static void print_equivalents(void)
{
    if (cp_equivalents_count() == 0)
        return;
    printf("Wrong values that equal the right one:\n");
    for (int i = 0; i < cp_equivalents_count(); i++) {
        const cp_equivalent *equivalent = cp_equivalent_at(i);
        printf("    %s=%s, %s: %s\n", equivalent->decision, equivalent->value, equivalent->setting,
               equivalent->reason);
    }
}

static void print_names(void)
{
    for (int d = 0; d < cp_decisions_count(); d++)
        for (int v = 1; v < cp_decision_at(d)->count; v++)
            printf("%s=%s\n", cp_decision_at(d)->name, cp_decision_at(d)->values[v].name);
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

static cp_json *lines_json(const char *lines)
{
    cp_json *array = cp_json_new_array();
    for (const char *line = lines; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        char text[1024];
        snprintf(text, sizeof text, "%.*s", (int)length, line);
        cp_json_append_string(array, text);
        line += length + (line[length] == '\n');
    }
    return array;
}

static cp_json *value_json(const cp_decision_value *value, bool right, const cp_shown *shown)
{
    cp_json *object = cp_json_new_object();
    cp_json_set_string(object, "name", value->name);
    cp_json_set_bool(object, "right", right);
    cp_json_set_string(object, "formula", value->formula);
    cp_json_set_string(object, "expected_in", value->shows);
    cp_json_set_string(object, "seen_with", value->where);
    cp_json_set_string(object, "needs", cp_needs_text(value->needs));
    cp_json_set(object, "reports", lines_json(value->reports));
    if (shown) {
        cp_json *found = cp_json_new_object();
        cp_shown_json(found, shown);
        cp_json_set(object, "shown", found);
    }
    return object;
}

static cp_json *decisions_json(void)
{
    cp_json *root = cp_json_new_object();
    cp_json_set_integer(root, "schema_version", 1);
    cp_json_set_string(root, "kind", "faults");
    cp_json *decisions = cp_json_new_array();
    for (int d = 0; d < cp_decisions_count(); d++) {
        const cp_decision *decision = cp_decision_at(d);
        cp_json *object = cp_json_new_object();
        cp_json_set_string(object, "name", decision->name);
        cp_json_set_string(object, "question", decision->question);
        cp_json *values = cp_json_new_array();
        for (int v = 0; v < decision->count; v++)
            cp_json_append(values, value_json(&decision->values[v], v == 0, cp_shown_known(d, v)));
        cp_json_set(object, "values", values);
        cp_json_append(decisions, object);
    }
    cp_json_set(root, "decisions", decisions);
    cp_json *equivalents = cp_json_new_array();
    for (int i = 0; i < cp_equivalents_count(); i++) {
        const cp_equivalent *equivalent = cp_equivalent_at(i);
        cp_json *object = cp_json_new_object();
        cp_json_set_string(object, "decision", equivalent->decision);
        cp_json_set_string(object, "value", equivalent->value);
        cp_json_set_string(object, "setting", equivalent->setting);
        cp_json_set_string(object, "reason", equivalent->reason);
        cp_json_append(equivalents, object);
    }
    cp_json_set(root, "equivalents", equivalents);
    return root;
}

int cp_command_faults(const cp_session *session, const cp_arguments *arguments)
{
    cp_status status = cp_operands_check(arguments, 0, 0, "no operand");
    if (status != CP_OK)
        return cp_complain(session, status);
    const char *suite = cp_value(arguments, "coverage"), *table = cp_value(arguments, "write");
    if (table && !suite)
        return cp_complain(session, cp_fail(CP_BAD_USAGE, "--write: needs --coverage SUITE"));
    if (suite)
        return cp_faults_coverage(session, suite, table);
    if (session->json) {
        cp_print_json(decisions_json());
        return 0;
    }
    if (session->quiet) {
        print_names();
        return 0;
    }
    for (int d = 0; d < cp_decisions_count(); d++)
        print_decision(d);
    print_equivalents();
    return 0;
}

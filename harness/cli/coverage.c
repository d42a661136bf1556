#include "harness/cli/coverage.h"

#include "harness/cli/collect.h"
#include "harness/cli/output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void append(char text[CP_SHOWN_TEXT], const char *separator, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, CP_SHOWN_TEXT - used, "%s%s", used > 0 ? separator : "", word);
}

static int parts_in(unsigned parts)
{
    int count = 0;
    for (int part = 0; part < CP_SHOWN_PARTS; part++)
        count += parts >> part & 1;
    return count;
}

/* "gradients", "gradients of k, v", "gradients of all but head": whichever is shorter. */
static void append_gradients(char text[CP_SHOWN_TEXT], const cp_shown *shown)
{
    if (shown->gradients == 0)
        return;
    unsigned others = shown->met & ~shown->gradients;
    bool few = parts_in(shown->gradients) <= parts_in(others);
    append(text, ", ", "gradients");
    const char *before = few ? " of " : " of all but ";
    for (int part = 0; part < CP_SHOWN_PARTS; part++)
        if ((few ? shown->gradients : others) >> part & 1) {
            append(text, before, cp_shown_part((cp_shown_parts)part));
            before = ", ";
        }
}

const char *cp_shown_text(char text[CP_SHOWN_TEXT], const cp_shown *shown)
{
    text[0] = '\0';
    if (shown->loss)
        append(text, ", ", "loss");
    if (shown->logits)
        append(text, ", ", "logits");
    if (shown->structural > 0)
        append(text, ", ", "structure");
    append_gradients(text, shown);
    if (text[0] == '\0')
        append(text, "", "nothing");
    return text;
}

void cp_shown_json(cp_json *object, const cp_shown *shown)
{
    cp_json *gradients = cp_json_new_array();
    for (int part = 0; part < CP_SHOWN_PARTS; part++)
        if (shown->gradients >> part & 1)
            cp_json_append_string(gradients, cp_shown_part((cp_shown_parts)part));
    cp_json_set_integer(object, "runs", shown->runs);
    cp_json_set_integer(object, "differ", shown->cases);
    cp_json_set_integer(object, "incomplete", shown->structural);
    cp_json_set_bool(object, "loss", shown->loss);
    cp_json_set_bool(object, "logits", shown->logits);
    cp_json_set(object, "gradients", gradients);
    cp_json_set_integer(object, "loss_above_1_percent", shown->told);
    cp_json_set_string(object, "example", shown->example);
}

/* ---- a suite ------------------------------------------------------------------------------------------------------ */

typedef struct suite {
    cp_collection files;
    cp_fixture **fixtures; /* [files.count] */
    cp_model **models;
    cp_shown_case *cases;
    int count; /* of cases: models that the reference knows */
} suite;

static cp_status open_case(suite *s, int file)
{
    CP_TRY(cp_fixture_open(&s->fixtures[file], s->files.files[file].path));
    cp_status status = cp_model_open(&s->models[file], s->fixtures[file]);
    if (status == CP_REFUSED)
        return CP_OK;
    CP_TRY(status);
    return cp_shown_open(&s->cases[s->count++], s->files.files[file].name, s->fixtures[file],
                         s->models[file]);
}

static cp_status open_suite(suite *s, const char *path)
{
    CP_TRY(cp_collect(&s->files, &path, 1, NULL));
    size_t count = (size_t)s->files.count + 1;
    s->fixtures = calloc(count, sizeof(cp_fixture *));
    s->models = calloc(count, sizeof(cp_model *));
    s->cases = calloc(count, sizeof *s->cases);
    cp_check(s->fixtures && s->models && s->cases, "out of memory");
    for (int file = 0; file < s->files.count; file++)
        CP_TRY(open_case(s, file));
    return s->count > 0 ? CP_OK : cp_fail(CP_INCOMPARABLE, "%s: no fixture that the reference can run", path);
}

static void close_suite(suite *s)
{
    for (int n = 0; n < s->count; n++)
        cp_source_close(s->cases[n].right);
    for (int file = 0; s->models && file < s->files.count; file++) {
        cp_model_close(s->models[file]);
        cp_fixture_close(s->fixtures[file]);
    }
    free(s->fixtures);
    free(s->models);
    free(s->cases);
    cp_collection_close(&s->files);
}

/* ---- telling ------------------------------------------------------------------------------------------------------ */

typedef struct telling {
    const cp_session *session;
    cp_json *values;  /* with --json */
    cp_json *missing; /* with --json */
    FILE *table;      /* NULL: not asked for */
    int unseen, all;
} telling;

static void tell_json(const telling *t, const char *name, const cp_shown *shown)
{
    cp_json *object = cp_json_new_object();
    cp_json_set_string(object, "value", name);
    cp_shown_json(object, shown);
    cp_json_append(t->values, object);
}

static void tell(telling *t, const cp_decision *about, const cp_decision_value *value, const cp_shown *shown)
{
    char name[96], text[CP_SHOWN_TEXT];
    int seen = shown->cases + shown->structural;
    snprintf(name, sizeof name, "%s=%s", about->name, value->name);
    t->all++;
    if (t->session->json)
        tell_json(t, name, shown);
    else if (!t->session->quiet)
        printf("%-34s %3d of %4d runs, loss above 1 %% in %3d  %-24s %s\n", name, seen, shown->runs,
               shown->told, cp_shown_text(text, shown), shown->example);
    if (t->table)
        fprintf(t->table, "CP_SHOWN(\"%s\", \"%s\", %d, %d, %d, %d, %d, %#x, %#x, %d, \"%s\")\n", about->name,
                value->name, shown->runs, shown->cases, shown->structural, shown->loss, shown->logits,
                shown->gradients, shown->met, shown->told, shown->example);
    if (seen > 0)
        return;
    t->unseen++;
    if (t->session->json)
        cp_json_append_string(t->missing, name);
    else
        printf("%s: no case of this suite shows it\n", name);
}

static cp_status survey(telling *t, const suite *s)
{
    for (int d = 0; d < cp_decisions_count(); d++) {
        const cp_decision *about = cp_decision_at(d);
        for (int v = 1; v < about->count; v++) {
            cp_shown shown;
            CP_TRY(cp_shown_survey(&shown, d, v, s->cases, s->count, CP_SHOWN_ENOUGH, NULL, NULL));
            tell(t, about, &about->values[v], &shown);
        }
    }
    return CP_OK;
}

static void close_telling(telling *t)
{
    if (t->session->json) {
        cp_json *root = cp_json_new_object();
        cp_json_set_integer(root, "schema_version", 1);
        cp_json_set_string(root, "kind", "coverage");
        cp_json_set(root, "values", t->values);
        cp_json_set(root, "missing", t->missing);
        cp_print_json(root);
    } else if (t->unseen == 0) {
        printf("every one of %d wrong values shows\n", t->all);
    } else {
        printf("%d of %d wrong values show nowhere\n", t->unseen, t->all);
    }
}

int cp_faults_coverage(const cp_session *session, const char *path, const char *table)
{
    suite s = {0};
    telling t = {.session = session};
    cp_status status = open_suite(&s, path);
    char *rows = NULL;
    size_t bytes = 0;
    if (status == CP_OK && table)
        status = cp_target_check(table, path);
    if (status == CP_OK && table) {
        t.table = open_memstream(&rows, &bytes);
        cp_check(t.table, "no memory for a table");
        fprintf(t.table, "/* Made by `cpeq faults --coverage fixtures/golden --write "
                         "harness/run/shown.def`: decision, value, runs,\n * cases, structural, loss, "
                         "logits, gradients, met, told, example (shown.h). */\n");
    }
    if (session->json) {
        t.values = cp_json_new_array();
        t.missing = cp_json_new_array();
    }
    if (status == CP_OK)
        status = survey(&t, &s);
    if (t.table) {
        cp_check(fclose(t.table) == 0, "no memory for a table");
        if (status == CP_OK)
            status = cp_write_report(table, rows);
        free(rows);
    }
    close_suite(&s);
    if (status != CP_OK) {
        cp_json_close(t.values);
        cp_json_close(t.missing);
        return cp_complain(session, status);
    }
    close_telling(&t);
    return t.unseen == 0 ? 0 : 1;
}

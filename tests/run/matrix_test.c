/* Every golden fixture × P × exchange × layout × attention form in float64, at the limits of a gate: a selection in which every
 * fixture meets every exchange, layout and form, and (but for ulysses, which needs heads to share) every P, exchange and layout. The
 * whole product is
 *
 *   cpeq verify fixtures/golden --cp 1,2,3,4,8 --exchange all --layout all --attention all */
#include "tests/run/golden.h"

#include <stdio.h>
#include <string.h>

enum { SIZES = 5 };
static const int sizes[SIZES] = {1, 2, 3, 4, 8};

/* What may be refused, and the words that say so. */
static const char *const refusals[] = {"exchange local", "exchange ulysses", "varlen", "exchange usp"};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

typedef struct matrix {
    int size[SIZES], exchange[CP_EXCHANGE_KINDS], layout[CP_LAYOUT_KINDS], form[CP_ATTENTION_FORMS];
    bool met[SIZES][CP_EXCHANGE_KINDS][CP_LAYOUT_KINDS];
    bool formed[CP_EXCHANGE_KINDS][CP_LAYOUT_KINDS][CP_ATTENTION_FORMS];
    int runs, same, refused[REFUSALS], unknown;
    double worst;
    char worst_name[CP_RESULT_SENTENCE];
} matrix;

static void count_refusal(matrix *m, const char *name)
{
    for (int n = 0; n < REFUSALS; n++)
        if (strstr(cp_error(), refusals[n])) {
            m->refused[n]++;
            return;
        }
    m->unknown++;
    print_error("%s: refused for no reason that is known: %s\n", name, cp_error());
}

static void run_one(matrix *m, const golden_model *golden, int size, cp_exchange_kind exchange,
                    cp_layout_kind layout, cp_attention_form form)
{
    cp_run_options options = {.P = sizes[size],
                              .exchange.kind = exchange,
                              .layout.kind = layout,
                              .attention = form,
                              .dtype = CP_F64};
    cp_status status = cp_run_check(golden->model, &options);
    if (status != CP_OK) {
        assert_int_equal(status, CP_REFUSED);
        count_refusal(m, golden_name(golden->fixture->path));
        return;
    }
    bool same = golden_same(golden, &options, &m->worst, m->worst_name, sizeof m->worst_name);
    if (!same)
        print_error("  %s %s form %d\n", cp_exchange_name(exchange), cp_layout_name(layout), (int)form);
    m->runs++;
    m->same += same;
    m->size[size]++;
    m->exchange[exchange]++;
    m->layout[layout]++;
    m->form[form]++;
    m->met[size][exchange][layout] = true;
    m->formed[exchange][layout][form] = true;
}

/* Each exchange with two layouts and forms, each turned on from fixture to fixture. */
static void run_fixture(matrix *m, const golden_model *golden, int number)
{
    for (int exchange = 0; exchange < CP_EXCHANGE_KINDS; exchange++)
        for (int turn = 0; turn < 2; turn++) {
            int step = number + exchange + turn * (CP_EXCHANGE_KINDS + 2);
            int size = exchange == CP_EXCHANGE_LOCAL ? 0 : (step + number / SIZES) % SIZES;
            run_one(m, golden, size, (cp_exchange_kind)exchange, (cp_layout_kind)(step % CP_LAYOUT_KINDS),
                    (cp_attention_form)((number / CP_LAYOUT_KINDS + exchange + turn) % CP_ATTENTION_FORMS));
        }
}

static void assert_everything_met(const matrix *m)
{
    for (int exchange = 0; exchange < CP_EXCHANGE_KINDS; exchange++)
        for (int layout = 0; layout < CP_LAYOUT_KINDS; layout++) {
            for (int size = 0; size < SIZES; size++)
                if (exchange > CP_EXCHANGE_ULYSSES && !m->met[size][exchange][layout])
                    fail_msg("%d ranks, %s and %s never met", sizes[size],
                             cp_exchange_name((cp_exchange_kind)exchange),
                             cp_layout_name((cp_layout_kind)layout));
            for (int form = 0; form < CP_ATTENTION_FORMS; form++)
                if (!m->formed[exchange][layout][form])
                    fail_msg("%s, %s and form %d never met", cp_exchange_name((cp_exchange_kind)exchange),
                             cp_layout_name((cp_layout_kind)layout), form);
        }
}

static void every_way_equals_transformers(void **state)
{
    (void)state;
    golden_list list = golden_all();
    matrix m = {0};
    for (size_t n = 0; n < list.count; n += GOLDEN_STEP) {
        golden_model golden = golden_open(list.paths[n]);
        run_fixture(&m, &golden, (int)(n / GOLDEN_STEP));
        golden_release(golden);
    }
    print_message("%d of %d runs same, worst error %.1e of its scale (%s)\n", m.same, m.runs, m.worst,
                  m.worst_name);
    for (int n = 0; n < REFUSALS; n++)
        print_message("refused, %s: %d\n", refusals[n], m.refused[n]);
    assert_int_equal(m.same, m.runs);
    assert_int_equal(m.unknown, 0);
    assert_everything_met(&m);
    golden_close(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_equals_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

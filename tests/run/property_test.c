/* Any small model, run in any way on any batch, is the unsharded run. The truth is the same code's dense attention on one
 * rank: what the golden fixtures cannot enumerate, not instead of them.
 *
 *   CPEQ_DRAWS=100000 test_property               a long run
 *   CPEQ_TEST_SEED=7 test_property 1234           that draw of that seed again, and what it was */
#include "harness/judge/diff.h"
#include "tests/run/draw.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Several ways of each model: the unsharded run is run once. */
enum { WAYS = 3 };

#if CPEQ_GOLDEN_STEP > 1
enum { USUAL_DRAWS = 200 };
#else
enum { USUAL_DRAWS = 2400 };
#endif

static int64_t only = -1; /* set once, by main */

typedef struct counts {
    int64_t draws, exchange[CP_EXCHANGE_KINDS], layout[CP_LAYOUT_KINDS], form[CP_ATTENTION_FORMS];
    int64_t groups, micros;
    double worst;
} counts;

static void count(counts *c, const cp_run_options *options, const draw_case *drawn)
{
    c->draws++;
    c->exchange[options->exchange.kind]++;
    c->layout[options->layout.kind]++;
    c->form[options->attention]++;
    c->groups += options->D > 1;
    c->micros += options->M > 1 || drawn->fixture.batch.microbatch;
}

/* Prints what differs, and how to see it again. */
static bool is_same(counts *c, const draw_case *drawn, const cp_source *truth, const cp_run_options *options,
                    const char *way, uint64_t seed, int64_t draw)
{
    cp_source *actual = NULL;
    cp_result result = {0};
    assert_ok(cp_run_whole(&actual, drawn->model, options));
    assert_ok(cp_diff(&result, truth, actual, &drawn->fixture, &(cp_diff_options){0}));
    bool same = result.verdict == CP_SAME;
    for (size_t t = 0; t < result.count; t++) {
        const cp_tensor_result *tensor = &result.tensors[t];
        if (tensor->verdict != CP_SAME)
            print_error("%s: %s\n", tensor->name, tensor->reason);
        if (!(tensor->scaled_error <= c->worst))
            c->worst = tensor->scaled_error;
    }
    for (size_t n = 0; !same && n < result.failure_count; n++)
        print_error("%s\n", result.failures[n]);
    if (!same || only >= 0)
        print_error("%s; %s; %s\nCPEQ_TEST_SEED=%" PRIu64 " test_property %" PRId64 "\n", way, drawn->batch,
                    drawn->config, seed, draw);
    cp_result_close(&result);
    cp_source_close(actual);
    return same;
}

static int64_t run_model(counts *c, uint64_t seed, int64_t number)
{
    draw_case drawn;
    cp_source *truth;
    draw_model(&drawn, seed, number);
    cp_run_options unsharded = {.P = 1, .dtype = CP_F64, .attention = CP_ATTENTION_DENSE, .trace = true};
    assert_ok(cp_run_whole(&truth, drawn.model, &unsharded));
    int64_t failures = 0;
    for (int64_t draw = number * WAYS; draw < (number + 1) * WAYS; draw++) {
        cp_run_options options;
        char way[DRAW_TEXT];
        if (only >= 0 && only != draw)
            continue;
        draw_way(&options, way, &drawn, seed, draw);
        count(c, &options, &drawn);
        failures += !is_same(c, &drawn, truth, &options, way, seed, draw);
    }
    cp_source_close(truth);
    draw_close(&drawn);
    return failures;
}

static void assert_all_were_drawn(const int64_t *drawn, int kinds)
{
    for (int kind = 0; kind < kinds; kind++)
        assert_in_range(drawn[kind], 5, INT64_MAX);
}

static void every_way_is_the_unsharded_run(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    const char *asked = getenv("CPEQ_DRAWS");
    int64_t draws = asked ? strtoll(asked, NULL, 10) : USUAL_DRAWS;
    counts c = {0};
    int64_t failures = 0;
    if (only >= 0)
        failures = run_model(&c, seed, only / WAYS);
    else
        for (int64_t number = 0; number * WAYS < draws; number++)
            failures += run_model(&c, seed, number);
    print_message("%" PRId64 " draws, %" PRId64 " of them in groups, %" PRId64
                  " in micro-batches: worst error %.1e of its scale\n",
                  c.draws, c.groups, c.micros, c.worst);
    assert_int_equal(failures, 0);
    if (only >= 0)
        return;
    assert_all_were_drawn(c.exchange, CP_EXCHANGE_KINDS);
    assert_all_were_drawn(c.layout, CP_LAYOUT_KINDS);
    assert_all_were_drawn(c.form, CP_ATTENTION_FORMS);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        only = strtoll(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_is_the_unsharded_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every golden fixture over data-parallel groups and in micro-batches: more of them than it has rows, too. */
#include "tests/run/golden.h"

#include <string.h>

typedef struct cut {
    int P, D, M;
} cut;

static const cut cuts[] = {{1, 2, 0}, {1, 3, 2}, {2, 2, 0}, {2, 2, 2},
                           {1, 1, 3}, {2, 1, 2}, {2, 5, 1}, {1, 4, 3}};

static void run_cuts(size_t every, bool trace, bool recompute)
{
    golden_list list = golden_all();
    double worst = 0;
    char worst_name[CP_RESULT_SENTENCE] = "";
    size_t runs = 0, same = 0;
    for (size_t n = 0; n < list.count; n += every * GOLDEN_STEP) {
        golden_model golden = golden_open(list.paths[n]);
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            cp_run_options options = {.P = cuts[c].P,
                                      .D = cuts[c].D,
                                      .M = golden.fixture->batch.microbatch ? 0 : cuts[c].M,
                                      .exchange.kind =
                                          cuts[c].P > 1 ? CP_EXCHANGE_ULYSSES : CP_EXCHANGE_LOCAL,
                                      .trace = trace,
                                      .recompute = recompute,
                                      .dtype = CP_F64};
            if (cp_run_check(golden.model, &options) == CP_REFUSED)
                continue; /* heads that ranks cannot share, a balancing loss that is one of all tokens */
            runs++;
            same += golden_same(&golden, &options, &worst, worst_name, sizeof worst_name);
        }
        golden_release(golden);
    }
    print_message("%zu of %zu runs same, worst error %.1e of its scale (%s)\n", same, runs, worst,
                  worst_name);
    assert_int_equal(same, runs);
    assert_in_range(runs, list.count / every, 100000);
    golden_close(list);
}

static void groups_and_micro_batches(void **state)
{
    (void)state;
    run_cuts(1, false, false);
}

static void traced_and_recomputed(void **state)
{
    (void)state;
    run_cuts(7, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_and_micro_batches),
        cmocka_unit_test(traced_and_recomputed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

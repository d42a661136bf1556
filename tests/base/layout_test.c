#include "base/tokens/layout.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <stdlib.h>

/* Every token is held once, and (owner, slot) leads back to it. */
static void assert_permutation(const cp_layout *layout)
{
    int64_t B = layout->B, T = layout->T, held = 0;
    unsigned char *seen = calloc((size_t)(B * T), 1);
    assert_non_null(seen);
    for (int rank = 0; rank < layout->P; rank++)
        for (int64_t b = 0; b < B; b++)
            for (int64_t l = 0; l < layout->tokens[rank]; l++) {
                int64_t g = layout->index[rank][b * layout->tokens[rank] + l];
                assert_true(g >= 0 && g < T && !seen[b * T + g]);
                seen[b * T + g] = 1;
                assert_int_equal(layout->owner[b * T + g], rank);
                assert_int_equal(layout->slot[b * T + g], l);
                held++;
            }
    assert_int_equal(held, B * T);
    free(seen);
}

static void every_token_is_held_once(void **state)
{
    (void)state;
    for (int kind = 0; kind < CP_LAYOUT_KINDS; kind++)
        for (int P = 1; P <= 16; P++)
            for (int64_t T = 1; T <= 130; T++) {
                if (T % cp_layout_multiple((cp_layout_kind)kind, P) != 0)
                    continue;
                cp_arena arena = cp_arena_growing();
                cp_layout layout;
                cp_layout_plan(&layout, (cp_layout_kind)kind, P, 1 + T % 3, T, &arena);
                assert_permutation(&layout);
                cp_arena_close(&arena);
            }
}

/* rank r holds [rT/P, (r+1)T/P) */
static void contiguous_is_contiguous(void **state)
{
    (void)state;
    for (int P = 1; P <= 16; P++)
        for (int64_t T = P; T <= 130; T += P) {
            cp_arena arena = cp_arena_growing();
            cp_layout layout;
            cp_layout_plan(&layout, CP_LAYOUT_CONTIGUOUS, P, 2, T, &arena);
            for (int64_t place = 0; place < 2 * T; place++)
                assert_int_equal(layout.owner[place], place % T * P / T);
            for (int rank = 0; rank < P; rank++) {
                assert_int_equal(layout.tokens[rank], T / P);
                for (int64_t n = 0; n < 2 * (T / P); n++)
                    assert_int_equal(layout.index[rank][n], rank * T / P + n % (T / P));
            }
            cp_arena_close(&arena);
        }
}

static void names_are_read_back(void **state)
{
    (void)state;
    for (int kind = 0; kind < CP_LAYOUT_KINDS; kind++) {
        cp_layout_kind found = CP_LAYOUT_KINDS;
        assert_true(cp_layout_named(&found, cp_layout_name((cp_layout_kind)kind)));
        assert_int_equal(found, kind);
    }
    cp_layout_kind found = CP_LAYOUT_KINDS;
    assert_true(cp_layout_named(&found, "contiguous"));
    assert_int_equal(found, CP_LAYOUT_CONTIGUOUS);
    assert_false(cp_layout_named(&found, "spiral"));
}

static void plan_seven_over_two(void *arena)
{
    cp_layout layout;
    cp_layout_plan(&layout, CP_LAYOUT_CONTIGUOUS, 2, 1, 7, arena);
}

static void plan_in_a_measure(void *unused)
{
    (void)unused;
    cp_arena arena = cp_arena_measuring();
    cp_layout layout;
    cp_layout_plan(&layout, CP_LAYOUT_CONTIGUOUS, 1, 1, 7, &arena);
}

static void lengths_must_divide(void **state)
{
    (void)state;
    cp_arena arena = cp_arena_growing();
    assert_stops(plan_seven_over_two, &arena, "7 tokens over 2 ranks, contiguous");
    assert_stops(plan_in_a_measure, NULL, "it cannot be measured");
    cp_arena_close(&arena);
}

int layout_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_held_once),
        cmocka_unit_test(contiguous_is_contiguous),
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(lengths_must_divide),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}

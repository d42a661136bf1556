#include "base/arena.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <stdint.h>
#include <string.h>

static const size_t sizes[] = {1, 64, 65, 0, 1000, 7};
enum { SIZES = sizeof sizes / sizeof *sizes };

static size_t take_all(cp_arena *arena, unsigned char *addresses[SIZES])
{
    for (int i = 0; i < SIZES; i++)
        addresses[i] = cp_arena_take(arena, sizes[i]);
    return arena->used;
}

static void measured_size_suffices_exactly(void **state)
{
    (void)state;
    cp_arena measuring = cp_arena_measuring();
    unsigned char *addresses[SIZES];
    size_t needed = take_all(&measuring, addresses);
    for (int i = 0; i < SIZES; i++)
        assert_null(addresses[i]);
    assert_int_equal(measuring.peak, needed);

    cp_arena arena;
    assert_ok(cp_arena_open(&arena, needed));
    assert_int_equal(take_all(&arena, addresses), needed);
    for (int i = 0; i < SIZES; i++)
        memset(addresses[i], i, sizes[i]);
    for (int i = 0; i < SIZES; i++) {
        assert_int_equal((uintptr_t)addresses[i] % CP_ARENA_ALIGNMENT, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(addresses[i][k], i);
    }
    cp_arena_close(&arena);
    assert_null(arena.block);
}

static void take_too_much(void *arena)
{
    cp_arena_take(arena, 1);
}

static void plan_that_is_too_small_stops(void **state)
{
    (void)state;
    cp_arena arena;
    assert_ok(cp_arena_open(&arena, 0));
    assert_stops(take_too_much, &arena, "the plan has 0 bytes");
    cp_arena_close(&arena);
}

static void release_too_much(void *arena)
{
    cp_arena_release(arena, 1 << 20);
}

static void scratch_is_given_back(void **state)
{
    (void)state;
    cp_arena arena;
    assert_ok(cp_arena_open(&arena, 4096));
    unsigned char *kept = cp_arena_take(&arena, 10);
    memset(kept, 3, 10);
    size_t mark = cp_arena_mark(&arena);
    void *first = cp_arena_take(&arena, 100);
    size_t peak = arena.used;
    cp_arena_release(&arena, mark);
    assert_int_equal(arena.used, mark);
    assert_int_equal(arena.peak, peak);
    assert_ptr_equal(cp_arena_take(&arena, 50), first);
    assert_int_equal(kept[9], 3);
    assert_stops(release_too_much, &arena, "released to 1048576");
    cp_arena_close(&arena);
}

static void impossible_size_is_a_failure(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* the sanitizer ends the process itself */
#else
    cp_arena arena;
    assert_status(cp_arena_open(&arena, SIZE_MAX / 2), CP_INTERNAL, "memory: ");
#endif
}

static void growing_arena_keeps_what_it_gave(void **state)
{
    (void)state;
    enum { BLOCKS = 40, BYTES = 10000 };
    cp_arena arena = cp_arena_growing();
    unsigned char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = cp_arena_take(&arena, (size_t)BYTES * (i == 20 ? 30 : 1));
        assert_int_equal((uintptr_t)blocks[i] % CP_ARENA_ALIGNMENT, 0);
        memset(blocks[i], i, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        assert_true(blocks[i][0] == i && blocks[i][BYTES - 1] == i);
    assert_stops(release_too_much, &arena, "a growing arena knows no marks");
    cp_arena_close(&arena);
}

int arena_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_size_suffices_exactly),
        cmocka_unit_test(plan_that_is_too_small_stops),
        cmocka_unit_test(scratch_is_given_back),
        cmocka_unit_test(impossible_size_is_a_failure),
        cmocka_unit_test(growing_arena_keeps_what_it_gave),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}

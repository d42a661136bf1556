/* Meshes as integers: coordinates, the layouts of subgroups, and the names of exchanges. */
#include "base/rng.h"
#include "tests/parallel/groups.h"
#include "tests/parallel/world.h"

static const int sizes[] = {1, 2, 3, 4, 6, 8, 12, 64};

typedef void mesh_action(const cp_exchange_spec *spec, int P, uint64_t seed);

/* Every factorisation, both orders. */
static void each_mesh(mesh_action *act)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int U = 1; U <= sizes[i]; U++)
            for (int order = 0; order < 2 && sizes[i] % U == 0; order++) {
                const cp_exchange_spec spec = {CP_EXCHANGE_USP, U, sizes[i] / U, order == 1};
                act(&spec, sizes[i], seed + (uint64_t)(1000 * i) + (uint64_t)U);
            }
}

static void check_places(const cp_exchange_spec *spec, int P, uint64_t seed)
{
    (void)seed;
    for (int rank = 0; rank < P; rank++) {
        cp_mesh_place place = cp_mesh_place_of(spec, rank);
        assert_int_equal(cp_mesh_rank_at(spec, place), rank);
        assert_in_range(place.ulysses, 0, spec->ulysses - 1);
        assert_in_range(place.ring, 0, spec->ring - 1);
        if (rank == 0)
            continue;
        cp_mesh_place before = cp_mesh_place_of(spec, rank - 1);
        bool same_ring = place.ulysses == before.ulysses, same_group = place.ring == before.ring;
        if (spec->ulysses > 1 && spec->ring > 1) /* neighbours are of one subgroup: which, says the order */
            assert_true(rank % (spec->ring_inner ? spec->ring : spec->ulysses) == 0 ||
                        (spec->ring_inner ? same_ring : same_group));
    }
}

static void every_rank_has_one_place(void **state)
{
    (void)state;
    each_mesh(check_places);
}

/* Index, owner and slot are inverses, and every place is owned once. */
static void assert_layout(const cp_layout *layout)
{
    int64_t all = 0;
    for (int rank = 0; rank < layout->P; rank++) {
        all += layout->tokens[rank];
        for (int64_t n = 0; n < layout->B * layout->tokens[rank]; n++) {
            int64_t row = n / layout->tokens[rank], place = row * layout->T + layout->index[rank][n];
            assert_in_range(layout->index[rank][n], 0, layout->T - 1);
            assert_int_equal(layout->owner[place], rank);
            assert_int_equal(layout->slot[place], n % layout->tokens[rank]);
        }
    }
    assert_int_equal(all, layout->T);
}

/* Along both: a token of a rank stands in its ulysses group where it stands in the ring's rank, in ascending order. */
static void check_layouts(const cp_exchange_spec *spec, int P, uint64_t seed)
{
    enum { B = 2 };
    cp_arena arena = cp_arena_growing();
    int64_t tokens[64];
    for (int rank = 0; rank < P; rank++)
        tokens[rank] = cp_rng_below(cp_rng_named(seed, "tokens"), (uint64_t)rank, 4);
    cp_layout whole, ulysses, ring;
    world_layout_shuffled(&whole, P, B, tokens, seed, &arena);
    for (int rank = 0; rank < P; rank++) {
        cp_mesh_layouts(&ulysses, &ring, &whole, spec, rank, &arena);
        cp_mesh_place place = cp_mesh_place_of(spec, rank);
        assert_int_equal(ulysses.P, spec->ulysses);
        assert_int_equal(ring.P, spec->ring);
        assert_int_equal(ring.T, whole.T);
        assert_int_equal(ulysses.T, ring.tokens[place.ring]);
        assert_int_equal(ulysses.tokens[place.ulysses], tokens[rank]);
        assert_layout(&ulysses);
        assert_layout(&ring);
        const int64_t *held = ring.index[place.ring];
        for (int64_t n = 0; n < B * tokens[rank]; n++) {
            int64_t row = n / tokens[rank];
            assert_int_equal(held[row * ulysses.T + ulysses.index[place.ulysses][n]], whole.index[rank][n]);
        }
        for (int64_t n = 0; n < B * ulysses.T; n++)
            if (n % ulysses.T > 0)
                assert_true(held[n - 1] < held[n]);
    }
    cp_arena_close(&arena);
}

static void subgroups_hold_what_their_ranks_hold(void **state)
{
    (void)state;
    each_mesh(check_layouts);
}

/* Zigzag of 16 tokens over 4 ranks, written out: what other libraries have after their first all-to-all too. */
static void zigzag_becomes_zigzag(void **state)
{
    (void)state;
    static const int64_t tokens[] = {4, 4, 4, 4};
    static int64_t index[4][4] = {{0, 1, 14, 15}, {2, 3, 12, 13}, {4, 5, 10, 11}, {6, 7, 8, 9}};
    static const int64_t expected[2][8] = {{0, 1, 2, 3, 12, 13, 14, 15}, {4, 5, 6, 7, 8, 9, 10, 11}};
    const cp_exchange_spec spec = {CP_EXCHANGE_USP, 2, 2, false};
    cp_arena arena = cp_arena_growing();
    cp_layout whole, ulysses, ring;
    world_layout(&whole, 4, 1, tokens, &arena);
    for (int n = 0; n < 16; n++) {
        whole.index[n / 4] = index[n / 4];
        whole.owner[index[n / 4][n % 4]] = n / 4;
        whole.slot[index[n / 4][n % 4]] = n % 4;
    }
    cp_mesh_layouts(&ulysses, &ring, &whole, &spec, 3, &arena);
    assert_memory_equal(ring.index[0], expected[0], sizeof expected[0]);
    assert_memory_equal(ring.index[1], expected[1], sizeof expected[1]);
    static const int64_t places[2][4] = {{0, 1, 6, 7}, {2, 3, 4, 5}}; /* of ranks 2 and 3 in their group */
    assert_memory_equal(ulysses.index[0], places[0], sizeof places[0]);
    assert_memory_equal(ulysses.index[1], places[1], sizeof places[1]);
    cp_arena_close(&arena);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

enum { GROUPS = 2 };

typedef struct meeting {
    cp_exchange_spec spec;
    int P;
    test_verdict verdict[64 * GROUPS];
} meeting;

/* Ranks of a subgroup, as it tells them. */
static test_verdict compare_members(cp_comm *group, int mine, const int *expected)
{
    int members[64];
    size_t bytes[64];
    for (int rank = 0; rank < cp_comm_size(group); rank++)
        bytes[rank] = sizeof mine;
    cp_comm_allgather(group, members, bytes, &mine, sizeof mine);
    for (int rank = 0; rank < cp_comm_size(group); rank++)
        if (members[rank] != expected[rank])
            return test_failure("rank %d of a subgroup is %d, expected %d", rank, members[rank],
                                expected[rank]);
    return (test_verdict){0};
}

static void meet(cp_comm *all, void *context)
{
    meeting *m = context;
    int rank = cp_comm_rank(all), group = rank / m->P, expected[64];
    cp_mesh mesh, shape;
    cp_mesh_open(&mesh, all, m->P, &m->spec);
    test_verdict *verdict = &m->verdict[rank];
    cp_mesh_place place = cp_mesh_place_of(&m->spec, rank % m->P);
    for (int r = 0; r < m->P; r++)
        expected[r] = group * m->P + r;
    *verdict = compare_members(mesh.cp, rank, expected);
    for (int u = 0; u < m->spec.ulysses; u++)
        expected[u] = group * m->P + cp_mesh_rank_at(&m->spec, (cp_mesh_place){u, place.ring});
    if (!verdict->fails && m->spec.ulysses > 0)
        *verdict = compare_members(mesh.ulysses, rank, expected);
    for (int r = 0; r < m->spec.ring; r++)
        expected[r] = group * m->P + cp_mesh_rank_at(&m->spec, (cp_mesh_place){place.ulysses, r});
    if (!verdict->fails && m->spec.ring > 0)
        *verdict = compare_members(mesh.ring, rank, expected);

    cp_comm *nobody = cp_comm_measuring(rank, cp_comm_size(all));
    cp_mesh_open(&shape, nobody, m->P, &m->spec);
    bool alike = cp_comm_rank(shape.cp) == cp_comm_rank(mesh.cp) &&
                 cp_comm_size(shape.cp) == cp_comm_size(mesh.cp) &&
                 (m->spec.ulysses == 0 || (cp_comm_rank(shape.ring) == cp_comm_rank(mesh.ring) &&
                                           cp_comm_size(shape.ulysses) == cp_comm_size(mesh.ulysses)));
    if (!verdict->fails && !alike)
        *verdict = test_failure("a measured group is another");
    cp_mesh_close(&shape);
    cp_comm_close(nobody);
    cp_mesh_close(&mesh);
}

static void check_groups(const cp_exchange_spec *spec, int P, uint64_t seed)
{
    (void)seed;
    for (int groups = 1; groups <= GROUPS; groups++) {
        meeting m = {.spec = *spec, .P = P};
        assert_ok(cp_threads_run(P * groups, meet, &m));
        for (int rank = 0; rank < P * groups; rank++)
            assert_verdict(m.verdict[rank]);
    }
}

static void groups_meet(void **state)
{
    (void)state;
    each_mesh(check_groups);
    check_groups(&(cp_exchange_spec){.kind = CP_EXCHANGE_ULYSSES}, 3, 0);
}

/* One rank fails while all are inside their subgroups: its number in the world is told. */
static void fail_in_a_mesh(cp_comm *all, void *context)
{
    const cp_exchange_spec *spec = context;
    cp_mesh mesh;
    cp_mesh_open(&mesh, all, spec->ulysses * spec->ring, spec);
    if (cp_comm_rank(all) == 6) {
        cp_fail(CP_BAD_INPUT, "weights.h5: a: not finite");
        cp_comm_fail(mesh.ring, CP_BAD_INPUT);
    }
    cp_comm_barrier(mesh.ulysses);
    cp_comm_barrier(mesh.ring);
    cp_comm_barrier(mesh.cp);
    cp_comm_barrier(all);
}

static void a_failing_rank_is_named(void **state)
{
    (void)state;
    cp_exchange_spec spec = {CP_EXCHANGE_USP, 2, 2, true};
    assert_status(cp_threads_run(8, fail_in_a_mesh, &spec), CP_BAD_INPUT,
                  "rank 6: weights.h5: a: not finite");
}

/* ---- names and refusals ------------------------------------------------------------------------------------------ */

static void names_a_mesh(void **state)
{
    (void)state;
    static const char *const good[] = {"usp", "usp:2x4", "usp:1x64", "usp:2x4:ring-inner"};
    static const char *const bad[] = {"usp:",      "usp:2",    "usp:0x4",  "usp:2x",
                                      "usp:2x4x1", "usp:-1x4", "usp:2x4:", "usp:2x4:inner",
                                      "uspx",      "usp 2x4",  "usp:2x 4", "usp:+2x4"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cp_exchange_spec spec;
        char text[CP_EXCHANGE_TEXT];
        assert_ok(cp_exchange_parse(&spec, good[i]));
        assert_int_equal(spec.kind, CP_EXCHANGE_USP);
        assert_string_equal(cp_exchange_text(&spec, text), good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cp_exchange_spec spec;
        assert_status(cp_exchange_parse(&spec, bad[i]), CP_BAD_USAGE, "usp:UxR:ring-inner");
    }
}

static void chooses_the_most_heads(void **state)
{
    (void)state;
    static const struct {
        int P, H, U;
    } cases[] = {{4, 4, 4}, {6, 4, 2}, {8, 12, 4}, {5, 4, 1}, {64, 32, 32}, {1, 7, 1}};
    const cp_exchange_spec usp = {.kind = CP_EXCHANGE_USP};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_exchange_spec spec = cp_exchange_settled(&usp, cases[i].P, cases[i].H);
        assert_int_equal(spec.ulysses, cases[i].U);
        assert_int_equal(spec.ring, cases[i].P / cases[i].U);
        assert_ok(cp_exchange_check(&usp, cases[i].P, cases[i].H, 1));
    }
    const cp_exchange_spec given = {CP_EXCHANGE_USP, 2, 4, true};
    cp_exchange_spec settled = cp_exchange_settled(&given, 8, 8);
    assert_int_equal(settled.ulysses, 2);
    assert_true(settled.ring_inner);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    const cp_exchange_spec mesh = {CP_EXCHANGE_USP, 2, 3, false}, ulysses = {.kind = CP_EXCHANGE_ULYSSES};
    assert_ok(cp_exchange_check(&mesh, 6, 4, 1));
    assert_status(cp_exchange_check(&mesh, 8, 4, 4), CP_REFUSED,
                  "2 times 3 ranks are not 8; usp:4x2 would do");
    assert_status(cp_exchange_check(&mesh, 6, 3, 3), CP_REFUSED,
                  "3 heads are no multiple of 2 ranks; usp:3x2 would do");
    assert_status(cp_exchange_check(&ulysses, 8, 4, 4), CP_REFUSED,
                  "4 heads are no multiple of 8 ranks; usp:4x2 would do");
}

int run_mesh_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_has_one_place), cmocka_unit_test(subgroups_hold_what_their_ranks_hold),
        cmocka_unit_test(zigzag_becomes_zigzag),    cmocka_unit_test(groups_meet),
        cmocka_unit_test(a_failing_rank_is_named),  cmocka_unit_test(names_a_mesh),
        cmocka_unit_test(chooses_the_most_heads),   cmocka_unit_test(refuses_what_cannot_be),
    };
    return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}

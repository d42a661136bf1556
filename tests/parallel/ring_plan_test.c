/* The schedule of a ring, as integers: all ranks' plans are walked together, over any matrix of who sees whom. */
#include "base/rng.h"
#include "harness/parallel/ring_plan.h"
#include "tests/parallel/groups.h"
#include "tests/support/support.h"

#include <string.h>

enum { MOST = 16, NOBODY = -1 };

typedef struct walk {
    int P;
    uint8_t sees[MOST * MOST];
    cp_arena arena;
    cp_ring_plan plan[MOST];
    int keys[MOST];             /* whose keys each rank holds */
    int block[MOST];            /* whose gradients; NOBODY */
    int count[MOST][MOST];      /* [rank][query rank]: shares in what it holds */
    int home[MOST][MOST][MOST]; /* [rank][block][query rank]: shares that have come to a rank */
    int hops;                   /* of keys */
} walk;

static bool sees(const walk *w, int rank, int s)
{
    return rank == s || w->sees[rank * w->P + s];
}

static void open_walk(walk *w, int P, const uint8_t *matrix, const cp_ring_rules *rules)
{
    *w = (walk){.P = P, .arena = cp_arena_growing()};
    memcpy(w->sees, matrix, (size_t)(P * P));
    for (int rank = 0; rank < P; rank++)
        cp_ring_plan_make(&w->plan[rank], rules, w->sees, P, rank, &w->arena);
}

/* Whoever sends is expected, and the other way round; `send` is asked for what is sent. */
typedef const cp_ring_hop *hop_of(const cp_ring_step *step);

static const cp_ring_hop *keys_hop(const cp_ring_step *step)
{
    return &step->keys;
}

static const cp_ring_hop *gradients_hop(const cp_ring_step *step)
{
    return &step->gradients;
}

static const cp_ring_hop *home_hop(const cp_ring_step *step)
{
    return &step->home;
}

static const cp_ring_step *step_of(const walk *w, int rank, int t, bool backward)
{
    return backward ? &w->plan[rank].backward[t] : &w->plan[rank].forward[t];
}

/* The rank from which something comes; NOBODY. Both ends agree. */
static int sender(const walk *w, int rank, int t, bool backward, hop_of *hop)
{
    int from = hop(step_of(w, rank, t, backward))->from;
    for (int other = 0; other < w->P; other++)
        assert_int_equal(hop(step_of(w, other, t, backward))->to == rank, other == from);
    return from;
}

static void move_keys(walk *w, int t, bool backward)
{
    int before[MOST];
    memcpy(before, w->keys, sizeof before);
    for (int rank = 0; rank < w->P; rank++) {
        int from = sender(w, rank, t, backward, keys_hop);
        if (from == NOBODY)
            continue;
        assert_int_equal(before[from], keys_hop(step_of(w, rank, t, backward))->block);
        w->keys[rank] = before[from];
        w->hops++;
    }
}

static void attend(walk *w, int t)
{
    for (int rank = 0; rank < w->P; rank++) {
        const cp_ring_step *step = step_of(w, rank, t, true);
        assert_true(!step->sees || w->keys[rank] == step->held);
        if (!step->sees)
            continue;
        if (step->fresh) {
            memset(w->count[rank], 0, sizeof w->count[rank]);
            w->block[rank] = step->block;
        }
        assert_int_equal(w->block[rank], step->block);
        w->count[rank][rank]++;
    }
}

static void bring_home(walk *w, int t)
{
    for (int rank = 0; rank < w->P; rank++) {
        int from = sender(w, rank, t, true, home_hop);
        if (from == NOBODY)
            continue;
        assert_int_equal(w->block[from], home_hop(step_of(w, rank, t, true))->block);
        for (int r = 0; r < w->P; r++)
            w->home[rank][w->block[from]][r] += w->count[from][r];
    }
}

static void move_gradients(walk *w, int t)
{
    int block[MOST], count[MOST][MOST];
    memcpy(block, w->block, sizeof block);
    memcpy(count, w->count, sizeof count);
    for (int rank = 0; rank < w->P; rank++) {
        int from = sender(w, rank, t, true, gradients_hop);
        if (from == NOBODY)
            continue;
        assert_int_equal(block[from], gradients_hop(step_of(w, rank, t, true))->block);
        w->block[rank] = block[from];
        memcpy(w->count[rank], count[from], sizeof count[from]);
    }
}

static void walk_backward(walk *w)
{
    for (int rank = 0; rank < w->P; rank++) {
        assert_int_equal(w->plan[rank].steps, w->plan[0].steps);
        w->keys[rank] = rank;
        w->block[rank] = NOBODY;
    }
    for (int t = 0; t < w->plan[0].steps; t++) {
        move_keys(w, t, true);
        attend(w, t);
        bring_home(w, t);
        move_gradients(w, t);
    }
}

/* Every pair meets once, on keys that are there; returns the number of hops. */
static int walk_forward(walk *w)
{
    int met[MOST][MOST] = {{0}};
    for (int rank = 0; rank < w->P; rank++)
        w->keys[rank] = rank;
    w->hops = 0;
    for (int t = 0; t < w->plan[0].steps; t++) {
        move_keys(w, t, false);
        for (int rank = 0; rank < w->P; rank++) {
            const cp_ring_step *step = step_of(w, rank, t, false);
            assert_true(!step->sees || (w->keys[rank] == step->block && step->held == step->block));
            met[rank][step->block] += step->sees;
        }
    }
    for (int rank = 0; rank < w->P; rank++)
        for (int s = 0; s < w->P; s++)
            assert_int_equal(met[rank][s], sees(w, rank, s));
    return w->hops;
}

/* ---- matrices --------------------------------------------------------------------------------------------------- */

typedef void draw_matrix(uint8_t *matrix, int P, cp_rng rng);

static void nobody(uint8_t *matrix, int P, cp_rng rng)
{
    (void)rng;
    memset(matrix, 0, (size_t)(P * P));
}

static void everybody(uint8_t *matrix, int P, cp_rng rng)
{
    (void)rng;
    memset(matrix, 1, (size_t)(P * P));
}

static void causal(uint8_t *matrix, int P, cp_rng rng)
{
    (void)rng;
    for (int n = 0; n < P * P; n++)
        matrix[n] = n % P <= n / P;
}

static void window(uint8_t *matrix, int P, cp_rng rng)
{
    int most = (int)cp_rng_below(rng, 0, P);
    for (int n = 0; n < P * P; n++)
        matrix[n] = n % P <= n / P && n / P - n % P <= most;
}

static void anything(uint8_t *matrix, int P, cp_rng rng)
{
    for (int n = 0; n < P * P; n++)
        matrix[n] = cp_rng_below(rng, (uint64_t)n, 4) == 0;
}

static draw_matrix *const matrices[] = {nobody, everybody, causal, window, anything};
enum { MATRICES = sizeof matrices / sizeof *matrices, DRAWS = 12 };

typedef void check_matrix(int P, const uint8_t *matrix);

static void over_all_matrices(check_matrix *check)
{
    cp_rng rng = cp_rng_named(test_seed(), "who sees whom");
    for (int P = 1; P <= MOST; P++)
        for (int m = 0; m < MATRICES; m++)
            for (uint64_t n = 0; n < DRAWS; n++) {
                uint8_t matrix[MOST * MOST];
                matrices[m](matrix, P, (cp_rng){.key = rng.key + n});
                check(P, matrix);
            }
}

/* ---- the right schedule ----------------------------------------------------------------------------------------- */

/* A block goes as far as it must. */
static int hops_needed(const walk *w)
{
    int hops = 0;
    for (int s = 0; s < w->P; s++) {
        int last = 0;
        for (int t = 1; t < w->P; t++)
            last = sees(w, (s + t) % w->P, s) ? t : last;
        hops += last;
    }
    return hops;
}

static void all_meet_and_come_home(int P, const uint8_t *matrix)
{
    walk w;
    open_walk(&w, P, matrix, &(cp_ring_rules){0});
    assert_int_equal(walk_forward(&w), hops_needed(&w));
    w.hops = 0;
    walk_backward(&w);
    assert_int_equal(w.hops, hops_needed(&w));
    for (int rank = 0; rank < P; rank++)
        for (int s = 0; s < P; s++)
            for (int r = 0; r < P; r++)
                assert_int_equal(w.home[rank][s][r], rank == s && sees(&w, r, s));
    cp_arena_close(&w.arena);
}

static void every_pair_meets_once(void **state)
{
    (void)state;
    over_all_matrices(all_meet_and_come_home);
}

/* ---- wrong rules ------------------------------------------------------------------------------------------------ */

static void dropped(int P, const uint8_t *matrix)
{
    walk w;
    open_walk(&w, P, matrix, &(cp_ring_rules){.dkv_return = CP_DKV_RETURN_DROPPED});
    walk_backward(&w);
    for (int rank = 0; rank < P; rank++)
        for (int s = 0; s < P; s++)
            for (int r = 0; r < P; r++)
                assert_int_equal(w.home[rank][s][r], rank == s && r == s);
    cp_arena_close(&w.arena);
}

static void overwritten(int P, const uint8_t *matrix)
{
    walk w;
    open_walk(&w, P, matrix, &(cp_ring_rules){.dkv_return = CP_DKV_RETURN_OVERWRITTEN});
    walk_backward(&w);
    for (int s = 0; s < P; s++) {
        int last = 0;
        for (int t = 1; t < P; t++)
            last = sees(&w, (s + t) % P, s) ? t : last;
        for (int r = 0; r < P; r++)
            assert_int_equal(w.home[s][s][r], r == (s + last) % P);
    }
    cp_arena_close(&w.arena);
}

static void to_the_wrong_rank(int P, const uint8_t *matrix)
{
    walk w;
    open_walk(&w, P, matrix, &(cp_ring_rules){.dkv_return = CP_DKV_RETURN_WRONG_RANK});
    walk_backward(&w);
    for (int rank = 0; rank < P; rank++)
        for (int s = 0; s < P; s++)
            for (int r = 0; r < P; r++)
                assert_int_equal(w.home[rank][s][r], rank == (s + 1) % P && sees(&w, r, s));
    cp_arena_close(&w.arena);
}

static void with_other_keys(int P, const uint8_t *matrix)
{
    for (int rule = CP_RING_BACKWARD_KV_FIRST; rule < CP_RING_BACKWARD_KVS; rule++) {
        walk w;
        open_walk(&w, P, matrix, &(cp_ring_rules){.backward_kv = (cp_ring_backward_kv)rule});
        walk_backward(&w);
        int n = w.plan[0].steps;
        for (int rank = 0; rank < P; rank++)
            for (int t = 0; t < n; t++)
                assert_int_equal(w.plan[rank].backward[t].held,
                                 rule == CP_RING_BACKWARD_KV_FIRST ? rank : (rank - (n - 1 - t) + P) % P);
        for (int s = 0; s < P; s++)
            for (int r = 0; r < P; r++)
                assert_int_equal(w.home[s][s][r], sees(&w, r, s));
        cp_arena_close(&w.arena);
    }
}

static void wrong_schedules_are_what_they_say(void **state)
{
    (void)state;
    over_all_matrices(dropped);
    over_all_matrices(overwritten);
    over_all_matrices(to_the_wrong_rank);
    over_all_matrices(with_other_keys);
}

/* ---- who sees whom ----------------------------------------------------------------------------------------------- */

enum { ROW = 16, RANKS = 4 };

static const struct {
    cp_layout_spec layout;
    cp_mask mask;
    bool packed;
    int pairs; /* of ranks: the table of docs/exchanges.md; 0: not there */
} shards[] = {
    {{.kind = CP_LAYOUT_CONTIGUOUS}, {0}, false, 10},
    {{.kind = CP_LAYOUT_CONTIGUOUS}, {.window = 2}, false, 7},
    {{.kind = CP_LAYOUT_CONTIGUOUS}, {.window = 4}, false, 7},
    {{.kind = CP_LAYOUT_CONTIGUOUS}, {.chunk = 4}, false, 4},
    {{.kind = CP_LAYOUT_CONTIGUOUS}, {0}, true, 8},
    {{.kind = CP_LAYOUT_ZIGZAG}, {0}, false, 16},
    {{.kind = CP_LAYOUT_ZIGZAG}, {.window = 2}, false, 10},
    {{.kind = CP_LAYOUT_ZIGZAG}, {.window = 4}, false, 14},
    {{.kind = CP_LAYOUT_ZIGZAG}, {.chunk = 4}, false, 8},
    {{.kind = CP_LAYOUT_ZIGZAG}, {0}, true, 11},
    {{.kind = CP_LAYOUT_STRIPED}, {.window = 2}, false, 8},
    {{.kind = CP_LAYOUT_STRIPED}, {.window = 4}, false, 16},
    {{.kind = CP_LAYOUT_STRIPED}, {.chunk = 4}, false, 10},
    {{.kind = CP_LAYOUT_STRIPED}, {0}, true, 0},
    {{.kind = CP_LAYOUT_UNEVEN, .cuts = RANKS, .cut = {0, 11, 0, 5}}, {.window = 3}, true, 0},
    {{.kind = CP_LAYOUT_PER_DOCUMENT}, {.window = 3}, true, 0},
};

static bool sees_by_hand(const cp_visibility *visibility, const cp_layout *layout, int rank, int source)
{
    for (int64_t l = 0; l < layout->tokens[rank]; l++)
        for (int64_t k = 0; k < layout->tokens[source]; k++)
            if (cp_visible(visibility, 0, layout->index[rank][l], layout->index[source][k]))
                return true;
    return false;
}

static void ranks_see_exactly_whom_a_token_sees(void **state)
{
    (void)state;
    int64_t ids[ROW] = {0}, documents[ROW];
    for (int i = 0; i < ROW; i++) /* 5, 1, 7, 3 */
        documents[i] = (i >= 5) + (i >= 6) + (i >= 13);
    for (size_t n = 0; n < sizeof shards / sizeof *shards; n++) {
        cp_batch batch = {.B = 1, .T = ROW, .input_ids = ids, .labels = ids};
        batch.document_ids = shards[n].packed ? documents : NULL;
        cp_arena arena = cp_arena_growing();
        cp_tokens tokens;
        cp_layout layout;
        cp_tokens_plan(&tokens, &layout, &batch, &shards[n].layout, RANKS, &(cp_token_rules){0}, &arena);
        int pairs = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            cp_visibility visibility;
            uint8_t sees[RANKS];
            cp_visibility_plan(&visibility, shards[n].mask, &tokens, &layout, rank, &(cp_mask_rules){0},
                               &arena);
            cp_ring_sees(sees, &visibility, &layout, rank);
            for (int source = 0; source < RANKS; source++) {
                if (sees[source] != sees_by_hand(&visibility, &layout, rank, source))
                    fail_msg("case %zu: rank %d, keys of rank %d: %d", n, rank, source, sees[source]);
                pairs += sees[source];
            }
        }
        if (shards[n].pairs > 0 && pairs != shards[n].pairs)
            fail_msg("case %zu: %d pairs of ranks, expected %d", n, pairs, shards[n].pairs);
        cp_arena_close(&arena);
    }
}

int run_ring_plan_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_meets_once),
        cmocka_unit_test(wrong_schedules_are_what_they_say),
        cmocka_unit_test(ranks_see_exactly_whom_a_token_sees),
    };
    return cmocka_run_group_tests_name("ring schedules", tests, NULL, NULL);
}

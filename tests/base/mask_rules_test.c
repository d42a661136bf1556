/* Each wrong value of the decisions about masks, against its formula, over random batches and ranks. */
#include "tests/base/groups.h"
#include "tests/base/planning.h"
#include "tests/support/support.h"

#include <inttypes.h>

typedef struct pair {
    const planned *p;
    cp_mask mask;
    int rank;
    int64_t query, key; /* places */
} pair;

typedef bool term(const pair *x);

static const cp_tokens *tokens(const pair *x)
{
    return &x->p->tokens;
}

static int64_t slot(const pair *x, int64_t place)
{
    return x->p->layout.slot[place];
}

static int64_t shard(const pair *x)
{
    return x->p->layout.T / x->p->layout.P;
}

static bool is_causal(const pair *x)
{
    return tokens(x)->coordinate[x->key] <= tokens(x)->coordinate[x->query];
}

static bool causal_local(const pair *x)
{
    return slot(x, x->key) <= slot(x, x->query);
}

static bool causal_off_when_one(const pair *x)
{
    return shard(x) == 1 || is_causal(x);
}

static bool causal_full_diagonal(const pair *x)
{
    return x->p->layout.owner[x->key] == x->rank || is_causal(x);
}

static bool causal_local_bottom_right(const pair *x)
{
    int64_t T = tokens(x)->T;
    return x->key % T <= slot(x, x->query) + T - shard(x);
}

static int64_t distance(const pair *x)
{
    return tokens(x)->coordinate[x->query] - tokens(x)->coordinate[x->key];
}

static bool window_global(const pair *x)
{
    return x->mask.window == 0 || distance(x) < x->mask.window;
}

static bool window_local(const pair *x)
{
    return x->mask.window == 0 || slot(x, x->query) - slot(x, x->key) < x->mask.window;
}

static bool window_plus_one(const pair *x)
{
    return x->mask.window == 0 || distance(x) < x->mask.window + 1;
}

static bool window_minus_one(const pair *x)
{
    int64_t w = x->mask.window;
    return w == 0 || distance(x) < (w == 1 ? 1 : w - 1);
}

static bool always(const pair *x)
{
    (void)x;
    return true;
}

static bool window_local_length(const pair *x)
{
    return shard(x) <= x->mask.window || window_global(x);
}

static bool same_chunk(const pair *x, int64_t query, int64_t key)
{
    int64_t c = x->mask.chunk, far = 64 * c; /* coordinates of padding are negative */
    return c == 0 || (query + far) / c == (key + far) / c;
}

static bool chunk_global(const pair *x)
{
    return same_chunk(x, tokens(x)->coordinate[x->query], tokens(x)->coordinate[x->key]);
}

static bool chunk_local(const pair *x)
{
    return same_chunk(x, slot(x, x->query), slot(x, x->key));
}

static bool chunk_no_padding(const pair *x)
{
    int64_t T = tokens(x)->T;
    return tokens(x)->by_position ? chunk_global(x) : same_chunk(x, x->query % T, x->key % T);
}

static bool padding_global(const pair *x)
{
    return tokens(x)->real[x->key];
}

static bool padding_shard(const pair *x)
{
    return x->p->layout.owner[x->key] != x->rank || padding_global(x);
}

static bool padding_rotated(const pair *x)
{
    int64_t T = tokens(x)->T, row = x->key / T;
    return tokens(x)->real[row * T + (x->key % T + shard(x)) % T]; /* contiguous shards of one length */
}

static bool scope_shard(const pair *x)
{
    return x->p->layout.owner[x->key] == x->p->layout.owner[x->query];
}

/* How many steps of a ring it takes until the key comes to the rank. */
static int steps_away(const pair *x)
{
    int P = x->p->layout.P;
    return (x->rank - x->p->layout.owner[x->key] + P) % P;
}

static bool scope_without_last_step(const pair *x)
{
    return steps_away(x) == 0 || steps_away(x) < x->p->layout.P - 1;
}

static bool scope_of_first_step(const pair *x)
{
    return steps_away(x) <= 1;
}

static bool same_document(const pair *x)
{
    return tokens(x)->document[x->query] == tokens(x)->document[x->key];
}

enum { CAUSAL, WINDOW, CHUNK, PADDING, SCOPE, TERMS };

static term *const right_terms[TERMS] = {is_causal, window_global, chunk_global, padding_global, always};

/* One wrong term at a time. */
static const struct {
    cp_mask_rules rules;
    int which;
    term *wrong;
} cases[] = {
    {{0}, CAUSAL, is_causal},
    {{.causal = CP_CAUSAL_LOCAL}, CAUSAL, causal_local},
    {{.causal = CP_CAUSAL_OFF_WHEN_ONE}, CAUSAL, causal_off_when_one},
    {{.causal = CP_CAUSAL_FULL_DIAGONAL}, CAUSAL, causal_full_diagonal},
    {{.causal = CP_CAUSAL_LOCAL_BOTTOM_RIGHT}, CAUSAL, causal_local_bottom_right},
    {{.window = CP_WINDOW_LOCAL}, WINDOW, window_local},
    {{.window = CP_WINDOW_PLUS_ONE}, WINDOW, window_plus_one},
    {{.window = CP_WINDOW_MINUS_ONE}, WINDOW, window_minus_one},
    {{.window = CP_WINDOW_DROPPED}, WINDOW, always},
    {{.window = CP_WINDOW_LOCAL_LENGTH}, WINDOW, window_local_length},
    {{.chunk = CP_CHUNK_LOCAL}, CHUNK, chunk_local},
    {{.chunk = CP_CHUNK_NO_PADDING}, CHUNK, chunk_no_padding},
    {{.chunk = CP_CHUNK_DROPPED}, CHUNK, always},
    {{.padding_mask = CP_PADDING_DROPPED}, PADDING, always},
    {{.padding_mask = CP_PADDING_SHARD}, PADDING, padding_shard},
    {{.padding_mask = CP_PADDING_ROTATED}, PADDING, padding_rotated},
    {{.attention_scope = CP_SCOPE_SHARD}, SCOPE, scope_shard},
    {{.attention_scope = CP_SCOPE_LAST_STEP_SKIPPED}, SCOPE, scope_without_last_step},
    {{.attention_scope = CP_SCOPE_FIRST_ONLY}, SCOPE, scope_of_first_step},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Rules that say something about queries of the planning rank alone. */
static bool is_of_own_queries(const cp_mask_rules *rules)
{
    return rules->causal >= CP_CAUSAL_FULL_DIAGONAL || rules->attention_scope >= CP_SCOPE_LAST_STEP_SKIPPED;
}

static bool expected(const pair *x, size_t number)
{
    bool sees = same_document(x);
    for (int which = 0; which < TERMS; which++)
        sees = sees && (which == cases[number].which ? cases[number].wrong : right_terms[which])(x);
    return sees;
}

/* Returns the number of pairs on which the rule differs from the right one. */
static int64_t compare_all_pairs(planned *p, cp_mask mask, int rank, size_t number)
{
    cp_visibility v, right;
    plan_visibility(&v, p, mask, rank, &cases[number].rules);
    plan_visibility(&right, p, mask, rank, &right_masks);
    int64_t T = p->tokens.T, differences = 0;
    for (int64_t b = 0; b < p->tokens.B; b++)
        for (int64_t i = 0; i < T; i++)
            for (int64_t j = 0; j < T; j++) {
                const pair x = {p, mask, rank, b * T + i, b * T + j};
                if (is_of_own_queries(&cases[number].rules) && p->layout.owner[x.query] != rank)
                    continue;
                bool sees = cp_visible(&v, b, i, j);
                if (sees != expected(&x, number))
                    fail_msg("case %zu, row %" PRId64 ", query %" PRId64 ", key %" PRId64, number, b, i, j);
                differences += sees != cp_visible(&right, b, i, j);
            }
    return differences;
}

static void each_rule_is_its_formula(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(test_seed(), "mask rules");
    int64_t differences[CASES] = {0};
    for (uint64_t n = 0; n < 200; n++) {
        random_batch r;
        make_random_batch(&r, (batch_kind)(n % BATCH_KINDS), rng, n);
        int P = 1 + (int)(n / BATCH_KINDS % 24);
        planned p;
        plan_batch(&p, &r.batch, P, &right_tokens);
        const cp_mask mask = {.window = (int64_t)(n % 4), .chunk = (int64_t)(n / 4 % 5)};
        for (size_t number = 0; number < CASES; number++)
            differences[number] += compare_all_pairs(&p, mask, (int)(n % (uint64_t)P), number);
        close_plan(&p);
    }
    assert_true(differences[0] == 0);
    for (size_t number = 1; number < CASES; number++)
        assert_true(differences[number] > 0);
}

static void plan_for_rank_2(void *argument)
{
    planned *p = argument;
    cp_visibility v;
    plan_visibility(&v, p, (cp_mask){0}, 2, &right_masks);
}

static void rank_outside_stops(void **state)
{
    (void)state;
    const int64_t ids[4] = {0}, labels[4] = {0};
    const cp_batch batch = {.B = 1, .T = 4, .input_ids = ids, .labels = labels};
    planned p;
    plan_batch(&p, &batch, 2, &right_tokens);
    assert_stops(plan_for_rank_2, &p, "rank 2");
    close_plan(&p);
}

int mask_rules_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_is_its_formula),
        cmocka_unit_test(rank_outside_stops),
    };
    return cmocka_run_group_tests_name("mask rules", tests, NULL, NULL);
}

/* The right predicate against transformers' formulas, and blocks against the predicate. */
#include "base/tokens/visibility.h"

#include "tests/base/groups.h"
#include "tests/base/planning.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <string.h>

/* ---- transformers 5.23, masking_utils.py, one function there a function here -------------------------------------- */

typedef struct formula {
    const cp_batch *batch;
    cp_mask mask;
    bool packed;
    int64_t sequence[RANDOM_PLACES]; /* packed_sequence_mask */
    int64_t left_padding[3];
} formula;

static void find_packed_sequence_indices(formula *f)
{
    const cp_batch *batch = f->batch;
    for (int64_t b = 0; b < batch->B; b++) {
        int64_t cumulated = 0;
        int64_t previous = batch->position_ids[b * batch->T] - 1;
        for (int64_t i = 0; i < batch->T; i++) {
            int64_t position = batch->position_ids[b * batch->T + i];
            cumulated += position - previous != 1;
            previous = position;
            f->sequence[b * batch->T + i] = cumulated;
        }
        f->packed = f->packed || cumulated != 0;
    }
}

static void count_left_padding(formula *f)
{
    const cp_batch *batch = f->batch;
    for (int64_t b = 0; b < batch->B; b++) {
        int64_t cumulated = 0;
        f->left_padding[b] = 0;
        for (int64_t i = 0; batch->attention_mask && i < batch->T; i++) {
            cumulated += batch->attention_mask[b * batch->T + i];
            f->left_padding[b] += cumulated == 0;
        }
    }
}

static void prepare(formula *f, const cp_batch *batch, cp_mask mask)
{
    *f = (formula){.batch = batch, .mask = mask};
    count_left_padding(f);
    if (batch->position_ids && !batch->attention_mask)
        find_packed_sequence_indices(f);
}

static int64_t python_floor_division(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return quotient * b > a ? quotient - 1 : quotient;
}

static bool transformers_sees(const formula *f, int64_t b, int64_t query, int64_t key)
{
    const cp_batch *batch = f->batch;
    int64_t base = b * batch->T;
    int64_t q = f->packed ? batch->position_ids[base + query] : query;
    int64_t k = f->packed ? batch->position_ids[base + key] : key;
    bool sees = k <= q;
    if (f->mask.window > 0)
        sees = sees && k > q - f->mask.window;
    if (f->mask.chunk > 0)
        sees = sees && python_floor_division(k - f->left_padding[b], f->mask.chunk) ==
                           python_floor_division(q - f->left_padding[b], f->mask.chunk);
    if (f->packed)
        sees = sees && f->sequence[base + query] == f->sequence[base + key];
    if (batch->attention_mask)
        sees = sees && batch->attention_mask[base + key];
    return sees;
}

/* ---- the predicate ----------------------------------------------------------------------------------------------- */

static cp_mask random_mask(cp_rng rng, uint64_t number)
{
    int64_t kind = cp_rng_below(rng, 3 * number, 4);
    return (cp_mask){.window = kind & 1 ? 1 + cp_rng_below(rng, 3 * number + 1, 9) : 0,
                     .chunk = kind & 2 ? 1 + cp_rng_below(rng, 3 * number + 2, 9) : 0};
}

/* Over any number of ranks, the pairs of the batch's own tokens. */
static void assert_as_transformers(const cp_batch *batch, cp_mask mask, int P)
{
    formula f;
    prepare(&f, batch, mask);
    planned p;
    plan_batch(&p, batch, P, &right_tokens);
    cp_visibility v;
    plan_visibility(&v, &p, mask, P - 1, &right_masks);
    for (int64_t b = 0; b < batch->B; b++)
        for (int64_t i = 0; i < batch->T; i++) {
            for (int64_t j = 0; j < batch->T; j++)
                if (cp_visible(&v, b, i, j) != transformers_sees(&f, b, i, j))
                    fail_msg("row %" PRId64 ", query %" PRId64 ", key %" PRId64 ", T %" PRId64
                             ", P %d, window %" PRId64 ", chunk %" PRId64,
                             b, i, j, batch->T, P, mask.window, mask.chunk);
            for (int64_t j = batch->T; j < p.tokens.T; j++)
                assert_false(cp_visible(&v, b, i, j));
        }
    close_plan(&p);
}

static void predicate_is_that_of_transformers(void **state)
{
    (void)state;
    const batch_kind kinds[] = {PLAIN, POSITIONS, PADDED, PACKED};
    uint64_t seed = test_seed();
    cp_rng batches = cp_rng_named(seed, "batches"), masks = cp_rng_named(seed, "masks");
    for (uint64_t n = 0; n < 4000; n++) {
        random_batch r;
        make_random_batch(&r, kinds[n % 4], batches, n);
        assert_as_transformers(&r.batch, random_mask(masks, n), 1 + (int)(n / 4 % 5));
    }
}

/* Documents by name: what each would see were it alone. */
static bool alone_sees(const cp_batch *batch, cp_mask mask, bool by_position, int64_t first, int64_t query,
                       int64_t key)
{
    if (batch->document_ids[query] < 0 || batch->document_ids[query] != batch->document_ids[key])
        return false;
    int64_t q = by_position ? batch->position_ids[query] : query - first;
    int64_t k = by_position ? batch->position_ids[key] : key - first;
    return k <= q && (mask.window == 0 || q - k < mask.window) &&
           (mask.chunk == 0 || q / mask.chunk == k / mask.chunk);
}

static bool holds_documents(const cp_batch *batch)
{
    bool many = false;
    for (int64_t b = 0; b < batch->B; b++)
        for (int64_t i = 0; i < batch->T; i++)
            for (int64_t j = 0; j < i; j++) {
                int64_t one = batch->document_ids[b * batch->T + i],
                        other = batch->document_ids[b * batch->T + j];
                many = many || (one >= 0 && other >= 0 && one != other);
            }
    return many;
}

static void documents_are_as_if_alone(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    cp_rng batches = cp_rng_named(seed, "documents"), masks = cp_rng_named(seed, "masks");
    for (uint64_t n = 0; n < 1000; n++) {
        random_batch r;
        make_random_batch(&r, DOCUMENTS, batches, n);
        const cp_batch *batch = &r.batch;
        cp_mask mask = random_mask(masks, n);
        planned p;
        plan_batch(&p, batch, 1 + (int)(n % 5), &right_tokens);
        cp_visibility v;
        plan_visibility(&v, &p, mask, 0, &right_masks);
        bool many = holds_documents(batch);
        assert_int_equal(p.tokens.by_position, many);
        for (int64_t b = 0; b < batch->B; b++) {
            int64_t base = b * batch->T, first = base;
            while (batch->document_ids[first] < 0)
                first++;
            for (int64_t i = 0; i < batch->T; i++)
                for (int64_t j = 0; j < batch->T; j++)
                    if (batch->document_ids[base + i] >= 0)
                        assert_int_equal(cp_visible(&v, b, i, j),
                                         alone_sees(batch, mask, many, first, base + i, base + j));
        }
        close_plan(&p);
    }
}

/* Pictures: one string a query, 'x' a visible key. */
static void assert_picture(const cp_batch *batch, cp_mask mask, const char *const rows[])
{
    planned p;
    plan_batch(&p, batch, 1, &right_tokens);
    cp_visibility v;
    plan_visibility(&v, &p, mask, 0, &right_masks);
    for (int64_t i = 0; i < batch->T; i++) {
        char picture[32] = "";
        for (int64_t j = 0; j < batch->T; j++)
            picture[j] = cp_visible(&v, 0, i, j) ? 'x' : '.';
        assert_string_equal(picture, rows[i]);
    }
    close_plan(&p);
}

static void pictures(void **state)
{
    (void)state;
    const int64_t ids[8] = {0}, labels[8] = {0}, packed[] = {0, 1, 2, 3, 0, 1, 2, 3};
    const uint8_t padded[] = {0, 0, 1, 1, 1, 1, 1, 1};
    cp_batch batch = {.B = 1, .T = 8, .input_ids = ids, .labels = labels};
    const char *const window[] = {"x.......", "xx......", "xxx.....", ".xxx....",
                                  "..xxx...", "...xxx..", "....xxx.", ".....xxx"};
    assert_picture(&batch, (cp_mask){.window = 3}, window);
    const char *const chunk[] = {"x.......", "xx......", "xxx.....", "...x....",
                                 "...xx...", "...xxx..", "......x.", "......xx"};
    assert_picture(&batch, (cp_mask){.chunk = 3}, chunk);
    batch.position_ids = packed; /* the chunk's origin is the document's start */
    const char *const documents[] = {"x.......", "xx......", "xxx.....", "...x....",
                                     "....x...", "....xx..", "....xxx.", ".......x"};
    assert_picture(&batch, (cp_mask){.chunk = 3}, documents);
    batch.position_ids = NULL;
    batch.attention_mask = padded;
    const char *const left[] = {"........", "........", "..x.....", "..xx....",
                                "..xxx...", ".....x..", ".....xx.", ".....xxx"};
    assert_picture(&batch, (cp_mask){.chunk = 3}, left);
}

static void row_is_the_predicate(void **state)
{
    (void)state;
    cp_rng rng = cp_rng_named(test_seed(), "rows");
    for (uint64_t n = 0; n < 100; n++) {
        random_batch r;
        make_random_batch(&r, (batch_kind)(n % BATCH_KINDS), rng, n);
        planned p;
        plan_batch(&p, &r.batch, 3, &right_tokens);
        cp_visibility v;
        plan_visibility(&v, &p, random_mask(rng, n), 1, &right_masks);
        int64_t T = p.tokens.T, keys[RANDOM_PLACES];
        uint8_t out[RANDOM_PLACES];
        for (int64_t k = 0; k < T; k++)
            keys[k] = T - 1 - k;
        for (int64_t b = 0; b < r.batch.B; b++)
            for (int64_t i = 0; i < T; i++) {
                cp_visible_row(out, &v, b, i, keys, T);
                for (int64_t k = 0; k < T; k++)
                    assert_int_equal(out[k], cp_visible(&v, b, i, keys[k]));
            }
        close_plan(&p);
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* `count` different tokens of [0,T): a run, or every third from anywhere. */
static int64_t draw_block(int64_t *block, int64_t T, cp_rng rng, uint64_t number)
{
    int64_t begin = cp_rng_below(rng, 4 * number, T), step = cp_rng_below(rng, 4 * number + 1, 2) ? 1 : 3;
    int64_t count = 0, most = 1 + cp_rng_below(rng, 4 * number + 2, 6);
    for (int64_t i = begin; i < T && count < most; i += step)
        block[count++] = i;
    if (cp_rng_below(rng, 4 * number + 3, 2) && count > 1) { /* order must not matter */
        int64_t first = block[0];
        block[0] = block[count - 1];
        block[count - 1] = first;
    }
    return count;
}

static cp_cover counted_cover(const cp_visibility *v, int64_t b, const int64_t *queries, int64_t query_count,
                              const int64_t *keys, int64_t key_count)
{
    int64_t seen = 0;
    for (int64_t i = 0; i < query_count; i++)
        for (int64_t j = 0; j < key_count; j++)
            seen += cp_visible(v, b, queries[i], keys[j]);
    return seen == 0 ? CP_COVER_NONE : seen == query_count * key_count ? CP_COVER_ALL : CP_COVER_SOME;
}

static cp_mask_rules random_rules(cp_rng rng, uint64_t number)
{
    return (cp_mask_rules){
        .causal = (cp_causal_rule)cp_rng_below(rng, 5 * number, CP_CAUSAL_RULES),
        .window = (cp_window_rule)cp_rng_below(rng, 5 * number + 1, CP_WINDOW_RULES),
        .chunk = (cp_chunk_rule)cp_rng_below(rng, 5 * number + 2, CP_CHUNK_RULES),
        .padding_mask = (cp_padding_rule)cp_rng_below(rng, 5 * number + 3, CP_PADDING_RULES),
        .attention_scope = (cp_scope_rule)cp_rng_below(rng, 5 * number + 4, CP_SCOPE_RULES),
    };
}

static void covers_do_not_lie(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    cp_rng batches = cp_rng_named(seed, "batches"), masks = cp_rng_named(seed, "masks");
    cp_rng blocks = cp_rng_named(seed, "blocks"), faults = cp_rng_named(seed, "faults");
    int64_t certain = 0, decided = 0;
    for (uint64_t n = 0; n < 3000; n++) {
        random_batch r;
        make_random_batch(&r, (batch_kind)(n % BATCH_KINDS), batches, n);
        planned p;
        int P = 1 + (int)(n % 4);
        plan_batch(&p, &r.batch, P, &right_tokens);
        cp_mask_rules rules = n % 2 ? random_rules(faults, n) : right_masks;
        cp_visibility v;
        plan_visibility(&v, &p, random_mask(masks, n), (int)(n / 4) % P, &rules);
        for (uint64_t m = 0; m < 8; m++) {
            int64_t queries[RANDOM_PLACES], keys[RANDOM_PLACES], b = (int64_t)m % r.batch.B;
            int64_t query_count = draw_block(queries, p.tokens.T, blocks, 16 * n + 2 * m);
            int64_t key_count = draw_block(keys, p.tokens.T, blocks, 16 * n + 2 * m + 1);
            cp_cover cover = cp_visibility_cover(&v, b, queries, query_count, keys, key_count);
            cp_cover truth = counted_cover(&v, b, queries, query_count, keys, key_count);
            assert_true(cover == CP_COVER_SOME || cover == truth);
            certain += truth != CP_COVER_SOME;
            decided += cover != CP_COVER_SOME;
        }
        close_plan(&p);
    }
    print_message("%" PRId64 " of %" PRId64 " certain blocks are decided\n", decided, certain);
    assert_true(decided > certain * 3 / 4);
}

static void run(int64_t *block, int64_t begin, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        block[i] = begin + i;
}

/* Over runs of one length, off the diagonal, with right padding, documents, a window and a chunk: never undecided. */
static void assert_decisive(const cp_batch *batch, cp_mask mask, int64_t block)
{
    planned p;
    plan_batch(&p, batch, 1, &right_tokens);
    cp_visibility v;
    plan_visibility(&v, &p, mask, 0, &right_masks);
    for (int64_t q = 0; q < batch->T; q += block)
        for (int64_t k = 0; k < batch->T; k += block) {
            int64_t queries[RANDOM_PLACES], keys[RANDOM_PLACES];
            run(queries, q, block);
            run(keys, k, block);
            cp_cover truth = counted_cover(&v, 0, queries, block, keys, block);
            assert_int_equal(cp_visibility_cover(&v, 0, queries, block, keys, block), truth);
            if (mask.window == 0 && mask.chunk == 0 && !batch->position_ids && q != k)
                assert_int_equal(truth, k > q ? CP_COVER_NONE : CP_COVER_ALL);
        }
    close_plan(&p);
}

static void covers_of_runs_are_decisive(void **state)
{
    (void)state;
    enum { T = 24 };
    const int64_t ids[T] = {0}, labels[T] = {0};
    int64_t packed[T];
    for (int64_t i = 0; i < T; i++)
        packed[i] = i % 12; /* two documents */
    for (int64_t block = 1; block <= 12; block++) {
        if (T % block != 0)
            continue;
        cp_batch batch = {.B = 1, .T = T, .input_ids = ids, .labels = labels};
        assert_decisive(&batch, (cp_mask){0}, block);
        for (int64_t w = 1; w <= T; w++) {
            assert_decisive(&batch, (cp_mask){.window = w}, block);
            assert_decisive(&batch, (cp_mask){.chunk = w}, block);
        }
        batch.position_ids = packed;
        assert_decisive(&batch, (cp_mask){0}, block);
    }
}

static void empty_blocks_see_nothing(void **state)
{
    (void)state;
    const int64_t ids[2] = {0}, labels[2] = {0}, block[] = {0, 1};
    const cp_batch batch = {.B = 1, .T = 2, .input_ids = ids, .labels = labels};
    planned p;
    plan_batch(&p, &batch, 1, &right_tokens);
    cp_visibility v;
    plan_visibility(&v, &p, (cp_mask){0}, 0, &right_masks);
    assert_int_equal(cp_visibility_cover(&v, 0, block, 0, block, 2), CP_COVER_NONE);
    assert_int_equal(cp_visibility_cover(&v, 0, block, 2, block, 0), CP_COVER_NONE);
    close_plan(&p);
}

int visibility_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicate_is_that_of_transformers),
        cmocka_unit_test(documents_are_as_if_alone),
        cmocka_unit_test(pictures),
        cmocka_unit_test(row_is_the_predicate),
        cmocka_unit_test(covers_do_not_lie),
        cmocka_unit_test(covers_of_runs_are_decisive),
        cmocka_unit_test(empty_blocks_see_nothing),
    };
    return cmocka_run_group_tests_name("visibility", tests, NULL, NULL);
}

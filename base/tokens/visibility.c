#include "base/tokens/visibility.h"

#include <inttypes.h>
#include <string.h>

/* ---- the planner: every decision about masks is read here -------------------------------------------------------- */

typedef struct planning {
    cp_mask mask;
    const cp_tokens *tokens;
    const cp_layout *layout;
    int rank;
    cp_arena *arena;
} planning;

static int64_t places(const planning *plan)
{
    return plan->tokens->B * plan->tokens->T;
}

static int64_t shard_length(const planning *plan)
{
    return plan->layout->tokens[plan->rank];
}

static const int64_t *all_zero(const planning *plan)
{
    size_t bytes = (size_t)places(plan) * sizeof(int64_t);
    return memset(cp_arena_take(plan->arena, bytes), 0, bytes);
}

/* The query at l of the rank stands at l + T − S. */
static const int64_t *at_the_bottom(const planning *plan)
{
    int64_t *order = cp_arena_take(plan->arena, (size_t)places(plan) * sizeof *order);
    for (int64_t place = 0; place < places(plan); place++)
        order[place] = plan->layout->slot[place] + plan->layout->T - shard_length(plan);
    return order;
}

static const int64_t *plan_order(const planning *plan, cp_causal_rule rule)
{
    if (rule == CP_CAUSAL_LOCAL)
        return plan->layout->slot;
    if (rule == CP_CAUSAL_OFF_WHEN_ONE && shard_length(plan) == 1)
        return all_zero(plan);
    if (rule == CP_CAUSAL_LOCAL_BOTTOM_RIGHT)
        return at_the_bottom(plan);
    return plan->tokens->coordinate;
}

static const int64_t *plan_key_order(const planning *plan, cp_causal_rule rule)
{
    const int64_t before_all = -(INT64_C(1) << 40);
    if (rule != CP_CAUSAL_FULL_DIAGONAL && rule != CP_CAUSAL_LOCAL_BOTTOM_RIGHT)
        return NULL;
    int64_t *order = cp_arena_take(plan->arena, (size_t)places(plan) * sizeof *order);
    for (int64_t place = 0; place < places(plan); place++)
        order[place] = rule == CP_CAUSAL_LOCAL_BOTTOM_RIGHT       ? place % plan->layout->T
                       : plan->layout->owner[place] == plan->rank ? before_all
                                                                  : plan->tokens->coordinate[place];
    return order;
}

static int64_t plan_window(const planning *plan, cp_window_rule rule)
{
    int64_t window = plan->mask.window;
    if (window == 0)
        return 0;
    switch (rule) {
    case CP_WINDOW_PLUS_ONE: return window + 1;
    case CP_WINDOW_MINUS_ONE: return window > 1 ? window - 1 : window;
    case CP_WINDOW_DROPPED: return 0;
    case CP_WINDOW_LOCAL_LENGTH: return shard_length(plan) <= window ? 0 : window;
    default: return window;
    }
}

static int64_t floor_divided(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static const int64_t *plan_chunk(const planning *plan, cp_chunk_rule rule)
{
    const cp_tokens *tokens = plan->tokens;
    if (plan->mask.chunk == 0 || rule == CP_CHUNK_DROPPED)
        return all_zero(plan);
    const int64_t *on = rule == CP_CHUNK_LOCAL ? plan->layout->slot : tokens->coordinate;
    bool untaken = rule == CP_CHUNK_NO_PADDING && !tokens->by_position;
    int64_t *chunk = cp_arena_take(plan->arena, (size_t)places(plan) * sizeof *chunk);
    for (int64_t place = 0; place < places(plan); place++)
        chunk[place] =
            floor_divided(on[place] + (untaken ? tokens->leading[place / tokens->T] : 0), plan->mask.chunk);
    return chunk;
}

/* The key at local l of a rank asks the place at l of the next one; where that rank is shorter, nobody. */
static bool next_is_real(const planning *plan, int64_t place)
{
    const cp_layout *layout = plan->layout;
    int64_t row = place / layout->T;
    int64_t local = layout->slot[place];
    int next = (layout->owner[place] + 1) % layout->P;
    if (local >= layout->tokens[next])
        return true;
    return plan->tokens->real[row * layout->T + layout->index[next][row * layout->tokens[next] + local]];
}

static const uint8_t *plan_real(const planning *plan, cp_padding_rule rule)
{
    if (rule == CP_PADDING_GLOBAL)
        return plan->tokens->real;
    uint8_t *real = cp_arena_take(plan->arena, (size_t)places(plan));
    for (int64_t place = 0; place < places(plan); place++)
        switch (rule) {
        case CP_PADDING_SHARD:
            real[place] = plan->layout->owner[place] != plan->rank || plan->tokens->real[place];
            break;
        case CP_PADDING_ROTATED: real[place] = next_is_real(plan, place); break;
        default: real[place] = 1;
        }
    return real;
}

/* Of a rank's tokens; a query sees its own scope. The last two are about the queries of the planning rank. */
static int64_t scope_of(const planning *plan, cp_scope_rule rule, int owner)
{
    int P = plan->layout->P;
    int behind = (plan->rank - owner + P) % P; /* steps until its keys come */
    switch (rule) {
    case CP_SCOPE_SHARD: return owner;
    case CP_SCOPE_LAST_STEP_SKIPPED: return behind > 0 && behind == P - 1;
    case CP_SCOPE_FIRST_ONLY: return behind > 1;
    default: return 0;
    }
}

static const int64_t *plan_scope(const planning *plan, cp_scope_rule rule)
{
    if (rule == CP_SCOPE_ALL)
        return all_zero(plan);
    int64_t *scope = cp_arena_take(plan->arena, (size_t)places(plan) * sizeof *scope);
    for (int64_t place = 0; place < places(plan); place++)
        scope[place] = scope_of(plan, rule, plan->layout->owner[place]);
    return scope;
}

void cp_visibility_plan(cp_visibility *visibility, cp_mask mask, const cp_tokens *tokens,
                        const cp_layout *layout, int rank, const cp_mask_rules *rules, cp_arena *arena)
{
    cp_check(mask.window >= 0 && mask.chunk >= 0 && rank >= 0 && rank < layout->P && !arena->measuring,
             "window %" PRId64 ", chunk %" PRId64 ", rank %d", mask.window, mask.chunk, rank);
    planning plan = {mask, tokens, layout, rank, arena};
    *visibility = (cp_visibility){
        .B = tokens->B,
        .T = tokens->T,
        .real = plan_real(&plan, rules->padding_mask),
        .document = tokens->document,
        .scope = plan_scope(&plan, rules->attention_scope),
        .order = plan_order(&plan, rules->causal),
        .key_order = plan_key_order(&plan, rules->causal),
        .distance = rules->window == CP_WINDOW_LOCAL ? layout->slot : tokens->coordinate,
        .chunk = plan_chunk(&plan, rules->chunk),
        .window = plan_window(&plan, rules->window),
        .masked_before_cap = rules->softcap_order == CP_MASK_THEN_SOFTCAP,
    };
}

/* ---- the predicate ----------------------------------------------------------------------------------------------- */

static const int64_t *key_order(const cp_visibility *v)
{
    return v->key_order ? v->key_order : v->order;
}

/* i and j are places: row · T + index; `keys` is the order of keys. */
static bool sees(const cp_visibility *v, const int64_t *keys, int64_t i, int64_t j)
{
    return v->real[j] && v->document[i] == v->document[j] && v->scope[i] == v->scope[j] &&
           keys[j] <= v->order[i] && (v->window == 0 || v->distance[j] > v->distance[i] - v->window) &&
           v->chunk[i] == v->chunk[j];
}

bool cp_visible(const cp_visibility *visibility, int64_t row, int64_t query, int64_t key)
{
    return sees(visibility, key_order(visibility), row * visibility->T + query, row * visibility->T + key);
}

void cp_visible_row(uint8_t *out, const cp_visibility *visibility, int64_t row, int64_t query,
                    const int64_t *keys, int64_t count)
{
    int64_t base = row * visibility->T;
    const int64_t *order = key_order(visibility);
    for (int64_t n = 0; n < count; n++)
        out[n] = sees(visibility, order, base + query, base + keys[n]);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

typedef struct range {
    int64_t min, max;
} range;

static range range_of(const int64_t *values, const int64_t *tokens, int64_t count)
{
    range r = {values[tokens[0]], values[tokens[0]]};
    for (int64_t n = 1; n < count; n++) {
        int64_t value = values[tokens[n]];
        r.min = value < r.min ? value : r.min;
        r.max = value > r.max ? value : r.max;
    }
    return r;
}

static cp_cover both(cp_cover a, cp_cover b)
{
    return a < b ? a : b;
}

static cp_cover equal_cover(range query, range key)
{
    if (query.max < key.min || key.max < query.min)
        return CP_COVER_NONE;
    return query.min == query.max && key.min == key.max ? CP_COVER_ALL : CP_COVER_SOME;
}

static cp_cover order_cover(range query, range key)
{
    return key.min > query.max ? CP_COVER_NONE : key.max <= query.min ? CP_COVER_ALL : CP_COVER_SOME;
}

/* The last place by (document, order), or the first where `sign` is -1. */
static int64_t extreme_place(const cp_visibility *v, const int64_t *order, int64_t base,
                             const int64_t *tokens, int64_t count, int sign)
{
    int64_t best = base + tokens[0];
    for (int64_t n = 1; n < count; n++) {
        int64_t place = base + tokens[n];
        int64_t by_document = sign * (v->document[place] - v->document[best]);
        int64_t by_order = sign * (order[place] - order[best]);
        if (by_document > 0 || (by_document == 0 && by_order > 0))
            best = place;
    }
    return best;
}

/* Where order starts anew in each document, ranges of it overlap; (document, order) together do not. */
static cp_cover document_order_cover(int64_t last_query, int64_t first_key, const cp_visibility *v)
{
    int64_t documents = v->document[first_key] - v->document[last_query];
    bool later = documents > 0 || (documents == 0 && key_order(v)[first_key] > v->order[last_query]);
    return later ? CP_COVER_NONE : CP_COVER_ALL;
}

static cp_cover window_cover(range query, range key, int64_t window)
{
    return key.max <= query.min - window  ? CP_COVER_NONE
           : key.min > query.max - window ? CP_COVER_ALL
                                          : CP_COVER_SOME;
}

static cp_cover real_cover(const uint8_t *real, const int64_t *keys, int64_t count)
{
    int64_t found = 0;
    for (int64_t n = 0; n < count; n++)
        found += real[keys[n]];
    return found == 0 ? CP_COVER_NONE : found == count ? CP_COVER_ALL : CP_COVER_SOME;
}

/* A pair is visible where every term holds: none where one term holds nowhere, all where each holds everywhere. */
cp_cover cp_visibility_cover(const cp_visibility *visibility, int64_t row, const int64_t *queries,
                             int64_t query_count, const int64_t *keys, int64_t key_count)
{
    if (query_count == 0 || key_count == 0)
        return CP_COVER_NONE;
    const cp_visibility *v = visibility;
    int64_t base = row * v->T;
#define QUERIES(array) range_of(v->array + base, queries, query_count)
#define KEYS(array)    range_of(v->array + base, keys, key_count)
    cp_cover cover = real_cover(v->real + base, keys, key_count);
    cover = both(cover, equal_cover(QUERIES(document), KEYS(document)));
    cover = both(cover, equal_cover(QUERIES(scope), KEYS(scope)));
    cover = both(cover, equal_cover(QUERIES(chunk), KEYS(chunk)));
    cover = both(cover, order_cover(QUERIES(order), range_of(key_order(v) + base, keys, key_count)));
    cover = both(cover, document_order_cover(extreme_place(v, v->order, base, queries, query_count, 1),
                                             extreme_place(v, key_order(v), base, keys, key_count, -1), v));
    if (v->window > 0)
        cover = both(cover, window_cover(QUERIES(distance), KEYS(distance), v->window));
#undef QUERIES
#undef KEYS
    return cover;
}

#include "harness/parallel/ring_plan.h"

typedef struct ring {
    const cp_ring_rules *rules;
    const uint8_t *sees; /* [P,P] */
    int P, rank, steps;
} ring;

static const cp_ring_hop nowhere = {-1, -1, -1};

static int around(const ring *r, int rank)
{
    return (rank % r->P + r->P) % r->P;
}

/* The last step at which block s is met: its distance from rank s. */
static int last_step(const ring *r, int s)
{
    for (int t = r->P - 1; t > 0; t--)
        if (r->sees[around(r, s + t) * r->P + s])
            return t;
    return 0;
}

/* From step t to t + 1, of what travels with its block. */
static cp_ring_hop with_the_block(const ring *r, int t)
{
    int here = around(r, r->rank - t), next = around(r, r->rank - t - 1);
    return (cp_ring_hop){.to = t < last_step(r, here) ? around(r, r->rank + 1) : -1,
                         .from = t < last_step(r, next) ? around(r, r->rank - 1) : -1,
                         .block = next};
}

static cp_ring_step step_forward(const ring *r, int t)
{
    int block = around(r, r->rank - t);
    return (cp_ring_step){.block = block,
                          .sees = t == 0 || r->sees[r->rank * r->P + block],
                          .held = block,
                          .keys = t == 0 ? nowhere : with_the_block(r, t - 1),
                          .gradients = nowhere,
                          .home = nowhere};
}

/* ---- backward: whose keys and values ---------------------------------------------------------------------------- */

static void keys_of_the_step(const ring *r, int t, cp_ring_step *step)
{
    (void)r;
    (void)t;
    (void)step;
}

static void keys_of_the_first(const ring *r, int t, cp_ring_step *step)
{
    (void)t;
    step->held = r->rank;
    step->keys = nowhere;
}

/* Blocks come the other way round, from rank r+1; the first one is fetched from where it is. */
static void keys_in_forward_order(const ring *r, int t, cp_ring_step *step)
{
    int distance = t == 0 ? r->steps - 1 : -1;
    step->held = around(r, r->rank - (r->steps - 1 - t));
    step->keys = (cp_ring_hop){around(r, r->rank + distance), around(r, r->rank - distance), step->held};
    if (r->steps == 1)
        step->keys = nowhere;
}

/* ---- backward: what becomes of gradients ------------------------------------------------------------------------ */

/* Those of block s are complete at its last step; they go to rank s + further. */
static cp_ring_hop complete(const ring *r, int t, int further)
{
    int here = around(r, r->rank - t), mine = around(r, r->rank - further);
    return (cp_ring_hop){.to = t == last_step(r, here) ? around(r, here + further) : -1,
                         .from = t == last_step(r, mine) ? around(r, mine + t) : -1,
                         .block = mine};
}

static void gradients_added(const ring *r, int t, cp_ring_step *step)
{
    step->fresh = t == 0;
    step->gradients = with_the_block(r, t);
    step->home = complete(r, t, 0);
}

static void gradients_dropped(const ring *r, int t, cp_ring_step *step)
{
    step->fresh = true;
    if (t == 0)
        step->home = (cp_ring_hop){r->rank, r->rank, r->rank};
}

static void gradients_overwritten(const ring *r, int t, cp_ring_step *step)
{
    gradients_added(r, t, step);
    step->fresh = step->sees;
}

static void gradients_to_the_next(const ring *r, int t, cp_ring_step *step)
{
    gradients_added(r, t, step);
    step->home = complete(r, t, 1);
}

static cp_ring_step step_backward(const ring *r, int t)
{
    typedef void plan_step(const ring *r, int t, cp_ring_step *step);
    static plan_step *const keys[CP_RING_BACKWARD_KVS] = {[CP_RING_BACKWARD_KV_STEP] = keys_of_the_step,
                                                          [CP_RING_BACKWARD_KV_FIRST] = keys_of_the_first,
                                                          [CP_RING_BACKWARD_KV_FORWARD_ORDER] =
                                                              keys_in_forward_order};
    static plan_step *const gradients[CP_DKV_RETURNS] = {[CP_DKV_RETURN_ADDED] = gradients_added,
                                                         [CP_DKV_RETURN_DROPPED] = gradients_dropped,
                                                         [CP_DKV_RETURN_OVERWRITTEN] = gradients_overwritten,
                                                         [CP_DKV_RETURN_WRONG_RANK] = gradients_to_the_next};
    cp_ring_step step = step_forward(r, t);
    keys[r->rules->backward_kv](r, t, &step);
    gradients[r->rules->dkv_return](r, t, &step);
    return step;
}

/* ---- the plan --------------------------------------------------------------------------------------------------- */

typedef struct span {
    const int64_t *index; /* global */
    int64_t count;
} span;

static span part(span whole, int64_t first, int64_t count)
{
    return (span){whole.index + first, count};
}

/* Whether any query sees any key. A cover goes by ranges, and shards that lie apart (zigzag, striped) have wide ones:
 * what it leaves open is cut in halves until it is certain, at the latest with one query and one key. */
static bool sees_any(const cp_visibility *visibility, int64_t row, span queries, span keys)
{
    cp_cover cover =
        cp_visibility_cover(visibility, row, queries.index, queries.count, keys.index, keys.count);
    if (cover != CP_COVER_SOME)
        return cover == CP_COVER_ALL;
    if (queries.count == 1 && keys.count == 1)
        return cp_visible(visibility, row, queries.index[0], keys.index[0]);
    bool cut_queries = queries.count >= keys.count;
    int64_t half = (cut_queries ? queries.count : keys.count) / 2;
    for (int piece = 0; piece < 2; piece++) {
        span whole = cut_queries ? queries : keys;
        span some = piece == 0 ? part(whole, 0, half) : part(whole, half, whole.count - half);
        if (sees_any(visibility, row, cut_queries ? some : queries, cut_queries ? keys : some))
            return true;
    }
    return false;
}

void cp_ring_sees(uint8_t *sees, const cp_visibility *visibility, const cp_layout *layout, int rank)
{
    int64_t S = layout->tokens[rank];
    for (int s = 0; s < layout->P; s++) {
        int64_t keys = layout->tokens[s];
        sees[s] = 0;
        for (int64_t row = 0; row < layout->B && !sees[s]; row++)
            sees[s] = sees_any(visibility, row, (span){layout->index[rank] + row * S, S},
                               (span){layout->index[s] + row * keys, keys});
    }
}

void cp_ring_plan_make(cp_ring_plan *plan, const cp_ring_rules *rules, const uint8_t *sees, int P, int rank,
                       cp_arena *arena)
{
    ring r = {rules, sees, P, rank, 1};
    for (int s = 0; s < P; s++)
        r.steps = last_step(&r, s) >= r.steps ? last_step(&r, s) + 1 : r.steps;
    *plan = (cp_ring_plan){.steps = r.steps,
                           .narrow = rules->accumulate_dtype == CP_ACCUMULATE_BFLOAT16,
                           .own_statistics = rules->backward_stats != CP_RING_BACKWARD_STATS_MERGED};
    plan->forward = cp_arena_take(arena, (size_t)r.steps * sizeof *plan->forward);
    plan->backward = cp_arena_take(arena, (size_t)r.steps * sizeof *plan->backward);
    for (int t = 0; t < r.steps; t++) {
        plan->forward[t] = step_forward(&r, t);
        plan->backward[t] = step_backward(&r, t);
    }
}

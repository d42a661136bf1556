/* Attention without a mask, as kernels for packed sequences have it: padding is taken out of the keys, and what is left
 * falls into segments, maximal runs of tokens of one document whose coordinates rise by one. Between a segment of
 * queries and one of keys, causal order and window are a difference of beginnings: a query sees an interval.
 *
 * One batch row after another. Segments are as long as the layout lets them be; where neighbours are far apart, as in a
 * striped shard, they are single tokens and cost what a predicate does. */
#include "reference/attention_stream.h"
#include "reference/kernels.h"

/* Places [first, first + count), whose coordinates begin at these. */
typedef struct segment {
    int64_t first, count;
    int64_t document, scope, chunk, order, distance;
} segment;

typedef struct segments {
    segment *list;
    int32_t *of; /* [places]: which segment a place belongs to */
    int64_t count;
} segments;

typedef struct varlen {
    int64_t window; /* 0: none */
    segments queries, keys;
} varlen;

/* ---- planning ---- */

static segments take_segments(cp_arena *scratch, int64_t places)
{
    return (segments){.list = cp_arena_take(scratch, (size_t)places * sizeof(segment)),
                      .of = cp_arena_take(scratch, (size_t)places * sizeof(int32_t))};
}

static segment token(const cp_visibility *v, const int64_t *order, int64_t at, int64_t place)
{
    return (segment){.first = place,
                     .count = 1,
                     .document = v->document[at],
                     .scope = v->scope[at],
                     .chunk = v->chunk[at],
                     .order = order[at],
                     .distance = v->distance[at]};
}

static bool together(const segment *a, const segment *b)
{
    return a->document == b->document && a->scope == b->scope && a->chunk == b->chunk;
}

/* `index` [places] are global, of batch row b. */
static void cut(segments *s, const cp_visibility *v, const int64_t *order, int64_t b, const int64_t *index,
                int64_t places)
{
    s->count = 0;
    for (int64_t place = 0; place < places; place++) {
        segment next = token(v, order, b * v->T + index[place], place);
        segment *last = s->count ? &s->list[s->count - 1] : NULL;
        if (last && together(last, &next) && next.order == last->order + last->count &&
            next.distance == last->distance + last->count)
            last->count++;
        else
            s->list[s->count++] = next;
        s->of[place] = (int32_t)(s->count - 1);
    }
}

/* ---- the mask, by arithmetic ---- */

/* The part of a segment that lies in a range. */
static segment part_of(const segment *whole, cp_range span)
{
    int64_t begin = whole->first > span.first ? whole->first : span.first;
    int64_t end = cp_min(whole->first + whole->count, span.first + span.count);
    segment part = *whole;
    part.first = begin;
    part.count = end - begin;
    part.order += begin - whole->first;
    part.distance += begin - whole->first;
    return part;
}

static cp_cover cover_of_pair(const segment *q, const segment *k, int64_t window)
{
    if (!together(q, k))
        return CP_COVER_NONE;
    int64_t last_query = q->count - 1, last_key = k->count - 1;
    bool none =
        k->order > q->order + last_query || (window && k->distance + last_key <= q->distance - window);
    bool all =
        k->order + last_key <= q->order && (!window || k->distance > q->distance + last_query - window);
    return none ? CP_COVER_NONE : all ? CP_COVER_ALL : CP_COVER_SOME;
}

static cp_cover varlen_cover(const void *source, int64_t b, cp_range queries, cp_range keys)
{
    const varlen *s = source;
    (void)b;
    bool first = true;
    cp_cover cover = CP_COVER_NONE;
    for (int32_t i = s->queries.of[queries.first]; i <= s->queries.of[queries.first + queries.count - 1]; i++)
        for (int32_t j = s->keys.of[keys.first]; j <= s->keys.of[keys.first + keys.count - 1]; j++) {
            segment q = part_of(&s->queries.list[i], queries), k = part_of(&s->keys.list[j], keys);
            cp_cover pair = cover_of_pair(&q, &k, s->window);
            if (pair == CP_COVER_SOME || (!first && pair != cover))
                return CP_COVER_SOME;
            cover = pair;
            first = false;
        }
    return cover;
}

static void varlen_row(uint8_t *visible, const void *source, int64_t b, int64_t query, cp_range keys)
{
    const varlen *s = source;
    (void)b;
    segment q = part_of(&s->queries.list[s->queries.of[query]], (cp_range){query, 1});
    memset(visible, 0, (size_t)keys.count);
    for (int32_t j = s->keys.of[keys.first]; j <= s->keys.of[keys.first + keys.count - 1]; j++) {
        segment k = part_of(&s->keys.list[j], keys);
        int64_t begin = s->window ? q.distance - s->window + 1 - k.distance : 0;
        int64_t end = cp_min(q.order - k.order + 1, k.count);
        begin = begin > 0 ? begin : 0;
        if (together(&q, &k) && begin < end)
            memset(visible + (k.first - keys.first) + begin, 1, (size_t)(end - begin));
    }
}

/* ---- one batch row ---- */

/* Keys without padding. */
typedef struct packed {
    int64_t *kept; /* [count]: their places */
    int64_t count;
    cp_tensor index, k, v; /* [1,count] [1,count,K,D] [1,count,K,Dv] */
} packed;

static cp_tensor row_of(cp_tensor tensor, int64_t b)
{
    return cp_tensor_given(tensor) ? cp_tensor_slice(tensor, 0, b, 1) : tensor;
}

/* Rows [first axis after the batch] of another tensor, or back by addition. */
static void move_keys(cp_tensor to, cp_tensor from, const packed *keys, bool add)
{
    int64_t heads = to.extent[2], width = cp_width(to);
    for (int64_t n = 0; n < keys->count; n++)
        for (int64_t head = 0; head < heads; head++) {
            int64_t place = keys->kept[n] * heads + head, place_packed = n * heads + head;
            real *target = cp_row(to, add ? place : place_packed);
            const real *origin = cp_row(from, add ? place_packed : place);
            for (int64_t d = 0; d < width; d++)
                target[d] = add ? target[d] + origin[d] : origin[d];
        }
}

static cp_tensor take_keys(cp_arena *scratch, cp_tensor like)
{
    return CP_TAKE(scratch, like.dtype, 1, like.extent[1], like.extent[2], like.extent[3]);
}

/* Room for every key, of which those that are real are used. */
static packed pack(cp_tensor k, cp_tensor v, const cp_attention *attention, int64_t b, cp_arena *scratch)
{
    int64_t Sk = k.extent[1];
    packed keys = {.kept = cp_arena_take(scratch, (size_t)Sk * sizeof(int64_t)),
                   .count = CP_SHAPE_ONLY ? Sk : 0,
                   .index = CP_TAKE(scratch, CP_I64, 1, Sk),
                   .k = take_keys(scratch, k),
                   .v = take_keys(scratch, v)};
    int64_t *index = keys.index.data;
    for (int64_t place = 0; !CP_SHAPE_ONLY && place < Sk; place++) {
        int64_t global =
            ((const int64_t *)attention->key_index.data)[b * attention->key_index.stride[0] + place];
        if (!attention->visibility->real[b * attention->visibility->T + global])
            continue;
        index[keys.count] = global;
        keys.kept[keys.count++] = place;
    }
    keys.index = cp_tensor_slice(keys.index, 1, 0, keys.count);
    keys.k = cp_tensor_slice(keys.k, 1, 0, keys.count);
    keys.v = cp_tensor_slice(keys.v, 1, 0, keys.count);
    if (!CP_SHAPE_ONLY) {
        move_keys(keys.k, row_of(k, b), &keys, false);
        move_keys(keys.v, row_of(v, b), &keys, false);
    }
    return keys;
}

static varlen plan(const packed *keys, const cp_attention *attention, int64_t b, int64_t Sk,
                   cp_arena *scratch)
{
    int64_t Sq = attention->query_index.extent[1];
    varlen s = {.queries = take_segments(scratch, Sq), .keys = take_segments(scratch, Sk)};
    if (CP_SHAPE_ONLY)
        return s;
    const cp_visibility *v = attention->visibility;
    const int64_t *queries =
        (const int64_t *)attention->query_index.data + b * attention->query_index.stride[0];
    s.window = v->window;
    cut(&s.queries, v, v->order, b, queries, Sq);
    cut(&s.keys, v, v->key_order ? v->key_order : v->order, b, keys->index.data, keys->count);
    return s;
}

static cp_attention attention_of_row(const cp_attention *attention, const packed *keys, int64_t b)
{
    cp_attention row = *attention;
    row.query_index = row_of(attention->query_index, b);
    row.key_index = keys->index;
    return row;
}

static cp_tile_mask mask_of(const varlen *s)
{
    return (cp_tile_mask){.source = s, .cover = varlen_cover, .row = varlen_row};
}

static void forward(cp_tensor o, cp_tensor lse, cp_tensor q, cp_tensor k, cp_tensor v,
                    const cp_attention *attention, cp_arena *scratch, cp_precision precision)
{
    for (int64_t b = 0; b < q.extent[0]; b++) {
        size_t mark = cp_arena_mark(scratch);
        packed keys = pack(k, v, attention, b, scratch);
        varlen s = plan(&keys, attention, b, k.extent[1], scratch);
        cp_attention row = attention_of_row(attention, &keys, b);
        cp_stream_forward(row_of(o, b), row_of(lse, b), row_of(q, b), keys.k, keys.v, &row, mask_of(&s),
                          scratch, precision);
        cp_arena_release(scratch, mark);
    }
}

static cp_tensor take_gradient(cp_arena *scratch, cp_tensor of, const packed *keys)
{
    if (!cp_tensor_given(of))
        return of;
    cp_tensor gradient = take_keys(scratch, of);
    cp_tensor_zero(gradient);
    return cp_tensor_slice(gradient, 1, 0, keys->count);
}

static void give_back(cp_tensor to, cp_tensor from, const packed *keys, int64_t b)
{
    if (cp_tensor_given(to) && !CP_SHAPE_ONLY)
        move_keys(row_of(to, b), from, keys, true);
}

static void backward(cp_tensor dq, cp_tensor dk, cp_tensor dv, cp_tensor dout, cp_tensor lse, cp_tensor delta,
                     cp_tensor q, cp_tensor k, cp_tensor v, const cp_attention *attention, cp_arena *scratch,
                     cp_precision precision)
{
    for (int64_t b = 0; b < q.extent[0]; b++) {
        size_t mark = cp_arena_mark(scratch);
        packed keys = pack(k, v, attention, b, scratch);
        varlen s = plan(&keys, attention, b, k.extent[1], scratch);
        cp_attention row = attention_of_row(attention, &keys, b);
        cp_attention_gradients gradients = {.dq = row_of(dq, b),
                                            .dk = take_gradient(scratch, dk, &keys),
                                            .dv = take_gradient(scratch, dv, &keys),
                                            .dout = row_of(dout, b),
                                            .lse = row_of(lse, b),
                                            .delta = row_of(delta, b)};
        cp_stream_backward(&gradients, row_of(q, b), keys.k, keys.v, &row, mask_of(&s), scratch, precision);
        give_back(dk, gradients.dk, &keys, b);
        give_back(dv, gradients.dv, &keys, b);
        cp_arena_release(scratch, mark);
    }
}

const cp_attention_ops CP_WIDTH(cp_attention_varlen) = {.forward = forward, .backward = backward};

#include "harness/parallel/alltoall.h"

/* ---- blocks: units, in order, joined into runs and runs into blocks ---------------------------------------------- */

typedef struct unit {
    int peer;
    int64_t local, wire;
    double weight;
} unit;

typedef struct builder {
    int64_t count;
    cp_block *block; /* NULL: only counts */
    cp_block open;   /* rows of one length at even distances; no rows: nothing is open */
    cp_block row;    /* the run that grows; no length: none */
} builder;

static void put(builder *b, const cp_block *block)
{
    if (b->block)
        b->block[b->count] = *block;
    b->count++;
}

static bool continues(const cp_block *open, const cp_block *row)
{
    if (open->count == 0 || open->peer != row->peer || open->length != row->length ||
        open->weight != row->weight)
        return false;
    int64_t local = row->local - open->local, wire = row->wire - open->wire;
    if (open->count == 1)
        return local >= row->length && wire >= row->length;
    return local == open->count * open->local_step && wire == open->count * open->wire_step;
}

static void end_row(builder *b)
{
    if (b->row.length == 0)
        return;
    if (continues(&b->open, &b->row)) {
        if (b->open.count == 1) {
            b->open.local_step = b->row.local - b->open.local;
            b->open.wire_step = b->row.wire - b->open.wire;
        }
        b->open.count++;
    } else {
        if (b->open.count > 0)
            put(b, &b->open);
        b->open = b->row;
    }
    b->row.length = 0;
}

static void add(builder *b, unit u)
{
    cp_block *row = &b->row;
    bool next = row->length > 0 && row->peer == u.peer && row->weight == u.weight &&
                row->local + row->length == u.local && row->wire + row->length == u.wire;
    if (next) {
        row->length++;
        return;
    }
    end_row(b);
    *row = (cp_block){
        .peer = u.peer, .local = u.local, .wire = u.wire, .length = 1, .count = 1, .weight = u.weight};
}

static void finish(builder *b)
{
    end_row(b);
    if (b->open.count > 0)
        put(b, &b->open);
}

/* ---- the two sides ---------------------------------------------------------------------------------------------- */

typedef struct wire {
    cp_alltoall_rule rule;
    cp_alltoall_tensor tensor;
    const cp_layout *layout;
    const cp_head_plan *heads;
    int rank;
} wire;

/* Tokens that ranks before `peer` hold. */
static int64_t tokens_before(const cp_layout *layout, int peer)
{
    int64_t tokens = 0;
    for (int rank = 0; rank < peer; rank++)
        tokens += layout->B * layout->tokens[rank];
    return tokens;
}

/* Heads that ranks before `peer` receive. */
static int64_t heads_before(const cp_head_plan *heads, int peer)
{
    int64_t count = 0;
    for (int rank = 0; rank < peer; rank++)
        count += heads->received[rank];
    return count;
}

/* The n-th unit of the piece [B,S,N] that is shared with `peer`: where it stands in [B,S,K]. */
static unit in_tokens(const wire *w, int peer, int64_t n)
{
    const cp_head_plan *heads = w->heads;
    int64_t N = heads->received[peer];
    int64_t token = n / N, j = n % N;
    int owner = peer;
    if (w->rule == CP_ALLTOALL_STRIDES_IGNORED && w->tensor == CP_ALLTOALL_INPUT) {
        int64_t all = heads_before(heads, heads->P);
        int64_t number = w->layout->B * w->layout->tokens[w->rank] * heads_before(heads, peer) + n;
        token = number / all;
        j = number % all;
        for (owner = 0; j >= heads->received[owner]; owner++)
            j -= heads->received[owner];
    }
    int64_t head = heads->head[owner][j];
    if (w->rule == CP_ALLTOALL_RANK_HEAD && w->tensor == CP_ALLTOALL_OUTPUT)
        head = j * heads->P + owner;
    return (unit){
        .peer = peer, .local = token * heads->K + head, .wire = n, .weight = heads->weight[owner][j]};
}

/* The n-th unit of the piece [B,S_peer,N]: where it stands in [B,T,N]. */
static unit in_heads(const wire *w, int peer, int64_t n)
{
    const cp_layout *layout = w->layout;
    int64_t N = w->heads->received[w->rank];
    int64_t token = n / N, row = token / layout->tokens[peer];
    int64_t place = row * layout->T + layout->index[peer][token];
    if (w->rule == CP_ALLTOALL_BATCH_SEQUENCE && w->tensor == CP_ALLTOALL_INPUT)
        place = tokens_before(layout, peer) + token;
    return (unit){.peer = peer, .local = place * N + n % N, .wire = n, .weight = 1};
}

typedef unit place_unit(const wire *w, int peer, int64_t n);

static int64_t build(cp_block *block, const wire *w, const int64_t *piece, place_unit *place)
{
    builder b = {.block = block};
    for (int peer = 0; peer < w->layout->P; peer++)
        for (int64_t n = 0; n < piece[peer]; n++)
            add(&b, place(w, peer, n));
    finish(&b);
    return b.count;
}

/* Built twice: counted, then written. */
static void make_side(cp_wire_side *side, const wire *w, place_unit *place, cp_arena *arena)
{
    side->count = build(NULL, w, side->piece, place);
    side->block = cp_arena_take(arena, (size_t)side->count * sizeof *side->block);
    build(side->block, w, side->piece, place);
}

void cp_alltoall_plan_make(cp_alltoall_plan *plan, cp_alltoall_rule rule, cp_alltoall_tensor tensor,
                           const cp_layout *layout, int rank, const cp_head_plan *heads, cp_arena *arena)
{
    int P = layout->P;
    cp_check(P == heads->P, "heads for %d ranks, tokens for %d", heads->P, P);
    int64_t own_tokens = layout->B * layout->tokens[rank], own_heads = heads->received[rank];
    *plan = (cp_alltoall_plan){.tokens.units = own_tokens * heads->K,
                               .heads.units = layout->B * layout->T * own_heads};
    plan->tokens.piece = cp_arena_take(arena, (size_t)P * sizeof(int64_t));
    plan->heads.piece = cp_arena_take(arena, (size_t)P * sizeof(int64_t));
    for (int peer = 0; peer < P; peer++) {
        plan->tokens.piece[peer] = own_tokens * heads->received[peer];
        plan->heads.piece[peer] = layout->B * layout->tokens[peer] * own_heads;
    }
    wire w = {.rule = rule, .tensor = tensor, .layout = layout, .heads = heads, .rank = rank};
    make_side(&plan->tokens, &w, in_tokens, arena);
    make_side(&plan->heads, &w, in_heads, arena);
}

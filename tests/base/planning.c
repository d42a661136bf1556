#include "tests/base/planning.h"

#include "tests/support/support.h"

#include <string.h>

const cp_token_rules right_tokens; /* zero: the first value of every decision */
const cp_mask_rules right_masks;

void plan_laid_out(planned *p, const cp_batch *batch, const cp_layout_spec *spec, int P,
                   const cp_token_rules *rules)
{
    p->arena = cp_arena_growing();
    cp_tokens_plan(&p->tokens, &p->layout, batch, spec, P, rules, &p->arena);
}

void plan_batch(planned *p, const cp_batch *batch, int P, const cp_token_rules *rules)
{
    plan_laid_out(p, batch, &(cp_layout_spec){0}, P, rules);
}

cp_layout_spec layout_named(const char *text)
{
    cp_layout_spec spec;
    assert_ok(cp_layout_parse(&spec, text));
    return spec;
}

void plan_visibility(cp_visibility *visibility, planned *p, cp_mask mask, int rank,
                     const cp_mask_rules *rules)
{
    cp_visibility_plan(visibility, mask, &p->tokens, &p->layout, rank, rules, &p->arena);
}

void close_plan(planned *p)
{
    cp_arena_close(&p->arena);
}

/* Draws in order from one stream. */
typedef struct draws {
    cp_rng rng;
    uint64_t used;
} draws;

static int64_t below(draws *d, int64_t bound)
{
    return cp_rng_below(d->rng, d->used++, bound);
}

static void draw_padding(draws *d, uint8_t *mask, int64_t T)
{
    int64_t left = below(d, 2) ? below(d, T) : 0;
    int64_t right = below(d, 2) ? below(d, T - left) : 0;
    for (int64_t i = 0; i < T; i++)
        mask[i] = i >= left && i < T - right && (i == left || below(d, 8) > 0);
}

static void draw_row(draws *d, random_batch *r, batch_kind kind, int64_t begin)
{
    int64_t T = r->batch.T;
    int64_t position = kind == DOCUMENTS ? 0 : below(d, 40), document = below(d, 3);
    bool one = kind != PACKED && kind != DOCUMENTS;
    one = one || below(d, 3) == 0;
    draw_padding(d, r->mask + begin, T);
    bool padded = kind == PADDED || kind == DOCUMENTS;
    for (int64_t i = begin; i < begin + T; i++) {
        bool real = !padded || r->mask[i];
        if (i > begin && !one && below(d, 5) == 0) {
            document += 1 + below(d, 2);
            position = kind == DOCUMENTS ? 0 : position + 1 + below(d, 30); /* forward jumps are jumps too */
            position = kind == PACKED && below(d, 2) ? below(d, 3) : position;
        }
        r->documents[i] = real ? document : -1;
        r->positions[i] = real ? position : below(d, 2);
        position += real || kind != DOCUMENTS;
        r->ids[i] = below(d, 37);
        bool from_real = i > begin && (!padded || r->mask[i - 1]);
        r->labels[i] = real && from_real && below(d, 4) > 0 ? below(d, 37) : CP_IGNORED;
    }
}

void make_random_batch(random_batch *r, batch_kind kind, cp_rng rng, uint64_t number)
{
    draws d = {rng, number << 16};
    memset(r, 0, sizeof *r);
    r->batch =
        (cp_batch){.B = 1 + below(&d, 3), .T = 2 + below(&d, 23), .input_ids = r->ids, .labels = r->labels};
    for (int64_t b = 0; b < r->batch.B; b++)
        draw_row(&d, r, kind, b * r->batch.T);
    if (kind == POSITIONS || kind == PACKED || kind == DOCUMENTS)
        r->batch.position_ids = r->positions;
    if (kind == PADDED || (kind == DOCUMENTS && below(&d, 2)))
        r->batch.attention_mask = r->mask;
    if (kind == DOCUMENTS)
        r->batch.document_ids = r->documents;
}

#include "tests/files/cut.h"

#include "base/rng.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>

double cut_token_loss(int64_t b, int64_t t)
{
    return (double)(10 * b + t);
}

double cut_logit(int64_t b, int64_t t, int64_t v)
{
    return (double)(1000 * b + 10 * t + v);
}

static void fill_part(split *s, int rank, int owner[B][T], cp_loss_kind loss_kind, cp_gradient_kind gradients)
{
    part *p = &s->parts[rank];
    int64_t most = 0;
    for (int64_t b = 0; b < B; b++) {
        int64_t held = 0;
        for (int64_t t = 0; t < T; t++)
            held += owner[b][t] == rank;
        most = held > most ? held : most;
    }
    p->S = most + 1; /* at least one position of padding */
    double sum = 0;
    int64_t targets = 0;
    for (int64_t b = 0; b < B; b++) {
        int64_t row = B - 1 - b; /* rows in another order too */
        p->rows[b] = row;
        int64_t t = -1;
        for (int64_t i = 0; i < p->S; i++) {
            int64_t at = b * p->S + i;
            for (t++; t < T && owner[row][t] != rank; t++)
                ;
            bool real = t < T;
            p->tokens[at] = real ? t : -1;
            p->token_loss[at] = real ? cut_token_loss(row, t) : NAN;
            for (int64_t v = 0; v < V; v++)
                p->logits[at * V + v] = p->narrow[at * V + v] = real ? (float)cut_logit(row, t, v) : NAN;
            for (int64_t c = 0; c < 2; c++)
                p->embeds[at * 2 + c] = real ? CUT_SCALE * (cut_token_loss(row, t) + (double)c) : NAN;
            sum += real ? cut_token_loss(row, t) : 0;
            targets += real;
        }
    }
    const double losses[CP_LOSS_KINDS] = {[CP_LOSS_GLOBAL] = 64,
                                          [CP_LOSS_SHARE] = rank + 1,
                                          [CP_LOSS_MEAN] = rank + 1,
                                          [CP_LOSS_PARTIAL_SUM] = sum,
                                          [CP_LOSS_LOCAL_MEAN] = targets ? sum / (double)targets : NAN};
    p->loss = losses[loss_kind];
    for (int64_t i = 0; i < N; i++)
        p->w[i] = CUT_SCALE * (gradients == CP_GRADIENTS_REDUCED ? (double)i : (double)(i + 100 * rank));
    p->said = (cp_declaration){.fixture_id = "f",
                               .layout = "odd",
                               .cp_size = s->ranks,
                               .cp_rank = rank,
                               .dp_size = 1,
                               .dtype_declared = true,
                               .loss_kind = loss_kind,
                               .loss_count = targets,
                               .gradients = gradients,
                               .grad_scale = CUT_SCALE,
                               .B = B,
                               .S = p->S,
                               .token_index = p->tokens,
                               .batch_index = p->rows};
}

static cp_source *part_source(part *p)
{
    const cp_memory_tensor tensors[] = {
        {"loss", CP_VIEW(&p->loss, CP_F64, 1), true},
        {"token_loss", CP_VIEW(p->token_loss, CP_F64, B, p->S), false},
        {"logits", CP_VIEW(p->logits, CP_F64, B, p->S, V), false},
        {"grads/inputs_embeds", CP_VIEW(p->embeds, CP_F64, B, p->S, 2), false},
        {"grads/w", CP_VIEW(p->w, CP_F64, N), false},
        {"trace/embed", CP_VIEW(p->narrow, CP_F32, B, p->S, V), false},
        {"trace/grad.embed", CP_VIEW(p->embeds, CP_F64, B, p->S, 2), false},
    };
    char label[32];
    snprintf(label, sizeof label, "rank %d", p->said.cp_rank);
    cp_source *source;
    assert_ok(cp_source_memory(&source, label, &p->said, tensors, sizeof tensors / sizeof *tensors));
    return source;
}

void cut_randomly(split *s, int ranks, uint64_t seed, cp_loss_kind loss_kind, cp_gradient_kind gradients)
{
    cp_rng rng = cp_rng_named(seed, "owners");
    int owner[B][T];
    const int owners = ranks > 2 ? ranks - 1 : ranks; /* the last rank of many has nothing */
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < T; t++)
            owner[b][t] = (int)cp_rng_below(rng, (uint64_t)(b * T + t), owners);
    s->ranks = ranks;
    for (int rank = 0; rank < ranks; rank++)
        fill_part(s, rank, owner, loss_kind, gradients);
}

void cut_open(cp_source **sources, split *s)
{
    for (int i = 0; i < s->ranks; i++) /* in no order */
        sources[i] = part_source(&s->parts[(i + 1) % s->ranks]);
}

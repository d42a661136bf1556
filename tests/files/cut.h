/* A whole run of small integers, cut over ranks token by token, so that joining must give it back exactly. */
#ifndef CPEQ_TESTS_FILES_CUT_H
#define CPEQ_TESTS_FILES_CUT_H

#include "harness/files/source.h"

enum { CUT_SCALE = 8 /* of the gradients */ };
enum { B = 3, T = 7, V = 5, N = 6, MOST_RANKS = 4, MOST_LOCAL = T + 2 };

typedef struct part {
    int64_t tokens[B * MOST_LOCAL], rows[B];
    int64_t S;
    double loss, token_loss[B * MOST_LOCAL], logits[B * MOST_LOCAL * V], embeds[B * MOST_LOCAL * 2], w[N];
    float narrow[B * MOST_LOCAL * V];
    cp_declaration said;
} part;

typedef struct split {
    int ranks;
    part parts[MOST_RANKS];
} split;

/* The value of a token, and of a logit of it: embeddings are the token's value plus the column's number. */
double cut_token_loss(int64_t b, int64_t t);
double cut_logit(int64_t b, int64_t t, int64_t v);

/* Owners at random; a rank may be left without tokens in a row, and the last of more than two has none at all. Each row of a part has padding. The
 * gradient of "w" is i (reduced) or i + 100 · rank, times CUT_SCALE. */
void cut_randomly(split *s, int ranks, uint64_t seed, cp_loss_kind loss_kind, cp_gradient_kind gradients);

/* The parts as sources, in another order than that of the ranks. */
void cut_open(cp_source **sources, split *s);

#endif

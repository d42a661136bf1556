/* Which experts a token asks, and how evenly all are asked. */
#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

/* How many scores beat the one at `e`: larger ones, and equal ones before it. */
static int64_t beaten_by(const real *scores, int64_t e, int64_t E)
{
    int64_t count = 0;
    for (int64_t other = 0; other < E; other++)
        count += scores[other] > scores[e] || (scores[other] == scores[e] && other < e);
    return count;
}

static real greatest(const real *scores, int64_t E)
{
    real most = scores[0];
    for (int64_t e = 1; e < E; e++)
        most = scores[e] > most ? scores[e] : most;
    return most;
}

static void route(real *weights, const real *scores, int64_t E, int64_t chosen, cp_rounder rounder)
{
    real most = greatest(scores, E);
    real sum = 0;
    for (int64_t e = 0; e < E; e++) {
        weights[e] = beaten_by(scores, e, E) < chosen ? real_exp(scores[e] - most) : 0;
        sum += weights[e];
    }
    for (int64_t e = 0; e < E; e++)
        weights[e] = stored(weights[e] / sum, e, &rounder);
}

static int64_t check_logits(cp_tensor logits, int64_t chosen)
{
    cp_check_real("router logits", logits);
    int64_t E = cp_width(logits);
    cp_check(chosen >= 1 && chosen <= E, "router: %lld of %lld experts", (long long)chosen, (long long)E);
    return E;
}

static void forward(cp_tensor weights, cp_tensor logits, int64_t chosen, cp_precision precision)
{
    int64_t E = check_logits(logits, chosen);
    cp_check_like("router weights", weights, logits);
    cp_rounder rounder = cp_rounder_of(precision);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(logits);
#pragma omp parallel for schedule(static) if (rows * E * E > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++)
        route(cp_row(weights, row), cp_row(logits, row), E, chosen, rounder);
}

/* A softmax's gradient, which leaves out the experts whose weight is 0 by itself. */
static void backward(cp_tensor dlogits, cp_tensor dweights, cp_tensor weights, cp_precision precision)
{
    (void)precision;
    cp_check_real("router weights", weights);
    cp_check_like("router dweights", dweights, weights);
    cp_check_like("router dlogits", dlogits, weights);
    int64_t E = cp_width(weights), rows = CP_SHAPE_ONLY ? 0 : cp_row_count(weights);
#pragma omp parallel for schedule(static) if (rows * E > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        const real *w = cp_row(weights, row), *dw = cp_row(dweights, row);
        real *d = cp_row(dlogits, row);
        real mean = 0;
        for (int64_t e = 0; e < E; e++)
            mean += w[e] * dw[e];
        for (int64_t e = 0; e < E; e++)
            d[e] += w[e] * (dw[e] - mean);
    }
}

/* ---- balance ---- */

static double sum_of_powers(const real *scores, real most, int64_t E)
{
    double sum = 0;
    for (int64_t e = 0; e < E; e++)
        sum += exp((double)(scores[e] - most));
    return sum;
}

static int64_t balance(double *choices, double *probabilities, cp_tensor logits, cp_tensor real_tokens,
                       int64_t chosen)
{
    int64_t E = check_logits(logits, chosen);
    cp_check_integers("router real", real_tokens, logits.dims - 1, logits.extent);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(logits), counted = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (!cp_integer(real_tokens, row))
            continue;
        const real *scores = cp_row(logits, row);
        real most = greatest(scores, E);
        double sum = sum_of_powers(scores, most, E);
        for (int64_t e = 0; e < E; e++) {
            choices[e] += beaten_by(scores, e, E) < chosen;
            probabilities[e] += exp((double)(scores[e] - most)) / sum;
        }
        counted++;
    }
    return counted;
}

static void balance_backward(cp_tensor dlogits, cp_tensor logits, cp_tensor real_tokens, const double *slope)
{
    int64_t E = check_logits(logits, 1);
    cp_check_like("router dlogits", dlogits, logits);
    cp_check_integers("router real", real_tokens, logits.dims - 1, logits.extent);
    int64_t rows = CP_SHAPE_ONLY ? 0 : cp_row_count(logits);
    for (int64_t row = 0; row < rows; row++) {
        if (!cp_integer(real_tokens, row))
            continue;
        const real *scores = cp_row(logits, row);
        real *d = cp_row(dlogits, row);
        real most = greatest(scores, E);
        double sum = sum_of_powers(scores, most, E), mean = 0;
        for (int64_t e = 0; e < E; e++)
            mean += exp((double)(scores[e] - most)) / sum * slope[e];
        for (int64_t e = 0; e < E; e++)
            d[e] += (real)(exp((double)(scores[e] - most)) / sum * (slope[e] - mean));
    }
}

const cp_router_ops CP_WIDTH(cp_router) = {
    .forward = forward, .backward = backward, .balance = balance, .balance_backward = balance_backward};

#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

#include "base/tokens/batch.h"

#include <inttypes.h>

static void check(cp_tensor logits, cp_tensor lse, cp_tensor target)
{
    cp_check_real("loss logits", logits);
    cp_check(logits.dims == 3, "loss logits: %d axes", logits.dims);
    cp_check_shape("loss lse", lse, 2, logits.extent);
    cp_check_integers("loss target", target, 2, logits.extent);
    if (CP_SHAPE_ONLY)
        return;
    for (int64_t row = 0; row < cp_row_count(logits); row++) {
        int64_t at = cp_integer(target, row);
        cp_check(at == CP_IGNORED || (at >= 0 && at < cp_width(logits)),
                 "loss: target %" PRId64 " of a vocabulary of %" PRId64, at, cp_width(logits));
    }
}

CP_CLONES static real greatest(const real *x, int64_t V)
{
    real lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = -(real)INFINITY;
    greatest_in_lanes(lane, x, V);
    return greatest_of_lanes(lane);
}

CP_CLONES static real sum_of_exp(const real *x, real highest, int64_t V)
{
    real lane[LANES] = {0};
    int64_t v = 0;
    for (; v + LANES <= V; v += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] += vec_exp(x[v + i] - highest);
    for (int i = 0; v + i < V; i++)
        lane[i] += vec_exp(x[v + i] - highest);
    return sum_of_lanes(lane);
}

static void forward(cp_tensor token_loss, cp_tensor lse, cp_tensor logits, cp_tensor target,
                    cp_precision precision)
{
    check(logits, lse, target);
    cp_check_like("loss token_loss", token_loss, lse);
    (void)precision;
    if (CP_SHAPE_ONLY)
        return;
    int64_t rows = cp_row_count(logits);
    int64_t V = cp_width(logits);
#pragma omp parallel for schedule(dynamic, 16) if (rows * V > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = cp_integer(target, row);
        real row_lse = 0;
        real row_loss = 0;
        if (at != CP_IGNORED) {
            const real *x = cp_row(logits, row);
            real highest = greatest(x, V);
            row_lse = highest + real_log(sum_of_exp(x, highest, V));
            row_loss = row_lse - x[at];
        }
        *cp_scalar(lse, row) = row_lse;
        *cp_scalar(token_loss, row) = row_loss;
    }
}

CP_CLONES static void probabilities(real *restrict dx, const real *restrict x, real lse, real factor,
                                    int64_t V)
{
    for (int64_t v = 0; v < V; v++)
        dx[v] = factor * vec_exp(x[v] - lse);
}

CP_CLONES static void finish(real *dx, int64_t V, cp_rounder rounder)
{
    round_row(dx, V, 0, &rounder);
}

static void backward(cp_tensor dlogits, cp_tensor lse, cp_tensor logits, cp_tensor target, double factor,
                     cp_precision precision)
{
    check(logits, lse, target);
    cp_check_like("loss dlogits", dlogits, logits);
    cp_rounder rounder = cp_rounder_of(precision);
    if (CP_SHAPE_ONLY)
        return;
    int64_t rows = cp_row_count(logits);
    int64_t V = cp_width(logits);
    real scale = (real)factor;
#pragma omp parallel for schedule(dynamic, 16) if (rows * V > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = cp_integer(target, row);
        real *dx = cp_row(dlogits, row);
        if (at == CP_IGNORED) {
            memset(dx, 0, (size_t)V * sizeof *dx);
            continue;
        }
        const real *x = cp_row(logits, row);
        probabilities(dx, x, *cp_scalar(lse, row), scale, V);
        dx[at] -= scale;
        if (rounder.on)
            finish(dx, V, rounder);
    }
}

static double sum(cp_tensor token_loss)
{
    cp_check_real("loss token_loss", token_loss);
    double total = 0;
    for (int64_t row = 0; !CP_SHAPE_ONLY && row < cp_tensor_count(token_loss); row++)
        total += (double)*cp_scalar(token_loss, row);
    return total;
}

const cp_loss_ops CP_WIDTH(cp_loss) = {.forward = forward, .backward = backward, .sum = sum};

/* Every backward against central differences of its forward, in double; and the manners of every operation. */
#include "tests/reference/drive.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double STEP = 1e-5, LIMIT = 1e-7;

enum { ELEMENTWISE_UP_TO = 200, DIRECTIONS = 4 };

/* What is differentiated: ⟨dout, out⟩. */
static double objective(drive *d)
{
    drive_forward(d);
    double sum = 0;
    for (int64_t n = 0; n < cp_tensor_count(d->o.out); n++)
        sum += element_get(d->o.dout, n) * element_get(d->o.out, n);
    return sum;
}

/* The slope along `direction` of input `input`, measured. */
static double slope(drive *d, int input, const double *direction)
{
    cp_tensor in = d->o.in[input];
    double *at = test_doubles(in);
    double value[2];
    for (int side = 0; side < 2; side++) {
        for (int64_t n = 0; n < cp_tensor_count(in); n++)
            if (direction[n] != 0)
                element_set(in, n, at[n] + (side ? -STEP : STEP) * direction[n]);
        value[side] = objective(d);
    }
    for (int64_t n = 0; n < cp_tensor_count(in); n++)
        element_set(in, n, at[n]);
    free(at);
    return (value[0] - value[1]) / (2 * STEP);
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t n = 0; n < count; n++)
        sum += a[n] * b[n];
    return sum;
}

static test_verdict check_slope(drive *d, int input, const double *direction, const double *gradient,
                                double scale)
{
    double expected = slope(d, input, direction);
    double found = dot(gradient, direction, cp_tensor_count(d->o.in[input]));
    bool ok = isfinite(found) && fabs(found - expected) <= LIMIT * scale;
    if (ok)
        return (test_verdict){0};
    return test_failure("gradient of input %d: %.17g, measured %.17g, scale %g", input, found, expected,
                        scale);
}

/* One element after another where there are few, else along random directions. */
static test_verdict check_input(drive *d, int input, const double *gradient)
{
    int64_t count = cp_tensor_count(d->o.in[input]);
    double *direction = calloc((size_t)count, sizeof *direction);
    double largest = 0;
    for (int64_t n = 0; n < count; n++)
        largest = fmax(largest, fabs(gradient[n]));
    test_verdict verdict = {0};
    if (count <= ELEMENTWISE_UP_TO)
        for (int64_t n = 0; n < count && !verdict.fails; n++) {
            direction[n] = 1;
            verdict = check_slope(d, input, direction, gradient, fmax(largest, 1));
            direction[n] = 0;
        }
    else
        for (uint64_t at = 0; at < DIRECTIONS && !verdict.fails; at++) {
            cp_rng rng = cp_rng_named(d->trial.seed + at, "direction");
            for (int64_t n = 0; n < count; n++)
                direction[n] = cp_rng_normal(rng, (uint64_t)n);
            verdict =
                check_slope(d, input, direction, gradient, fmax(sqrt(dot(gradient, gradient, count)), 1));
        }
    free(direction);
    return verdict;
}

static void require(test_verdict verdict, const trial *t, const char *property)
{
    if (!verdict.fails)
        return;
    print_error("%s, variant %d, %s sizes, %s: %s\n", t->operation->name, t->variant, t->sizes->name,
                t->strided ? "strided" : "contiguous", property);
    assert_verdict(verdict);
}

typedef void property(drive *d, double *const gradient[MAX_INPUTS]);

static void differences_agree(drive *d, double *const gradient[MAX_INPUTS])
{
    for (int input = 0; input < MAX_INPUTS; input++)
        if (gradient[input])
            require(check_input(d, input, gradient[input]), &d->trial, "central differences");
    drive_forward(d); /* saves what the undisturbed inputs give */
}

/* A second backward adds the same again. */
static void gradients_add(drive *d, double *const gradient[MAX_INPUTS])
{
    if (d->trial.operation->overwrites)
        return;
    drive_backward(d);
    for (int input = 0; input < MAX_INPUTS; input++) {
        if (!gradient[input])
            continue;
        double *twice = test_doubles(d->o.din[input]);
        for (int64_t n = 0; n < cp_tensor_count(d->o.din[input]); n++)
            twice[n] /= 2;
        require(test_compare(twice, gradient[input], cp_tensor_count(d->o.din[input]), 1e-300, 1e-14),
                &d->trial, "backward twice");
        free(twice);
    }
}

/* A gradient that is not wanted changes nothing in the others. */
static void unwanted_gradients_are_left_out(drive *d, double *const gradient[MAX_INPUTS])
{
    for (int unwanted = 0; unwanted < MAX_INPUTS; unwanted++) {
        cp_tensor kept = d->o.din[unwanted];
        if (!cp_tensor_given(kept))
            continue;
        drive_zero_gradients(d);
        d->o.din[unwanted] = CP_NONE;
        drive_backward(d);
        d->o.din[unwanted] = kept;
        for (int input = 0; input < MAX_INPUTS; input++) {
            if (!gradient[input])
                continue;
            double *found = test_doubles(d->o.din[input]);
            size_t bytes = (size_t)cp_tensor_count(d->o.din[input]) * sizeof *found;
            bool same = memcmp(found, gradient[input], bytes) == 0;
            if (input == unwanted)
                same = dot(found, found, cp_tensor_count(kept)) == 0;
            free(found);
            if (!same)
                require(test_failure("gradient %d, where %d is not wanted", input, unwanted), &d->trial,
                        "CP_NONE");
        }
    }
}

static property *const properties[] = {differences_agree, gradients_add, unwanted_gradients_are_left_out};

static bool is_input(int n)
{
    return n == BLOCK_DOUT || (n >= BLOCK_IN && n < BLOCK_DIN) || n >= BLOCK_INTEGERS;
}

/* Inputs are read only, nothing is written beside outputs, and scratch is what the shape kernels said. */
static void check_manners(drive *d)
{
    for (int n = 0; n < BLOCKS; n++)
        block_remember(&d->blocks[n]);
    drive_forward(d);
    for (int n = 0; n < BLOCKS; n++)
        if (is_input(n) || (n >= BLOCK_DIN && n < BLOCK_INTEGERS))
            require(block_unchanged(&d->blocks[n], "an input"), &d->trial, "forward");
    block_remember(&d->blocks[BLOCK_OUT]);
    block_remember(&d->blocks[BLOCK_SAVED]);
    drive_backward(d);
    for (int n = 0; n < BLOCKS; n++) {
        if (is_input(n) || n == BLOCK_OUT || n == BLOCK_SAVED)
            require(block_unchanged(&d->blocks[n], "an input"), &d->trial, "backward");
        require(block_sentinels_intact(&d->blocks[n], "a tensor"), &d->trial, "sentinels");
    }
    assert_int_equal(d->scratch.used, 0);
    assert_int_equal(d->scratch.peak, d->scratch.capacity);
}

static void try_operation(const trial *t)
{
    drive d;
    drive_open(&d, t);
    check_manners(&d);
    double *gradient[MAX_INPUTS] = {0};
    for (int input = 0; input < MAX_INPUTS; input++)
        if (cp_tensor_given(d.o.din[input]))
            gradient[input] = test_doubles(d.o.din[input]);
    for (size_t n = 0; n < sizeof properties / sizeof *properties; n++)
        properties[n](&d, gradient);
    for (int input = 0; input < MAX_INPUTS; input++)
        free(gradient[input]);
    drive_close(&d);
}

static void every_backward(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    set_threads(1); /* many small calls; the widths rung compares thread counts */
    for (int n = 0; n < operation_count; n++)
        for (int variant = 0; variant < operations[n].variants; variant++)
            for (int size = 0; size < operation_size_count; size++)
                for (int strided = 0; strided < 2; strided++)
                    try_operation(&(trial){.operation = &operations[n],
                                           .sizes = &operation_sizes[size],
                                           .variant = variant,
                                           .dtype = CP_F64,
                                           .strided = strided,
                                           .seed = seed});
}

/* The lookup's gradient into the padding row is dropped, every other row's is as before. */
static void embedding_drops_the_padding_row(void **state)
{
    (void)state;
    enum { ROWS = 3, C = 2, TOKENS = 4, PADDING = 1 };
    int64_t ids[TOKENS] = {0, PADDING, 2, PADDING};
    double dout[TOKENS][C] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    double dtable[ROWS][C] = {{0}};
    cp_ops_of(CP_F64)->embedding->backward(CP_VIEW(dtable, CP_F64, ROWS, C),
                                           CP_VIEW(dout, CP_F64, 1, TOKENS, C),
                                           CP_VIEW(ids, CP_I64, 1, TOKENS), 2, PADDING, (cp_precision){0});
    const double expected[ROWS][C] = {{2, 4}, {0, 0}, {10, 12}};
    assert_memory_equal(dtable, expected, sizeof expected);
}

/* In place, the cap's backward overwrites. */
static void softcap_backward_in_place(void **state)
{
    (void)state;
    double y[3] = {0, 1, -1.5};
    double d[3] = {4, 4, 4};
    cp_tensor gradient = CP_VIEW(d, CP_F64, 1, 1, 3);
    cp_ops_of(CP_F64)->pointwise->softcap_backward(gradient, gradient, CP_VIEW(y, CP_F64, 1, 1, 3), 2,
                                                   (cp_precision){0});
    const double expected[3] = {4, 3, 1.75};
    assert_memory_equal(d, expected, sizeof expected);
}

/* Of equal scores that of the lower index is taken. */
static void router_takes_the_first_of_equals(void **state)
{
    (void)state;
    enum { E = 4 };
    double logits[E] = {1, 3, 3, 3}, weights[E];
    const double expected[E] = {0, 0.5, 0.5, 0};
    cp_ops_of(CP_F64)->router->forward(CP_VIEW(weights, CP_F64, 1, 1, E), CP_VIEW(logits, CP_F64, 1, 1, E), 2,
                                       (cp_precision){0});
    assert_memory_equal(weights, expected, sizeof expected);
}

typedef struct one_expert {
    double y, gate, up; /* the output; gradients by the two projections */
} one_expert;

/* Everything of size 1, behind an expert that is not chosen. */
static one_expert run_one_expert(double gate, double up)
{
    enum { E = 2 };
    double x = 1, weights[E] = {0, 1}, ups[E][2] = {{5, 5}, {gate, up}}, downs[E] = {5, 1}, y, dout = 1;
    double dx = 0, dweights[E] = {0}, dups[E][2] = {{0}}, ddowns[E] = {0};
    const cp_experts experts = {.up = CP_VIEW(ups, CP_F64, E, 2, 1), .down = CP_VIEW(downs, CP_F64, E, 1, 1)};
    const cp_experts gradients = {.up = CP_VIEW(dups, CP_F64, E, 2, 1),
                                  .down = CP_VIEW(ddowns, CP_F64, E, 1, 1)};
    const cp_experts_form form = {.alpha = 1.702, .shift = 1, .limit = 7};
    const cp_experts_ops *ops = cp_ops_of(CP_F64)->experts;
    cp_arena scratch;
    assert_ok(cp_arena_open(&scratch, 1 << 12));
    cp_tensor in = CP_VIEW(&x, CP_F64, 1, 1, 1), chosen = CP_VIEW(weights, CP_F64, 1, 1, E);
    ops->forward(CP_VIEW(&y, CP_F64, 1, 1, 1), in, chosen, &experts, form, &scratch, (cp_precision){0});
    ops->backward(CP_VIEW(&dx, CP_F64, 1, 1, 1), CP_VIEW(dweights, CP_F64, 1, 1, E), &gradients,
                  CP_VIEW(&dout, CP_F64, 1, 1, 1), in, chosen, &experts, form, &scratch, (cp_precision){0});
    cp_arena_close(&scratch);
    assert_true(dweights[0] == 0 && dups[0][0] == 0 && dups[0][1] == 0 && ddowns[0] == 0);
    assert_near(dweights[1], y, 1e-14);
    assert_near(ddowns[1], y, 1e-14);
    assert_near(dx, gate * dups[1][0] + up * dups[1][1], 1e-12);
    return (one_expert){y, dups[1][0], dups[1][1]};
}

/* Beyond the limit projections are cut and have no gradient; at it they have. The gate has no lower limit. */
static void experts_are_clamped(void **state)
{
    (void)state;
    const double s = 1 / (1 + exp(-1.702 * 7)), low = 1 / (1 + exp(1.702 * 8));
    one_expert beyond = run_one_expert(9, -8);
    assert_near(beyond.y, -6 * 7 * s, 1e-13);
    assert_true(beyond.gate == 0 && beyond.up == 0);
    one_expert above = run_one_expert(-8, 9);
    assert_near(above.y, 8 * -8 * low, 1e-13);
    assert_near(above.gate, 8 * (low - 1.702 * 8 * low * (1 - low)), 1e-13);
    assert_true(above.up == 0);
    one_expert at = run_one_expert(7, 7);
    assert_near(at.gate, 8 * (s + 1.702 * 7 * s * (1 - s)), 1e-13);
    assert_near(at.up, 7 * s, 1e-13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_backward),
        cmocka_unit_test(embedding_drops_the_padding_row),
        cmocka_unit_test(softcap_backward_in_place),
        cmocka_unit_test(router_takes_the_first_of_equals),
        cmocka_unit_test(experts_are_clamped),
    };
    return cmocka_run_group_tests_name("gradients", tests, NULL, NULL);
}

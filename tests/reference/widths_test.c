/* One operation in its several forms: float32 and float64, ordered and BLAS, one thread and more, a shard and the
 * whole, rounded to bfloat16 and not. */
#include "tests/reference/widths.h"

#include "tests/reference/drive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef void pair_check(const drive *a, const drive *b);

static void require(test_verdict verdict, const drive *d, const char *form, const char *what)
{
    if (!verdict.fails)
        return;
    print_error("%s, variant %d, %s sizes, %s: %s\n", d->trial.operation->name, d->trial.variant,
                d->trial.sizes->name, form, what);
    assert_verdict(verdict);
}

static void run(drive *d, const trial *t)
{
    drive_open(d, t);
    drive_forward(d);
    drive_backward(d);
}

/* Runs every operation in two forms and hands both to `check`. */
static void every_pair(trial a, trial b, int threads_a, int threads_b, pair_check *check)
{
    a.seed = b.seed = test_seed();
    for (int n = 0; n < operation_count; n++)
        for (int variant = 0; variant < operations[n].variants; variant++)
            for (int size = 0; size < operation_size_count; size++) {
                a.operation = b.operation = &operations[n];
                a.sizes = b.sizes = &operation_sizes[size];
                a.variant = b.variant = variant;
                drive first, second;
                set_threads(threads_a);
                run(&first, &a);
                set_threads(threads_b);
                run(&second, &b);
                check(&first, &second);
                drive_close(&first);
                drive_close(&second);
            }
    set_threads(1);
}

static void near(const drive *a, const drive *b, double limit, const char *form)
{
    require(test_compare_tensors(a->o.out, b->o.out, limit, limit), a, form, "out");
    for (int n = 0; n < MAX_INPUTS; n++)
        if (cp_tensor_given(a->o.din[n]))
            require(test_compare_tensors(a->o.din[n], b->o.din[n], limit, limit), a, form, "a gradient");
}

static void near_in_single(const drive *a, const drive *b)
{
    near(a, b, a->trial.operation->single, "float32 and float64");
}

static void near_in_either_order(const drive *a, const drive *b)
{
    near(a, b, a->trial.dtype == CP_F64 ? 1e-13 : a->trial.operation->single, "ordered and BLAS");
}

static void bitwise(const drive *a, const drive *b)
{
    const char *form = "threads or strides";
    require(test_compare_bitwise(a->o.out, b->o.out), a, form, "out");
    for (int n = 0; n < MAX_SAVED; n++)
        if (cp_tensor_given(a->o.saved[n]))
            require(test_compare_bitwise(a->o.saved[n], b->o.saved[n]), a, form, "a saved tensor");
    for (int n = 0; n < MAX_INPUTS; n++)
        if (cp_tensor_given(a->o.din[n]))
            require(test_compare_bitwise(a->o.din[n], b->o.din[n]), a, form, "a gradient");
}

static const cp_precision ordered = {.matmul = CP_MATMUL_ORDERED}, blas = {.matmul = CP_MATMUL_BLAS};

static void float32_is_float64_rounded(void **state)
{
    (void)state;
    every_pair((trial){.dtype = CP_F32, .precision = blas}, (trial){.dtype = CP_F64, .precision = blas}, 1, 1,
               near_in_single);
}

static void ordered_is_blas(void **state)
{
    (void)state;
    every_pair((trial){.dtype = CP_F64, .precision = ordered}, (trial){.dtype = CP_F64, .precision = blas}, 1,
               1, near_in_either_order);
    every_pair((trial){.dtype = CP_F32, .precision = ordered}, (trial){.dtype = CP_F32, .precision = blas}, 1,
               1, near_in_either_order);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    every_pair((trial){.dtype = CP_F32, .precision = blas}, (trial){.dtype = CP_F32, .precision = blas}, 1, 3,
               bitwise);
    every_pair((trial){.dtype = CP_F64, .precision = ordered}, (trial){.dtype = CP_F64, .precision = ordered},
               1, 2, bitwise);
    const cp_precision noisy = {.rounding = CP_ROUND_BF16, .noise = 7};
    every_pair((trial){.dtype = CP_F32, .precision = noisy}, (trial){.dtype = CP_F32, .precision = noisy}, 1,
               2, bitwise);
}

/* Sums run in index order, however the tensors lie in memory. */
static void strides_change_nothing_when_ordered(void **state)
{
    (void)state;
    every_pair((trial){.dtype = CP_F32, .precision = ordered},
               (trial){.dtype = CP_F32, .precision = ordered, .strided = true}, 1, 1, bitwise);
}

/* ---- shards ---- */

/* `o` with tokens [first, first + count) only; weights stay. */
static operands shard_of(const drive *d, int64_t first, int64_t count)
{
    operands o = d->o;
    cp_tensor *tokens[] = {&o.out, &o.dout, &o.factor, &o.saved[0], &o.saved[1], &o.saved[2], &o.integers[0]};
    for (size_t n = 0; n < sizeof tokens / sizeof *tokens; n++)
        if (cp_tensor_given(*tokens[n]))
            *tokens[n] = cp_tensor_slice(*tokens[n], 1, first, count);
    for (int n = 0; n < d->trial.operation->token_inputs; n++) {
        o.in[n] = cp_tensor_slice(o.in[n], 1, first, count);
        o.din[n] = cp_tensor_slice(o.din[n], 1, first, count);
    }
    return o;
}

static void compare_rows(const drive *whole, const drive *cut)
{
    require(test_compare_bitwise(cut->o.out, whole->o.out), whole, "shards", "out");
    for (int n = 0; n < whole->trial.operation->token_inputs; n++)
        require(test_compare_bitwise(cut->o.din[n], whole->o.din[n]), whole, "shards", "a gradient");
}

/* Ordered, a row is bitwise the same in a shard and in the whole. */
static void try_shards(const trial *t)
{
    enum { SHARD = 7 };
    drive whole, cut;
    run(&whole, t);
    drive_open(&cut, t);
    int64_t S = t->sizes->S;
    for (int64_t first = 0; first < S; first += SHARD) {
        operands o = shard_of(&cut, first, S - first < SHARD ? S - first : SHARD);
        call c = {cp_ops_of(t->dtype), t->variant, &cut.scratch, t->precision};
        t->operation->forward(&o, &c);
        t->operation->backward(&o, &c);
    }
    compare_rows(&whole, &cut);
    drive_close(&whole);
    drive_close(&cut);
}

static void shards_are_bitwise_the_whole_when_ordered(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int n = 0; n < operation_count; n++)
        for (int variant = 0; variant < operations[n].variants && !operations[n].mixes; variant++)
            for (int size = 0; size < operation_size_count; size++)
                try_shards(&(trial){.operation = &operations[n],
                                    .sizes = &operation_sizes[size],
                                    .variant = variant,
                                    .dtype = CP_F32,
                                    .precision = ordered,
                                    .seed = seed});
}

/* ---- bfloat16 ---- */

static int64_t count_unrepresentable(cp_tensor tensor)
{
    int64_t count = 0;
    for (int64_t n = 0; n < cp_tensor_count(tensor); n++) {
        float value = (float)element_get(tensor, n);
        count += cp_bf16_round(value) != value;
    }
    return count;
}

/* `a` is rounded, `b` is not. The loss is a statistic; an embedding without scale is a copy. */
static void rounded(const drive *a, const drive *b)
{
    const operation *op = a->trial.operation;
    bool statistic = op->overwrites;
    bool copy = strcmp(op->name, "embedding") == 0 && a->trial.variant == 0;
    bool large = a->trial.sizes == &operation_sizes[operation_size_count - 1];
    if (!statistic && count_unrepresentable(a->o.out) > 0)
        require(test_failure("not representable"), a, "bfloat16", "out");
    if (!statistic && !copy && large && count_unrepresentable(b->o.out) == 0)
        require(test_failure("representable without rounding"), b, "float32", "out");
    bool rope = strcmp(op->name, "rope") == 0; /* saves its table, which is rounded */
    if (!rope && large && cp_tensor_given(a->o.saved[0]) && count_unrepresentable(a->o.saved[0]) == 0)
        require(test_failure("rounded"), a, "bfloat16", "a statistic");
    near(a, b, 0.03, "bfloat16");
}

static void bf16_rounds_results_and_no_statistics(void **state)
{
    (void)state;
    cp_precision bf16 = {.rounding = CP_ROUND_BF16};
    every_pair((trial){.dtype = CP_F32, .precision = bf16, .bf16_inputs = true},
               (trial){.dtype = CP_F32, .precision = blas, .bf16_inputs = true}, 1, 1, rounded);
}

static void round_float64(void *argument)
{
    (void)argument;
    double x[2] = {1, 2};
    cp_tensor tensor = CP_VIEW(x, CP_F64, 1, 2);
    cp_ops_of(CP_F64)->pointwise->scale(tensor, tensor, 1, (cp_precision){.rounding = CP_ROUND_BF16});
}

/* llama's norm rounds before the product with the weight and after it, gemma's only after. */
static void norms_round_in_their_own_order(void **state)
{
    (void)state;
    enum { N = 64 };
    float x[N], llama[N], gemma[N], whole[N], excess[N], inverse_rms;
    cp_tensor in = CP_VIEW(x, CP_F32, 1, N), r = CP_VIEW(&inverse_rms, CP_F32, 1);
    tensor_fill_random(in, test_seed(), "x");
    tensor_fill(CP_VIEW(whole, CP_F32, N), 1.3125);
    tensor_fill(CP_VIEW(excess, CP_F32, N), 0.3125);
    cp_precision bf16 = {.rounding = CP_ROUND_BF16};
    const cp_rmsnorm_ops *ops = cp_ops_of(CP_F32)->rmsnorm;
    ops->forward(CP_VIEW(llama, CP_F32, 1, N), r, in, CP_VIEW(whole, CP_F32, N), CP_NORM_WEIGHT, 0, bf16);
    ops->forward(CP_VIEW(gemma, CP_F32, 1, N), r, in, CP_VIEW(excess, CP_F32, N), CP_NORM_ONE_PLUS, 0, bf16);
    int differ = 0;
    for (int n = 0; n < N; n++) {
        assert_true(llama[n] == cp_bf16_round(1.3125F * cp_bf16_round(x[n] * inverse_rms)));
        assert_true(gemma[n] == cp_bf16_round(1.3125F * (x[n] * inverse_rms)));
        differ += llama[n] != gemma[n];
    }
    assert_true(differ > 0);
}

static void float64_is_not_rounded(void **state)
{
    (void)state;
    assert_stops(round_float64, NULL, "bfloat16 rounding of float64");
}

/* ---- convert ---- */

static void convert_takes_every_float(void **state)
{
    (void)state;
    static const cp_dtype from[] = {CP_F64, CP_F32, CP_BF16}, to[] = {CP_F64, CP_F32};
    uint64_t seed = test_seed();
    for (int strided = 0; strided < 2; strided++)
        for (size_t f = 0; f < sizeof from / sizeof *from; f++)
            for (size_t t = 0; t < sizeof to / sizeof *to; t++) {
                cp_tensor shape = CP_VIEW(NULL, CP_F64, 2, 3, 700);
                block x = block_make(shape, from[f], strided), y = block_make(shape, to[t], !strided);
                tensor_fill_random(x.view, seed, "x");
                cp_ops_of(to[t])->pointwise->convert(y.view, x.view);
                for (int64_t n = 0; n < cp_tensor_count(shape); n++)
                    assert_true(element_get(y.view, n) == element_get(x.view, n));
                assert_verdict(block_sentinels_intact(&y, "y"));
                block_free(&x);
                block_free(&y);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_errors_are_as_stated),
        cmocka_unit_test(vector_corners),
        cmocka_unit_test(bf16_rounds_as_base_does),
        cmocka_unit_test(bf16_noise_is_fair),
        cmocka_unit_test(noise_is_one_unit),
        cmocka_unit_test(float32_is_float64_rounded),
        cmocka_unit_test(ordered_is_blas),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(strides_change_nothing_when_ordered),
        cmocka_unit_test(shards_are_bitwise_the_whole_when_ordered),
        cmocka_unit_test(bf16_rounds_results_and_no_statistics),
        cmocka_unit_test(norms_round_in_their_own_order),
        cmocka_unit_test(float64_is_not_rounded),
        cmocka_unit_test(convert_takes_every_float),
    };
    return cmocka_run_group_tests_name("widths", tests, NULL, NULL);
}

/* bfloat16 runs and disturbed ones: how far they may be from float64, from each other, and what they store. */
#include "tests/run/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cp_source *run(const golden_model *golden, const cp_run_options *options)
{
    cp_source *source = NULL;
    assert_ok(cp_run_whole(&source, golden->model, options));
    return source;
}

static double *values_of(const cp_source *source, size_t tensor, size_t *count)
{
    *count = 1;
    for (int axis = 0; axis < source->tensors[tensor].dims; axis++)
        *count *= (size_t)source->tensors[tensor].extent[axis];
    double *values = malloc(*count * sizeof *values);
    assert_non_null(values);
    assert_ok(cp_source_read_all(source, tensor, values));
    return values;
}

/* Of all gradients together, each measured by its own norm in `truth`; infinite where a value is not finite. */
static double distance(const cp_source *a, const cp_source *b, const cp_source *truth)
{
    double sum = 0;
    for (size_t t = 0; t < truth->count; t++) {
        const char *name = truth->tensors[t].name;
        if (strncmp(name, "grads/", 6) != 0)
            continue;
        size_t count;
        double *x = values_of(a, (size_t)cp_source_find(a, name), &count);
        double *y = values_of(b, (size_t)cp_source_find(b, name), &count);
        double *z = values_of(truth, t, &count);
        double error = 0, norm = 0;
        for (size_t i = 0; i < count; i++) {
            error += (x[i] - y[i]) * (x[i] - y[i]);
            norm += z[i] * z[i];
        }
        sum += isfinite(error) ? error / norm : INFINITY;
        free(x);
        free(y);
        free(z);
    }
    return sqrt(sum);
}

static const char *const fixtures[] = {"llama/packed16", "llama_kv4/full7", "gemma2/right7"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static golden_model open_named(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.h5", CPEQ_GOLDEN, name);
    return golden_open(path);
}

/* Shards round elsewhere: between two bfloat16 runs lies as much as between one of them and the truth. */
static void shards_differ_by_rounding(void **state)
{
    (void)state;
    static const cp_exchange_kind exchanges[] = {CP_EXCHANGE_ULYSSES, CP_EXCHANGE_ALLGATHER, CP_EXCHANGE_RING,
                                                 CP_EXCHANGE_USP};
    for (size_t f = 0; f < FIXTURES; f++) {
        golden_model golden = open_named(fixtures[f]);
        cp_run_options options = {.P = 1, .dtype = CP_F64};
        cp_source *truth = run(&golden, &options);
        options.dtype = CP_BF16;
        cp_source *whole = run(&golden, &options);
        double rounding = distance(whole, truth, truth);
        assert_true(rounding > 1e-3 && rounding < 1);
        for (size_t way = 0; way < sizeof exchanges / sizeof *exchanges * CP_ATTENTION_FORMS; way++) {
            options = (cp_run_options){.P = 4,
                                       .dtype = CP_BF16,
                                       .exchange.kind = exchanges[way / CP_ATTENTION_FORMS],
                                       .layout.kind = way % 2 ? CP_LAYOUT_ZIGZAG : CP_LAYOUT_CONTIGUOUS,
                                       .attention = (cp_attention_form)(way % CP_ATTENTION_FORMS)};
            cp_source *cut = run(&golden, &options);
            double between = distance(cut, whole, truth), own = distance(cut, truth, truth);
            if (!(between < 2 * rounding && own < 2 * rounding && own > rounding / 2))
                fail_msg("%s, %s: %.2g from the whole, %.2g from float64, the whole is %.2g", fixtures[f],
                         cp_exchange_name(options.exchange.kind), between, own, rounding);
            cp_source_close(cut);
        }
        cp_source_close(whole);
        cp_source_close(truth);
        golden_release(golden);
    }
}

/* The same seed is the same run; another one moves it by about as much as rounding does. */
static void noise_is_its_seed(void **state)
{
    (void)state;
    static const struct {
        cp_dtype dtype;
        double least, most;
    } cases[] = {{CP_F64, 1e-16, 1e-12}, {CP_F32, 1e-7, 1e-3}, {CP_BF16, 1e-3, 1}};
    golden_model golden = open_named(fixtures[0]);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        cp_run_options options = {.P = 2, .exchange.kind = CP_EXCHANGE_RING, .dtype = cases[n].dtype};
        cp_source *still = run(&golden, &options);
        options.noise = 1;
        cp_source *one = run(&golden, &options), *again = run(&golden, &options);
        options.noise = 2;
        cp_source *two = run(&golden, &options);
        assert_true(distance(one, again, still) == 0);
        const double moved[] = {distance(one, still, still), distance(two, still, still),
                                distance(one, two, still)};
        for (size_t m = 0; m < sizeof moved / sizeof *moved; m++)
            if (!(moved[m] > cases[n].least && moved[m] < cases[n].most))
                fail_msg("%s: moved by %.2g", cp_dtype_name(cases[n].dtype), moved[m]);
        cp_source_close(still);
        cp_source_close(one);
        cp_source_close(again);
        cp_source_close(two);
    }
    golden_release(golden);
}

/* Logits and gradients are bfloat16, losses are not; the dump says what it was computed in. */
static void stores_what_it_computes(void **state)
{
    (void)state;
    golden_model golden = open_named("llama/embeds7");
    cp_run_options options = {.P = 1, .dtype = CP_BF16, .trace = true};
    cp_source *source = run(&golden, &options);
    assert_int_equal(source->declaration.compute_dtype, CP_BF16);
    for (size_t t = 0; t < source->count; t++) {
        const cp_source_tensor *tensor = &source->tensors[t];
        bool loss = strstr(tensor->name, "loss") != NULL;
        if ((tensor->dtype == CP_BF16) == loss)
            fail_msg("%s is %s", tensor->name, cp_dtype_name(tensor->dtype));
    }
    assert_true(cp_source_find(source, "token_loss") >= 0 &&
                cp_source_find(source, "grads/inputs_embeds") >= 0);
    cp_source_close(source);
    golden_release(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_differ_by_rounding),
        cmocka_unit_test(noise_is_its_seed),
        cmocka_unit_test(stores_what_it_computes),
    };
    return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}

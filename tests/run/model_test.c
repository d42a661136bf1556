/* What a fixture's weights may be. */
#include "tests/run/golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

typedef struct altered {
    cp_fixture *opened;
    cp_fixture fixture; /* a copy whose weights may be changed */
    cp_weight weights[MOST];
} altered;

static void open_altered(altered *self)
{
    assert_ok(cp_fixture_open(&self->opened, CPEQ_GOLDEN "/llama/full7.h5"));
    self->fixture = *self->opened;
    assert_in_range(self->fixture.weight_count, 2, MOST - 1);
    memcpy(self->weights, self->opened->weights, self->fixture.weight_count * sizeof *self->weights);
    self->fixture.weights = self->weights;
}

static cp_status open_model(const altered *self)
{
    cp_model *model = NULL;
    cp_status status = cp_model_open(&model, &self->fixture);
    cp_model_close(model);
    return status;
}

static void a_weight_that_is_not_finite(void **state)
{
    (void)state;
    altered self;
    open_altered(&self);
    float *data = self.weights[3].tensor.data;
    data[1] = NAN;
    assert_status(open_model(&self), CP_BAD_INPUT, "element 1 is");
    assert_text_holds(cp_error(), self.weights[3].name);
    cp_fixture_close(self.opened);
}

static void a_weight_that_is_missing_extra_or_of_another_shape(void **state)
{
    (void)state;
    altered self;
    open_altered(&self);
    const char *name = self.weights[0].name;
    self.weights[0].name = "a";
    assert_status(open_model(&self), CP_BAD_INPUT, "missing, the configuration has this parameter");
    self.weights[0].name = name;
    self.weights[self.fixture.weight_count] = self.weights[0];
    self.weights[self.fixture.weight_count++].name = "zz.weight";
    assert_status(open_model(&self), CP_BAD_INPUT, "/weights/zz.weight: extra");
    self.weights[self.fixture.weight_count - 1].role = "buffer";
    assert_ok(open_model(&self));
    self.weights[0].tensor = cp_tensor_slice(self.weights[0].tensor, 0, 0, 3);
    assert_status(open_model(&self), CP_BAD_INPUT, "shape [3,16], expected [37,16]");
    cp_fixture_close(self.opened);
}

static void a_frozen_weight_has_no_gradient(void **state)
{
    (void)state;
    altered self;
    open_altered(&self);
    self.weights[1].role = "frozen";
    cp_model *model = NULL;
    assert_ok(cp_model_open(&model, &self.fixture));
    cp_run_options options = {.P = 2, .exchange = {.kind = CP_EXCHANGE_ULYSSES}, .dtype = CP_F64};
    cp_source *source;
    assert_ok(cp_run_whole(&source, model, &options));
    char frozen[CP_RESULT_NAME], trained[CP_RESULT_NAME];
    snprintf(frozen, sizeof frozen, "grads/%s", self.weights[1].name);
    snprintf(trained, sizeof trained, "grads/%s", self.weights[0].name);
    assert_true(cp_source_find(source, frozen) < 0);
    assert_true(cp_source_find(source, trained) >= 0);
    cp_source_close(source);
    cp_model_close(model);
    cp_fixture_close(self.opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_weight_that_is_not_finite),
        cmocka_unit_test(a_weight_that_is_missing_extra_or_of_another_shape),
        cmocka_unit_test(a_frozen_weight_has_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

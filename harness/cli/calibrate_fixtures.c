#include "base/processors.h"
#include "harness/cli/calibrate.h"
#include "harness/cli/collect.h"
#include "harness/cli/values.h"
#include "harness/run/calibrate.h"

#include <stdlib.h>

/* Every dtype that limits are measured in. */
static const cp_dtype DTYPES[] = {CP_F32, CP_BF16};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

typedef struct calibrating {
    const cp_session *session;
    int64_t runs, seed;
    int dtypes[DTYPE_COUNT], dtype_count; /* indices */
    int workers;
    cp_json *files; /* NULL: text is printed */
} calibrating;

/* What has been measured of one fixture. */
typedef struct measured {
    cp_observations observations[DTYPE_COUNT];
    cp_noise *noise[DTYPE_COUNT];
} measured;

static const char *dtype_value(int value)
{
    return cp_dtype_name(DTYPES[value]);
}

static cp_status read_options(calibrating *self, const cp_arguments *arguments)
{
    self->runs = 96;
    self->dtype_count = DTYPE_COUNT;
    for (int i = 0; i < DTYPE_COUNT; i++)
        self->dtypes[i] = i;
    self->workers = cp_processors();
    CP_TRY(cp_operands_check(arguments, 1, INT32_MAX, "at least one FIXTURE or DIR"));
    CP_TRY(cp_value_integer(&self->runs, arguments, "replicates", CP_FEWEST_REPLICATES, CP_MOST_RUNS));
    CP_TRY(cp_value_integer(&self->seed, arguments, "seed", 0, INT64_MAX));
    return cp_value_choices(self->dtypes, &self->dtype_count, arguments, "dtype", dtype_value, DTYPE_COUNT);
}

static cp_status measure(const calibrating *self, measured *found, cp_fixture *fixture, const cp_model *model)
{
    for (int i = 0; i < self->dtype_count; i++) {
        cp_dtype dtype = DTYPES[self->dtypes[i]];
        cp_calibration calibration = {.dtype = dtype,
                                      .rule = CP_CALIBRATED_BY_REPLICATES,
                                      .runs = self->runs,
                                      .seed = self->seed,
                                      .producer = CP_OWN_NAME CPEQ_VERSION};
        CP_TRY(cp_calibrate(&found->observations[i], model, fixture, dtype, (uint64_t)self->seed, self->runs,
                            self->workers));
        CP_TRY(cp_observations_noise(&found->noise[i], &calibration.count, &found->observations[i], true));
        cp_calibrations_set(&fixture->calibrations, calibration, found->noise[i]);
    }
    return cp_fixture_calibrate(fixture->path, &fixture->calibrations);
}

static void tell(const calibrating *self, const measured *found, const cp_fixture *fixture)
{
    for (int i = 0; i < self->dtype_count; i++) {
        cp_sight sight = cp_observations_sight(&found->observations[i], CP_CALIBRATED_BY_REPLICATES);
        cp_tell_calibration(self->session, self->files, fixture->path,
                            cp_calibration_of(&fixture->calibrations, DTYPES[self->dtypes[i]]), &sight);
    }
}

static cp_status calibrate(const calibrating *self, const char *path)
{
    cp_fixture *fixture = NULL;
    cp_model *model = NULL;
    measured found = {0};
    cp_status status = cp_fixture_open(&fixture, path);
    if (status == CP_OK && fixture->expected->count == 0)
        status = cp_fail(CP_BAD_INPUT, "%s: /expected: expected results, found none", path);
    if (status == CP_OK)
        status = cp_model_open(&model, fixture);
    if (status == CP_OK)
        status = measure(self, &found, fixture, model);
    if (status == CP_OK)
        tell(self, &found, fixture);
    for (int i = 0; i < DTYPE_COUNT; i++) {
        cp_observations_close(&found.observations[i]);
        free(found.noise[i]);
    }
    cp_model_close(model);
    cp_fixture_close(fixture);
    return status;
}

int cp_calibrate_fixtures(const cp_session *session, const cp_arguments *arguments)
{
    calibrating self = {.session = session};
    cp_collection collection = {0};
    int result = 0;
    cp_status status = read_options(&self, arguments);
    if (status == CP_OK)
        status = cp_collect(&collection, arguments->operands, arguments->operand_count, NULL);
    if (status == CP_OK && collection.count == 0)
        status = cp_fail(CP_BAD_INPUT, "%s: holds no fixture", arguments->operands[0]);
    self.files = session->json && status == CP_OK ? cp_json_new_array() : NULL;
    for (int i = 0; i < collection.count && status == CP_OK; i++) {
        cp_status of_one = calibrate(&self, collection.files[i].path);
        if (of_one != CP_OK)
            result = cp_exit_worse(result, cp_complain(session, of_one));
    }
    if (self.files != NULL)
        cp_print_calibrations(self.files);
    cp_collection_close(&collection);
    return status == CP_OK ? result : cp_complain(session, status);
}

#include "harness/cli/calibrate.h"

#include "harness/cli/judging.h"
#include "harness/cli/output.h"
#include "harness/files/dump.h"

#include <stdlib.h>
#include <string.h>

const cp_option cp_calibrate_options[] = {
#if CPEQ_ENGINE
    {"replicates", 0, "K", "runs for each fixture and dtype (96)"},
    {"seed", 0, "N", "draws rounding noise, ranks, layouts and exchanges (0)"},
    {"dtype", 0, "LIST", "float32, bfloat16, all (all)"},
#endif
    {"from", 0, "TRUTH", "limits from your own runs: a fixture, or the dump that they are compared with"},
    {"fixture", 0, "FILE",
     "with --from: the fixture that a TRUTH which is a dump was made from, for its batch"},
    {"output", 'o', "FILE",
     "with --from: a file of limits, for 'diff --limits'; needed unless TRUTH is a fixture"},
    {0},
};

/* ---- what was found ----------------------------------------------------------------------------------------------- */

void cp_tell_calibration(const cp_session *session, cp_json *files, const char *path,
                         const cp_calibration *calibration, const cp_sight *sight)
{
    const char *kind = calibration->rule == CP_CALIBRATED_BY_CONTROLS ? "control runs" : "replicates";
    if (files != NULL) {
        cp_json *object = cp_json_new_object();
        cp_json_set_string(object, "file", path);
        cp_json_set_string(object, "dtype", cp_dtype_name(calibration->dtype));
        cp_json_set_string(object, "rule", kind);
        cp_json_set_integer(object, "runs", calibration->runs);
        cp_json_set_integer(object, "tensors", (int64_t)sight->judged);
        cp_json_set_integer(object, "blind", (int64_t)sight->blind);
        cp_json_set_string(object, "loudest", sight->loudest != NULL ? sight->loudest : "");
        cp_json_set_real(object, "loudest_error", sight->loudest_error);
        cp_json_append(files, object);
        return;
    }
    if (session->quiet)
        return;
    printf("%s: %s, %lld %s; errors up to %.1e of the norm (%s)", path, cp_dtype_name(calibration->dtype),
           (long long)calibration->runs, kind, sight->loudest_error,
           sight->loudest != NULL ? sight->loudest : "none");
    if (sight->blind > 0)
        printf("; blind on %zu of %zu", sight->blind, sight->judged);
    printf("\n");
}

/* ---- control runs ------------------------------------------------------------------------------------------------- */

typedef struct controls {
    cp_comparison sides; /* the truth, as the expected side */
    const cp_source *truth;
    cp_observations observations;
    cp_dtype dtype; /* of all runs */
    cp_noise *noise;
    cp_calibration calibration;
} controls;

static cp_status open_truth(controls *self, const cp_arguments *arguments)
{
    cp_compared files = {.expected = cp_value(arguments, "from"), .fixture = cp_value(arguments, "fixture")};
    CP_TRY(cp_open_expected(&self->sides, &files));
    if (self->sides.dump != NULL && !cp_given(arguments, "output"))
        return cp_fail(CP_BAD_USAGE, "expected -o FILE: limits are not kept in %s, which is a dump",
                       files.expected);
    self->truth = cp_expected_of(&self->sides);
    return CP_OK;
}

static const cp_batch *batch_of(const controls *self)
{
    return self->sides.fixture != NULL ? &self->sides.fixture->batch : NULL;
}

/* A sharded run may have the very fault that its like are to be judged for. */
static cp_status check_control(controls *self, const cp_source *run, bool first)
{
    const cp_declaration *declaration = &run->declaration;
    if (declaration->cp_size > 1)
        return cp_fail(CP_REFUSED, "%s: ran on %d ranks; control runs are unsharded", run->label,
                       declaration->cp_size);
    if (first)
        self->dtype = declaration->compute_dtype;
    if (declaration->compute_dtype != self->dtype)
        return cp_fail(CP_REFUSED, "%s: is %s, and the runs before it are %s", run->label,
                       cp_dtype_name(declaration->compute_dtype), cp_dtype_name(self->dtype));
    if (self->dtype == CP_F16)
        return cp_fail(CP_REFUSED, "%s: is %s; limits are for float64, float32 and bfloat16", run->label,
                       cp_dtype_name(self->dtype));
    return CP_OK;
}

static cp_status add_control(controls *self, int run, const char *path)
{
    cp_source *source = NULL;
    CP_TRY(cp_dumps_open(&source, &path, 1, batch_of(self), NULL));
    cp_status status = check_control(self, source, run == 0);
    if (status == CP_OK)
        status = cp_observations_add(&self->observations, run, self->truth, source, self->sides.fixture);
    cp_source_close(source);
    return status;
}

static cp_status observe(controls *self, const cp_arguments *arguments)
{
    int runs = arguments->operand_count;
    if (runs < CP_FEWEST_CONTROLS)
        return cp_fail(CP_BAD_USAGE, "--from: expected at least %d control runs, found %d",
                       CP_FEWEST_CONTROLS, runs);
    cp_observations_open(&self->observations, self->truth, runs);
    for (int run = 0; run < runs; run++)
        CP_TRY(add_control(self, run, arguments->operands[run]));
    CP_TRY(cp_observations_check_apart(&self->observations, arguments->operands));
    size_t count;
    CP_TRY(cp_observations_noise(&self->noise, &count, &self->observations, self->sides.dump == NULL));
    self->calibration = (cp_calibration){.dtype = self->dtype,
                                         .rule = CP_CALIBRATED_BY_CONTROLS,
                                         .runs = runs,
                                         .producer = CP_OWN_NAME CPEQ_VERSION,
                                         .count = count};
    return CP_OK;
}

static bool is_self_made(const controls *self)
{
    const char *made =
        self->sides.dump != NULL ? self->sides.dump->declaration.implementation : self->sides.fixture->truth;
    const char *word = self->sides.dump != NULL ? CP_OWN_NAME : CP_SELF_MADE;
    return strncmp(made, word, strlen(word)) == 0;
}

static cp_status write_limits(controls *self, const char *path)
{
    const cp_declaration *truth = &self->truth->declaration;
    cp_limits_file file = {
        .fixture_id = self->sides.fixture != NULL ? self->sides.fixture->id : truth->fixture_id,
        .truth = self->sides.dump != NULL ? truth->implementation : self->sides.fixture->truth,
        .truth_dtype = truth->compute_dtype,
        .self_made = is_self_made(self)};
    cp_calibrations_set(&file.calibrations, self->calibration, self->noise);
    return cp_limits_file_write(path, &file);
}

static cp_status keep(controls *self, const cp_arguments *arguments)
{
    if (cp_given(arguments, "output"))
        return write_limits(self, cp_value(arguments, "output"));
    cp_calibrations_set(&self->sides.fixture->calibrations, self->calibration, self->noise);
    return cp_fixture_calibrate(self->sides.fixture->path, &self->sides.fixture->calibrations);
}

static cp_status calibrate_from(controls *self, const cp_session *session, const cp_arguments *arguments)
{
    if (cp_given(arguments, "output"))
        CP_TRY(cp_target_check(cp_value(arguments, "output"), cp_value(arguments, "from")));
    CP_TRY(open_truth(self, arguments));
    CP_TRY(observe(self, arguments));
    CP_TRY(keep(self, arguments));
    const char *target =
        cp_given(arguments, "output") ? cp_value(arguments, "output") : cp_value(arguments, "from");
    cp_sight sight = cp_observations_sight(&self->observations, CP_CALIBRATED_BY_CONTROLS);
    cp_json *files = session->json ? cp_json_new_array() : NULL;
    cp_tell_calibration(session, files, target, &self->calibration, &sight);
    if (is_self_made(self) && !session->quiet)
        fprintf(stderr, "%s: self-made truth: consistency only\n", cp_value(arguments, "from"));
    if (session->json)
        cp_print_calibrations(files);
    return CP_OK;
}

void cp_print_calibrations(cp_json *files)
{
    cp_json *root = cp_json_new_object();
    cp_json_set_integer(root, "schema_version", 1);
    cp_json_set_string(root, "kind", "calibrate");
    cp_json_set(root, "calibrations", files);
    cp_print_json(root);
}

static int run_controls(const cp_session *session, const cp_arguments *arguments)
{
    controls self = {0};
    cp_status status = calibrate_from(&self, session, arguments);
    cp_observations_close(&self.observations);
    free(self.noise);
    cp_comparison_close(&self.sides);
    return status == CP_OK ? 0 : cp_complain(session, status);
}

/* ---- command ------------------------------------------------------------------------------------------------------ */

/* Options that belong to the other way of calibrating. */
static cp_status check_way(const cp_arguments *arguments, bool from)
{
    static const char *const of_runs[] = {"fixture", "output"};
    static const char *const of_replicates[] = {"replicates", "seed", "dtype"};
    const char *const *others = from ? of_replicates : of_runs;
    int count = from ? CPEQ_ENGINE * 3 : 2;
    for (int i = 0; i < count; i++)
        if (cp_given(arguments, others[i]))
            return cp_fail(CP_BAD_USAGE, "--%s: %s --from", others[i], from ? "not with" : "only with");
    return CP_OK;
}

int cp_command_calibrate(const cp_session *session, const cp_arguments *arguments)
{
    bool from = cp_given(arguments, "from");
    cp_status status = check_way(arguments, from);
    if (status == CP_OK && from)
        return run_controls(session, arguments);
#if CPEQ_ENGINE
    if (status == CP_OK)
        return cp_calibrate_fixtures(session, arguments);
#else
    if (status == CP_OK)
        status = cp_fail(CP_BAD_USAGE, "expected --from TRUTH: this build has no reference to run");
#endif
    return cp_complain(session, status);
}

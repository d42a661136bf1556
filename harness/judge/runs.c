#include "harness/judge/runs.h"

#include "harness/files/targets.h"
#include "harness/judge/names.h"
#include "harness/judge/sentences.h"

#include <math.h>
#include <string.h>

/* ---- what was run ---- */

static int narrowness(cp_dtype dtype)
{
    return dtype == CP_F64 ? 0 : dtype == CP_F32 ? 1 : 2;
}

static void note_narrow_storage(cp_result *result, const cp_source *source)
{
    const cp_source_tensor *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < source->count; i++) {
        const cp_source_tensor *tensor = &source->tensors[i];
        cp_tensor_kind kind;
        if (cp_name_kind(&kind, tensor->name) && cp_dtype_is_float(tensor->dtype) &&
            narrowness(tensor->dtype) > narrowness(source->declaration.compute_dtype)) {
            first = first ? first : tensor;
            count++;
        }
    }
    if (first)
        cp_result_note(result,
                       "%s is %s and stores %zu of its tensors narrower (%s is %s): limits are those of %s",
                       source->label, cp_dtype_name(source->declaration.compute_dtype), count, first->name,
                       cp_dtype_name(first->dtype), cp_dtype_name(source->declaration.compute_dtype));
}

static void note_dtype(cp_result *result, const cp_source *source)
{
    const cp_declaration *declaration = &source->declaration;
    if (!declaration->dtype_declared)
        cp_result_note(result, "%s declares no compute_dtype: taken from its narrowest stored float, %s",
                       source->label, cp_dtype_name(declaration->compute_dtype));
    else
        note_narrow_storage(result, source);
}

/* What the source itself has to say: how it was read, what was joined. */
static void take_notes(cp_result *result, const cp_source *source)
{
    const char *at = source->notes ? source->notes : "";
    while (*at) {
        size_t span = strcspn(at, "\n");
        cp_result_note(result, "%.*s", (int)span, at);
        at += span + (at[span] == '\n');
    }
}

/* ---- limits ---- */

/* √targets / divisor: the Frobenius error of the token losses times this is the most that the loss can be off. */
static double loss_share(const cp_fixture *fixture)
{
    int64_t targets = 0;
    if (!fixture->batch.labels && !fixture->batch.shift_labels)
        return NAN;
    for (int64_t b = 0; b < fixture->batch.B; b++)
        for (int64_t t = 0; t < fixture->batch.T; t++)
            targets += cp_batch_target(&fixture->batch, b, t) != CP_IGNORED;
    return sqrt((double)targets) / cp_batch_divisor(&fixture->batch);
}

static const char *fixture_of(const cp_sides *sides)
{
    return sides->fixture ? sides->fixture->id : sides->actual->declaration.fixture_id;
}

/* A file of limits is what the user asked for: it is used, or nothing is. */
static void take_file(cp_limits *limits, cp_result *result, const cp_sides *sides, const cp_limits_file *file,
                      bool islands)
{
    cp_dtype dtype = result->dtype;
    *limits = (cp_limits){.rule = CP_LIMITS_CONTROLS,
                          .unit = limits->unit,
                          .share = limits->share,
                          .noise = limits->noise,
                          .rounding = limits->rounding,
                          .loss_share = limits->loss_share};
    limits->side[1] = cp_limits_measured(&file->calibrations, dtype, islands);
    if (limits->side[1].scale != 1 && file->truth_dtype != CP_F64)
        limits->side[1].calibration =
            NULL; /* a truth that is no finer than its runs says nothing below them */
    const char *id = fixture_of(sides);
    if (strcmp(file->fixture_id, id) != 0)
        cp_result_fail(result, "%s is of another fixture: %.12s…, expected %.12s…", file->path,
                       file->fixture_id[0] ? file->fixture_id : "none", id[0] ? id : "none");
    else if (!limits->side[1].calibration)
        cp_result_fail(result, "%s holds no limits for %s", file->path, cp_dtype_name(dtype));
    else
        result->limit_runs = limits->side[1].calibration->runs;
    if (file->self_made)
        cp_result_note(result, "limits from a self-made truth: consistency only");
}

/* A truth has no noise of its own; a dump has that of its dtype. */
static void take_fixture(cp_limits *limits, cp_result *result, const cp_sides *sides, bool islands)
{
    const cp_calibrations *calibrations = &sides->fixture->calibrations;
    cp_measured actual = cp_limits_measured(calibrations, sides->actual->declaration.compute_dtype, islands);
    cp_measured expected = {0};
    if (!cp_sides_truth(sides))
        expected = cp_limits_measured(calibrations, sides->expected->declaration.compute_dtype, islands);
    if (!actual.calibration || (!cp_sides_truth(sides) && !expected.calibration))
        return;
    limits->rule =
        actual.calibration->rule == CP_CALIBRATED_BY_CONTROLS ? CP_LIMITS_CONTROLS : CP_LIMITS_CALIBRATED;
    limits->side[0] = expected;
    limits->side[1] = actual;
    result->limit_runs = actual.calibration->runs;
}

static void note_self_made(cp_result *result, const cp_sides *sides)
{
    const char *made =
        cp_sides_truth(sides) ? sides->fixture->truth : sides->expected->declaration.implementation;
    const char *word = cp_sides_truth(sides) ? CP_SELF_MADE : CP_OWN_NAME;
    if (made && strncmp(made, word, strlen(word)) == 0)
        cp_result_note(result, "self-made truth: consistency only");
}

cp_limits cp_runs_limits(cp_result *result, const cp_sides *sides, const cp_diff_options *options)
{
    const cp_declaration *actual = &sides->actual->declaration;
    const cp_declaration *expected = &sides->expected->declaration;
    cp_dtype dtype = actual->compute_dtype;
    bool islands = actual->islands;
    take_notes(result, sides->expected);
    take_notes(result, sides->actual);
    note_dtype(result, sides->actual);
    if (!cp_sides_truth(sides)) {
        note_dtype(result, sides->expected);
        islands = islands || expected->islands;
        if (expected->compute_dtype != dtype)
            cp_result_note(result, "%s is %s and %s is %s: judged as the narrower", sides->expected->label,
                           cp_dtype_name(expected->compute_dtype), sides->actual->label,
                           cp_dtype_name(dtype));
        if (narrowness(expected->compute_dtype) > narrowness(dtype))
            dtype = expected->compute_dtype;
    }
    result->dtype = dtype;
    note_self_made(result, sides);
    cp_limits limits = cp_limits_choose(dtype, islands, options);
    if (sides->fixture)
        limits.loss_share = loss_share(sides->fixture);
    if (limits.rule == CP_LIMITS_UNCALIBRATED && options->limits)
        take_file(&limits, result, sides, options->limits, islands);
    else if (limits.rule == CP_LIMITS_UNCALIBRATED && sides->fixture)
        take_fixture(&limits, result, sides, islands);
    result->limits = limits.rule;
    if (islands && dtype == CP_F64 && !options->user_limits)
        cp_result_note(result,
                       "float64 with float32 islands: judged at the limits of float32; keep norms, softmax, "
                       "rope, routers and loss in float64 and leave `islands` out to be judged as float64");
    if (!cp_limits_given(&limits))
        cp_result_fail(result, "no limits for %s: run in float64 or float32, or give --rtol and --atol",
                       cp_dtype_name(dtype));
    return limits;
}

/* ---- the same run? ---- */

static void check_identity(cp_result *result, const cp_source *source, const char *id, const char *whose)
{
    const char *own = source->declaration.fixture_id;
    if (strcmp(own, id) == 0)
        return;
    if (!own[0])
        cp_result_fail(result, "%s names no fixture (fixture_id), expected %.12s… of %s", source->label, id,
                       whose);
    else
        cp_result_fail(result, "%s is of another fixture: %.12s…, expected %.12s… of %s", source->label, own,
                       id[0] ? id : "none", whose);
}

static const char *kind_text(const cp_source *source)
{
    return source->declaration.attention ? "kind \"attention\"" : "a training step";
}

bool cp_runs_check(cp_result *result, const cp_sides *sides)
{
    size_t failures = result->failure_count;
    const cp_source *both[] = {sides->expected, sides->actual};
    if (sides->expected->declaration.attention != sides->actual->declaration.attention)
        cp_result_fail(result, "%s is of %s, expected %s as in %s", sides->actual->label,
                       kind_text(sides->actual), kind_text(sides->expected), sides->expected->label);
    for (int i = cp_sides_truth(sides); i < 2; i++) {
        const cp_declaration *declaration = &both[i]->declaration;
        if (declaration->cp_size > 1 && declaration->cp_rank >= 0)
            cp_result_fail(result, "%s is rank %d of %d: the dumps of all ranks are needed", both[i]->label,
                           declaration->cp_rank, declaration->cp_size);
        if (sides->fixture)
            check_identity(result, both[i], sides->fixture->id, sides->fixture->path);
    }
    if (sides->fixture)
        return result->failure_count == failures;
    const char *id = sides->expected->declaration.fixture_id;
    check_identity(result, sides->actual, id, sides->expected->label);
    if (!id[0] && !sides->actual->declaration.fixture_id[0])
        cp_result_note(result, "neither side names its fixture: taken to be the same");
    cp_result_note(result, "no batch: padding judged too (--fixture gives one)");
    return result->failure_count == failures;
}

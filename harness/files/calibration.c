#include "harness/files/calibration.h"

#include "harness/files/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cp_dtype DTYPES[CP_CALIBRATED_DTYPES] = {CP_F64, CP_F32, CP_BF16};
static const char *const RULES[CP_CALIBRATION_RULES] = {"replicates", "control runs"};

enum { COLUMNS = 4 }; /* norm, its spread, element, its spread */

/* ---- in memory --------------------------------------------------------------------------------------------------- */

const cp_calibration *cp_calibration_of(const cp_calibrations *calibrations, cp_dtype dtype)
{
    for (size_t i = 0; i < calibrations->count; i++)
        if (calibrations->of[i].dtype == dtype)
            return &calibrations->of[i];
    return NULL;
}

int64_t cp_calibration_fewest(cp_calibration_rule rule)
{
    return rule == CP_CALIBRATED_BY_CONTROLS ? CP_FEWEST_CONTROLS : CP_FEWEST_REPLICATES;
}

static int compare_name(const void *name, const void *noise)
{
    return strcmp(name, ((const cp_noise *)noise)->name);
}

const cp_noise *cp_calibration_noise(const cp_calibration *calibration, const char *name)
{
    if (calibration->count == 0)
        return NULL;
    return bsearch(name, calibration->noise, calibration->count, sizeof *calibration->noise, compare_name);
}

static int compare_noise(const void *a, const void *b)
{
    return strcmp(((const cp_noise *)a)->name, ((const cp_noise *)b)->name);
}

static int place_of(cp_dtype dtype)
{
    int place = 0;
    while (place < CP_CALIBRATED_DTYPES && DTYPES[place] != dtype)
        place++;
    return place;
}

void cp_calibrations_set(cp_calibrations *calibrations, cp_calibration calibration, cp_noise *noise)
{
    cp_check(place_of(calibration.dtype) < CP_CALIBRATED_DTYPES, "a calibration in %s",
             cp_dtype_name(calibration.dtype));
    qsort(noise, calibration.count, sizeof *noise, compare_noise);
    calibration.noise = noise;
    size_t at = 0;
    while (at < calibrations->count && place_of(calibrations->of[at].dtype) < place_of(calibration.dtype))
        at++;
    bool there = at < calibrations->count && calibrations->of[at].dtype == calibration.dtype;
    if (!there) {
        memmove(&calibrations->of[at + 1], &calibrations->of[at],
                (calibrations->count - at) * sizeof *calibrations->of);
        calibrations->count++;
    }
    calibrations->of[at] = calibration;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reading {
    cp_h5 *file;
    cp_pool *pool;
    const char *group; /* "/calibration/float32" */
    const cp_source *expected;
} reading;

static cp_status read_rule(const reading *r, cp_calibration *out)
{
    const char *name = "";
    bool found;
    int rule = 0;
    CP_TRY(cp_h5_text(r->file, r->pool, r->group, "rule", &name, &found));
    while (rule < CP_CALIBRATION_RULES && strcmp(name, RULES[rule]) != 0)
        rule++;
    if (rule == CP_CALIBRATION_RULES)
        return cp_fail(CP_BAD_INPUT,
                       "%s: %s: attribute rule: expected \"replicates\" or \"control runs\", found \"%.64s\"",
                       cp_h5_path(r->file), r->group, name);
    out->rule = (cp_calibration_rule)rule;
    return CP_OK;
}

static cp_status read_provenance(const reading *r, cp_calibration *out)
{
    bool found;
    CP_TRY(read_rule(r, out));
    CP_TRY(cp_h5_integer(r->file, r->group, "runs", &out->runs, &found));
    int64_t fewest = cp_calibration_fewest(out->rule);
    if (out->runs < fewest || out->runs > CP_MOST_RUNS)
        return cp_fail(CP_BAD_INPUT, "%s: %s: attribute runs: expected %" PRId64 " or more, found %" PRId64,
                       cp_h5_path(r->file), r->group, fewest, out->runs);
    CP_TRY(cp_h5_integer(r->file, r->group, "seed", &out->seed, &found));
    out->producer = "";
    return cp_h5_text(r->file, r->pool, r->group, "producer", &out->producer, &found);
}

static cp_status read_names(const reading *r, const char *const **names, size_t *count)
{
    const char *path, *lines;
    size_t length;
    CP_TRY(cp_pool_format(r->pool, &path, "%s/names", r->group));
    CP_TRY(cp_h5_read_text(r->file, r->pool, path, &lines, &length));
    if (strlen(lines) != length || length == 0)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected names of tensors, one a line", cp_h5_path(r->file),
                       path);
    CP_TRY(cp_lines_check(lines, cp_h5_path(r->file), path));
    return cp_lines_split(r->pool, lines, names, count);
}

static cp_status read_numbers(const reading *r, double **out, size_t count)
{
    const char *path;
    cp_h5_array array;
    char shape[CP_SHAPE_TEXT];
    CP_TRY(cp_pool_format(r->pool, &path, "%s/noise", r->group));
    CP_TRY(cp_h5_describe(r->file, path, &array));
    if (array.dtype != CP_F64 || array.dims != 2 || array.extent[0] != (int64_t)count ||
        array.extent[1] != COLUMNS)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected float64 [%zu,%d], one row a name, found %s %s",
                       cp_h5_path(r->file), path, count, COLUMNS, cp_dtype_name(array.dtype),
                       cp_shape_text(shape, array.dims, array.extent));
    void *memory;
    CP_TRY(cp_pool_take(r->pool, &memory, count * COLUMNS, sizeof(double)));
    *out = memory;
    return cp_h5_read(r->file, path, 0, array.count, memory);
}

static cp_status check_numbers(const reading *r, const char *name, const double *row)
{
    for (int c = 0; c < COLUMNS; c++)
        if (!(row[c] >= 0 && isfinite(row[c])))
            return cp_fail(CP_BAD_INPUT,
                           "%s: %s/noise: %s: expected finite numbers that are not negative, found %g",
                           cp_h5_path(r->file), r->group, name, row[c]);
    return CP_OK;
}

static cp_status check_unique(const reading *r, const cp_calibration *calibration)
{
    for (size_t i = 1; i < calibration->count; i++)
        if (strcmp(calibration->noise[i - 1].name, calibration->noise[i].name) == 0)
            return cp_fail(CP_BAD_INPUT, "%s: %s/names: %s is there twice", cp_h5_path(r->file), r->group,
                           calibration->noise[i].name);
    return CP_OK;
}

/* What a judge looks at; the format knows other results, which are passed over. */
static bool is_judged(const char *name)
{
    static const char *const names[] = {"loss", "token_loss", "logits", "out",  "lse",
                                        "dq",   "dk",         "dv",     "dsink"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "grads/", 6) == 0 || strncmp(name, "trace/", 6) == 0;
}

static cp_status check_complete(const reading *r, const cp_calibration *calibration)
{
    for (size_t i = 0; i < r->expected->count; i++) {
        const char *name = r->expected->tensors[i].name;
        if (is_judged(name) && !cp_calibration_noise(calibration, name))
            return cp_fail(CP_BAD_INPUT, "%s: %s: expected the noise of every expected tensor, %s has none",
                           cp_h5_path(r->file), r->group, name);
    }
    for (size_t i = 0; i < calibration->count; i++) {
        const char *name = calibration->noise[i].name;
        if (!is_judged(name) || cp_source_find(r->expected, name) < 0)
            return cp_fail(CP_BAD_INPUT, "%s: %s: noise of %s, which is not among the expected tensors",
                           cp_h5_path(r->file), r->group, name);
    }
    return CP_OK;
}

static cp_status read_one(const reading *r, cp_calibrations *out, cp_dtype dtype)
{
    cp_calibration calibration = {.dtype = dtype};
    const char *const *names;
    double *numbers = NULL;
    void *memory;
    CP_TRY(read_provenance(r, &calibration));
    CP_TRY(read_names(r, &names, &calibration.count));
    CP_TRY(read_numbers(r, &numbers, calibration.count));
    CP_TRY(cp_pool_take(r->pool, &memory, calibration.count, sizeof(cp_noise)));
    cp_noise *noise = memory;
    for (size_t i = 0; i < calibration.count; i++) {
        const double *row = numbers + i * COLUMNS;
        CP_TRY(check_numbers(r, names[i], row));
        noise[i] = (cp_noise){names[i], row[0], row[1], row[2], row[3]};
    }
    cp_calibrations_set(out, calibration, noise);
    const cp_calibration *set = cp_calibration_of(out, dtype);
    CP_TRY(check_unique(r, set));
    return r->expected ? check_complete(r, set) : CP_OK;
}

static cp_status read_member(reading *r, cp_calibrations *out, const char *name)
{
    int place = 0;
    while (place < CP_CALIBRATED_DTYPES && strcmp(name, cp_dtype_name(DTYPES[place])) != 0)
        place++;
    if (place == CP_CALIBRATED_DTYPES)
        return cp_fail(CP_BAD_INPUT, "%s: /calibration/%s: expected float64, float32 or bfloat16",
                       cp_h5_path(r->file), name);
    CP_TRY(cp_pool_format(r->pool, &r->group, "/calibration/%s", name));
    return read_one(r, out, DTYPES[place]);
}

cp_status cp_calibrations_read(cp_calibrations *out, cp_h5 *file, cp_pool *pool, const cp_source *expected)
{
    reading r = {.file = file, .pool = pool, .expected = expected};
    const cp_h5_member *members;
    size_t count;
    cp_h5_kind kind;
    *out = (cp_calibrations){0};
    CP_TRY(cp_h5_look(file, "/calibration", &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    CP_TRY(cp_h5_list(file, pool, "/calibration", &members, &count));
    for (size_t i = 0; i < count; i++)
        CP_TRY(read_member(&r, out, members[i].name));
    return CP_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static cp_status write_names(cp_h5 *file, cp_pool *pool, const char *group, const cp_calibration *calibration)
{
    const char **names, *path, *lines;
    size_t length;
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, calibration->count, sizeof *names));
    names = memory;
    for (size_t i = 0; i < calibration->count; i++)
        names[i] = calibration->noise[i].name;
    CP_TRY(cp_lines_join(pool, names, calibration->count, 0, "\n", &lines, &length));
    CP_TRY(cp_pool_format(pool, &path, "%s/names", group));
    return cp_h5_write_text(file, path, lines);
}

static cp_status write_numbers(cp_h5 *file, cp_pool *pool, const char *group,
                               const cp_calibration *calibration)
{
    const char *path;
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, calibration->count * COLUMNS, sizeof(double)));
    double *row = memory;
    for (size_t i = 0; i < calibration->count; i++) {
        const cp_noise *noise = &calibration->noise[i];
        *row++ = noise->norm;
        *row++ = noise->norm_spread;
        *row++ = noise->element;
        *row++ = noise->element_spread;
    }
    const int64_t extent[] = {(int64_t)calibration->count, COLUMNS};
    CP_TRY(cp_pool_format(pool, &path, "%s/noise", group));
    CP_TRY(cp_h5_make_array(file, path, CP_F64, 2, extent));
    return cp_h5_write(file, path, 0, extent[0] * COLUMNS, memory);
}

static cp_status write_one(cp_h5 *file, cp_pool *pool, const cp_calibration *calibration)
{
    const char *group;
    CP_TRY(cp_pool_format(pool, &group, "/calibration/%s", cp_dtype_name(calibration->dtype)));
    CP_TRY(cp_h5_make_group(file, group));
    CP_TRY(cp_h5_set_text(file, group, "rule", RULES[calibration->rule]));
    CP_TRY(cp_h5_set_integer(file, group, "runs", calibration->runs));
    if (calibration->rule == CP_CALIBRATED_BY_REPLICATES)
        CP_TRY(cp_h5_set_integer(file, group, "seed", calibration->seed));
    CP_TRY(cp_h5_set_text(file, group, "producer", calibration->producer));
    CP_TRY(write_names(file, pool, group, calibration));
    return write_numbers(file, pool, group, calibration);
}

cp_status cp_calibrations_write(cp_h5 *file, const cp_calibrations *calibrations)
{
    if (calibrations->count == 0)
        return CP_OK;
    cp_pool pool = {0};
    cp_status status = cp_h5_make_group(file, "/calibration");
    for (size_t i = 0; i < calibrations->count && status == CP_OK; i++)
        status = write_one(file, &pool, &calibrations->of[i]);
    cp_pool_close(&pool);
    return status;
}

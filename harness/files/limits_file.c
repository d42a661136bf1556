#include "harness/files/calibration.h"
#include "harness/files/dump.h"
#include "harness/files/header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a fixture --------------------------------------------------------------------------------------------------- */

typedef struct recalibration {
    cp_h5 *old;
    const cp_calibrations *calibrations;
} recalibration;

/* Copied object by object: taking the old calibration out of a file would leave a hole in it. */
static cp_status fill_fixture(cp_h5 *file, const void *content)
{
    const recalibration *work = content;
    cp_pool pool = {0};
    const cp_h5_member *members = NULL;
    size_t count = 0;
    cp_status status = cp_temporary_reserve(cp_h5_path(file), cp_h5_path(work->old));
    if (status == CP_OK)
        status = cp_h5_copy_attributes(file, work->old);
    if (status == CP_OK)
        status = cp_h5_list(work->old, &pool, "/", &members, &count);
    for (size_t i = 0; i < count && status == CP_OK; i++)
        if (strcmp(members[i].name, "calibration") != 0)
            status = cp_h5_copy(file, work->old, members[i].name);
    cp_pool_close(&pool);
    return status == CP_OK ? cp_calibrations_write(file, work->calibrations) : status;
}

cp_status cp_fixture_calibrate(const char *path, const cp_calibrations *calibrations)
{
    recalibration work = {.calibrations = calibrations};
    CP_TRY(cp_h5_open(&work.old, path));
    cp_status status = cp_h5_write_file(path, fill_fixture, &work);
    cp_h5_close(work.old);
    return status;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static cp_status fill_limits(cp_h5 *file, const void *content)
{
    const cp_limits_file *limits = content;
    CP_TRY(cp_header_write(file, "limits"));
    CP_TRY(cp_h5_set_text(file, "/", "fixture_id", limits->fixture_id));
    CP_TRY(cp_h5_set_text(file, "/", "truth", limits->truth));
    CP_TRY(cp_h5_set_text(file, "/", "truth_dtype", cp_dtype_name(limits->truth_dtype)));
    CP_TRY(cp_h5_set_integer(file, "/", "self_made", limits->self_made));
    return cp_calibrations_write(file, &limits->calibrations);
}

cp_status cp_limits_file_write(const char *path, const cp_limits_file *file)
{
    return cp_h5_write_file(path, fill_limits, file);
}

typedef struct opened {
    cp_limits_file limits;
    cp_pool pool;
} opened;

static cp_status read_truth(opened *o, cp_h5 *file)
{
    const char *dtype;
    int64_t self_made = 0;
    bool found;
    CP_TRY(cp_text_or_empty(file, &o->pool, "/", "fixture_id", &o->limits.fixture_id));
    CP_TRY(cp_text_or_empty(file, &o->pool, "/", "truth", &o->limits.truth));
    CP_TRY(cp_text_or_empty(file, &o->pool, "/", "truth_dtype", &dtype));
    CP_TRY(cp_h5_integer(file, "/", "self_made", &self_made, &found));
    o->limits.self_made = self_made != 0;
    if (!cp_dtype_named(&o->limits.truth_dtype, dtype) || !cp_dtype_is_float(o->limits.truth_dtype))
        return cp_fail(CP_BAD_INPUT,
                       "%s: attribute truth_dtype: expected float64, float32 or bfloat16, found \"%.64s\"",
                       o->limits.path, dtype);
    return CP_OK;
}

static cp_status read_limits(opened *o, cp_h5 *file)
{
    const char *kind;
    CP_TRY(cp_header_read(file, &o->pool, &kind));
    if (strcmp(kind, "limits") != 0)
        return cp_fail(CP_BAD_INPUT, "%s: attribute kind: expected \"limits\", found \"%s\"", o->limits.path,
                       kind);
    CP_TRY(read_truth(o, file));
    CP_TRY(cp_calibrations_read(&o->limits.calibrations, file, &o->pool, NULL));
    if (o->limits.calibrations.count == 0)
        return cp_fail(CP_BAD_INPUT, "%s: /calibration: expected the noise of some dtype, found none",
                       o->limits.path);
    return CP_OK;
}

cp_status cp_limits_file_open(cp_limits_file **out, const char *path)
{
    *out = NULL;
    opened *o = calloc(1, sizeof *o);
    cp_h5 *file = NULL;
    if (!o)
        return cp_fail(CP_INTERNAL, "%s: no memory to open it", path);
    cp_status status = cp_pool_text(&o->pool, &o->limits.path, path);
    if (status == CP_OK)
        status = cp_h5_open(&file, path);
    if (status == CP_OK)
        status = read_limits(o, file);
    cp_h5_close(file);
    if (status == CP_OK)
        *out = &o->limits;
    else
        cp_limits_file_close(&o->limits);
    return status;
}

void cp_limits_file_close(cp_limits_file *file)
{
    opened *o = (opened *)file; /* its first member */
    if (!o)
        return;
    cp_pool_close(&o->pool);
    free(o);
}

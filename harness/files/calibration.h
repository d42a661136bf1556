/* How large the errors of right runs are, as they were measured: what limits are made from. It stands in a fixture, or,
 * for runs of somebody's own, in a file of kind "limits". */
#ifndef CPEQ_HARNESS_FILES_CALIBRATION_H
#define CPEQ_HARNESS_FILES_CALIBRATION_H

#include "base/dtype.h"
#include "harness/files/h5file.h"
#include "harness/files/source.h"

typedef enum cp_calibration_rule {
    CP_CALIBRATED_BY_REPLICATES, /* runs of cpeq with disturbed rounding and permuted sums */
    CP_CALIBRATED_BY_CONTROLS,   /* unsharded runs of somebody's own */
    CP_CALIBRATION_RULES
} cp_calibration_rule;

/* Of fewer runs the maximum says too little; by rule. */
enum { CP_FEWEST_REPLICATES = 24, CP_FEWEST_CONTROLS = 8, CP_MOST_RUNS = 1 << 20 };
int64_t cp_calibration_fewest(cp_calibration_rule rule);

/* The errors of one tensor over all runs: the largest, and the standard deviation. */
typedef struct cp_noise {
    const char *name;               /* "grads/model.norm.weight" */
    double norm, norm_spread;       /* of the Frobenius norm */
    double element, element_spread; /* of the largest error of one element */
} cp_noise;

typedef struct cp_calibration {
    cp_dtype dtype; /* in which the runs computed */
    cp_calibration_rule rule;
    int64_t runs, seed;
    const char *producer; /* "cpeq 0.1.0" */
    size_t count;
    const cp_noise *noise; /* sorted by name */
} cp_calibration;

/* At most one for each of float64, float32, bfloat16, in this order. All zero: none. */
enum { CP_CALIBRATED_DTYPES = 3 };
typedef struct cp_calibrations {
    size_t count;
    cp_calibration of[CP_CALIBRATED_DTYPES];
} cp_calibrations;

const cp_calibration *cp_calibration_of(const cp_calibrations *calibrations, cp_dtype dtype); /* NULL: none */
const cp_noise *cp_calibration_noise(const cp_calibration *calibration, const char *name);    /* NULL: none */

/* Puts a calibration, its noise in any order, in the place of that of its dtype; the noise is sorted and borrowed. */
void cp_calibrations_set(cp_calibrations *calibrations, cp_calibration calibration, cp_noise *noise);

/* ---- in a file of either kind ----------------------------------------------------------------------------------- */

/* /calibration of an open file; where it has none, none. CP_BAD_INPUT for what is not exactly as it should be: another
 * dtype or rule, too few runs, a name twice, numbers that are not one row a name, or that are
 * negative or not finite. Where `expected` is given, for a tensor that has no noise and for noise of a tensor that it
 * does not have. */
cp_status cp_calibrations_read(cp_calibrations *out, cp_h5 *file, cp_pool *pool, const cp_source *expected);
cp_status cp_calibrations_write(cp_h5 *file, const cp_calibrations *calibrations);

/* Writes them into a fixture: all else in the file stays as it is, and the same content gives the same bytes. The file
 * is written beside `path` and renamed when it is complete. CP_BAD_INPUT where the root holds links. */
cp_status cp_fixture_calibrate(const char *path, const cp_calibrations *calibrations);

/* ---- a file of limits ------------------------------------------------------------------------------------------- */

typedef struct cp_limits_file cp_limits_file;
struct cp_limits_file {
    const char *path;
    const char *fixture_id; /* of the step that the runs ran; "": they did not say */
    const char *truth;      /* what they were compared with, in words */
    cp_dtype truth_dtype;
    bool self_made; /* the truth was made by cpeq */
    cp_calibrations calibrations;
};

/* CP_BAD_INPUT: another kind of file, and everything that cp_calibrations_read refuses; also where nothing is
 * calibrated. */
cp_status cp_limits_file_open(cp_limits_file **out, const char *path);
void cp_limits_file_close(cp_limits_file *file); /* NULL is allowed */

/* Beside `path`, renamed when complete; fields that are derived (path) are ignored. */
cp_status cp_limits_file_write(const char *path, const cp_limits_file *file);

#endif

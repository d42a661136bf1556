#include "harness/judge/limits.h"
#include "harness/run/calibrate.h"
#include "tests/rates/rates.h"
#include "tests/run/draw.h"
#include "tests/support/support.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* float64 has no calibration of its own: its limits come from that of float32. */
static const cp_dtype MEASURED[] = {CP_F32, CP_BF16};
static const cp_dtype JUDGED[] = {CP_F64, CP_F32, CP_BF16};
enum { MEASURED_COUNT = sizeof MEASURED / sizeof *MEASURED, JUDGED_COUNT = sizeof JUDGED / sizeof *JUDGED };

typedef struct pair {
    draw_case drawn;
    cp_fixture fixture; /* the drawn one with its truth and limits */
    cp_observations observations[MEASURED_COUNT];
    cp_noise *noise[MEASURED_COUNT];
    bool measured[MEASURED_COUNT];
} pair;

static void open_pair(pair *p, uint64_t seed, int64_t number, int64_t replicates)
{
    *p = (pair){0};
    draw_model(&p->drawn, seed, number);
    cp_source *truth;
    cp_run_options unsharded = {
        .P = 1, .dtype = CP_F64, .attention = CP_ATTENTION_DENSE, .trace = number % 4 == 0};
    assert_ok(cp_run_whole(&truth, p->drawn.model, &unsharded));
    p->fixture = p->drawn.fixture;
    p->fixture.expected = truth;
    for (int m = 0; m < MEASURED_COUNT; m++) {
        cp_calibration calibration = {.dtype = MEASURED[m],
                                      .rule = CP_CALIBRATED_BY_REPLICATES,
                                      .runs = replicates,
                                      .producer = CP_OWN_NAME CPEQ_VERSION};
        cp_status status = cp_calibrate(&p->observations[m], p->drawn.model, &p->fixture, MEASURED[m],
                                        seed + (uint64_t)number, replicates, 1);
        if (status == CP_OK)
            status = cp_observations_noise(&p->noise[m], &calibration.count, &p->observations[m], true);
        p->measured[m] = status == CP_OK;
        if (p->measured[m])
            cp_calibrations_set(&p->fixture.calibrations, calibration, p->noise[m]);
        else if (status != CP_INCOMPARABLE) /* a choice of experts that tips makes values missing or zero */
            assert_ok(status);
    }
}

static void close_pair(pair *p)
{
    for (int m = 0; m < MEASURED_COUNT; m++) {
        free(p->noise[m]);
        cp_observations_close(&p->observations[m]);
    }
    cp_source_close(p->fixture.expected);
    draw_close(&p->drawn);
}

static const char *outcome_of(const cp_result *result)
{
    return result->sightless ? "blind" : cp_verdict_name(result->verdict);
}

static void say_pair(FILE *out, const pair *p, const cp_run_options *options, const char *outcome,
                     size_t tensors)
{
    static const char *const forms[CP_ATTENTION_FORMS] = {
        [CP_ATTENTION_BLOCK] = "block", [CP_ATTENTION_DENSE] = "dense", [CP_ATTENTION_VARLEN] = "varlen"};
    const char *family = cp_json_string(cp_json_member(p->drawn.fixture.config, "model_type"));
    fprintf(out, "pair\tcpeq\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%zu\n", cp_dtype_name(options->dtype),
            family, cp_exchange_name(options->exchange.kind), cp_layout_name(options->layout.kind),
            forms[options->attention], options->P, options->D, options->M, outcome, tensors);
}

static bool is_measured(const pair *p, cp_dtype dtype)
{
    return cp_limits_measured(&p->fixture.calibrations, dtype, false).calibration != NULL;
}

static bool is_alarm(FILE *out, const pair *p, const cp_run_options *options)
{
    cp_source *actual;
    cp_result result;
    assert_ok(cp_run_whole(&actual, p->drawn.model, options));
    assert_ok(cp_diff(&result, p->fixture.expected, actual, &p->fixture, &(cp_diff_options){0}));
    say_pair(out, p, options, outcome_of(&result), result.count);
    for (size_t t = 0; t < result.count; t++) {
        const cp_tensor_result *tensor = &result.tensors[t];
        if (!tensor->blind && tensor->measured)
            fprintf(out, "tensor\tcpeq\t%s\t%s\t%.4g\n", cp_dtype_name(options->dtype), tensor->name,
                    cp_tensor_excess(tensor) * CP_LIMIT_FACTOR);
    }
    bool alarm = result.verdict != CP_SAME && !result.sightless;
    cp_result_close(&result);
    cp_source_close(actual);
    return alarm;
}

int64_t rates_alarms(FILE *out, uint64_t seed, int64_t first, int64_t count, int64_t replicates)
{
    int64_t alarms = 0;
    for (int64_t number = first; number < first + count; number++) {
        pair p;
        open_pair(&p, seed, number, replicates);
        for (int j = 0; j < JUDGED_COUNT; j++) {
            cp_run_options options;
            char way[DRAW_TEXT];
            draw_way(&options, way, &p.drawn, seed, number * JUDGED_COUNT + j);
            options.dtype = JUDGED[j];
            options.trace = false;
            if (!is_measured(&p, JUDGED[j])) {
                say_pair(out, &p, &options, "uncalibrated", 0);
            } else if (is_alarm(out, &p, &options)) {
                alarms++;
                fprintf(stderr, "alarm: seed %" PRIu64 " model %" PRId64 " %s: %s; %s; %s\n", seed, number,
                        cp_dtype_name(JUDGED[j]), way, p.drawn.batch, p.drawn.config);
            }
        }
        close_pair(&p);
        fflush(out);
    }
    return alarms;
}

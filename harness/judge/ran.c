#include "harness/judge/ran_trial.h"

#include "harness/judge/sentences.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 1 << 10 };

void cp_ran_find_fault(cp_ran_trial *trial, const char *name, cp_verdict verdict, int dims,
                       const int64_t *extent, const char *format, ...)
{
    char full[CP_RESULT_NAME];
    cp_source_tensor shape = {.dims = dims};
    memcpy(shape.extent, extent, (size_t)dims * sizeof *extent);
    snprintf(full, sizeof full, "ran/%s", name);
    cp_tensor_result *fault = cp_result_append(trial->result, full, &shape);
    fault->kind = CP_TENSOR_RAN;
    fault->verdict = verdict;
    int used = snprintf(fault->reason, sizeof fault->reason, "%.200s", trial->whose);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->reason + used, sizeof fault->reason - (size_t)used, format, arguments);
    va_end(arguments);
}

void cp_ran_agree(cp_ran_trial *trial, const char *format, ...)
{
    size_t used = strlen(trial->agreed);
    if (used > 0)
        used += (size_t)snprintf(trial->agreed + used, sizeof trial->agreed - used, ", ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trial->agreed + used, sizeof trial->agreed - used, format, arguments);
    va_end(arguments);
}

const char *cp_ran_where(char out[CP_RAN_WHERE], const cp_ran_side *side, int32_t part)
{
    *out = '\0';
    if (side->count > 1)
        snprintf(out, CP_RAN_WHERE, " on rank %d", side->parts[part]->declaration.cp_rank);
    return out;
}

void cp_ran_hash(cp_hash *hash, const double *values, int64_t count, cp_dtype dtype)
{
    double rounded[BLOCK], stored[BLOCK];
    for (int64_t done = 0; done < count; done += BLOCK) {
        size_t n = (size_t)(count - done < BLOCK ? count - done : BLOCK);
        cp_dtype_from_double(stored, dtype, values + done, n);
        cp_dtype_to_double(rounded, stored, dtype, n);
        cp_hash_add(hash, rounded, n * sizeof *rounded);
    }
}

cp_dtype cp_ran_rounding(const cp_ran_trial *trial, cp_dtype stored)
{
    cp_dtype computed = trial->found.source->declaration.compute_dtype;
    bool known = computed == CP_F32 || computed == CP_BF16;
    return known && cp_dtype_epsilon(computed) > cp_dtype_epsilon(stored) ? computed : stored;
}

/* ---- the whole ---- */

static cp_ran_side side_of(const cp_source *source)
{
    cp_ran_side side = {.source = source};
    side.count = cp_join_parts(source, &side.parts, &side.places);
    return side;
}

static bool tells(const cp_ran_side *side)
{
    for (size_t p = 0; p < side->count; p++)
        if (side->parts[p]->ran_count > 0)
            return true;
    return false;
}

static cp_status compare(cp_ran_trial *trial)
{
    CP_TRY(cp_ran_inputs(trial));
    CP_TRY(cp_ran_weights(trial));
    if (trial->agreed[0])
        cp_result_note(trial->result, "%swhat was run is %s: %s", trial->whose,
                       trial->fixture ? "the fixture's" : "the same on both sides", trial->agreed);
    return CP_OK;
}

cp_status cp_ran_judge(cp_result *result, const cp_sides *sides, const cp_places *places)
{
    cp_ran_trial trial = {.result = result,
                          .fixture = sides->fixture,
                          .expected = side_of(sides->expected),
                          .found = side_of(sides->actual),
                          .real = places,
                          .whose = ""};
    if (!sides->fixture)
        return tells(&trial.expected) && tells(&trial.found) ? compare(&trial) : CP_OK;
    if (tells(&trial.expected)) {
        char whose[CP_RESULT_SENTENCE];
        snprintf(whose, sizeof whose, "%s: ", sides->expected->label);
        cp_ran_trial other = trial;
        other.found = trial.expected;
        other.whose = whose;
        CP_TRY(compare(&other));
    }
    return tells(&trial.found) ? compare(&trial) : CP_OK;
}

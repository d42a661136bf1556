#include "library/common.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>

_Static_assert((int)CPEQ_FLOAT64 == CP_F64 && (int)CPEQ_FLOAT32 == CP_F32 && (int)CPEQ_FLOAT16 == CP_F16 &&
                   (int)CPEQ_BFLOAT16 == CP_BF16 && (int)CPEQ_INT64 == CP_I64 && (int)CPEQ_INT32 == CP_I32 &&
                   (int)CPEQ_UINT8 == CP_U8 && (int)CPEQ_MAX_DIMS == CP_MAX_DIMS,
               "types are numbered alike inside and outside");

cpeq_status cp_library_report(char sentence[CPEQ_SENTENCE_BYTES], cp_status status)
{
    if (status == CP_OK)
        return CPEQ_OK;
    snprintf(sentence, CPEQ_SENTENCE_BYTES, "%s", cp_error());
    switch (status) {
    case CP_BAD_USAGE: return CPEQ_BAD_USAGE;
    case CP_INTERNAL: return CPEQ_FAILED;
    default: return CPEQ_BAD_INPUT;
    }
}

cp_status cp_slab_check(int64_t *elements, const char *name, int dims, const int64_t *shape,
                        const int64_t *offset, const int64_t *count)
{
    *elements = 1;
    if (!offset != !count)
        return cp_fail(CP_BAD_USAGE, "%s: offset and count: expected both or neither", name);
    for (int axis = 0; axis < dims; axis++) {
        int64_t begin = offset ? offset[axis] : 0, length = count ? count[axis] : shape[axis];
        if (begin < 0 || length < 0 || begin > shape[axis] || length > shape[axis] - begin)
            return cp_fail(CP_BAD_USAGE,
                           "%s: axis %d: expected a slab within %" PRId64 " elements, found %" PRId64
                           " from %" PRId64 " on",
                           name, axis, shape[axis], length, begin);
        if (__builtin_mul_overflow(*elements, length, elements))
            return cp_fail(CP_BAD_USAGE, "%s: more elements than can be counted", name);
    }
    return CP_OK;
}

cp_status cp_slab_each_run(int dims, const int64_t *shape, const int64_t *offset, const int64_t *count,
                           cp_slab_move *move, void *state)
{
    int64_t index[CPEQ_MAX_DIMS] = {0}, run = 1, runs = 1;
    int outer = dims; /* axes before it are walked, the others are one run */
    for (bool whole = true; outer > 0 && whole; outer--) {
        run *= count ? count[outer - 1] : shape[outer - 1];
        whole = !count || count[outer - 1] == shape[outer - 1];
    }
    for (int axis = 0; axis < outer; axis++)
        runs *= count ? count[axis] : shape[axis];
    for (int64_t packed = 0; run > 0 && packed < runs; packed++) {
        int64_t first = 0;
        for (int axis = 0; axis < dims; axis++)
            first = first * shape[axis] + (offset ? offset[axis] : 0) + index[axis];
        CP_TRY(move(state, first, packed * run, run));
        for (int axis = outer - 1; axis >= 0 && ++index[axis] == (count ? count[axis] : shape[axis]); axis--)
            index[axis] = 0;
    }
    return CP_OK;
}

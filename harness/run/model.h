/* The inside of a model, for this room. */
#ifndef CPEQ_HARNESS_RUN_MODEL_H
#define CPEQ_HARNESS_RUN_MODEL_H

#include "harness/run/run.h"

/* Weights in a width, converted when it is first asked for. */
typedef struct cp_weights {
    cp_tensor *tensors; /* [parameters]; NULL: not asked for yet */
    void **converted;   /* [parameters]; NULL where the fixture's own memory serves */
} cp_weights;

struct cp_model {
    const cp_fixture *fixture;
    cp_program *program;
    cp_weights *weights; /* [CP_DTYPES] */
};

/* Weights by parameter, contiguous, as a run in `dtype` has them: of bfloat16 they are float32, rounded. Not for concurrent use: called before ranks start. */
cp_status cp_model_weights(const cp_tensor **out, const cp_model *model, cp_dtype dtype);

#endif

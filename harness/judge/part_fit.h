/* What of each rank's own part is in a gradient: least squares. Inside the judge. */
#ifndef CPEQ_HARNESS_JUDGE_PART_FIT_H
#define CPEQ_HARNESS_JUDGE_PART_FIT_H

#include "harness/files/source.h"

enum { CP_FIT_RANKS = 16 };

typedef struct cp_part_fit {
    int ranks;
    int64_t elements;                                                    /* that were looked at */
    double gram[CP_FIT_RANKS][CP_FIT_RANKS], with[CP_FIT_RANKS], target; /* inner products */
    double factor[CP_FIT_RANKS];                                         /* of each rank's part */
    double remainder;                                                    /* of the target's norm */
} cp_part_fit;

/* A tensor to be explained, weighed by the square of a norm. */
typedef struct cp_fit_target {
    const cp_source *source;
    size_t tensor;
    int64_t count;
    double norm;
} cp_fit_target;

void cp_part_fit_open(cp_part_fit *of, size_t ranks); /* at most CP_FIT_RANKS */

/* `name`: that of the tensor in the parts, whose grad_scale is undone. More than so many elements are passed over. False:
 * it cannot be read, or a part has none of that size. */
bool cp_part_fit_add(cp_part_fit *of, const cp_fit_target *target, cp_source *const *parts, const char *name);

/* False: the parts are not independent. */
bool cp_part_fit_solve(cp_part_fit *of);

/* Whether all factors are a value, to so many digits. */
bool cp_part_fit_near(const cp_part_fit *of, double value, double digits);

#endif

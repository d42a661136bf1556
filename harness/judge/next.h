/* The last line of a verdict: where execution first went wrong, and what that pattern usually is. */
#ifndef CPEQ_HARNESS_JUDGE_NEXT_H
#define CPEQ_HARNESS_JUDGE_NEXT_H

#include "harness/judge/pairs.h"

/* One sentence from a complete result (tensors in execution order, verdict set) of these sides, of which little is read
 * again; "" when same. Only what the numbers say is said as a fact; freed by free(). */
char *cp_next_step(const cp_result *result, const cp_sides *sides);

#endif

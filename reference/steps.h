/* What each kind of step does, forward and backward: the table that the walk goes through. */
#ifndef CPEQ_REFERENCE_STEPS_H
#define CPEQ_REFERENCE_STEPS_H

#include "reference/network.h"

typedef struct cp_step_functions {
    void (*forward)(cp_network *network, const cp_step *step, cp_saved *saved);
    void (*backward)(cp_network *network, const cp_step *step, const cp_saved *saved);
} cp_step_functions;

extern const cp_step_functions cp_steps[CP_STEP_KINDS];

/* factor float64 [B,S] of index int64 [B,S]; nothing where there is no data. */
void cp_temperature_table(cp_tensor factor, cp_tensor index, const cp_temperature *temperature);

#endif

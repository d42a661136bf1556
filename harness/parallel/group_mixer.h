/* What every exchange over a group of ranks has in common: all verbs of the mixer but attend. An exchange begins with
 * this and adds attend and attend_backward. */
#ifndef CPEQ_HARNESS_PARALLEL_GROUP_MIXER_H
#define CPEQ_HARNESS_PARALLEL_GROUP_MIXER_H

#include "harness/parallel/exchange.h"

typedef struct cp_group_mixer {
    cp_mixer mixer;
    cp_comm *comm;
    const cp_layout *layout; /* over the ranks of comm */
    double *gathered;        /* for sums */
    size_t *bytes;           /* [P] */
} cp_group_mixer;

/* Fills everything but attend and attend_backward; takes from setup->arena. */
void cp_group_mixer_open(cp_group_mixer *group, const cp_exchange_setup *setup);

#endif

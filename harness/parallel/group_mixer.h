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

/* q, k, v are this rank's, contiguous; a violation stops the job. */
void cp_group_check(const cp_group_mixer *group, const cp_attend *attend, cp_tensor q, cp_tensor k,
                    cp_tensor v);

/* int64 [B,T]: 0, 1, … in each row. In `arena`. */
cp_tensor cp_group_whole_index(const cp_layout *layout, cp_arena *arena);

/* The attention of this rank's queries against keys of these indices. */
cp_attention cp_group_attention(const cp_group_mixer *group, const cp_attend *attend, cp_tensor key_index);

#endif

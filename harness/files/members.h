/* The members of a fixture's batch as a file stores them; what is hashed is what is written. */
#ifndef CPEQ_HARNESS_FILES_MEMBERS_H
#define CPEQ_HARNESS_FILES_MEMBERS_H

#include "harness/files/fixture.h"
#include "harness/files/pool.h"

enum { CP_BATCH_MEMBERS = 15 };

typedef struct cp_member {
    const char *name;
    cp_tensor tensor; /* borrowed from the batch, or converted and taken from the pool */
    bool scalar;
} cp_member;

/* Sorted by name. */
cp_status cp_batch_members(cp_pool *pool, cp_member members[CP_BATCH_MEMBERS], size_t *count,
                           const cp_fixture *fixture);

/* A fixture's weights, sorted by name. */
cp_status cp_sorted_weights(cp_pool *pool, const cp_weight *const **weights, const cp_fixture *fixture);

#endif

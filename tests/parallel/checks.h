/* What every rank of a transport test does: the same bodies over threads and over MPI. */
#ifndef CPEQ_TESTS_PARALLEL_CHECKS_H
#define CPEQ_TESTS_PARALLEL_CHECKS_H

#include "harness/parallel/comm.h"
#include "tests/support/support.h"

typedef test_verdict transport_check(cp_comm *comm, uint64_t seed);

typedef struct transport_check_row {
    const char *name;
    transport_check *check;
} transport_check_row;

extern const transport_check_row transport_checks[];
extern const int transport_check_count;

#endif

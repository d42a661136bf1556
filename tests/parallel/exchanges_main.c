#include "harness/parallel/comm.h"
#include "tests/parallel/groups.h"

#include <stdio.h>

static int run_over_mpi(void)
{
    if (cp_mpi_start() != CP_OK) {
        fprintf(stderr, "%s\n", cp_error());
        return 1;
    }
    int failed = compare_exchanges_over_mpi() + compare_collectives_over_mpi();
    cp_mpi_finish();
    return failed > 0;
}

int main(void)
{
    if (cp_mpi_launched())
        return run_over_mpi();
    return run_exchange_tests() + run_passing_tests() + run_collective_tests() + run_shard_tests();
}

#include "harness/parallel/comm.h"
#include "tests/parallel/groups.h"

#include <stdio.h>

static int run_over_mpi(const char *failing)
{
    if (cp_mpi_start() != CP_OK) {
        fprintf(stderr, "%s\n", cp_error());
        return 1;
    }
    int failed = failing ? fail_exchange_over_mpi(failing)
                         : compare_exchanges_over_mpi() + compare_collectives_over_mpi();
    cp_mpi_finish();
    return failed > 0;
}

int main(int count, char **arguments)
{
    if (cp_mpi_launched())
        return run_over_mpi(count > 1 ? arguments[1] : NULL);
    return run_exchange_tests() + run_ring_plan_tests() + run_passing_tests() + run_mesh_tests() +
           run_usp_tests() + run_disturbed_tests() + run_collective_tests() + run_shard_tests();
}

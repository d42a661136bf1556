/* The MPI entry points of a build without MPI. */
#include "harness/parallel/comm.h"

bool cp_mpi_available(void)
{
    return false;
}

cp_status cp_mpi_start(void)
{
    return cp_fail(CP_REFUSED,
                   "this build has no MPI (CPEQ_MPI=OFF); ranks run as threads, without a launcher");
}

void cp_mpi_finish(void) {}

int cp_mpi_rank(void)
{
    return 0;
}

int cp_mpi_size(void)
{
    return 1;
}

cp_status cp_mpi_run(int size, cp_rank_body *body, void *context)
{
    (void)size;
    (void)body;
    (void)context;
    return cp_mpi_start();
}

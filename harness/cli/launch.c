#include "harness/cli/launch.h"

#include "harness/parallel/comm.h"

cp_status cp_launch_start(cp_session *session)
{
    session->processes = 1;
    if (!cp_mpi_available() || !cp_mpi_launched())
        return CP_OK;
    CP_TRY(cp_mpi_start());
    session->mpi = true;
    session->process = cp_mpi_rank();
    session->processes = cp_mpi_size();
    return CP_OK;
}

void cp_launch_finish(const cp_session *session)
{
    if (session->mpi)
        cp_mpi_finish();
}

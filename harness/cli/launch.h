/* Being one of several processes. Without the engine there is always one. */
#ifndef CPEQ_HARNESS_CLI_LAUNCH_H
#define CPEQ_HARNESS_CLI_LAUNCH_H

#include "harness/cli/command.h"

/* Joins the other processes where a launcher has started this one; fills mpi, process and processes. */
cp_status cp_launch_start(cp_session *session);
void cp_launch_finish(const cp_session *session);

#endif

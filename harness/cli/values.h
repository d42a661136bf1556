/* Names of the values of options, and the options that a run is made of. */
#ifndef CPEQ_HARNESS_CLI_VALUES_H
#define CPEQ_HARNESS_CLI_VALUES_H

#include "harness/cli/command.h"
#include "harness/run/run.h"

/* For cp_value_choice: an index in [0, count) to its name. */
const char *cp_transport_value(int value);
const char *cp_attention_value(int value);

/* Working precisions: value 0, 1, … ; CP_WORKING_DTYPES of them. */
enum { CP_WORKING_DTYPES = 3 };
const char *cp_working_dtype_value(int value);
cp_dtype cp_working_dtype(int value);

enum { CP_MOST_RANKS = 1024 };

/* --transport, by default what this process was started by. CP_BAD_USAGE: mpi without a launcher. */
cp_status cp_read_transport(cp_transport *out, const cp_session *session, const cp_arguments *arguments);

/* --dp and --micro, into what is 0 where they are not given. */
cp_status cp_read_split(cp_run_options *options, const cp_arguments *arguments);

/* CP_BAD_USAGE where the launched processes are no multiple of P ranks in each of D groups (0: one). */
cp_status cp_check_processes(const cp_session *session, cp_transport transport, int64_t P, int D);

/* --fault decision=value, into decisions that are right. */
cp_status cp_read_fault(cp_decisions *decisions, const cp_arguments *arguments);

#endif

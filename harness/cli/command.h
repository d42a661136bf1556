/* A command: a row of the table in command_table.c and a function in a file of its own. */
#ifndef CPEQ_HARNESS_CLI_COMMAND_H
#define CPEQ_HARNESS_CLI_COMMAND_H

#include "harness/cli/options.h"

/* How this process was started and what every command was told. */
typedef struct cp_session {
    const char *command;
    bool mpi;               /* started by a launcher: every process runs the collective commands together */
    int process, processes; /* 0 of 1 without a launcher; only process 0 prints */
    bool json, quiet, verbose, color;
} cp_session;

typedef struct cp_command {
    const char *name;
    const char *operands; /* as help shows them */
    const char *summary;  /* one line */
    const cp_option *options;
    const char *details; /* values and an example, for --help */
    bool collective;     /* under MPI all processes run it; otherwise process 0 alone does */
    int (*run)(const cp_session *session, const cp_arguments *arguments); /* the exit status */
} cp_command;

extern const cp_command cp_commands[]; /* ends with a row without a name */

/* One a command, each in its own file. */
extern const cp_option cp_info_options[], cp_make_options[], cp_export_options[], cp_run_command_options[],
    cp_verify_options[], cp_diff_command_options[], cp_gate_options[], cp_calibrate_options[],
    cp_faults_options[];
int cp_command_info(const cp_session *session, const cp_arguments *arguments);
int cp_command_make(const cp_session *session, const cp_arguments *arguments);
int cp_command_export(const cp_session *session, const cp_arguments *arguments);
int cp_command_run(const cp_session *session, const cp_arguments *arguments);
int cp_command_verify(const cp_session *session, const cp_arguments *arguments);
int cp_command_diff(const cp_session *session, const cp_arguments *arguments);
int cp_command_gate(const cp_session *session, const cp_arguments *arguments);
int cp_command_calibrate(const cp_session *session, const cp_arguments *arguments);
int cp_command_faults(const cp_session *session, const cp_arguments *arguments);

/* Prints "cpeq <command>: <the last failure>" on standard error of process 0 and returns the exit status. */
int cp_complain(const cp_session *session, cp_status status);

/* CP_BAD_USAGE unless there are between `least` and `most` operands. */
cp_status cp_operands_check(const cp_arguments *arguments, int least, int most, const char *what);

#endif

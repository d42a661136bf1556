/* How a run ends when a rank cannot go on, or ranks disagree. */
#ifndef CPEQ_TESTS_PARALLEL_FAILURES_H
#define CPEQ_TESTS_PARALLEL_FAILURES_H

int run_failures_over_threads(void);        /* failed tests */
int run_failure_over_mpi(const char *name); /* does not return where all is well: the job is aborted */

#endif

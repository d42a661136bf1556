/* The groups of test_exchanges and of test_faults; each gives the number of failed tests. */
#ifndef CPEQ_TESTS_PARALLEL_GROUPS_H
#define CPEQ_TESTS_PARALLEL_GROUPS_H

int run_exchange_tests(void);
int run_collective_tests(void); /* sums, carries, reductions, embeddings' gradients */
int run_passing_tests(void);
int run_ring_plan_tests(void);
int run_shard_tests(void);
int run_mesh_tests(void);
int run_usp_tests(void);
int run_disturbed_tests(void);

/* Started by mpirun: every process compares its own rows and sums; the number that differ. */
int compare_exchanges_over_mpi(void);
int compare_collectives_over_mpi(void);

/* A rank fails inside the exchange of this name; does not return where all is well: the job is aborted. */
int fail_exchange_over_mpi(const char *name);

int run_heads_tests(void);
int run_alltoall_tests(void);
int run_loss_plan_tests(void);
int run_dump_plan_tests(void);
int run_decisions_tests(void);

#endif

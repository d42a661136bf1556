/* How much work this process may do at once. */
#ifndef CPEQ_BASE_PROCESSORS_H
#define CPEQ_BASE_PROCESSORS_H

/* Processors that this process may run on, at least 1: fewer than the machine has under taskset, a cpuset or a batch
 * system's share of a node. */
int cp_processors(void);

#endif

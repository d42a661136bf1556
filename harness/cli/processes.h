/* Work that is done by several processes at once: the HDF5 library knows no threads, and a file that it does not survive
 * takes one piece of work with it and not all. */
#ifndef CPEQ_HARNESS_CLI_PROCESSES_H
#define CPEQ_HARNESS_CLI_PROCESSES_H

#include <stddef.h>
#include <stdio.h>

/* In a process of its own: does a piece of work and writes its answer. Whatever else it changes is lost with it. */
typedef void cp_work(void *context, size_t piece, FILE *answer);

/* In this process, in any order: what the answer was. `sentence` NULL: whole; else why there is none. */
typedef void cp_work_done(void *context, size_t piece, const char *answer, size_t bytes,
                          const char *sentence);

/* Does `count` pieces, at most `processes` at a time. No other thread of this process may run. */
void cp_work_in_processes(size_t count, int processes, cp_work *work, cp_work_done *done, void *context);

#endif

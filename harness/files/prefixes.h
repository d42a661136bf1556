/* Prefixes that wrappers put before and into the names of parameters. */
#ifndef CPEQ_HARNESS_FILES_PREFIXES_H
#define CPEQ_HARNESS_FILES_PREFIXES_H

#include "harness/files/results.h"
#include "harness/files/text.h"

/* Drops the known prefixes from the gradients' names and from `absent` (a list, replaced), and says so in the notes;
 * where two names would become one, nothing is dropped and the notes say that. Sorts the results again. */
cp_status cp_prefixes_drop(cp_results *results, cp_pool *pool, const char **absent);

/* Drops prefixes that the file itself declares (a list) from all names of results, as often as they stand there, and from
 * `absent`. CP_INCOMPARABLE where two names become one. */
cp_status cp_prefixes_strip(cp_results *results, cp_pool *pool, const char **absent, const char *declared);

/* A name without the known ones. */
void cp_prefixes_bare(char bare[CP_NAME_BYTES], const char *name);

#endif

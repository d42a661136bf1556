/* The files that operands mean. */
#ifndef CPEQ_HARNESS_CLI_COLLECT_H
#define CPEQ_HARNESS_CLI_COLLECT_H

#include "base/status.h"

typedef struct cp_collected {
    char *path;
    char *name; /* "llama/packed7": the last two parts of the path without ".h5" */
} cp_collected;

typedef struct cp_collection {
    cp_collected *files;
    int count;
} cp_collection;

/* Files as they are given, folders searched for *.h5 with their subfolders, in order of name; each file once. `glob`,
 * NULL for all, is matched with the names. CP_BAD_INPUT: an operand that does not exist. Close on failure too. */
cp_status cp_collect(cp_collection *collection, const char *const *operands, int count, const char *glob);
/* The same of whatever dumps are made of, below one folder: *.h5, and dump.json, which makes its folder a dump. */
cp_status cp_collect_dumps(cp_collection *collection, const char *folder);

void cp_collection_close(cp_collection *collection);

char *cp_collected_name(const char *path); /* the name of one, freed by free() */

#endif

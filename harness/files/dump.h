/* A dump: what one run of any implementation produced, whole or one file a rank. */
#ifndef CPEQ_HARNESS_FILES_DUMP_H
#define CPEQ_HARNESS_FILES_DUMP_H

#include "base/tokens/batch.h"
#include "harness/files/source.h"

/* Opens one dump file as a source (its own rank's part where it is one). CP_BAD_INPUT names file and object;
 * CP_INCOMPARABLE for a declaration that a judge must have and the file lacks, or that this version does not know. */
cp_status cp_dump_open(cp_source **out, const char *path);

/* Opens files and directories (a directory means all its *.h5 in order of name, else the
 * dump of safetensors that it is, or those that its folders are) and joins them. `batch`, which may be
 * NULL, is the one that they ran: it gives their extents, and the divisor of a loss that they did not divide; so is `fixture_id`, which ranks must be of.
 * CP_INCOMPARABLE for a directory without any, and for a dump of an attention function where the batch has labels, or the
 * reverse. */
cp_status cp_dumps_open(cp_source **out, const char *const *paths, size_t count, const cp_batch *batch,
                        const char *fixture_id);

/* Writes any source, with its declaration, as a dump: beside `path`, renamed when complete, the same content the same
 * bytes. What is not finite is written as it is. */
cp_status cp_dump_write(const char *path, const cp_source *source);

/* ---- atomic files, for every writer -------------------------------------------------------------------------------
 * A name beside `path` that holds this process's id; files of the same pattern whose process is gone are removed. */
enum { CP_PATH_BYTES = 4096 };
cp_status cp_temporary_name(char out[CP_PATH_BYTES], const char *path);
cp_status cp_temporary_commit(const char *temporary,
                              const char *path); /* fsync and rename; removed on failure */
/* Whether there is room for as much more as `like` holds, which is taken and given back: where the HDF5 library copies
 * and cannot write, it dies. */
cp_status cp_temporary_reserve(const char *temporary, const char *like);
void cp_temporary_discard(const char *temporary); /* after a failure to write it */

#endif

/* What every file of the format begins with. */
#ifndef CPEQ_HARNESS_FILES_HEADER_H
#define CPEQ_HARNESS_FILES_HEADER_H

#include "harness/files/h5file.h"

enum { CP_FORMAT_VERSION = 1 };

/* The kind of a file whose format and version are checked: CP_BAD_INPUT where they are others. */
cp_status cp_header_read(cp_h5 *file, cp_pool *pool, const char **kind);

cp_status cp_header_write(cp_h5 *file, const char *kind);

/* A text attribute, "" where there is none. */
cp_status cp_text_or_empty(cp_h5 *file, cp_pool *pool, const char *object, const char *name,
                           const char **out);

#endif

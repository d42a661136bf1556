/* What a dump says about its own names and layouts: which tensor of its file is which of the state dict, transposed,
 * cut into several, or with padding behind it. */
#ifndef CPEQ_HARNESS_FILES_NAME_MAP_H
#define CPEQ_HARNESS_FILES_NAME_MAP_H

#include "harness/files/source.h"

/* Replaces `*source` by what `text` (JSON; the file-format document, name_map) makes of it, and takes it over: closed
 * with the new one, and on failure, when `*source` is NULL. Values are taken from their places as they are read.
 * CP_BAD_INPUT for what is no such list; CP_INCOMPARABLE for one that does not fit the tensors, for keys that are not
 * known, and for a gradient whose padding is not zero. */
cp_status cp_name_map_apply(cp_source **source, const char *text);

#endif

/* --layout. */
#ifndef CPEQ_HARNESS_CLI_LAYOUTS_H
#define CPEQ_HARNESS_CLI_LAYOUTS_H

#include "base/tokens/layout.h"
#include "harness/cli/options.h"

/* One layout; *out is left alone where none is given. CP_BAD_USAGE as cp_layout_parse. */
cp_status cp_read_layout(cp_layout_spec *out, const cp_arguments *arguments);

/* A list of at most `room`, or "all": every kind, without parameters. A comma before a digit is one between cuts. */
cp_status cp_read_layouts(cp_layout_spec *out, int *count, int room, const cp_arguments *arguments);

#endif

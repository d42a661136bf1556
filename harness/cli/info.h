/* The parts of `info`. */
#ifndef CPEQ_HARNESS_CLI_INFO_H
#define CPEQ_HARNESS_CLI_INFO_H

#include "base/tokens/tokens.h"
#include "harness/cli/command.h"
#include "harness/files/fixture.h"

/* How a batch would be cut. */
typedef struct cp_cut {
    int P; /* 1: not at all */
    cp_layout_spec layout;
} cp_cut;

/* Draws the rows of a batch that has passed cp_batch_check, and `cut` cp_layout_check: documents, padding, targets and
 * cuts, or the ranks of tokens where the layout permutes them. */
void cp_draw_batch(const cp_batch *batch, const cp_cut *cut);

/* Draws the [T,T] of a row, 1 = visible, with the same. */
void cp_draw_mask(const uint8_t *mask, const cp_batch *batch, int64_t row, const cp_cut *cut);

/* ---- with the engine ---------------------------------------------------------------------------------------------- */

/* Model and memory of a configuration: what the reference makes of it. Printed, or set in `json` where it is not NULL.
 * CP_REFUSED: the reference does not know it. */
cp_status cp_info_model(cp_json *json, const cp_fixture *fixture, const cp_cut *cut);

/* The same of a configuration without weights, for one row of `length` tokens. */
cp_status cp_info_config_model(cp_json *json, const cp_json *config, const char *path, int64_t length,
                               const cp_cut *cut);

/* Who sees whom in a layer: drawn row by row, or set in `json` as lines of '#' and '.'. */
cp_status cp_info_mask(cp_json *json, const cp_fixture *fixture, int64_t layer, const cp_cut *cut);

#endif

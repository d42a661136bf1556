/* Hugging Face folders: config.json, model.safetensors, batch.safetensors. */
#ifndef CPEQ_HARNESS_CLI_HUB_H
#define CPEQ_HARNESS_CLI_HUB_H

#include "harness/files/fixture.h"

/* Writes the three files into a folder, which is made. */
cp_status cp_hub_write(const char *folder, const cp_fixture *fixture);

/* All tensors of a safetensors file as weights; float16 becomes float32, which holds it exactly. Arrays and names live
 * in `arena` (growing). */
cp_status cp_hub_read_weights(cp_weight **out, size_t *count, const char *path, cp_arena *arena);

/* A batch as cp_hub_write writes it: tensors are the members of a fixture's /batch. CP_BAD_INPUT: an unknown name, a
 * type or a shape that does not fit. */
cp_status cp_hub_read_batch(cp_batch *out, const char *path, cp_arena *arena);

#endif

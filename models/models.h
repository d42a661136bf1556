/* From config.json to a program. */
#ifndef CPEQ_MODELS_MODELS_H
#define CPEQ_MODELS_MODELS_H

#include "base/json.h"
#include "reference/program.h"

/* Builds the program that `config` (an object of transformers' config.json) describes; closed by cp_program_close.
 * `where` begins every sentence. CP_REFUSED: a family or an option that the reference does not know; it is never
 * approximated. CP_BAD_INPUT: a field of another type, or values that contradict each other. */
cp_status cp_models_build(cp_program **out, const cp_json *config, const char *where);

/* Names of the families (model_type), in order; NULL past the end. */
const char *cp_models_family(size_t index);

/* A small configuration of a family with every field that its builder branches on; NULL: no such family. */
const char *cp_models_example(const char *family);

#endif

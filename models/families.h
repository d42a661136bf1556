/* The table of families: one builder each. Private to models/. */
#ifndef CPEQ_MODELS_FAMILIES_H
#define CPEQ_MODELS_FAMILIES_H

#include "models/decoder.h"

typedef cp_status cp_family_builder(cp_decoder *decoder, const cp_config *config);

cp_family_builder cp_family_gemma2, cp_family_gemma3_text, cp_family_gpt_oss, cp_family_llama,
    cp_family_llama4_text, cp_family_mistral, cp_family_mixtral, cp_family_qwen2, cp_family_qwen3;

#endif

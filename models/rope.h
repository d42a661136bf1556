/* Rope settings of config.json, in either spelling, as inverse frequencies. */
#ifndef CPEQ_MODELS_ROPE_H
#define CPEQ_MODELS_ROPE_H

#include "models/config.h"

/* What one rope is made from. */
typedef struct cp_rope_settings {
    enum { CP_ROPE_DEFAULT, CP_ROPE_LINEAR, CP_ROPE_LLAMA3 } type;
    double theta;
    double factor;                     /* linear, llama3 */
    double low, high, original_length; /* llama3 */
} cp_rope_settings;

/* `rope_parameters` (transformers 5), or `rope_theta`, `rope_scaling` (older), which replaces it where both are there.
 * `theta`: the family's default. CP_REFUSED: a type that the reference does not know. */
cp_status cp_rope_read(cp_rope_settings *settings, const cp_config *config, double theta);

/* One of two ropes: `rope_parameters.<which>`, its theta from the older field `theta_field`; a given `rope_scaling` is
 * merged into it where `scaled`. (gemma3_text) */
cp_status cp_rope_read_nested(cp_rope_settings *settings, const cp_config *config, const char *which,
                              const char *theta_field, bool scaled, double theta);

/* frequency[j], j < pairs:  θ^(−j/pairs); linear: divided by factor; llama3: w = 2π/frequency, unchanged where
 * w < original/high, divided by factor where w > original/low, else (1−u)·f/factor + u·f with
 * u = (original/w − low)/(high − low). Source: transformers' modeling_rope_utils. */
void cp_rope_frequencies(double *frequency, int64_t pairs, const cp_rope_settings *settings);

#endif

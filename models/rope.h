/* Rope settings of config.json, in either spelling, as inverse frequencies. */
#ifndef CPEQ_MODELS_ROPE_H
#define CPEQ_MODELS_ROPE_H

#include "models/config.h"

/* What one rope is made from. */
typedef struct cp_rope_settings {
    enum { CP_ROPE_DEFAULT, CP_ROPE_LINEAR, CP_ROPE_LLAMA3, CP_ROPE_YARN } type;
    double theta;
    double factor;            /* all but default */
    double original_length;   /* llama3, yarn */
    double low, high;         /* llama3 */
    double fast, slow;        /* yarn */
    bool truncate;            /* yarn */
    double attention_scaling; /* yarn */
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
 * u = (original/w − low)/(high − low); yarn: with d = 2·pairs, channel(n) = d ln(original/(2πn)) / (2 ln θ),
 * lo = channel(fast), hi = channel(slow), where `truncate` floored and ceiled, inside [0, d−1]:
 * (1−r)·f + r·f/factor with r = (j − lo)/(hi − lo), inside [0,1]. Source: transformers' modeling_rope_utils. */
void cp_rope_frequencies(double *frequency, int64_t pairs, const cp_rope_settings *settings);

/* On cosines and sines: yarn's attention_factor, else 1. */
double cp_rope_attention_scaling(const cp_rope_settings *settings);

#endif

/* The usual decoder: attention and a gated MLP in residual blocks. Its axes are what the usual families differ in; a
 * family's builder fills them from its config.json and reads like its modeling file. Private to models/. */
#ifndef CPEQ_MODELS_DECODER_H
#define CPEQ_MODELS_DECODER_H

#include "models/config.h"
#include "models/rope.h"
#include "reference/program.h"

typedef enum cp_qk_norm {
    CP_QK_NORM_NONE,
    CP_QK_NORM_BEFORE_ROPE, /* with weights, per head (qwen3, gemma3) */
    CP_QK_NORM_AFTER_ROPE   /* without, on layers that have rope (llama4) */
} cp_qk_norm;

typedef struct cp_decoder_layer {
    cp_mask mask;
    int rope;      /* which of the decoder's ropes; -1: none */
    bool tempered; /* q scaled by the token's index */
} cp_decoder_layer;

/* What a layer has in place of the MLP. */
typedef struct cp_decoder_experts {
    int64_t count;      /* 0: an MLP */
    int64_t chosen;     /* by each token */
    const char *router; /* its name */
    bool biased;        /* the router and the experts */
    cp_experts_form form;
    cp_balance balance;
} cp_decoder_experts;

enum { CP_DECODER_ROPES = 2, CP_DECODER_LAYERS = 512 };

typedef struct cp_decoder {
    const char *family;
    int64_t C, F, V, L, H, K, D;
    int64_t padding_id; /* -1: none */
    bool tied;
    double embed_scale; /* of looked-up embeddings */
    double epsilon;
    cp_norm_weight norm; /* how every norm's weight multiplies */
    bool sandwich;       /* norms after attention and MLP too */
    bool qkv_bias, o_bias, mlp_bias;
    bool sinks;
    cp_qk_norm qk_norm;
    double scale, softcap, final_softcap; /* softcaps: 0 for none */
    cp_activation activation;
    const char *mlp; /* "mlp", "feed_forward" */
    cp_decoder_experts experts;
    cp_rope_settings ropes[CP_DECODER_ROPES];
    int rope_count;
    cp_rope_layout rope_layout;
    double temperature_scale, temperature_floor;
    cp_decoder_layer layers[CP_DECODER_LAYERS];
} cp_decoder;

/* What every family's defaults differ in; see cp_decoder_read. */
typedef struct cp_decoder_defaults {
    int64_t V, C, F, L, H;
    int64_t K;                /* 0: as many as H */
    int64_t K_null;           /* what null means: 0 as H, -1 refused */
    int64_t D;                /* 0: C/H */
    int64_t D_null;           /* what null means: 0 C/H, -1 refused */
    const char *feed_forward; /* the field's name */
    const char *activation;   /* the field's name */
    const char *activation_default;
    double epsilon;
    bool tied;
    int64_t padding_id;
    bool divides; /* the class demands that H divides C */
} cp_decoder_defaults;

/* Reads sizes, epsilon, activation, tying and padding; refuses what no family of this kind knows (dropout,
 * quantization, bidirectional attention). The other axes stay zero. */
cp_status cp_decoder_read(cp_decoder *decoder, const cp_config *config, const char *family,
                          const cp_decoder_defaults *defaults);

/* The window of layers that slide: from `sliding_window`, 4096 where absent. 0 where it is null. */
cp_status cp_decoder_window(int64_t *window, const cp_config *config);

/* One word of `layer_types` for a layer, or NULL where the list is absent. CP_REFUSED for a word outside `known`
 * (NULL-terminated). */
cp_status cp_decoder_layer_type(const char **type, const cp_config *config, const cp_decoder *decoder,
                                int64_t layer, const char *const *known);

/* A sliding layer needs a window: CP_REFUSED without. */
cp_status cp_decoder_slide(cp_decoder *decoder, const cp_config *config, int64_t layer, int64_t window);

cp_program *cp_decoder_program(const cp_decoder *decoder);

#endif

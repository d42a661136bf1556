/* A model as data: its parameters, its registers, and the steps that each write registers once. No weights, no code.
 *
 * Builders (models/) make programs through the functions at the end; the walk (network.h) runs them. */
#ifndef CPEQ_REFERENCE_PROGRAM_H
#define CPEQ_REFERENCE_PROGRAM_H

#include "base/tokens/visibility.h"
#include "reference/ops.h"

enum { CP_PROGRAM_NAME = 96, CP_STEP_INPUTS = 3 };

/* What a parameter is, for reductions that leave a class out and for reports. */
typedef enum cp_parameter_class {
    CP_PARAMETER_OTHER,
    CP_PARAMETER_NORM,
    CP_PARAMETER_EMBEDDING,
    CP_PARAMETER_HEAD, /* the output projection, where it is a parameter of its own */
    CP_PARAMETER_BIAS,
    CP_PARAMETER_TIED, /* embedding and output projection in one */
    CP_PARAMETER_SINK,
    CP_PARAMETER_CLASSES
} cp_parameter_class;

typedef struct cp_parameter {
    char name[CP_PROGRAM_NAME]; /* the framework's state-dict name */
    char tied[CP_PROGRAM_NAME]; /* another name of the same tensor, or "" */
    cp_parameter_class class;
    cp_norm_weight norm; /* of a norm's weight: how it multiplies */
    int dims;
    int64_t extent[3]; /* the framework's storage */
    int64_t fan_in;    /* how many products each output sums up; 0: no matrix */
} cp_parameter;

/* A register holds [B,S,width] or [B,S,heads,width]; a view is another shape of its parent's memory. */
typedef struct cp_register {
    char name[CP_PROGRAM_NAME]; /* of trace nodes: "embed", "layer.0.out", "final"; else "" */
    int64_t heads;              /* 0: [B,S,width] */
    int64_t width;
    int parent;   /* -1: memory of its own */
    int segment;  /* where it is written */
    bool crosses; /* read in another segment too, or a trace node: it outlives its segment */
} cp_register;

typedef enum cp_step_kind {
    CP_STEP_EMBED,       /* out = scale · table[ids]; given inputs_embeds they are copied, unscaled */
    CP_STEP_LINEAR,      /* out = in · weightᵀ (+ bias) */
    CP_STEP_NORM,        /* RMS over the last axis */
    CP_STEP_ROPE,        /* by the rope table `table` */
    CP_STEP_TEMPERATURE, /* out = factor(index) · in, by the temperature table `table` */
    CP_STEP_ATTENTION,   /* out = attend(in0 = q, in1 = k, in2 = v) */
    CP_STEP_ROUTER,      /* out = the weights of the experts, from their scores in0 */
    CP_STEP_EXPERTS,     /* out = Σ in1[e] · expert e (in0) */
    CP_STEP_GATE,        /* out = act(in0) · in1 */
    CP_STEP_ADD,         /* out = in0 + in1 */
    CP_STEP_HEAD,        /* out = softcap(in · weightᵀ): the logits; the last step */
    CP_STEP_KINDS
} cp_step_kind;

typedef struct cp_step {
    cp_step_kind kind;
    int segment;
    int out;
    int in[CP_STEP_INPUTS]; /* registers; -1: none */
    int weight, bias;       /* parameters; -1: none. Of attention the weight is the sink */
    int down, down_bias;    /* experts: parameters; weight and bias are those of gate and up */
    int64_t chosen;         /* router: how many experts a token takes */
    cp_experts_form experts;
    int table;      /* rope, temperature: which */
    int mask;       /* attention: which of the program's masks */
    int layer;      /* attention: the layer's number */
    double scale;   /* embed, attention */
    double softcap; /* attention, head; 0: none */
    double epsilon; /* norm */
    cp_norm_weight norm;
    cp_activation activation;
} cp_step;

typedef struct cp_rope {
    double *inverse_frequency; /* [pairs] */
    int64_t pairs;
    double attention_scaling; /* on cos and sin */
    cp_rope_layout layout;
} cp_rope;

/* q is multiplied by 1 + scale · ln(1 + ⌊(index + 1) / floor⌋), index counted in the row, padding included
 * (transformers' Llama4TextAttention). */
typedef struct cp_temperature {
    double scale, floor;
} cp_temperature;

/* The loss that keeps experts evenly used, added to that of the tokens (transformers' load_balancing_loss_func): over
 * the real tokens n of all router steps, N of them in all, with p the softmax of a token's scores
 *   E Σ_e (how many took e / N) (Σ_n p_ne / N)        times `coefficient` */
typedef struct cp_balance {
    bool given;
    double coefficient;
} cp_balance;

typedef struct cp_program {
    char family[CP_PROGRAM_NAME];
    int64_t C, F, V, L, H, K,
        D;     /* hidden, feed-forward, vocabulary, layers, heads, key/value heads, head size */
    int64_t E; /* experts a layer; 0: none */
    cp_balance balance;
    int64_t
        padding_id; /* the embedding row without look-up gradient, and what padding is filled with; -1: none */
    int parameter_count, register_count, step_count, segment_count, rope_count, temperature_count, mask_count;
    cp_parameter *parameters;
    cp_register *registers;
    cp_step *steps;
    cp_rope *ropes;
    cp_temperature *temperatures;
    cp_mask *masks;
    int *layer_mask;          /* [L] which mask a layer's attention applies */
    int32_t *key_head;        /* [H]: ⌊h·K/H⌋ */
    int embedding;            /* parameter */
    int embed, final, logits; /* registers */
} cp_program;

/* ---- building --------------------------------------------------------------------------------------------------- */

cp_program *cp_program_open(const char *family);
void cp_program_close(cp_program *program); /* NULL is allowed */

/* Begins the next segment; everything after it belongs there. The first segment is begun by cp_program_open. */
void cp_program_segment(cp_program *program);

/* Parameters; `columns` 0: one axis. Names are printf-formatted. Returns the parameter. */
int cp_program_parameter(cp_program *program, cp_parameter_class class, int64_t rows, int64_t columns,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A stack of matrices, one an expert. */
int cp_program_stack(cp_program *program, int64_t count, int64_t rows, int64_t columns, int64_t fan_in,
                     const char *format, ...) __attribute__((format(printf, 6, 7)));

int cp_program_rope(cp_program *program, const double *inverse_frequency, int64_t pairs,
                    double attention_scaling, cp_rope_layout layout);
int cp_program_temperature(cp_program *program, double scale, double floor);
int cp_program_mask(cp_program *program, cp_mask mask); /* equal masks are one */

/* Steps; each returns the register that it writes. */
int cp_program_embed(cp_program *program, int table, double scale);
int cp_program_linear(cp_program *program, int in, int weight, int bias);
int cp_program_norm(cp_program *program, int in, int weight, cp_norm_weight kind, double epsilon);
int cp_program_rotate(cp_program *program, int in, int rope);
int cp_program_temper(cp_program *program, int in, int temperature);
int cp_program_attention(cp_program *program, int q, int k, int v, int sink, int layer, int mask,
                         double scale, double softcap);
int cp_program_router(cp_program *program, int logits, int64_t chosen);
/* `parameters`: up, its biases, down, its biases; -1: none. */
int cp_program_experts(cp_program *program, int in, int weights, const int parameters[4],
                       cp_experts_form form);
int cp_program_gate(cp_program *program, int gate, int up, cp_activation activation);
int cp_program_add(cp_program *program, int a, int b);
int cp_program_head(cp_program *program, int in, int weight, double softcap);

/* [B,S,heads·width] as [B,S,heads,width], or back with heads 0: a view, no step. */
int cp_program_view(cp_program *program, int in, int64_t heads, int64_t width);

/* The embedding is the output projection too, under this other name. */
void cp_program_tie(cp_program *program, int parameter, const char *name);

/* Names a register as a trace node. */
void cp_program_trace(cp_program *program, int in, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Finds out which registers cross segments. Called once, last. */
void cp_program_finish(cp_program *program);

/* The parameter of that name, tied names included; -1: none. */
int cp_program_find(const cp_program *program, const char *name);

#endif

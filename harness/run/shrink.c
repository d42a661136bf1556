#include "harness/run/make.h"
#include "models/models.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What makes two layers of a program the same kind. */
typedef struct layer_kind {
    cp_mask mask;
    int rope; /* -1: none */
    bool tempered;
} layer_kind;

static layer_kind kind_of(const cp_program *program, int64_t layer)
{
    layer_kind kind = {.mask = program->masks[program->layer_mask[layer]], .rope = -1};
    for (int s = 0; s < program->step_count; s++) {
        const cp_step *step = &program->steps[s];
        if (step->segment != (int)layer + 1) /* segment 0 is the embedding */
            continue;
        if (step->kind == CP_STEP_ROPE)
            kind.rope = step->table;
        kind.tempered = kind.tempered || step->kind == CP_STEP_TEMPERATURE;
    }
    return kind;
}

static bool same_kind(layer_kind a, layer_kind b)
{
    return a.mask.window == b.mask.window && a.mask.chunk == b.mask.chunk && a.rope == b.rope &&
           a.tempered == b.tempered;
}

/* The first layer of each kind, in order; returns how many. */
static int64_t kept_layers(layer_kind *kept, const cp_program *program)
{
    int64_t count = 0;
    for (int64_t layer = 0; layer < program->L; layer++) {
        layer_kind kind = kind_of(program, layer);
        bool seen = false;
        for (int64_t n = 0; n < count; n++)
            seen = seen || same_kind(kept[n], kind);
        if (!seen)
            kept[count++] = kind;
    }
    return count;
}

/* ---- writing the small configuration ---------------------------------------------------------------------------- */

enum {
    SMALL_C = 16,
    SMALL_F = 32,
    SMALL_V = 37,
    SMALL_H = 4,
    SMALL_K = 2,
    SMALL_D = 8,
    SMALL_E = 4,
    SMALL_CHOSEN = 2,
    SMALL_SPAN = 3
};

static bool given(const cp_json *object, const char *name)
{
    const cp_json *value = cp_json_member(object, name);
    return value && cp_json_kind_of(value) != CP_JSON_NULL;
}

static void set_if_given(cp_json *out, const char *name, int64_t value)
{
    if (given(out, name))
        cp_json_set_integer(out, name, value);
}

static void set_sizes(cp_json *out, const cp_program *program, bool mlp_field)
{
    int64_t K = program->K == program->H ? SMALL_H : program->K == 1 ? 1 : SMALL_K;
    cp_json_set_integer(out, "hidden_size", SMALL_C);
    cp_json_set_integer(out, "vocab_size", SMALL_V);
    cp_json_set_integer(out, "num_attention_heads", SMALL_H);
    cp_json_set_integer(out, "num_key_value_heads", K);
    cp_json_set_integer(out, mlp_field ? "intermediate_size_mlp" : "intermediate_size", SMALL_F);
    set_if_given(out, "head_dim", SMALL_D);
    set_if_given(out, "sliding_window", SMALL_SPAN);
    set_if_given(out, "attention_chunk_size", SMALL_SPAN);
    if (program->E) {
        cp_json_set_integer(out, "num_local_experts", SMALL_E);
        cp_json_set_integer(out, "num_experts_per_tok", SMALL_CHOSEN);
    }
    if (program->padding_id >= SMALL_V)
        cp_json_set_integer(out, "pad_token_id", SMALL_SPAN);
}

static const char *layer_type(layer_kind kind)
{
    return kind.mask.window ? "sliding_attention" : kind.mask.chunk ? "chunked_attention" : "full_attention";
}

/* Lists that have an element a layer are written out, also where the family derives them. */
static void set_layers(cp_json *out, const layer_kind *kept, int64_t count, bool types, bool ropes)
{
    cp_json_set_integer(out, "num_hidden_layers", count);
    cp_json *type_list = cp_json_new_array();
    cp_json *rope_list = cp_json_new_array();
    for (int64_t n = 0; n < count; n++) {
        cp_json_append_string(type_list, layer_type(kept[n]));
        cp_json_append_integer(rope_list, kept[n].rope >= 0);
    }
    if (types)
        cp_json_set(out, "layer_types", type_list);
    else
        cp_json_close(type_list);
    if (ropes)
        cp_json_set(out, "no_rope_layers", rope_list);
    else
        cp_json_close(rope_list);
}

cp_status cp_make_shrunk(char **out, const char *config_text, const char *where)
{
    cp_json *config;
    cp_program *program = NULL;
    CP_TRY(cp_json_parse(&config, config_text, strlen(config_text), where));
    cp_status status = cp_models_build(&program, config, where);
    layer_kind *kept = status == CP_OK ? calloc((size_t)program->L, sizeof *kept) : NULL;
    if (status == CP_OK && !kept)
        status = cp_fail(CP_INTERNAL, "%s: no memory for %" PRId64 " layers", where, program->L);
    if (status == CP_OK) {
        bool llama4 = strcmp(program->family, "llama4_text") == 0;
        bool uniform = strcmp(program->family, "llama") == 0 || strcmp(program->family, "mistral") == 0 ||
                       strcmp(program->family, "mixtral") == 0;
        cp_json *small = cp_json_copy(config);
        set_sizes(small, program, llama4);
        set_layers(small, kept, kept_layers(kept, program), !uniform, llama4);
        *out = cp_json_text(small);
        cp_json_close(small);
    }
    free(kept);
    cp_program_close(program);
    cp_json_close(config);
    return status;
}

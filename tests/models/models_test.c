/* From config.json to a program: defaults, both spellings of rope, and every refusal. */
#include "models/models.h"

#include "tests/support/support.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static cp_status build(cp_program **program, const char *text)
{
    cp_json *config;
    CP_TRY(cp_json_parse(&config, text, strlen(text), "c.json"));
    cp_status status = cp_models_build(program, config, "c.json");
    cp_json_close(config);
    return status;
}

static cp_program *built(const char *text)
{
    cp_program *program = NULL;
    assert_ok(build(&program, text));
    return program;
}

static void examples_build(void **state)
{
    (void)state;
    size_t families = 0;
    for (const char *name; (name = cp_models_family(families)); families++) {
        cp_program *program = built(cp_models_example(name));
        assert_string_equal(program->family, name);
        assert_true(program->parameter_count > 10 && program->mask_count >= 1);
        assert_int_equal(program->segment_count, program->L + 2);
        cp_program_close(program);
    }
    assert_in_range(families, 7, 1000);
    assert_null(cp_models_example("gpt5"));
}

/* What transformers 5.23's configuration classes have where a field is absent. */
static void absent_fields_have_the_class_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        int64_t V, C, F, L, H, K, D, padding_id, window;
        double theta, epsilon;
    } cases[] = {
        {"{\"model_type\": \"llama\"}", 32000, 4096, 11008, 32, 32, 32, 128, -1, 0, 1e4, 1e-6},
        {"{\"model_type\": \"qwen2\"}", 151936, 4096, 22016, 32, 32, 32, 128, -1, 0, 1e4, 1e-6},
        {"{\"model_type\": \"qwen3\"}", 151936, 4096, 22016, 32, 32, 32, 128, -1, 0, 1e4, 1e-6},
        {"{\"model_type\": \"mistral\"}", 32000, 4096, 14336, 32, 32, 8, 128, -1, 4096, 1e4, 1e-6},
        {"{\"model_type\": \"gemma2\"}", 256000, 2304, 9216, 26, 8, 4, 256, 0, 4096, 1e4, 1e-6},
        {"{\"model_type\": \"gemma3_text\"}", 262208, 2304, 9216, 26, 8, 4, 256, 0, 4096, 1e6, 1e-6},
        {"{\"model_type\": \"llama4_text\", \"moe_layers\": []}", 202048, 5120, 16384, 48, 40, 8, 128, -1, 0,
         5e5, 1e-5},
        {"{\"model_type\": \"mixtral\"}", 32000, 4096, 14336, 32, 32, 8, 128, -1, 0, 1e6, 1e-5},
        {"{\"model_type\": \"gpt_oss\", \"rope_parameters\": {\"rope_type\": \"default\"}}", 201088, 2880,
         2880, 36, 64, 8, 64, -1, 128, 1.5e5, 1e-5},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        cp_program *p = built(cases[n].config);
        assert_int_equal(p->V, cases[n].V);
        assert_int_equal(p->C, cases[n].C);
        assert_int_equal(p->F, cases[n].F);
        assert_int_equal(p->L, cases[n].L);
        assert_int_equal(p->H, cases[n].H);
        assert_int_equal(p->K, cases[n].K);
        assert_int_equal(p->D, cases[n].D);
        assert_int_equal(p->padding_id, cases[n].padding_id);
        assert_int_equal(p->masks[p->layer_mask[0]].window, cases[n].window);
        assert_near(p->ropes[0].inverse_frequency[1], pow(cases[n].theta, -2.0 / (double)p->D), 1e-15);
        for (int s = 0; s < p->step_count; s++)
            if (p->steps[s].kind == CP_STEP_NORM)
                assert_near(p->steps[s].epsilon, cases[n].epsilon, 0);
        cp_program_close(p);
    }
}

static int count_kind(const cp_program *program, cp_step_kind kind)
{
    int count = 0;
    for (int s = 0; s < program->step_count; s++)
        count += program->steps[s].kind == kind;
    return count;
}

static void layers_follow_the_configuration(void **state)
{
    (void)state;
    /* gemma3: five sliding layers, then a full one, each kind with a rope of its own */
    cp_program *p = built("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 7}");
    for (int64_t i = 0; i < 7; i++)
        assert_int_equal(p->masks[p->layer_mask[i]].window, i == 5 ? 0 : 4096);
    assert_int_equal(p->rope_count, 2);
    assert_near(p->ropes[1].inverse_frequency[1], pow(1e4, -2.0 / 256), 1e-15);
    cp_program_close(p);

    p = built("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"sliding_window_pattern\": 2}");
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(p->masks[p->layer_mask[i]].window, i % 2 ? 0 : 4096);
    cp_program_close(p);

    /* llama4: every fourth layer has no rope, no chunk, no norm of q and k, but a temperature */
    p = built("{\"model_type\": \"llama4_text\", \"moe_layers\": [], \"num_hidden_layers\": 4, "
              "\"no_rope_layers\": []}");
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(p->masks[p->layer_mask[i]].chunk, i == 3 ? 0 : 8192);
    assert_int_equal(count_kind(p, CP_STEP_ROPE), 6);
    assert_int_equal(count_kind(p, CP_STEP_TEMPERATURE), 1);
    assert_int_equal(count_kind(p, CP_STEP_NORM), 4 * 2 + 6 + 1);
    assert_int_equal(p->ropes[0].layout, CP_ROPE_INTERLEAVED);
    cp_program_close(p);

    p = built("{\"model_type\": \"llama4_text\", \"moe_layers\": [9], \"num_hidden_layers\": 2, "
              "\"no_rope_layers\": [0, 1], \"layer_types\": [\"chunked_attention\", \"full_attention\"], "
              "\"attn_temperature_tuning\": false, \"use_qk_norm\": false}");
    assert_int_equal(p->masks[p->layer_mask[0]].chunk, 8192);
    assert_int_equal(count_kind(p, CP_STEP_TEMPERATURE), 0);
    assert_int_equal(count_kind(p, CP_STEP_NORM), 5);
    cp_program_close(p);

    /* qwen: windows only where they are switched on, from max_window_layers on */
    p = built("{\"model_type\": \"qwen3\", \"num_hidden_layers\": 3, \"use_sliding_window\": true, "
              "\"max_window_layers\": 2, \"sliding_window\": 9}");
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(p->masks[p->layer_mask[i]].window, i == 2 ? 9 : 0);
    cp_program_close(p);

    p = built("{\"model_type\": \"mistral\", \"sliding_window\": null, \"head_dim\": null}");
    assert_int_equal(p->masks[0].window, 0);
    assert_int_equal(p->D, 128);
    cp_program_close(p);

    p = built("{\"model_type\": \"gemma2\", \"num_hidden_layers\": 2, \"attn_logit_softcapping\": null}");
    assert_int_equal(p->masks[p->layer_mask[0]].window, 4096);
    assert_int_equal(p->masks[p->layer_mask[1]].window, 0);
    for (int s = 0; s < p->step_count; s++) {
        if (p->steps[s].kind == CP_STEP_ATTENTION)
            assert_near(p->steps[s].softcap, 0, 0);
        if (p->steps[s].kind == CP_STEP_HEAD)
            assert_near(p->steps[s].softcap, 30, 0);
    }
    assert_int_equal(cp_program_find(p, "lm_head.weight"), p->embedding);
    cp_program_close(p);
}

static void biases_follow_the_family(void **state)
{
    (void)state;
    cp_program *p = built("{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1}");
    assert_true(cp_program_find(p, "model.layers.0.self_attn.k_proj.bias") >= 0);
    assert_true(cp_program_find(p, "model.layers.0.self_attn.o_proj.bias") < 0);
    cp_program_close(p);

    p = built("{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"attention_bias\": true, \"mlp_bias\": "
              "true}");
    assert_true(cp_program_find(p, "model.layers.0.self_attn.o_proj.bias") >= 0);
    assert_true(cp_program_find(p, "model.layers.0.mlp.down_proj.bias") >= 0);
    cp_program_close(p);
}

#define LLAMA(fields) "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"head_dim\": 8, " fields "}"
#define GEMMA(fields)                                                                                        \
    "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 1, \"head_dim\": 8, " fields "}"

/* Pairs of spellings that mean the same, and what the second frequency is. */
static void rope_is_read_in_both_spellings(void **state)
{
    (void)state;
    const double base = pow(100, -0.25);
    const struct {
        const char *config;
        int rope;
        double frequency;
    } cases[] = {
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 100}"), 0, base},
        {LLAMA("\"rope_theta\": 100.0"), 0, base},
        {LLAMA("\"rope_theta\": 7.0, \"rope_parameters\": {\"rope_theta\": 100.0}"), 0, base},
        {LLAMA("\"rope_theta\": 100.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}"), 0,
         base / 4},
        {LLAMA("\"rope_theta\": 100.0, \"rope_scaling\": {}"), 0, base},
        {LLAMA("\"rope_parameters\": {\"rope_theta\": 100.0, \"rope_type\": \"linear\", \"factor\": 4.0}"), 0,
         base / 4},
        /* a given rope_scaling replaces rope_parameters, its theta too */
        {LLAMA("\"rope_theta\": 100.0, \"rope_scaling\": {\"rope_type\": \"linear\", \"type\": \"llama3\", "
               "\"factor\": 4}, \"rope_parameters\": {\"rope_theta\": 9.0}"),
         0, base / 4},
        {LLAMA("\"rope_theta\": 100.0, \"partial_rotary_factor\": 0.5"), 0, base},
        {GEMMA("\"rope_theta\": 100.0"), 0, base},
        {GEMMA("\"rope_local_base_freq\": 100.0"), 1, base},
        {GEMMA("\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 100.0, \"rope_type\": \"linear\", "
               "\"factor\": 2.0}}"),
         0, base / 2},
        {GEMMA("\"rope_parameters\": {\"sliding_attention\": {\"rope_theta\": 100.0}}"), 1, base},
        {GEMMA("\"rope_theta\": 100.0, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}"), 0,
         base / 2},
        /* by its old name the type is overruled by the default that it is merged with */
        {GEMMA("\"rope_theta\": 100.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}"), 0, base},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        cp_program *p = built(cases[n].config);
        assert_near(p->ropes[cases[n].rope].inverse_frequency[1], cases[n].frequency, 1e-15);
        cp_program_close(p);
    }
}

/* One frequency in each of llama3's three bands. */
static void llama3_scales_by_wavelength(void **state)
{
    (void)state;
    cp_program *p =
        built(LLAMA("\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 10000.0, \"factor\": "
                    "8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                    "\"original_max_position_embeddings\": 128}"));
    const double *f = p->ropes[0].inverse_frequency;
    const double u = (128 / (2 * 3.14159265358979323846 / 0.1) - 1) / 3;
    assert_near(f[0], 1, 0);
    assert_near(f[1], (1 - u) * 0.1 / 8 + u * 0.1, 1e-16);
    assert_near(f[2], 0.01 / 8, 1e-17);
    cp_program_close(p);
}

/* Written out by hand: d = 64, channel(n) = 64 ln(4096/(2πn)) / (2 ln 150000). */
static void yarn_blends_the_frequencies(void **state)
{
    (void)state;
    cp_program *p = built("{\"model_type\": \"gpt_oss\", \"num_hidden_layers\": 1}");
    const double pi = 3.14159265358979323846;
    const double low = 64 * log(4096 / (32 * 2 * pi)) / (2 * log(150000.0));
    const double high = 64 * log(4096 / (2 * pi)) / (2 * log(150000.0));
    const double *f = p->ropes[0].inverse_frequency;
    assert_int_equal(p->ropes[0].pairs, 32);
    assert_near(p->ropes[0].attention_scaling, 1 + 0.1 * log(32.0), 1e-15);
    assert_near(f[0], 1, 0);
    assert_near(f[8], pow(150000, -0.25), 1e-15);
    assert_near(f[31], pow(150000, -31.0 / 32) / 32, 1e-17);
    const double ramp = (12 - low) / (high - low), base = pow(150000, -12.0 / 32);
    assert_near(f[12], (1 - ramp) * base + ramp * base / 32, 1e-16);
    cp_program_close(p);

    /* truncated, and a magnitude of its own */
    p = built("{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"head_dim\": 64, \"rope_parameters\": {"
              "\"rope_type\": \"yarn\", \"rope_theta\": 150000, \"factor\": 32, \"mscale\": 2, "
              "\"mscale_all_dim\": 1, \"original_max_position_embeddings\": 4096}}");
    const double cut = (12 - floor(low)) / (ceil(high) - floor(low));
    assert_near(p->ropes[0].inverse_frequency[12], (1 - cut) * base + cut * base / 32, 1e-16);
    assert_near(p->ropes[0].attention_scaling, (1 + 0.2 * log(32.0)) / (1 + 0.1 * log(32.0)), 1e-15);
    cp_program_close(p);
}

/* Sinks, windows on every other layer, and experts whose parameters are stored as transformers does. */
static void gpt_oss_has_sinks_and_experts(void **state)
{
    (void)state;
    cp_program *p =
        built("{\"model_type\": \"gpt_oss\", \"num_hidden_layers\": 2, \"num_local_experts\": 6}");
    assert_int_equal(p->masks[p->layer_mask[0]].window, 128);
    assert_int_equal(p->masks[p->layer_mask[1]].window, 0);
    assert_int_equal(count_kind(p, CP_STEP_ROUTER), 2);
    assert_int_equal(count_kind(p, CP_STEP_EXPERTS), 2);
    assert_int_equal(count_kind(p, CP_STEP_GATE), 0);
    assert_false(p->balance.given);
    const cp_parameter *up = &p->parameters[cp_program_find(p, "model.layers.1.mlp.experts.gate_up_proj")];
    const cp_parameter *down = &p->parameters[cp_program_find(p, "model.layers.1.mlp.experts.down_proj")];
    const int64_t up_shape[] = {6, 2880, 5760}, down_shape[] = {6, 2880, 2880};
    assert_memory_equal(up->extent, up_shape, sizeof up_shape);
    assert_memory_equal(down->extent, down_shape, sizeof down_shape);
    assert_int_equal(p->parameters[cp_program_find(p, "model.layers.0.self_attn.sinks")].extent[0], 64);
    assert_true(cp_program_find(p, "model.layers.0.mlp.router.bias") >= 0);
    cp_program_close(p);

    p = built("{\"model_type\": \"mixtral\", \"num_hidden_layers\": 1, \"sliding_window\": 9, "
              "\"output_router_logits\": true}");
    assert_int_equal(p->masks[p->layer_mask[0]].window, 9);
    assert_true(p->balance.given);
    assert_near(p->balance.coefficient, 0.001, 0);
    up = &p->parameters[cp_program_find(p, "model.layers.0.mlp.experts.gate_up_proj")];
    const int64_t stored[] = {8, 2 * 14336, 4096};
    assert_memory_equal(up->extent, stored, sizeof stored);
    assert_true(cp_program_find(p, "model.layers.0.mlp.gate.weight") >= 0);
    assert_true(cp_program_find(p, "model.layers.0.mlp.gate.bias") < 0);
    cp_program_close(p);
}

static void what_is_not_known_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        cp_status status;
        const char *words;
    } cases[] = {
        {"[]", CP_BAD_INPUT, "the configuration is"},
        {"{}", CP_REFUSED, "model_type ''"},
        {"{\"model_type\": \"gpt5\"}", CP_REFUSED, "'gpt5' is not known to the reference (known: gemma2, "},
        {"{\"model_type\": 7}", CP_BAD_INPUT, "model_type is"},
        {LLAMA("\"attention_dropout\": 0.1"), CP_REFUSED, "attention_dropout is not zero"},
        {LLAMA("\"resid_pdrop\": 0.1"), CP_REFUSED, "resid_pdrop is not zero"},
        {LLAMA("\"quantization_config\": {\"bits\": 4}"), CP_REFUSED, "quantization_config is set"},
        {LLAMA("\"hidden_act\": \"mish\""), CP_REFUSED, "hidden_act 'mish' is not known"},
        {LLAMA("\"hidden_size\": null"), CP_BAD_INPUT, "hidden_size is"},
        {LLAMA("\"hidden_size\": 16.5"), CP_BAD_INPUT, "expected an integer"},
        {LLAMA("\"hidden_size\": 0"), CP_BAD_INPUT, "expected a size from 1"},
        {LLAMA("\"hidden_size\": -16"), CP_BAD_INPUT, "expected a size from 1"},
        {LLAMA("\"hidden_size\": 30"), CP_BAD_INPUT,
         "hidden_size 30 is not a multiple of num_attention_heads 32"},
        {LLAMA("\"num_key_value_heads\": 5"), CP_BAD_INPUT, "is not a multiple of num_key_value_heads 5"},
        {LLAMA("\"pad_token_id\": 32000"), CP_BAD_INPUT, "pad_token_id is outside"},
        {LLAMA("\"tie_word_embeddings\": null"), CP_BAD_INPUT, "expected true or false"},
        {LLAMA("\"rms_norm_eps\": -1.0"), CP_BAD_INPUT, "rms_norm_eps is -1"},
        {LLAMA("\"rms_norm_eps\": \"1e-5\""), CP_BAD_INPUT, "expected a number"},
        {LLAMA("\"num_hidden_layers\": 1000, \"x\": 0"), CP_BAD_INPUT, "num_hidden_layers"},
        {LLAMA("\"rope_parameters\": []"), CP_BAD_INPUT, "rope_parameters is"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"longrope\"}"), CP_REFUSED, "rope type 'longrope'"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"yarn\"}"), CP_BAD_INPUT, "factor is missing"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": -1, "
               "\"original_max_position_embeddings\": 8}"),
         CP_BAD_INPUT, "beta_fast is -1"},
        {LLAMA("\"rope_theta\": 1, \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, "
               "\"original_max_position_embeddings\": 8}"),
         CP_BAD_INPUT, "expected more than 1 for yarn"},
        {"{\"model_type\": \"gpt_oss\", \"num_local_experts\": 3}", CP_BAD_INPUT,
         "num_experts_per_tok is 4, and there are 3 num_local_experts"},
        {"{\"model_type\": \"gpt_oss\", \"num_local_experts\": 100000}", CP_REFUSED,
         "num_local_experts 100000: the reference takes up to 5825"},
        {"{\"model_type\": \"gpt_oss\", \"swiglu_limit\": 0}", CP_BAD_INPUT, "swiglu_limit is 0"},
        {"{\"model_type\": \"gpt_oss\", \"router_aux_loss_coef\": null}", CP_BAD_INPUT,
         "router_aux_loss_coef is"},
        {"{\"model_type\": \"gpt_oss\", \"sliding_window\": null}", CP_REFUSED, "layer 0 slides"},
        {"{\"model_type\": \"mixtral\", \"hidden_act\": \"gelu\"}", CP_REFUSED, "experts with silu alone"},
        {"{\"model_type\": \"mixtral\", \"router_jitter_noise\": 0.1}", CP_REFUSED, "draws no noise"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": 3}"), CP_BAD_INPUT, "expected a string"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"linear\"}"), CP_BAD_INPUT, "factor is missing"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 0}"), CP_BAD_INPUT,
         "expected a positive number"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"partial_rotary_factor\": "
               "0.5}"),
         CP_REFUSED, "partial_rotary_factor 0.5"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
               "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8}"),
         CP_BAD_INPUT, "is not below high_freq_factor"},
        {LLAMA("\"rope_theta\": 0"), CP_BAD_INPUT, "rope_theta is 0"},
        {"{\"model_type\": \"llama\", \"head_dim\": 7}", CP_BAD_INPUT, "head_dim 7 is odd"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 600}", CP_REFUSED,
         "num_hidden_layers 600: the reference takes up to 512"},
        {"{\"model_type\": \"llama\", \"head_dim\": 1073741824}", CP_REFUSED,
         "the reference takes up to 65536"},
        {"{\"model_type\": \"llama\", \"num_attention_heads\": 1048576, \"hidden_size\": 16777216, "
         "\"head_dim\": 1024}",
         CP_REFUSED, "num_attention_heads 1048576: the reference takes up to 16384"},
        {LLAMA("\"vocab_size\": 1000000000"), CP_REFUSED, "vocab_size 1000000000"},
        {"{\"model_type\": \"qwen3\", \"head_dim\": null}", CP_BAD_INPUT, "head_dim is"},
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
         CP_REFUSED, "layer 0 slides, and the configuration has no sliding_window"},
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\"]}",
         CP_BAD_INPUT, "layer_types has 1 elements, expected 2"},
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": [\"linear_attention\"]}",
         CP_REFUSED, "'linear_attention' is not known to the reference for qwen2"},
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": [1]}", CP_BAD_INPUT,
         "layer_types[0] is"},
        {"{\"model_type\": \"qwen2\", \"layer_types\": \"full\"}", CP_BAD_INPUT, "expected a list"},
        {"{\"model_type\": \"gemma2\", \"sliding_window\": null}", CP_REFUSED, "layer 0 slides"},
        {"{\"model_type\": \"gemma2\", \"final_logit_softcapping\": 0}", CP_BAD_INPUT,
         "final_logit_softcapping is 0"},
        {"{\"model_type\": \"gemma3_text\", \"use_bidirectional_attention\": true}", CP_REFUSED,
         "use_bidirectional_attention is set"},
        {"{\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"full_attention\": 3}}", CP_BAD_INPUT,
         "full_attention is"},
        {"{\"model_type\": \"llama4_text\"}", CP_REFUSED, "experts are not known to the reference"},
        {"{\"model_type\": \"llama4_text\", \"moe_layers\": [1]}", CP_REFUSED, "experts are not known"},
        {"{\"model_type\": \"llama4_text\", \"moe_layers\": [\"1\"]}", CP_BAD_INPUT, "moe_layers[0] is"},
        {"{\"model_type\": \"llama4_text\", \"moe_layers\": 1}", CP_BAD_INPUT, "moe_layers is"},
        {"{\"model_type\": \"llama4_text\", \"moe_layers\": [], \"attention_chunk_size\": null}", CP_REFUSED,
         "layer 0 is chunked, and the configuration has no attention_chunk_size"},
        {"{\"model_type\": \"llama4_text\", \"moe_layers\": [], \"floor_scale\": 0}", CP_BAD_INPUT,
         "floor_scale is 0"},
        {"{\"model_type\": \"llama4_text\", \"moe_layers\": [], \"num_hidden_layers\": 1, "
         "\"no_rope_layers\": [true]}",
         CP_BAD_INPUT, "no_rope_layers[0] is"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        cp_program *program = NULL;
        assert_status(build(&program, cases[n].config), cases[n].status, cases[n].words);
        if (cases[n].status != CP_OK && strcmp(cases[n].config, "[]") != 0)
            assert_text_holds(cp_error(), "c.json");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_build),
        cmocka_unit_test(absent_fields_have_the_class_defaults),
        cmocka_unit_test(layers_follow_the_configuration),
        cmocka_unit_test(biases_follow_the_family),
        cmocka_unit_test(rope_is_read_in_both_spellings),
        cmocka_unit_test(llama3_scales_by_wavelength),
        cmocka_unit_test(yarn_blends_the_frequencies),
        cmocka_unit_test(gpt_oss_has_sinks_and_experts),
        cmocka_unit_test(what_is_not_known_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

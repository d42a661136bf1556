#include "tests/reference/drive.h"

#include <math.h>

#define SHAPE(...)    CP_VIEW(NULL, CP_F64, __VA_ARGS__)
#define INTEGERS(...) CP_VIEW(NULL, CP_I64, __VA_ARGS__)

const sizes operation_sizes[] = {
    {"ones", .B = 1, .S = 1, .C = 1, .O = 1, .H = 1, .K = 1, .D = 2, .V = 2},
    {"odd", .B = 2, .S = 3, .C = 5, .O = 7, .H = 3, .K = 1, .D = 6, .V = 11},
    {"large", .B = 2, .S = 150, .C = 130, .O = 530, .H = 4, .K = 2, .D = 30, .V = 300},
};
const int operation_size_count = sizeof operation_sizes / sizeof *operation_sizes;

/* ---- embedding: scaled or not ---- */

static void embedding_shape(operands *o, const sizes *n, int variant)
{
    (void)variant;
    o->out = SHAPE(n->B, n->S, n->C);
    o->in[0] = SHAPE(n->V, n->C);
    o->integers[0] = INTEGERS(n->B, n->S);
    o->bound[0] = n->V;
}

static double embedding_scale(int variant)
{
    return variant ? 11.3125 : 1;
}

static void embedding_forward(const operands *o, const call *c)
{
    c->ops->embedding->forward(o->out, o->integers[0], o->in[0], embedding_scale(c->variant), c->precision);
}

static void embedding_backward(const operands *o, const call *c)
{
    if (cp_tensor_given(o->din[0]))
        c->ops->embedding->backward(o->din[0], o->dout, o->integers[0], embedding_scale(c->variant), -1,
                                    c->precision);
}

/* ---- linear: without and with bias ---- */

static void linear_shape(operands *o, const sizes *n, int variant)
{
    o->out = SHAPE(n->B, n->S, n->O);
    o->in[0] = SHAPE(n->B, n->S, n->C);
    o->in[1] = SHAPE(n->O, n->C);
    if (variant)
        o->in[2] = SHAPE(n->O);
}

static void linear_forward(const operands *o, const call *c)
{
    c->ops->linear->forward(o->out, o->in[0], o->in[1], o->in[2], c->precision);
}

static void linear_backward(const operands *o, const call *c)
{
    c->ops->linear->backward(o->din[0], o->din[1], o->din[2], o->dout, o->in[0], o->in[1], c->precision);
}

/* ---- rmsnorm: of tokens, and of heads ---- */

static void rmsnorm_shape(operands *o, const sizes *n, int variant)
{
    cp_norm_weight kind = (cp_norm_weight)(variant / 2);
    bool heads = variant % 2;
    o->in[0] = heads ? SHAPE(n->B, n->S, n->H, n->D) : SHAPE(n->B, n->S, n->C);
    o->out = o->in[0];
    o->saved[0] = heads ? SHAPE(n->B, n->S, n->H) : SHAPE(n->B, n->S);
    if (kind != CP_NORM_PLAIN)
        o->in[1] = heads ? SHAPE(n->D) : SHAPE(n->C);
}

static void rmsnorm_forward(const operands *o, const call *c)
{
    c->ops->rmsnorm->forward(o->out, o->saved[0], o->in[0], o->in[1], (cp_norm_weight)(c->variant / 2), 1e-5,
                             c->precision);
}

static void rmsnorm_backward(const operands *o, const call *c)
{
    c->ops->rmsnorm->backward(o->din[0], o->din[1], o->dout, o->saved[0], o->in[0], o->in[1],
                              (cp_norm_weight)(c->variant / 2), c->scratch, c->precision);
}

/* ---- rope: halved, interleaved; all channels, or all but two where there are that many ---- */

static void rope_shape(operands *o, const sizes *n, int variant)
{
    int64_t rotated = variant / 2 && n->D > 2 ? n->D - 2 : n->D;
    o->in[0] = SHAPE(n->B, n->S, n->H, n->D);
    o->out = o->in[0];
    o->saved[0] = SHAPE(n->B, n->S, rotated / 2);
    o->saved[1] = o->saved[0];
    o->integers[0] = INTEGERS(n->B, n->S);
    o->bound[0] = 1000;
}

static void rope_forward(const operands *o, const call *c)
{
    double inverse_frequency[64];
    for (int j = 0; j < 64; j++)
        inverse_frequency[j] = 1 / (1 + 0.37 * j);
    c->ops->rope->table(o->saved[0], o->saved[1], o->integers[0], inverse_frequency, 1.25, c->precision);
    c->ops->rope->forward(o->out, o->in[0], o->saved[0], o->saved[1], (cp_rope_layout)(c->variant % 2),
                          c->precision);
}

static void rope_backward(const operands *o, const call *c)
{
    if (cp_tensor_given(o->din[0]))
        c->ops->rope->backward(o->din[0], o->dout, o->saved[0], o->saved[1], (cp_rope_layout)(c->variant % 2),
                               c->precision);
}

/* ---- pointwise ---- */

static void two_inputs_shape(operands *o, const sizes *n, int variant)
{
    (void)variant;
    o->out = SHAPE(n->B, n->S, n->C);
    o->in[0] = o->out;
    o->in[1] = o->out;
}

static void one_input_shape(operands *o, const sizes *n, int variant)
{
    (void)variant;
    o->out = SHAPE(n->B, n->S, n->H, n->D);
    o->in[0] = o->out;
}

static void add_forward(const operands *o, const call *c)
{
    c->ops->pointwise->add(o->out, o->in[0], o->in[1], c->precision);
}

static void add_backward(const operands *o, const call *c)
{
    for (int n = 0; n < 2; n++)
        if (cp_tensor_given(o->din[n]))
            c->ops->pointwise->accumulate(o->din[n], o->dout, c->precision);
}

static void scale_forward(const operands *o, const call *c)
{
    c->ops->pointwise->scale(o->out, o->in[0], -0.3, c->precision);
}

static void scale_backward(const operands *o, const call *c)
{
    if (cp_tensor_given(o->din[0]))
        c->ops->pointwise->scale_backward(o->din[0], o->dout, -0.3, c->precision);
}

static void scale_tokens_shape(operands *o, const sizes *n, int variant)
{
    o->out = variant ? SHAPE(n->B, n->S, n->H, n->D) : SHAPE(n->B, n->S, n->C);
    o->in[0] = o->out;
    o->factor = SHAPE(n->B, n->S);
}

static void scale_tokens_forward(const operands *o, const call *c)
{
    c->ops->pointwise->scale_tokens(o->out, o->in[0], o->factor, c->precision);
}

static void scale_tokens_backward(const operands *o, const call *c)
{
    if (cp_tensor_given(o->din[0]))
        c->ops->pointwise->scale_tokens_backward(o->din[0], o->dout, o->factor, c->precision);
}

static void gate_forward(const operands *o, const call *c)
{
    c->ops->pointwise->gate(o->out, o->in[0], o->in[1], (cp_activation)c->variant, c->precision);
}

static void gate_backward(const operands *o, const call *c)
{
    c->ops->pointwise->gate_backward(o->din[0], o->din[1], o->dout, o->in[0], o->in[1],
                                     (cp_activation)c->variant, c->precision);
}

static void softcap_forward(const operands *o, const call *c)
{
    c->ops->pointwise->softcap(o->out, o->in[0], 1.5, c->precision);
}

static void softcap_backward(const operands *o, const call *c)
{
    if (cp_tensor_given(o->din[0]))
        c->ops->pointwise->softcap_backward(o->din[0], o->dout, o->out, 1.5, c->precision);
}

/* ---- router: half of the experts, or all. Scores are far enough apart that no small step changes a choice ---- */

static void router_shape(operands *o, const sizes *n, int variant)
{
    (void)variant;
    o->out = SHAPE(n->B, n->S, n->D);
    for (int saved = 0; saved < 2; saved++)
        o->saved[saved] = o->out;
    o->in[0] = o->out;
}

static int64_t router_chosen(const operands *o, const call *c)
{
    return c->variant ? o->out.extent[2] : (o->out.extent[2] + 1) / 2;
}

/* to = factor · from, and for scores the distance between neighbours; or to += it. */
static void router_scores(cp_tensor to, cp_tensor from, bool gradient)
{
    int64_t E = to.extent[2];
    for (int64_t n = 0; to.data && n < cp_tensor_count(to); n++)
        element_set(to, n,
                    gradient ? element_get(to, n) + 0.25 * element_get(from, n)
                             : 0.25 * element_get(from, n) + 2.0 * (double)(n % E * 7 % E));
}

static void router_forward(const operands *o, const call *c)
{
    router_scores(o->saved[0], o->in[0], false);
    c->ops->router->forward(o->out, o->saved[0], router_chosen(o, c), c->precision);
}

static void router_backward(const operands *o, const call *c)
{
    if (!cp_tensor_given(o->din[0]))
        return;
    for (int64_t n = 0; o->saved[1].data && n < cp_tensor_count(o->saved[1]); n++)
        element_set(o->saved[1], n, 0);
    c->ops->router->backward(o->saved[1], o->dout, o->out, c->precision);
    router_scores(o->din[0], o->saved[1], true);
}

/* ---- experts: as Mixtral has them, and as GptOss has, short of the limit ---- */

static void experts_shape(operands *o, const sizes *n, int variant)
{
    int64_t E = n->H, C = n->D, F = n->D / 2;
    o->out = SHAPE(n->B, n->S, C);
    o->in[0] = o->out;
    o->in[1] = SHAPE(n->B, n->S, E);
    o->in[2] = variant ? SHAPE(E, C, 2 * F) : SHAPE(E, 2 * F, C);
    o->in[3] = variant ? SHAPE(E, F, C) : SHAPE(E, C, F);
    if (variant) {
        o->in[4] = SHAPE(E, 2 * F);
        o->in[5] = SHAPE(E, C);
    }
}

static cp_experts_form experts_form(const call *c)
{
    return c->variant ? (cp_experts_form){true, true, .alpha = 1.702, .shift = 1, .limit = 1e3}
                      : (cp_experts_form){.alpha = 1, .limit = INFINITY};
}

static cp_experts experts_of(const cp_tensor in[])
{
    return (cp_experts){.up = in[2], .up_bias = in[4], .down = in[3], .down_bias = in[5]};
}

static void experts_forward(const operands *o, const call *c)
{
    cp_experts experts = experts_of(o->in);
    c->ops->experts->forward(o->out, o->in[0], o->in[1], &experts, experts_form(c), c->scratch, c->precision);
}

static void experts_backward(const operands *o, const call *c)
{
    cp_experts experts = experts_of(o->in), gradients = experts_of(o->din);
    c->ops->experts->backward(o->din[0], o->din[1], &gradients, o->dout, o->in[0], o->in[1], &experts,
                              experts_form(c), c->scratch, c->precision);
}

/* ---- attention, causal, in every form: grouped heads, with softcap, and heads of v read in another order than those of k ---- */

enum { ATTENTION_PLAIN, ATTENTION_CAPPED, ATTENTION_CROSSED, ATTENTION_VARIANTS };

static void attention_shape(operands *o, const sizes *n, int variant)
{
    int64_t Dv = n->D + 1;
    o->out = SHAPE(n->B, n->S, n->H, Dv);
    o->in[0] = SHAPE(n->B, n->S, n->H, n->D);
    o->in[1] = SHAPE(n->B, n->S, n->K, n->D);
    o->in[2] = SHAPE(n->B, n->S, n->K, Dv);
    o->saved[0] = SHAPE(n->B, n->S, n->H);
    o->saved[1] = o->saved[0];
    o->integers[0] = INTEGERS(n->B, n->S);
    o->filling[0] = FILL_INDEX;
    for (int64_t h = 0; h < n->H; h++) {
        o->key_head[h] = (int32_t)(h * n->K / n->H);
        o->value_head[h] =
            (int32_t)(variant % ATTENTION_VARIANTS == ATTENTION_CROSSED ? h % n->K : h * n->K / n->H);
    }
}

static cp_attention attention_of(const operands *o, const call *c)
{
    return (cp_attention){.visibility = &o->visibility,
                          .query_index = o->integers[0],
                          .key_index = o->integers[0],
                          .key_head = o->key_head,
                          .value_head = o->value_head,
                          .scale = 0.4,
                          .softcap = c->variant % ATTENTION_VARIANTS == ATTENTION_CAPPED ? 1.75 : 0};
}

static const cp_attention_ops *form_of(const call *c)
{
    return c->ops->attention[c->variant / ATTENTION_VARIANTS];
}

static void attention_forward(const operands *o, const call *c)
{
    cp_attention attention = attention_of(o, c);
    form_of(c)->forward(o->out, o->saved[0], o->in[0], o->in[1], o->in[2], &attention, c->scratch,
                        c->precision);
}

static void attention_backward(const operands *o, const call *c)
{
    cp_attention attention = attention_of(o, c);
    c->ops->partial->delta(o->saved[1], o->dout, o->out);
    form_of(c)->backward(o->din[0], o->din[1], o->din[2], o->dout, o->saved[0], o->saved[1], o->in[0],
                         o->in[1], o->in[2], &attention, c->scratch, c->precision);
}

/* ---- loss ---- */

enum { LOSS_FACTOR_PLACES = 3 };

static void loss_shape(operands *o, const sizes *n, int variant)
{
    (void)variant;
    o->out = SHAPE(n->B, n->S);
    o->in[0] = SHAPE(n->B, n->S, n->V);
    o->saved[0] = o->out;
    o->integers[0] = INTEGERS(n->B, n->S);
    o->filling[0] = FILL_TARGET;
    o->bound[0] = n->V;
}

static void loss_forward(const operands *o, const call *c)
{
    c->ops->loss->forward(o->out, o->saved[0], o->in[0], o->integers[0], c->precision);
}

static void loss_backward(const operands *o, const call *c)
{
    if (cp_tensor_given(o->din[0]))
        c->ops->loss->backward(o->din[0], o->saved[0], o->in[0], o->integers[0], 0.125, c->precision);
}

const operation operations[] = {
    {"embedding", .variants = 2, .single = 1e-5, .shape = embedding_shape, .forward = embedding_forward,
     .backward = embedding_backward},
    {"linear", .variants = 2, .token_inputs = 1, .single = 1e-5, .shape = linear_shape,
     .forward = linear_forward, .backward = linear_backward},
    {"rmsnorm", .variants = 6, .token_inputs = 1, .single = 1e-5, .shape = rmsnorm_shape,
     .forward = rmsnorm_forward, .backward = rmsnorm_backward},
    {"rope", .variants = 4, .token_inputs = 1, .single = 1e-6, .shape = rope_shape, .forward = rope_forward,
     .backward = rope_backward},
    {"add", .variants = 1, .token_inputs = 2, .single = 1e-6, .shape = two_inputs_shape,
     .forward = add_forward, .backward = add_backward},
    {"scale", .variants = 1, .token_inputs = 1, .single = 1e-6, .shape = one_input_shape,
     .forward = scale_forward, .backward = scale_backward},
    {"scale_tokens", .variants = 2, .token_inputs = 1, .single = 1e-6, .shape = scale_tokens_shape,
     .forward = scale_tokens_forward, .backward = scale_tokens_backward},
    {"gate", .variants = CP_ACTIVATIONS, .token_inputs = 2, .single = 2e-6, .shape = two_inputs_shape,
     .forward = gate_forward, .backward = gate_backward},
    {"softcap", .variants = 1, .token_inputs = 1, .single = 2e-6, .shape = one_input_shape,
     .forward = softcap_forward, .backward = softcap_backward},
    {"router", .variants = 2, .token_inputs = 1, .single = 2e-5, .shape = router_shape,
     .forward = router_forward, .backward = router_backward},
    {"experts", .variants = 2, .token_inputs = 2, .single = 2e-5, .shape = experts_shape,
     .forward = experts_forward, .backward = experts_backward},
    {"attention", .variants = ATTENTION_VARIANTS * CP_ATTENTION_FORMS, .mixes = true, .token_inputs = 3,
     .single = 2e-5, .shape = attention_shape, .forward = attention_forward, .backward = attention_backward},
    {"loss", .variants = 1, .overwrites = true, .token_inputs = 1, .single = 1e-5, .shape = loss_shape,
     .forward = loss_forward, .backward = loss_backward},
};
const int operation_count = sizeof operations / sizeof *operations;

#include "models/rope.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    int type;
} types[] = {{"default", CP_ROPE_DEFAULT},
             {"linear", CP_ROPE_LINEAR},
             {"llama3", CP_ROPE_LLAMA3},
             {"yarn", CP_ROPE_YARN}};

/* A member that is absent or null counts as absent. */
static bool has(const cp_config *config, const char *name)
{
    return config->json && cp_config_field(config, name) != NULL;
}

static cp_status check_object(const cp_config *config, const char *name)
{
    const cp_json *value = cp_config_field(config, name);
    if (value && cp_json_kind_of(value) != CP_JSON_OBJECT)
        return cp_fail(CP_BAD_INPUT, "%s: %s is %s, expected an object", config->where, name,
                       cp_json_kind_name(cp_json_kind_of(value)));
    return CP_OK;
}

static cp_status read_positive(double *out, const cp_config *config, const char *object, const char *name)
{
    if (!has(config, name))
        return cp_fail(CP_BAD_INPUT, "%s: %s: %s is missing", config->where, object, name);
    CP_TRY(cp_config_real(out, config, name, 0));
    if (!(*out > 0 && isfinite(*out)))
        return cp_fail(CP_BAD_INPUT, "%s: %s: %s is %g, expected a positive number", config->where, object,
                       name, *out);
    return CP_OK;
}

static cp_status read_type(cp_rope_settings *settings, const cp_config *rope, const char *object)
{
    const char *type = "default";
    if (rope->json)
        CP_TRY(cp_config_string(&type, rope, has(rope, "rope_type") ? "rope_type" : "type", "default"));
    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        if (strcmp(types[n].name, type) == 0) {
            settings->type = types[n].type;
            return CP_OK;
        }
    return cp_fail(CP_REFUSED,
                   "%s: %s: rope type '%s' is not known to the reference (default, linear, llama3, yarn are)",
                   rope->where, object, type);
}

static double yarn_scale(double factor, double magnitude)
{
    return factor <= 1 ? 1 : 1 + 0.1 * magnitude * log(factor);
}

/* A number where it is given and not 0: transformers writes these as `… or default`. */
static cp_status read_or(double *out, const cp_config *rope, const char *object, const char *name,
                         double absent)
{
    CP_TRY(cp_config_real_or_null(out, rope, name, 0, 0));
    if (!(*out >= 0 && isfinite(*out)))
        return cp_fail(CP_BAD_INPUT, "%s: %s: %s is %g, expected a positive number", rope->where, object,
                       name, *out);
    *out = *out == 0 ? absent : *out;
    return CP_OK;
}

static cp_status read_yarn(cp_rope_settings *settings, const cp_config *rope, const char *object)
{
    double mscale, mscale_all_dim;
    CP_TRY(read_or(&settings->fast, rope, object, "beta_fast", 32));
    CP_TRY(read_or(&settings->slow, rope, object, "beta_slow", 1));
    CP_TRY(read_or(&mscale, rope, object, "mscale", 0));
    CP_TRY(read_or(&mscale_all_dim, rope, object, "mscale_all_dim", 0));
    CP_TRY(cp_config_bool(&settings->truncate, rope, "truncate", true));
    settings->attention_scaling =
        mscale != 0 && mscale_all_dim != 0
            ? yarn_scale(settings->factor, mscale) / yarn_scale(settings->factor, mscale_all_dim)
            : yarn_scale(settings->factor, 1);
    if (has(rope, "attention_factor"))
        CP_TRY(read_positive(&settings->attention_scaling, rope, object, "attention_factor"));
    if (!(settings->theta > 1))
        return cp_fail(CP_BAD_INPUT, "%s: rope_theta is %g, expected more than 1 for yarn", rope->where,
                       settings->theta);
    return CP_OK;
}

/* What a type needs besides theta. `config` has the length that llama3 falls back to. */
static cp_status read_scaling(cp_rope_settings *settings, const cp_config *rope, const char *object,
                              const cp_config *config)
{
    if (settings->type == CP_ROPE_DEFAULT)
        return CP_OK;
    double partial = 1;
    CP_TRY(cp_config_real_or_null(&partial, rope, "partial_rotary_factor", 1, 1));
    if (partial == 1)
        CP_TRY(cp_config_real_or_null(&partial, config, "partial_rotary_factor", 1, 1));
    if (partial != 1)
        return cp_fail(CP_REFUSED, "%s: partial_rotary_factor %g is not known to the reference", rope->where,
                       partial);
    CP_TRY(read_positive(&settings->factor, rope, object, "factor"));
    if (settings->type == CP_ROPE_LINEAR)
        return CP_OK;
    bool own = has(rope, "original_max_position_embeddings");
    const char *length = own ? "original_max_position_embeddings" : "max_position_embeddings";
    CP_TRY(read_positive(&settings->original_length, own ? rope : config, own ? object : "config", length));
    if (settings->type == CP_ROPE_YARN)
        return read_yarn(settings, rope, object);
    CP_TRY(read_positive(&settings->low, rope, object, "low_freq_factor"));
    CP_TRY(read_positive(&settings->high, rope, object, "high_freq_factor"));
    if (!(settings->low < settings->high))
        return cp_fail(CP_BAD_INPUT, "%s: %s: low_freq_factor %g is not below high_freq_factor %g",
                       rope->where, object, settings->low, settings->high);
    return CP_OK;
}

static cp_status check_theta(const cp_rope_settings *settings, const cp_config *config)
{
    if (!(settings->theta > 0 && isfinite(settings->theta)))
        return cp_fail(CP_BAD_INPUT, "%s: rope_theta is %g, expected a positive number", config->where,
                       settings->theta);
    return CP_OK;
}

cp_status cp_rope_read(cp_rope_settings *settings, const cp_config *config, double theta)
{
    *settings = (cp_rope_settings){.theta = theta};
    CP_TRY(check_object(config, "rope_parameters"));
    CP_TRY(check_object(config, "rope_scaling"));
    const cp_json *scaling = cp_config_field(config, "rope_scaling");
    const char *object = scaling && cp_json_size(scaling) ? "rope_scaling" : "rope_parameters";
    cp_config rope = {.json = cp_config_field(config, object), .where = config->where};
    CP_TRY(read_type(settings, &rope, object));
    const cp_config *holder = has(&rope, "rope_theta") ? &rope : config;
    CP_TRY(cp_config_real(&settings->theta, holder, "rope_theta", theta));
    CP_TRY(check_theta(settings, config));
    return read_scaling(settings, &rope, object, config);
}

cp_status cp_rope_read_nested(cp_rope_settings *settings, const cp_config *config, const char *which,
                              const char *theta_field, bool scaled, double theta)
{
    *settings = (cp_rope_settings){.theta = theta};
    CP_TRY(check_object(config, "rope_parameters"));
    CP_TRY(check_object(config, "rope_scaling"));
    cp_config both = {.json = cp_config_field(config, "rope_parameters"), .where = config->where};
    if (both.json)
        CP_TRY(check_object(&both, which));
    cp_config rope = {.json = both.json ? cp_config_field(&both, which) : NULL, .where = config->where};
    cp_config scaling = {.json = cp_config_field(config, "rope_scaling"), .where = config->where};
    const cp_config *holder = has(&rope, "rope_theta") ? &rope : config;
    const char *field = holder == &rope ? "rope_theta" : theta_field;
    CP_TRY(cp_config_real(&settings->theta, holder, field, theta));
    CP_TRY(check_theta(settings, config));
    /* An older rope_scaling takes effect only by the name rope_type: the default that is merged with it has one. */
    if (scaled && scaling.json && has(&scaling, "rope_type")) {
        CP_TRY(read_type(settings, &scaling, "rope_scaling"));
        return read_scaling(settings, &scaling, "rope_scaling", config);
    }
    CP_TRY(read_type(settings, &rope, which));
    return read_scaling(settings, &rope, which, config);
}

static double llama3(double frequency, const cp_rope_settings *settings)
{
    const double pi = 3.14159265358979323846;
    double wavelength = 2 * pi / frequency;
    if (wavelength < settings->original_length / settings->high)
        return frequency;
    if (wavelength > settings->original_length / settings->low)
        return frequency / settings->factor;
    double smooth =
        (settings->original_length / wavelength - settings->low) / (settings->high - settings->low);
    return (1 - smooth) * frequency / settings->factor + smooth * frequency;
}

/* The channel that turns `turns` times within the original length. */
static double yarn_channel(double turns, double width, const cp_rope_settings *settings)
{
    const double pi = 3.14159265358979323846;
    return width * log(settings->original_length / (turns * 2 * pi)) / (2 * log(settings->theta));
}

static double yarn(double frequency, int64_t j, int64_t pairs, const cp_rope_settings *settings)
{
    double width = 2 * (double)pairs;
    double low = yarn_channel(settings->fast, width, settings);
    double high = yarn_channel(settings->slow, width, settings);
    low = fmax(settings->truncate ? floor(low) : low, 0);
    high = fmin(settings->truncate ? ceil(high) : high, width - 1);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax(((double)j - low) / (high - low), 0), 1);
    return (1 - ramp) * frequency + ramp * frequency / settings->factor;
}

double cp_rope_attention_scaling(const cp_rope_settings *settings)
{
    return settings->type == CP_ROPE_YARN ? settings->attention_scaling : 1;
}

void cp_rope_frequencies(double *frequency, int64_t pairs, const cp_rope_settings *settings)
{
    for (int64_t j = 0; j < pairs; j++) {
        frequency[j] = 1 / pow(settings->theta, (double)j / (double)pairs);
        if (settings->type == CP_ROPE_LINEAR)
            frequency[j] /= settings->factor;
        if (settings->type == CP_ROPE_LLAMA3)
            frequency[j] = llama3(frequency[j], settings);
        if (settings->type == CP_ROPE_YARN)
            frequency[j] = yarn(frequency[j], j, pairs, settings);
    }
}

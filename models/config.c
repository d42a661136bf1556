#include "models/config.h"

#include <inttypes.h>
#include <string.h>

static cp_status wrong_kind(const cp_config *config, const char *name, const cp_json *value,
                            const char *expected)
{
    return cp_fail(CP_BAD_INPUT, "%s: %s is %s, expected %s", config->where, name,
                   cp_json_kind_name(cp_json_kind_of(value)), expected);
}

/* The member, null included. */
static const cp_json *member(const cp_config *config, const char *name)
{
    return cp_json_member(config->json, name);
}

bool cp_config_is_null(const cp_config *config, const char *name)
{
    const cp_json *value = member(config, name);
    return value && cp_json_kind_of(value) == CP_JSON_NULL;
}

const cp_json *cp_config_field(const cp_config *config, const char *name)
{
    return cp_config_is_null(config, name) ? NULL : member(config, name);
}

cp_status cp_config_integer_or_null(int64_t *out, const cp_config *config, const char *name, int64_t absent,
                                    int64_t null)
{
    const cp_json *value = member(config, name);
    *out = value ? null : absent;
    if (!value || cp_json_kind_of(value) == CP_JSON_NULL)
        return CP_OK;
    if (cp_json_kind_of(value) != CP_JSON_INTEGER)
        return wrong_kind(config, name, value, "an integer");
    *out = cp_json_integer(value);
    return CP_OK;
}

cp_status cp_config_size_or_null(int64_t *out, const cp_config *config, const char *name, int64_t absent,
                                 int64_t null)
{
    enum { LARGEST = 1 << 30 };
    CP_TRY(cp_config_integer_or_null(out, config, name, absent, null));
    if (cp_config_field(config, name) && (*out < 1 || *out > LARGEST))
        return cp_fail(CP_BAD_INPUT, "%s: %s is %" PRId64 ", expected a size from 1 to %d", config->where,
                       name, *out, LARGEST);
    return CP_OK;
}

cp_status cp_config_size(int64_t *out, const cp_config *config, const char *name, int64_t absent)
{
    if (cp_config_is_null(config, name))
        return wrong_kind(config, name, member(config, name), "an integer");
    return cp_config_size_or_null(out, config, name, absent, 0);
}

cp_status cp_config_real_or_null(double *out, const cp_config *config, const char *name, double absent,
                                 double null)
{
    const cp_json *value = member(config, name);
    *out = value ? null : absent;
    if (!value || cp_json_kind_of(value) == CP_JSON_NULL)
        return CP_OK;
    cp_json_kind kind = cp_json_kind_of(value);
    if (kind != CP_JSON_INTEGER && kind != CP_JSON_REAL)
        return wrong_kind(config, name, value, "a number");
    *out = cp_json_real(value);
    return CP_OK;
}

cp_status cp_config_real(double *out, const cp_config *config, const char *name, double absent)
{
    if (cp_config_is_null(config, name))
        return wrong_kind(config, name, member(config, name), "a number");
    return cp_config_real_or_null(out, config, name, absent, 0);
}

cp_status cp_config_bool(bool *out, const cp_config *config, const char *name, bool absent)
{
    const cp_json *value = member(config, name);
    *out = absent;
    if (!value)
        return CP_OK;
    if (cp_json_kind_of(value) != CP_JSON_BOOL)
        return wrong_kind(config, name, value, "true or false");
    *out = cp_json_bool(value);
    return CP_OK;
}

cp_status cp_config_string(const char **out, const cp_config *config, const char *name, const char *absent)
{
    const cp_json *value = member(config, name);
    *out = absent;
    if (!value)
        return CP_OK;
    if (cp_json_kind_of(value) != CP_JSON_STRING)
        return wrong_kind(config, name, value, "a string");
    *out = cp_json_string(value);
    return CP_OK;
}

cp_status cp_config_list(const cp_json **out, const cp_config *config, const char *name, int64_t count)
{
    const cp_json *value = cp_config_field(config, name);
    *out = value;
    if (!value)
        return CP_OK;
    if (cp_json_kind_of(value) != CP_JSON_ARRAY)
        return wrong_kind(config, name, value, "a list");
    if ((int64_t)cp_json_size(value) != count)
        return cp_fail(CP_BAD_INPUT, "%s: %s has %zu elements, expected %" PRId64 ", one a layer",
                       config->where, name, cp_json_size(value), count);
    return CP_OK;
}

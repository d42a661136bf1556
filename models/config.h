/* Reads config.json as transformers' configuration classes do: an absent field has the class's default, a null one is
 * None and only allowed where the class allows it. Every sentence names the file and the field. */
#ifndef CPEQ_MODELS_CONFIG_H
#define CPEQ_MODELS_CONFIG_H

#include "base/json.h"

typedef struct cp_config {
    const cp_json *json; /* an object */
    const char *where;   /* begins every sentence: a file, "file: /config" */
} cp_config;

/* The field, or NULL where it is absent or null. */
const cp_json *cp_config_field(const cp_config *config, const char *name);
bool cp_config_is_null(const cp_config *config, const char *name); /* present and null */

/* Each writes `absent` where there is no such field; null is refused, except by the _or_null form, which writes
 * `null` there. CP_BAD_INPUT for another type. Sizes must be positive. */
cp_status cp_config_size(int64_t *out, const cp_config *config, const char *name, int64_t absent);
cp_status cp_config_size_or_null(int64_t *out, const cp_config *config, const char *name, int64_t absent,
                                 int64_t null);
cp_status cp_config_integer_or_null(int64_t *out, const cp_config *config, const char *name, int64_t absent,
                                    int64_t null);
cp_status cp_config_real(double *out, const cp_config *config, const char *name, double absent);
cp_status cp_config_real_or_null(double *out, const cp_config *config, const char *name, double absent,
                                 double null);
cp_status cp_config_bool(bool *out, const cp_config *config, const char *name, bool absent);
cp_status cp_config_string(const char **out, const cp_config *config, const char *name, const char *absent);

/* An array of `count` elements, or NULL where it is absent or null. CP_BAD_INPUT for another type or length. */
cp_status cp_config_list(const cp_json **out, const cp_config *config, const char *name, int64_t count);

#endif

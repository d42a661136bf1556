#include "harness/files/join_rules.h"

#include <string.h>

/* Names that are no parameter's and no register's. A loss scale is in everything that went backward. */
static const struct {
    const char *name;
    cp_join_rule rule;
    bool scaled;
} results[] = {
    {"loss", CP_RULE_LOSS, false},
    {"aux_loss", CP_RULE_SAME, false},
    {"token_loss", CP_RULE_ROWS, false},
    {"logits", CP_RULE_ROWS, false},
    {"logsumexp", CP_RULE_ROWS, false},
    {"target_logit", CP_RULE_ROWS, false},
    {"grads/inputs_embeds", CP_RULE_ROWS, true},
    {"out", CP_RULE_ROWS, false},
    {"lse", CP_RULE_ROWS, false},
    {"dq", CP_RULE_ROWS, true},
    {"dk", CP_RULE_ROWS, true},
    {"dv", CP_RULE_ROWS, true},
    {"dsink", CP_RULE_GRADIENT, true},
};

static int find_result(const char *name)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (strcmp(name, results[i].name) == 0)
            return (int)i;
    return -1;
}

cp_join_rule cp_join_rule_of(const char *name)
{
    int known = find_result(name);
    if (known >= 0)
        return results[known].rule;
    if (strncmp(name, "trace/", 6) == 0)
        return CP_RULE_ROWS;
    if (strncmp(name, "grads_partial/", 14) == 0)
        return CP_RULE_SUM;
    return strncmp(name, "grads/", 6) == 0 ? CP_RULE_GRADIENT : CP_RULE_NONE;
}

bool cp_join_scaled(const char *name)
{
    int known = find_result(name);
    return known >= 0 ? results[known].scaled
                      : strncmp(name, "grads/", 6) == 0 || strncmp(name, "grads_partial/", 14) == 0 ||
                            strncmp(name, "trace/grad.", 11) == 0;
}

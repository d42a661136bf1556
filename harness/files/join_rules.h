/* How the ranks' values of a result make one, by its name. */
#ifndef CPEQ_HARNESS_FILES_JOIN_RULES_H
#define CPEQ_HARNESS_FILES_JOIN_RULES_H

#include <stdbool.h>

typedef enum cp_join_rule {
    CP_RULE_LOSS,     /* as loss_kind says */
    CP_RULE_SAME,     /* a number of the whole batch, that every rank has */
    CP_RULE_ROWS,     /* placed by token_index */
    CP_RULE_GRADIENT, /* as gradients says */
    CP_RULE_SUM,      /* before any reduction: the ranks' sum */
    CP_RULE_NONE      /* only a whole dump can have it */
} cp_join_rule;

cp_join_rule cp_join_rule_of(const char *name);

/* Whether grad_scale is in it. */
bool cp_join_scaled(const char *name);

#endif

/* Each file of this folder is a group; it returns the number of failed tests. */
#ifndef CPEQ_TESTS_BASE_GROUPS_H
#define CPEQ_TESTS_BASE_GROUPS_H

int arena_tests(void);
int batch_tests(void);
int dtype_tests(void);
int hash_tests(void);
int json_tests(void);
int layout_plans_tests(void);
int layout_tests(void);
int mask_rules_tests(void);
int processors_tests(void);
int rng_tests(void);
int status_tests(void);
int support_tests(void);
int tensor_tests(void);
int token_rules_tests(void);
int tokens_tests(void);
int visibility_tests(void);

#endif

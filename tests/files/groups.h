/* Each file of this folder is a group; it returns the number of failed tests. */
#ifndef CPEQ_TESTS_FILES_GROUPS_H
#define CPEQ_TESTS_FILES_GROUPS_H

int attention_tests(void);
int calibration_tests(void);
int divisor_tests(void);
int name_map_tests(void);
int slices_tests(void);
int ran_tests(void);
int text_tests(void);
int source_tests(void);
int join_tests(void);
int join_refusals_tests(void);
int temporary_tests(void);
int fixture_tests(void);
int fixture_refusals_tests(void);
int dump_tests(void);
int dump_refusals_tests(void);
int storage_tests(void);
int safetensors_tests(void);
int view_tests(void);

#endif

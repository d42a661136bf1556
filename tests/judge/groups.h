/* Each file of this folder is a group; it returns the number of failed tests. */
#ifndef CPEQ_TESTS_JUDGE_GROUPS_H
#define CPEQ_TESTS_JUDGE_GROUPS_H

int attention_tests(void);
int calibrated_tests(void);
int compare_tests(void);
int joined_tests(void);
int limits_tests(void);
int names_tests(void);
int clues_tests(void);
int next_tests(void);
int ran_digests_tests(void);
int ran_tests(void);
int spread_tests(void);
int streams_tests(void);
int structure_tests(void);
int trials_tests(void);
int values_tests(void);

#endif

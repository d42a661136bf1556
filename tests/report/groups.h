/* Each file of this folder is a group; it returns the number of failed tests. */
#ifndef CPEQ_TESTS_REPORT_GROUPS_H
#define CPEQ_TESTS_REPORT_GROUPS_H

int gate_tests(void);
int junit_tests(void);
int machine_tests(void);
int page_tests(void);
int table_tests(void);
int text_tests(void);
int words_tests(void);

#endif

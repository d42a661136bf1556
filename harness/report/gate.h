/* Many dumps judged against many fixtures: what `gate` found, and how it is told. */
#ifndef CPEQ_HARNESS_REPORT_GATE_H
#define CPEQ_HARNESS_REPORT_GATE_H

#include "harness/report/report.h"

typedef enum cp_gate_outcome {
    CP_GATE_SAME, /* the first three are cp_verdict's */
    CP_GATE_DIFFERENT,
    CP_GATE_NOT_COMPARABLE,
    CP_GATE_MISSING, /* the suite names a dump and there is none */
    CP_GATE_EXTRA,   /* there is a dump and nothing to hold it against */
    CP_GATE_ERROR,   /* a file that cannot be read, or a judgement that broke down */
    CP_GATE_OUTCOMES
} cp_gate_outcome;

/* One dump. Texts are borrowed, never NULL ("": none), and may be a stranger's. */
typedef struct cp_gate_row {
    const char *name;      /* no two rows of a suite have the same */
    const char *against;   /* path of the fixture or dump that it is held against */
    const char *dump;      /* its path, or the pattern that nothing fits */
    const char *only;      /* the glob of the tensors that are judged; "": all */
    cp_gate_outcome known; /* what the suite expects; anything but same is a known failure */
    const char *because;   /* why that is known */
    const char *says;      /* what the sentence of a known failure holds */
    cp_gate_outcome outcome;
    cp_trial_row found; /* fixture, cp, exchange, layout and dtype as declared, errors, sentence */
    bool limited;       /* tensors were held against limits, which `found` tells */
    char *report;       /* the JSON report of its judgement, owned; NULL: it was not judged */
} cp_gate_row;

const char *cp_gate_outcome_name(cp_gate_outcome outcome); /* "same", …, "missing", "extra", "error" */

/* Whether it came as the suite expects: a known failure that is gone, or became another one, did not. */
bool cp_gate_as_expected(const cp_gate_row *row);

typedef struct cp_gate_tally {
    size_t dumps, of[CP_GATE_OUTCOMES];
    size_t known, changed; /* known failures, and those of them that are not as expected */
} cp_gate_tally;

cp_gate_tally cp_gate_count(const cp_gate_row *rows, size_t count);

/* The worst of all rows: 0 as expected; 1 different, or a known failure that is the same now; 2 not comparable, missing
 * or extra; 3 and 4 as the error is. 2 where nothing was judged. */
int cp_gate_exit(const cp_gate_row *rows, size_t count);

/* A table of all dumps and a summary line. JUnit: a case for each dump; different is a failure, a known failure is
 * skipped with its reason, all else that is not as expected is an error. JSON and HTML hold the judgement of each dump
 * too. */
char *cp_report_gate(const cp_gate_row *rows, size_t count, cp_report_format format);

#endif

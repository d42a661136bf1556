/* Where a wrong value of a decision shows: it is run in float64 and compared with the right run, never argued. */
#ifndef CPEQ_HARNESS_RUN_SHOWN_H
#define CPEQ_HARNESS_RUN_SHOWN_H

#include "harness/run/run.h"

/* Between these a difference is neither rounding nor a fault that shows; relative to a tensor's norm. */
#define CP_SHOWN_ROUNDING 1e-11
#define CP_SHOWN_VISIBLE  1e-9

/* One fixture of a suite and its right run, unsharded. */
typedef struct cp_shown_case {
    const char *name;
    const cp_fixture *fixture;
    const cp_model *model;
    cp_source *right;
} cp_shown_case;

/* What a gradient is of: layers are not told apart, and biases of all kinds are one part. */
typedef enum cp_shown_parts {
    CP_SHOWN_INPUTS, /* input embeddings that a batch gives */
    CP_SHOWN_EMBEDDINGS,
    CP_SHOWN_NORMS,
    CP_SHOWN_Q,
    CP_SHOWN_K,
    CP_SHOWN_V,
    CP_SHOWN_O,
    CP_SHOWN_SINKS,
    CP_SHOWN_BIASES,
    CP_SHOWN_FEED_FORWARD,
    CP_SHOWN_HEAD,
    CP_SHOWN_PARTS
} cp_shown_parts;

const char *cp_shown_part(cp_shown_parts part); /* "feed-forward" */

typedef struct cp_shown {
    int runs;           /* that were not refused */
    int cases;          /* of them: that differ … */
    int structural;     /* … or whose ranks' parts do not make a whole */
    bool loss, logits;  /* somewhere */
    unsigned gradients; /* 1 << part, of those that differ somewhere … */
    unsigned met;       /* … among those that there were in runs that differ */
    int told;           /* runs whose loss alone is off by more than 1 % */
    char example[128];  /* the first that shows: fixture, ranks, exchange, layout */
} cp_shown;

/* Runs the right one of a case. */
cp_status cp_shown_open(cp_shown_case *tried, const char *name, const cp_fixture *fixture,
                        const cp_model *model);

/* The ways in which wrong values are tried: ranks, exchanges and layouts, with the groups and micro-batches that the value
 * needs. Not all mean something for a model: see cp_run_check. */
int cp_shown_ways(void);
void cp_shown_way(cp_run_options *options, int way, int decision, int value);

/* Counts one wrong run, `wrong` NULL where its parts do not make a whole, and notes where it shows; returns the largest
 * difference of any tensor (infinite where something is not finite). Logits under padding are left out. */
double cp_shown_count(cp_shown *shown, const cp_shown_case *tried, const cp_run_options *options,
                      const cp_source *wrong);

/* Told of every run that was counted; `wrong` is NULL where its parts do not make a whole. */
typedef void cp_shown_listener(void *context, const cp_shown_case *tried, const cp_run_options *options,
                               const cp_source *wrong, double largest);

/* Tries a value on cases, in an order that mixes families and ways, until `enough` runs have shown it, or on all of them in
 * every way. `listener` may be NULL. */
cp_status cp_shown_survey(cp_shown *shown, int decision, int value, const cp_shown_case *cases, int count,
                          int enough, cp_shown_listener *listener, void *context);

/* What a survey of fixtures/golden gave, CP_SHOWN_ENOUGH runs of each value: shown.def, which `cpeq faults --coverage
 * fixtures/golden --write` makes. NULL where the table has no such value. */
enum { CP_SHOWN_ENOUGH = 24 };
const cp_shown *cp_shown_known(int decision, int value);

#endif

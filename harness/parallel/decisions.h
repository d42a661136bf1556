/* The list of decisions that every context-parallel implementation makes: all zero is right.
 *
 * A fault is the same run with one of them set to another value. Included by run, explain and cli alone: whoever
 * executes sees only the plans. The list itself is decisions.def. */
#ifndef CPEQ_HARNESS_PARALLEL_DECISIONS_H
#define CPEQ_HARNESS_PARALLEL_DECISIONS_H

#include "base/tokens/visibility.h"
#include "harness/parallel/dump_plan.h"
#include "harness/parallel/exchange.h"
#include "harness/parallel/loss_plan.h"
#include "harness/parallel/reduce.h"

typedef struct cp_decisions {
    cp_token_rules tokens;
    cp_mask_rules masks;
    cp_exchange_rules exchange;
    cp_loss_rules loss;
    cp_reduce_rules reduce;
    cp_dump_rules dump;
} cp_decisions;

/* What a wrong value needs to mean anything. */
typedef enum cp_needs {
    CP_NEEDS_NOTHING,
    CP_NEEDS_RANKS,           /* more than one in a group */
    CP_NEEDS_ANY_RANKS,       /* more than one, data-parallel groups of one among them */
    CP_NEEDS_ULYSSES,         /* more than one rank to share the heads (ulysses, usp) */
    CP_NEEDS_RING,            /* more than one rank on a ring (ring, usp) */
    CP_NEEDS_RING_ALONE,      /* the ring exchange, and more than one rank */
    CP_NEEDS_ALLGATHER,       /* that exchange, and more than one rank */
    CP_NEEDS_PERMUTATION,     /* a layout that permutes, and more than one rank */
    CP_NEEDS_PADDING,         /* a layout that pads, and more than one rank */
    CP_NEEDS_PADDED_PIECES,   /* one that is not striped, too */
    CP_NEEDS_GROUPS,          /* more than one data-parallel group */
    CP_NEEDS_GROUPS_OF_RANKS, /* more than one, of more than one rank each */
    CP_NEEDS_MICROBATCHES,    /* more than one */
    CP_NEEDS_KINDS
} cp_needs;

const char *cp_needs_text(cp_needs which); /* "more than one rank" */

/* The run that decisions are made for. */
typedef struct cp_setting {
    cp_exchange_spec exchange; /* settled */
    cp_layout_spec layout;
    int P, D, M; /* ranks of a group, data-parallel groups, micro-batches */
} cp_setting;

typedef struct cp_decision_value {
    const char *name;    /* "per_rank" */
    const char *formula; /* one sentence */
    const char *shows;   /* where it is expected to show: "loss, gradients"; decided by running it */
    const char *where;   /* what a case must have for it to show */
    cp_needs needs;
    const char *reports; /* public reports, each followed by a line end; "" where none is known */
} cp_decision_value;

typedef struct cp_decision {
    const char *name;                /* "loss_count" */
    const char *question;            /* one sentence */
    int count;                       /* of values */
    const cp_decision_value *values; /* [count]; the first is right */
} cp_decision;

int cp_decisions_count(void);
const cp_decision *cp_decision_at(int decision);
int cp_decision_get(const cp_decisions *decisions, int decision); /* its value */
void cp_decision_put(cp_decisions *decisions, int decision, int value);

/* Sets one from "name=value". CP_BAD_USAGE lists the names that are known. */
cp_status cp_decisions_set(cp_decisions *decisions, const char *text);

/* CP_REFUSED where a value that is set means nothing in this setting. */
cp_status cp_decisions_check(const cp_decisions *decisions, const cp_setting *setting);

/* "loss_count=per_rank window=dropped", or "right", into `text`; returns it. */
enum { CP_DECISIONS_TEXT = 2048 };
const char *cp_decisions_describe(const cp_decisions *decisions, char text[CP_DECISIONS_TEXT]);

/* Where a wrong value is the same as the right one. */
typedef struct cp_equivalent {
    const char *decision, *value;
    const char *setting; /* where … */
    const char *reason;  /* … and why */
} cp_equivalent;

int cp_equivalents_count(void);
const cp_equivalent *cp_equivalent_at(int index);

#endif

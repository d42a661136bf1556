/* How queries meet keys on other ranks: each exchange is a mixer, movement around the attention contract. */
#ifndef CPEQ_HARNESS_PARALLEL_EXCHANGE_H
#define CPEQ_HARNESS_PARALLEL_EXCHANGE_H

#include "base/tokens/layout.h"
#include "harness/parallel/alltoall.h"
#include "harness/parallel/comm.h"
#include "harness/parallel/gather_plan.h"
#include "harness/parallel/heads.h"
#include "harness/parallel/ring_plan.h"
#include "harness/parallel/sink_plan.h"
#include "reference/mixer.h"

typedef enum cp_exchange_kind {
    CP_EXCHANGE_LOCAL,
    CP_EXCHANGE_ULYSSES,
    CP_EXCHANGE_ALLGATHER,
    CP_EXCHANGE_RING,
    CP_EXCHANGE_USP,
    CP_EXCHANGE_KINDS
} cp_exchange_kind;

/* An exchange as it is asked for: "ulysses", "usp", "usp:2x4", "usp:2x4:ring-inner". */
typedef struct cp_exchange_spec {
    cp_exchange_kind kind;
    int ulysses, ring; /* usp: P = ulysses · ring; 0: chosen by cp_exchange_settled */
    bool ring_inner;   /* usp: ranks that lie next to each other make a ring, not a ulysses group */
} cp_exchange_spec;

enum { CP_EXCHANGE_TEXT = 48 };
const char *cp_exchange_name(cp_exchange_kind kind); /* "ulysses" */
const char *cp_exchange_text(const cp_exchange_spec *spec, char text[CP_EXCHANGE_TEXT]);

/* CP_BAD_USAGE lists the names that there are. */
cp_status cp_exchange_parse(cp_exchange_spec *spec, const char *text);

/* What the exchanges' planners read. */
typedef struct cp_exchange_rules {
    cp_head_rules heads;
    cp_alltoall_rule alltoall_layout;
    cp_sink_rules sinks;
    cp_gather_backward gather_backward;
    cp_ring_rules ring;
    cp_merge merge;
} cp_exchange_rules;

/* The spec with what it leaves open chosen for layers of H query heads: usp gets the most ulysses ranks that divide both
 * P and H, and a ring of the others. */
cp_exchange_spec cp_exchange_settled(const cp_exchange_spec *spec, int P, int64_t H);

/* CP_REFUSED with a sentence where this exchange cannot run a layer of H query heads and K key/value heads on P
 * ranks: local with P > 1; ulysses where P does not divide H; usp where its two sizes do not make P, or the first does
 * not divide H, with the name of a usp that can. allgather and ring run anything. */
cp_status cp_exchange_check(const cp_exchange_spec *spec, int P, int64_t H, int64_t K);

/* The groups that a run's ranks form (mesh.h). */
typedef struct cp_mesh cp_mesh;

/* What every exchange is opened with; all borrowed. */
typedef struct cp_exchange_setup {
    cp_comm *comm;
    const cp_ops *ops; /* may be the shape table, with a measuring comm */
    cp_attention_form form;
    const cp_layout *layout;
    const cp_exchange_rules *rules;
    cp_arena *arena;
    const cp_mesh *mesh; /* for usp: that of `comm`; others do not read it */
} cp_exchange_setup;

/* The mixer of this rank. It borrows comm, layout, rules and lives in `arena` together with its plans. A plan is made
 * at the first call for each kind of attention, so `arena` must grow (cp_arena_growing) or have room to spare, must
 * not measure and must not be the arena that calls are given, from which the tensors come that are moved. `ops` may be
 * the shape table with a measuring comm. A predicate that an attention is asked with stays as it is while the mixer
 * lives: a ring's schedule is made from it once. */
cp_mixer *cp_exchange_open(const cp_exchange_spec *spec, const cp_exchange_setup *setup);

#endif

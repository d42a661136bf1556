/* How queries meet keys on other ranks: each exchange is a mixer, movement around the attention contract. */
#ifndef CPEQ_HARNESS_PARALLEL_EXCHANGE_H
#define CPEQ_HARNESS_PARALLEL_EXCHANGE_H

#include "base/tokens/layout.h"
#include "harness/parallel/alltoall.h"
#include "harness/parallel/comm.h"
#include "harness/parallel/heads.h"
#include "reference/mixer.h"

typedef enum cp_exchange_kind { CP_EXCHANGE_LOCAL, CP_EXCHANGE_ULYSSES, CP_EXCHANGE_KINDS } cp_exchange_kind;

const char *cp_exchange_name(cp_exchange_kind kind);
bool cp_exchange_named(cp_exchange_kind *kind, const char *name);

/* What the exchanges' planners read. */
typedef struct cp_exchange_rules {
    cp_head_rules heads;
    cp_alltoall_rule alltoall_layout;
} cp_exchange_rules;

/* CP_REFUSED with a sentence where this exchange cannot run a layer of H query heads and K key/value heads on P
 * ranks: local with P > 1; ulysses where P does not divide H. */
cp_status cp_exchange_check(cp_exchange_kind kind, int P, int64_t H, int64_t K);

/* The mixer of this rank. It borrows comm, layout, rules and lives in `arena` together with its plans. A plan is made
 * at the first call for each kind of attention, so `arena` must grow (cp_arena_growing) or have room to spare, must
 * not measure and must not be the arena that calls are given, from which the tensors come that are moved. `ops` may be
 * the shape table with a measuring comm. */
cp_mixer *cp_exchange_open(cp_exchange_kind kind, cp_comm *comm, const cp_ops *ops, const cp_layout *layout,
                           const cp_exchange_rules *rules, cp_arena *arena);

#endif

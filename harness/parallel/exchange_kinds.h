/* The mixers behind cp_exchange_open, one file each. */
#ifndef CPEQ_HARNESS_PARALLEL_EXCHANGE_KINDS_H
#define CPEQ_HARNESS_PARALLEL_EXCHANGE_KINDS_H

#include "harness/parallel/exchange.h"

cp_mixer *cp_exchange_ulysses(cp_comm *comm, const cp_ops *ops, const cp_layout *layout,
                              const cp_exchange_rules *rules, cp_arena *arena);

#endif

/* The mixers behind cp_exchange_open, one file each. */
#ifndef CPEQ_HARNESS_PARALLEL_EXCHANGE_KINDS_H
#define CPEQ_HARNESS_PARALLEL_EXCHANGE_KINDS_H

#include "harness/parallel/exchange.h"

cp_mixer *cp_exchange_ulysses(const cp_exchange_setup *setup);
cp_mixer *cp_exchange_usp(const cp_exchange_setup *setup);
cp_mixer *cp_exchange_allgather(const cp_exchange_setup *setup);
cp_mixer *
cp_exchange_ring(const cp_exchange_setup *setup); /* keeps its part in the first tensor of cp_saved */

/* Ulysses in `group`, a subgroup of setup->comm (or itself), around `inner`, which attends over all tokens of the
 * subgroup and keeps at most CP_INNER_SAVED tensors. `layout` is over the ranks of the subgroup: index[r][b,s] is a
 * token's place among all its tokens. The other verbs are those of setup->comm. Everything is borrowed. */
enum { CP_INNER_SAVED = CP_SAVED_TENSORS - 4 };
cp_mixer *cp_ulysses_around(const cp_exchange_setup *setup, cp_comm *group, const cp_layout *layout,
                            const cp_mixer *inner);

#endif

/* The mixers behind cp_exchange_open, one file each. */
#ifndef CPEQ_HARNESS_PARALLEL_EXCHANGE_KINDS_H
#define CPEQ_HARNESS_PARALLEL_EXCHANGE_KINDS_H

#include "harness/parallel/exchange.h"

cp_mixer *cp_exchange_ulysses(const cp_exchange_setup *setup);

#endif

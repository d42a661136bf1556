/* --exchange. */
#ifndef CPEQ_HARNESS_CLI_EXCHANGES_H
#define CPEQ_HARNESS_CLI_EXCHANGES_H

#include "harness/cli/command.h"
#include "harness/parallel/exchange.h"

/* The exchange where none is asked for: local on 1 rank, else ulysses. */
cp_exchange_spec cp_usual_exchange(int P);

/* One exchange; *out is left alone where none is given. CP_BAD_USAGE as cp_exchange_parse. */
cp_status cp_read_exchange(cp_exchange_spec *out, const cp_arguments *arguments);

/* A list of them, or "all": each kind. At most `room`; *count is left alone where none is given. */
cp_status cp_read_exchanges(cp_exchange_spec *out, int *count, int room, const cp_arguments *arguments);

#endif

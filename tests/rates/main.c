/* What scripts/error-rates runs; see there and rates.h.
 *
 *   rates alarms SEED FIRST COUNT [REPLICATES]
 *   rates misses ENOUGH FIXTURE…
 *   rates power FIXTURE…
 *
 * Ends with 1 where a clean run was judged anything but the same. */
#include "tests/rates/rates.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static int usage(void)
{
    fputs("usage: rates alarms SEED FIRST COUNT [REPLICATES] | misses ENOUGH FIXTURE… | power FIXTURE…\n",
          stderr);
    return 3;
}

int main(int argc, char **argv)
{
    enum { REPLICATES = 96 };
    cp_status status = CP_OK;
    if (argc >= 5 && strcmp(argv[1], "alarms") == 0) {
        int64_t replicates = argc > 5 ? strtoll(argv[5], NULL, 10) : REPLICATES;
        return rates_alarms(stdout, strtoull(argv[2], NULL, 10), strtoll(argv[3], NULL, 10),
                            strtoll(argv[4], NULL, 10), replicates) > 0;
    }
    if (argc >= 4 && strcmp(argv[1], "misses") == 0)
        status = rates_misses(stdout, argv + 3, argc - 3, (int)strtol(argv[2], NULL, 10));
    else if (argc >= 3 && strcmp(argv[1], "power") == 0)
        status = rates_power(stdout, argv + 2, argc - 2);
    else
        return usage();
    if (status != CP_OK)
        fprintf(stderr, "rates: %s\n", cp_error());
    return status == CP_OK ? 0 : 4;
}

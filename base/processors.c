#define _GNU_SOURCE /* sched_getaffinity */
#include "base/processors.h"

#include <sched.h>
#include <unistd.h>

int cp_processors(void)
{
#ifdef CPU_COUNT
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 0)
        return CPU_COUNT(&allowed);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* of more than CPU_SETSIZE, or of another system */
    return online < 1 ? 1 : (int)online;
}

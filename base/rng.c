#include "base/rng.h"

#include "base/status.h"

#include <math.h>

static const double TWO_PI = 6.28318530717958647692;

/* SplitMix64 (Steele, Lea, Flood 2014, with Stafford's constants): the generator whose state is a counter. It passes
 * BigCrush, and the value at an index needs no value before it. */
static uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static const uint64_t STEP = 0x9e3779b97f4a7c15u;

cp_rng cp_rng_named(uint64_t seed, const char *name)
{
    uint64_t key = mixed(seed + STEP);
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        key = mixed((key ^ *c) + STEP);
    return (cp_rng){.key = key};
}

uint64_t cp_rng_bits(cp_rng rng, uint64_t index)
{
    return mixed(rng.key + (index + 1) * STEP);
}

double cp_rng_uniform(cp_rng rng, uint64_t index)
{
    return (double)(cp_rng_bits(rng, index) >> 11) * 0x1p-53;
}

double cp_rng_normal(cp_rng rng, uint64_t index)
{
    double radius = 1 - cp_rng_uniform(rng, 2 * index); /* in (0, 1]: the logarithm is finite */
    double angle = TWO_PI * cp_rng_uniform(rng, 2 * index + 1);
    return sqrt(-2 * log(radius)) * cos(angle);
}

int64_t cp_rng_below(cp_rng rng, uint64_t index, int64_t bound)
{
    cp_check(bound > 0, "nothing is below %lld", (long long)bound);
    return (int64_t)(cp_rng_bits(rng, index) % (uint64_t)bound);
}

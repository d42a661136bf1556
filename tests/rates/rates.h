/* How often the judge is wrong: a row of text for everything that was run, which scripts/error-rates makes tables of.
 * Columns are separated by tabs; the first is the kind of row.
 *
 *   pair   source dtype family exchange layout form P groups micros outcome tensors
 *          a clean run, judged by limits of a calibration; `source`: who ran it; outcome: same, different,
 *          not comparable, blind (too little is seen), uncalibrated (the replicates give no limits)
 *   tensor source dtype name measured
 *          the larger error of that run over the largest of the calibration; no row for a blind tensor
 *   fault  decision value fixture P exchange layout difference dtype outcome excess
 *          a wrong run; `difference`: in float64, of the tensor's norm; excess: in units of the limit
 *   power  dtype name fixture factor share part
 *          of one gradient: the smallest e of a factor 1 + e that is caught, the smallest share of one rank's part
 *          whose loss is (inf: not even all of it), and how large that part is in units of the whole */
#ifndef CPEQ_TESTS_RATES_RATES_H
#define CPEQ_TESTS_RATES_RATES_H

#include "harness/run/run.h"

#include <stdio.h>

/* Clean runs of `count` drawn models from the `first` on, in float64, float32 and bfloat16, each judged by a calibration
 * of its own of `replicates` runs. Returns how many alarms there were. */
int64_t rates_alarms(FILE *out, uint64_t seed, int64_t first, int64_t count, int64_t replicates);

/* Every wrong value until `enough` runs have shown it, on the fixtures that are given, in each dtype. */
cp_status rates_misses(FILE *out, char *const *paths, int count, int enough);

/* What each gradient of these fixtures would be caught at. */
cp_status rates_power(FILE *out, char *const *paths, int count);

#endif

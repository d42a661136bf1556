/* Random small models, batches and ways to run them, each a function of (seed, number) alone. */
#ifndef CPEQ_TESTS_RUN_DRAW_H
#define CPEQ_TESTS_RUN_DRAW_H

#include "base/rng.h"
#include "harness/run/make.h"
#include "harness/run/run.h"

/* A stream of numbers: the n-th call gives the n-th. */
typedef struct draw_stream {
    cp_rng rng;
    uint64_t next;
} draw_stream;

draw_stream draw_open(uint64_t seed, const char *name, int64_t number);
int64_t draw_below(draw_stream *stream, int64_t bound); /* 0 … bound − 1 */
int64_t draw_between(draw_stream *stream, int64_t least, int64_t most);
bool draw_chance(draw_stream *stream, int64_t in); /* true once in so many times */

typedef struct draw_case {
    cp_arena memory; /* growing: of the batch's arrays */
    char *config;
    cp_fixture fixture; /* without expectations */
    cp_model *model;
    char batch[256]; /* what was drawn, in words */
} draw_case;

/* A model of any family and a batch that it takes. */
void draw_model(draw_case *drawn, uint64_t seed, int64_t number);
void draw_close(draw_case *drawn);

/* A way to run it that is not refused, and in words. */
enum { DRAW_TEXT = 256 };
void draw_way(cp_run_options *options, char text[DRAW_TEXT], const draw_case *drawn, uint64_t seed,
              int64_t number);

#endif

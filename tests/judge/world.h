/* A small fixture in memory with its expectations, and an actual side that begins as their copy. A test changes what
 * it is about and judges. */
#ifndef CPEQ_TESTS_JUDGE_WORLD_H
#define CPEQ_TESTS_JUDGE_WORLD_H

#include "harness/judge/diff.h"

enum { WORLD_TENSORS = 64, WORLD_ROOM = 64, WORLD_B = 2, WORLD_T = 4, WORLD_V = 6, WORLD_C = 3 };

typedef struct world_tensor {
    const char *name;
    int dims; /* 0: scalar */
    int64_t extent[CP_MAX_DIMS];
    double values[WORLD_ROOM];
    bool there;
    cp_dtype stored; /* float64, or float32 */
} world_tensor;

typedef struct world_side {
    cp_declaration declaration;
    size_t count;
    world_tensor tensors[WORLD_TENSORS];
} world_side;

/* Row 0 is all real; row 1 ends with one padding position. Ids 0 to 3 are used, 4 and 5 are not. Two layers. */
typedef struct world {
    cp_fixture fixture;
    cp_json *config;
    cp_weight weights[WORLD_TENSORS];
    int64_t input_ids[WORLD_B * WORLD_T];
    cp_attention_inputs attention;
    uint8_t mask[WORLD_B * WORLD_T];
    int64_t documents[WORLD_B * WORLD_T];
    world_side expected, actual;
    bool without_fixture;  /* the expected side is a dump, and no batch is known */
    bool expected_is_dump; /* the expected side is a dump, judged with the fixture's batch */
    cp_source *judged;     /* judged in the actual side's place, where it is set; closed with the judgement */
    cp_diff_options options;
    cp_result result;
} world;

void world_open(world *w);
void world_close(world *w);

/* Tensors of a side by name; the test fails where there is none. */
world_tensor *world_find(world_side *side, const char *name);
world_tensor *world_expected(world *w, const char *name);
world_tensor *world_actual(world *w, const char *name);
world_tensor *world_add(world_side *side, const char *name, int dims, const int64_t *extent);
void world_drop(world_side *side, const char *prefix); /* all that begin so */
void world_scale(world_tensor *tensor, double factor);
int64_t world_count(const world_tensor *tensor);
cp_weight *world_weight(world *w, const char *name);

/* An embedding that is the head too, known to weights, configuration and expectations. */
void world_tie(world *w);

/* An attention function's fixture instead: 2 heads of 2 that read one key/value head, with a sink. */
void world_attention(world *w);

/* The side as a source of its own; tensors are shared with it. */
cp_source *world_source(world_side *side, const char *label);

cp_status world_judge(world *w); /* into w->result, which is closed before */

/* Judges and asserts the verdict. */
void world_expect(world *w, cp_verdict verdict);
/* … and that this tensor has it, with a reason that holds the words. */
void world_expect_tensor(world *w, const char *name, cp_verdict verdict, const char *words);
const cp_tensor_result *world_result(const world *w, const char *name);
/* That one of the sentences holds the words. */
void world_expect_note(const world *w, const char *words);
void world_expect_no_note(const world *w, const char *words);
void world_expect_failure(const world *w, const char *words);

#endif

#include "tests/judge/told.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

world told_world;
const int64_t told_labels[TOKENS] = {0, 1, 2, 0, 1, 2, 1, -100};
const int64_t told_positions[TOKENS] = {0, 1, 2, 3, 0, 1, 2, 3};
const int64_t told_targets[TOKENS] = {1, 2, 0, -100, 2, 1, -100, -100};
static const int64_t told_cut[RANKS][WORLD_B * S] = {{0, 1, 0, 1}, {2, 3, 2, 3}};

told told_by[RANKS];

int told_open(void **state)
{
    (void)state;
    world_open(&told_world);
    told_world.fixture.batch.labels = told_labels;
    memset(told_by, 0, sizeof told_by);
    return 0;
}

int told_close(void **state)
{
    (void)state;
    world_close(&told_world);
    return 0;
}

static cp_status read_told(const cp_source *source, size_t item, int64_t first, int64_t count, double *out)
{
    const told *all = (const told *)source->ran;
    memcpy(out, all->values[item] + first, (size_t)count * sizeof *out);
    return CP_OK;
}

/* ---- telling ---- */

double *tell_array(int rank, const char *name, cp_dtype dtype, int dims, const int64_t *extent)
{
    told *all = &told_by[rank];
    assert_true(all->count < ITEMS);
    cp_ran *item = &all->items[all->count];
    *item = (cp_ran){.tensor = {.name = name, .dtype = dtype, .dims = dims}};
    memcpy(item->tensor.extent, extent, (size_t)dims * sizeof *extent);
    return all->values[all->count++];
}

void tell_digest(int rank, const char *name, const void *bytes, size_t count)
{
    told *all = &told_by[rank];
    cp_hash *hash = cp_hash_open();
    cp_hash_add(hash, bytes, count);
    cp_hash_close(hash, all->digests[all->count]);
    all->items[all->count] = (cp_ran){.tensor = {.name = name}, .digest = all->digests[all->count]};
    all->count++;
}

/* The global token at a rank's position. */
int64_t told_token(int rank, int64_t at)
{
    return at / S * WORLD_T + told_cut[rank][at];
}

/* values[token] at each place of both ranks; returns where rank 1 has them. */
double *tell(const char *name, const int64_t *values)
{
    double *out = NULL;
    for (int rank = 0; rank < RANKS; rank++) {
        out = tell_array(rank, name, CP_I64, 2, CP_EXTENTS(WORLD_B, S));
        for (int64_t at = 0; at < WORLD_B * S; at++)
            out[at] = (double)values[told_token(rank, at)];
    }
    return out;
}

static const char *weight_name(size_t index)
{
    static char names[WORLD_TENSORS][CP_RESULT_NAME];
    snprintf(names[index], sizeof names[index], "weights/%.150s", told_world.weights[index].name);
    return names[index];
}

/* Weights of this world are zeros; `wrong` of them get a one. */
void tell_weights(int rank, size_t wrong)
{
    for (size_t i = 0; i < told_world.fixture.weight_count; i++) {
        double values[WORLD_ROOM] = {i < wrong ? 1 : 0};
        tell_digest(rank, weight_name(i), values,
                    (size_t)cp_tensor_count(told_world.weights[i].tensor) * sizeof *values);
    }
}

/* ---- joining ---- */

static void shard(world_side *side, const world_side *whole, int rank)
{
    *side = *whole;
    side->declaration.cp_size = RANKS;
    side->declaration.cp_rank = rank;
    side->declaration.B = WORLD_B;
    side->declaration.S = S;
    side->declaration.token_index = told_cut[rank];
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "logits" : "token_loss";
        world_tensor *tensor = world_find(side, name);
        const world_tensor *source = world_find((world_side *)whole, name);
        int64_t width = world_count(source) / TOKENS;
        tensor->extent[1] = S;
        for (int64_t at = 0; at < WORLD_B * S; at++)
            memcpy(tensor->values + at * width, source->values + told_token(rank, at) * width,
                   (size_t)width * sizeof *tensor->values);
    }
}

void told_attach(cp_source *source, told *all)
{
    source->ran = all->items;
    source->ran_count = all->count;
    source->read_ran = read_told;
}

cp_source *told_join(void)
{
    static world_side sides[RANKS];
    static const char *const labels_of[RANKS] = {"rank-0000.h5", "rank-0001.h5"};
    cp_source *parts[RANKS], *joined;
    for (int rank = 0; rank < RANKS; rank++) {
        shard(&sides[rank], &told_world.actual, rank);
        parts[rank] = world_source(&sides[rank], labels_of[rank]);
        told_attach(parts[rank], &told_by[rank]);
    }
    assert_ok(cp_source_join(&joined, parts, RANKS, WORLD_B, WORLD_T));
    return joined;
}

void told_expect(cp_verdict verdict)
{
    told_world.judged = told_join();
    world_expect(&told_world, verdict);
}

/* The first finding of the result, and its words. */
void told_expect_first(cp_verdict verdict, const char *name, const char *words)
{
    told_expect(verdict);
    assert_string_equal(told_world.result.tensors[0].name, name);
    assert_int_equal(told_world.result.tensors[0].kind, CP_TENSOR_RAN);
    assert_int_equal(told_world.result.tensors[0].verdict, verdict);
    assert_string_equal(told_world.result.tensors[0].reason, words);
    assert_text_holds(told_world.result.next, name);
}

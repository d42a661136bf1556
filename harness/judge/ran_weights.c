#include "harness/judge/ran_trial.h"

#include "harness/judge/names.h"
#include "harness/judge/sentences.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 12 };

static const char WEIGHTS[] = "weights/";

/* A weight that is expected, and what was found of it. */
typedef struct expectation {
    const cp_weight *weight;                          /* of the fixture; else … */
    const char *name;                                 /* … what a dump calls it */
    char digest[CP_HASH_TEXT], rounded[CP_HASH_TEXT]; /* "": not computed yet */
    bool seen, wrong;
    int32_t part; /* of the first that is wrong */
} expectation;

typedef struct ledger {
    expectation *rows;
    size_t count, unknown;
    const char *first_unknown;
} ledger;

/* ---- digests ---- */

static void hash_weight(char digest[CP_HASH_TEXT], cp_tensor tensor, cp_dtype dtype)
{
    double values[BLOCK];
    cp_hash *hash = cp_hash_open();
    int64_t count = cp_tensor_count(tensor);
    const char *bytes = tensor.data;
    for (int64_t done = 0; done < count; done += BLOCK) {
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        cp_dtype_to_double(values, bytes + (size_t)done * cp_dtype_bytes(tensor.dtype), tensor.dtype,
                           (size_t)n);
        cp_ran_hash(hash, values, n, dtype);
    }
    cp_hash_close(hash, digest);
}

/* A weight that is there as an array is taken by its digest too. */
static cp_status digest_of(char digest[CP_HASH_TEXT], const cp_source *part, size_t item)
{
    const cp_ran *ran = &part->ran[item];
    if (ran->digest) {
        memcpy(digest, ran->digest, CP_HASH_TEXT);
        return CP_OK;
    }
    double values[BLOCK];
    cp_hash *hash = cp_hash_open();
    int64_t count = 1;
    for (int axis = 0; axis < ran->tensor.dims; axis++)
        count *= ran->tensor.extent[axis];
    cp_status status = CP_OK;
    for (int64_t done = 0; done < count && status == CP_OK; done += BLOCK) {
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        status = part->read_ran(part, item, done, n, values);
        if (status == CP_OK)
            cp_hash_add(hash, values, (size_t)n * sizeof *values);
    }
    cp_hash_close(hash, digest);
    return status;
}

/* ---- what is expected ---- */

static expectation *find(const ledger *all, const cp_ran_trial *trial, const char *name)
{
    if (trial->fixture) {
        const cp_weight *weight = cp_name_weight(trial->fixture, name);
        return weight ? &all->rows[weight - trial->fixture->weights] : NULL;
    }
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->rows[i].name, name) == 0)
            return &all->rows[i];
    return NULL;
}

static bool is_weight(const cp_ran *ran)
{
    return strncmp(ran->tensor.name, WEIGHTS, strlen(WEIGHTS)) == 0;
}

/* The weights of the other dump, each as the first rank that tells has it. */
static cp_status expect_dump(ledger *all, const cp_ran_trial *trial)
{
    for (size_t p = 0; p < trial->expected.count; p++) {
        const cp_source *part = trial->expected.parts[p];
        for (size_t i = 0; i < part->ran_count; i++) {
            const char *name = part->ran[i].tensor.name + strlen(WEIGHTS);
            if (!is_weight(&part->ran[i]) || find(all, trial, name))
                continue;
            expectation *row = &all->rows[all->count++];
            row->name = name;
            CP_TRY(digest_of(row->digest, part, i));
        }
    }
    return CP_OK;
}

static cp_status expect(ledger *all, const cp_ran_trial *trial)
{
    size_t room = trial->fixture ? trial->fixture->weight_count : 0;
    for (size_t p = 0; p < trial->expected.count; p++)
        room += trial->expected.parts[p]->ran_count;
    all->rows = calloc(room + 1, sizeof *all->rows);
    cp_check(all->rows, "no memory for %zu weights", room);
    if (!trial->fixture)
        return expect_dump(all, trial);
    for (; all->count < trial->fixture->weight_count; all->count++) {
        expectation *row = &all->rows[all->count];
        row->weight = &trial->fixture->weights[all->count];
        row->name = row->weight->name;
    }
    return CP_OK;
}

/* ---- what is found ---- */

static bool is_right(expectation *row, const cp_ran_trial *trial, const char *found)
{
    if (!row->weight)
        return strcmp(row->digest, found) == 0;
    cp_dtype stored = row->weight->tensor.dtype;
    cp_dtype rounding = cp_ran_rounding(trial, stored);
    if (!row->digest[0])
        hash_weight(row->digest, row->weight->tensor, stored);
    if (strcmp(row->digest, found) == 0 || rounding == stored)
        return strcmp(row->digest, found) == 0;
    if (!row->rounded[0])
        hash_weight(row->rounded, row->weight->tensor, rounding);
    return strcmp(row->rounded, found) == 0;
}

static cp_status look(ledger *all, const cp_ran_trial *trial, int32_t p)
{
    const cp_source *part = trial->found.parts[p];
    for (size_t i = 0; i < part->ran_count; i++) {
        const char *name = part->ran[i].tensor.name + strlen(WEIGHTS);
        if (!is_weight(&part->ran[i]))
            continue;
        expectation *row = find(all, trial, name);
        if (!row) {
            all->first_unknown = all->unknown++ ? all->first_unknown : name;
            continue;
        }
        char digest[CP_HASH_TEXT];
        CP_TRY(digest_of(digest, part, i));
        row->seen = true;
        if (row->wrong || is_right(row, trial, digest))
            continue;
        row->wrong = true;
        row->part = p;
    }
    return CP_OK;
}

static void report(const ledger *all, cp_ran_trial *trial)
{
    size_t seen = 0, wrong = 0;
    const expectation *first = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const expectation *row = &all->rows[i];
        seen += row->seen;
        wrong += row->wrong;
        first = first || !row->wrong ? first : row;
    }
    char where[CP_RAN_WHERE];
    const char *other = trial->fixture ? "the fixture" : trial->expected.source->label;
    if (all->unknown > 0)
        cp_result_note(trial->result, "%s%zu weight%s that ran %s none of %s's, as %s: not compared",
                       trial->whose, all->unknown, all->unknown == 1 ? "" : "s",
                       all->unknown == 1 ? "is" : "are", other, all->first_unknown);
    if (!first) {
        if (seen > 0)
            cp_ran_agree(trial, "%zu of %zu weights", seen, all->count);
        return;
    }
    bool narrower = !trial->fixture && trial->expected.source->declaration.compute_dtype !=
                                           trial->found.source->declaration.compute_dtype;
    if (narrower) /* they may have been rounded, and a digest does not tell */
        cp_result_note(trial->result, "weights: %zu of %zu match between two dtypes: not judged",
                       seen - wrong, seen);
    else
        cp_ran_find_fault(trial, "weights", CP_DIFFERENT, 1, (const int64_t[]){(int64_t)seen},
                          "weights: %zu of %zu match; the first that does not: %s%s", seen - wrong, seen,
                          first->name, cp_ran_where(where, &trial->found, first->part));
}

cp_status cp_ran_weights(cp_ran_trial *trial)
{
    ledger all = {0};
    cp_status status = expect(&all, trial);
    for (size_t p = 0; p < trial->found.count && status == CP_OK; p++)
        status = look(&all, trial, (int32_t)p);
    if (status == CP_OK)
        report(&all, trial);
    free(all.rows);
    return status;
}

#include "harness/judge/ran_trial.h"

#include "harness/files/targets.h"
#include "harness/judge/sentences.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 14 }; /* numbers of one side that are in memory at a time */

/* Not shifted: the target of a position is the next one's label. But a model may shift nothing and call its targets
 * labels: they are right if either reading is, since what became of them is judged by the losses. */
static const char LABELS[] = "labels";

typedef enum input { IDS, EMBEDS, POSITIONS, TARGETS, INPUTS } input;

/* Where a dump has both names of the targets, the shifted ones are what a loss is computed from. */
static const char *const NAMES[INPUTS][2] = {
    [IDS] = {"input_ids"},
    [EMBEDS] = {"inputs_embeds"},
    [POSITIONS] = {"position_ids"},
    [TARGETS] = {"shift_labels", LABELS},
};

/* One input as both sides tell it. */
typedef struct comparison {
    cp_ran_trial *trial;
    input which;
    const char *name, *expected_name; /* the second NULL: the fixture's */
    int64_t B, T, width;              /* width 0: one number a token */
    bool shifted;                     /* labels are read as targets */

    int64_t judged, wrong, token; /* the first token that is wrong, … */
    double found, expected;       /* … and its values */
    int32_t part;                 /* of the first that is wrong */
    bool elsewhere;               /* another part has wrong ones too */
    size_t digests;               /* that were compared */
    int32_t wrong_digest;         /* the part of the first that is wrong; -1: none */
} comparison;

static const cp_batch *batch_of(const comparison *c)
{
    return &c->trial->fixture->batch;
}

static bool has(const cp_source *part, const char *name, bool digest)
{
    int64_t item = cp_ran_find(part, name);
    return item >= 0 && (part->ran[item].digest != NULL) == digest;
}

/* How many parts tell it, as arrays or as digests. */
static size_t tell(const cp_ran_side *side, const char *name, bool digest)
{
    size_t count = 0;
    for (size_t p = 0; p < side->count; p++)
        count += has(side->parts[p], name, digest);
    return count;
}

static const char *name_of(const cp_ran_side *side, input which)
{
    for (size_t i = 0; i < 2 && NAMES[which][i]; i++)
        if (tell(side, NAMES[which][i], false) + tell(side, NAMES[which][i], true) > 0)
            return NAMES[which][i];
    return NULL;
}

static bool fixture_has(const cp_batch *batch, input which)
{
    return which == IDS       ? batch->input_ids != NULL
           : which == EMBEDS  ? batch->inputs_embeds != NULL
           : which == TARGETS ? batch->labels || batch->shift_labels
                              : true;
}

static int32_t part_of(const cp_ran_side *side, int64_t token)
{
    return side->places ? side->places[token].part : 0;
}

static bool is_real(const comparison *c, int64_t token)
{
    return !c->trial->real->rows || c->trial->real->rows[token] == CP_PLACE_JUDGED;
}

/* ---- shapes ---- */

static void reach(comparison *c, const cp_ran_side *side, const char *name)
{
    for (size_t p = 0; p < side->count; p++) {
        int64_t item = cp_ran_find(side->parts[p], name);
        if (item < 0 || side->parts[p]->ran[item].digest)
            continue;
        const cp_source_tensor *tensor = &side->parts[p]->ran[item].tensor;
        if (c->which == EMBEDS && c->width == 0)
            c->width = tensor->dims == 3 ? tensor->extent[2] : 1;
        if (!side->places && tensor->dims >= 2) {
            c->B = tensor->extent[0] > c->B ? tensor->extent[0] : c->B;
            c->T = tensor->extent[1] > c->T ? tensor->extent[1] : c->T;
        }
    }
    if (side->places) {
        c->B = side->source->declaration.B;
        c->T = side->source->declaration.S;
    }
}

static void set_extents(comparison *c)
{
    if (c->trial->fixture) {
        c->B = batch_of(c)->B;
        c->T = batch_of(c)->T;
        c->width = c->which == EMBEDS ? batch_of(c)->C : 0;
        return;
    }
    reach(c, &c->trial->expected, c->expected_name);
    reach(c, &c->trial->found, c->name);
}

/* False, and a finding: an array that does not go with the tokens. */
static bool fits(const comparison *c, const cp_ran_side *side, const char *name)
{
    const cp_declaration *whole = &side->source->declaration;
    if (side->places && (whole->B != c->B || whole->S != c->T)) {
        cp_ran_find_fault(c->trial, name, CP_NOT_COMPARABLE, 2, CP_EXTENTS(c->B, c->T),
                          "of a batch of another shape than the other side's");
        return false;
    }
    for (size_t p = 0; p < side->count; p++) {
        const cp_source *part = side->parts[p];
        int64_t rows = side->places ? part->declaration.B : c->B;
        int64_t length = side->places ? part->declaration.S : c->T;
        int64_t item = cp_ran_find(part, name);
        if (item < 0 || part->ran[item].digest || cp_ran_fits(&part->ran[item], rows, length, c->width))
            continue;
        char found[CP_SHAPE_TEXT], expected[CP_SHAPE_TEXT];
        const cp_source_tensor *tensor = &part->ran[item].tensor;
        cp_ran_find_fault(c->trial, name, CP_NOT_COMPARABLE, 2, CP_EXTENTS(c->B, c->T),
                          "of shape %s in %.200s, expected %s as its tokens",
                          cp_shape_text(found, tensor->dims, tensor->extent), part->label,
                          cp_shape_text(expected, c->width ? 3 : 2, CP_EXTENTS(rows, length, c->width)));
        return false;
    }
    return true;
}

/* ---- arrays ---- */

/* Targets are read as such: of labels that are not shifted those of the next tokens, and none at a row's end. */
static cp_status read_side(const comparison *c, const cp_ran_side *side, const char *name, int64_t first,
                           int64_t count, double *out, int32_t *owner)
{
    int64_t width = c->width ? c->width : 1;
    if (c->shifted || strcmp(name, LABELS) != 0)
        return cp_ran_read(side->source, name, first, count, width, out, owner);
    int64_t behind = c->B * c->T - first - 1;
    CP_TRY(cp_ran_read(side->source, name, first + 1, behind < count ? behind : count, 1, out, owner));
    for (int64_t i = 0; i < count; i++) {
        if ((first + i + 1) % c->T != 0)
            continue;
        int32_t part = part_of(side, first + i);
        out[i] = CP_IGNORED;
        owner[i] = has(side->parts[part], LABELS, false) ? part : -1;
    }
    return CP_OK;
}

static void read_batch(const comparison *c, int64_t first, int64_t count, double *out)
{
    const cp_batch *batch = batch_of(c);
    for (int64_t i = 0, token = first; i < count; i++, token++)
        switch (c->which) {
        case IDS: out[i] = (double)batch->input_ids[token]; break;
        case EMBEDS:
            memcpy(out + i * c->width, batch->inputs_embeds + token * c->width,
                   (size_t)c->width * sizeof *out);
            break;
        case POSITIONS:
            out[i] = (double)(batch->position_ids ? batch->position_ids[token] : token % batch->T);
            break;
        default: out[i] = (double)cp_batch_target(batch, token / batch->T, token % batch->T); break;
        }
}

/* The coarsest type that embeddings went through on their way into the file. */
static cp_dtype coarsest(const comparison *c)
{
    const struct {
        const cp_ran_side *side;
        const char *name;
    } both[] = {{&c->trial->found, c->name}, {&c->trial->expected, c->expected_name}};
    cp_dtype dtype = CP_F64;
    for (int s = 0; s < 2; s++)
        for (size_t p = 0; both[s].name && p < both[s].side->count; p++) {
            const cp_source *part = both[s].side->parts[p];
            int64_t item = cp_ran_find(part, both[s].name);
            const cp_dtype two[] = {part->declaration.compute_dtype,
                                    item >= 0 ? part->ran[item].tensor.dtype : CP_F64};
            for (int i = 0; i < 2; i++)
                dtype = cp_dtype_epsilon(two[i]) > cp_dtype_epsilon(dtype) ? two[i] : dtype;
        }
    return dtype;
}

/* Half a step at `value`; both sides of a pair of dumps may be rounded. */
static double rounding(const comparison *c, cp_dtype dtype, double value)
{
    double smallest = dtype == CP_F64 ? DBL_MIN : dtype == CP_F16 ? 0x1p-14 : (double)FLT_MIN;
    double half = cp_dtype_epsilon(dtype) / 2 * fmax(fabs(value), smallest);
    return c->trial->fixture ? half : 2 * half;
}

static void note_token(comparison *c, int64_t token, int32_t part, const double *found,
                       const double *expected, cp_dtype dtype)
{
    c->judged++;
    for (int64_t i = 0; i < (c->width ? c->width : 1); i++) {
        double most = c->which == EMBEDS ? rounding(c, dtype, expected[i]) : 0;
        if (fabs(found[i] - expected[i]) <= most)
            continue;
        if (c->wrong++ == 0) {
            c->token = token;
            c->found = found[i];
            c->expected = expected[i];
            c->part = part;
        }
        c->elsewhere |= part != c->part;
        return;
    }
}

static cp_status compare_arrays(comparison *c)
{
    int64_t width = c->width ? c->width : 1, tokens = c->B * c->T;
    int64_t step = width < BLOCK ? BLOCK / width : 1;
    double *values = calloc((size_t)(2 * step * width), sizeof *values);
    int32_t *owners = calloc((size_t)(2 * step), sizeof *owners);
    cp_check(values && owners, "no memory for blocks of inputs");
    double *expected = values + step * width;
    int32_t *others = owners + step;
    cp_dtype dtype = coarsest(c);
    cp_status status = CP_OK;
    for (int64_t first = 0; first < tokens && status == CP_OK; first += step) {
        int64_t n = tokens - first < step ? tokens - first : step;
        status = read_side(c, &c->trial->found, c->name, first, n, values, owners);
        if (c->trial->fixture)
            read_batch(c, first, n, expected); /* of all tokens: others stay 0 */
        else if (status == CP_OK)
            status = read_side(c, &c->trial->expected, c->expected_name, first, n, expected, others);
        for (int64_t i = 0; i < n && status == CP_OK; i++)
            if (owners[i] >= 0 && others[i] >= 0 && is_real(c, first + i))
                note_token(c, first + i, owners[i], values + i * width, expected + i * width, dtype);
    }
    free(values);
    free(owners);
    return status;
}

/* ---- digests ---- */

/* Labels as they stand; those of a batch that holds them shifted are shifted back. */
static int64_t label_of(const cp_batch *batch, int64_t token)
{
    if (batch->labels)
        return batch->labels[token];
    return token % batch->T > 0 ? batch->shift_labels[token - 1] : CP_IGNORED;
}

static void hash_batch(char digest[CP_HASH_TEXT], const comparison *c, int32_t part, cp_dtype dtype)
{
    const cp_batch *batch = batch_of(c);
    bool labels = !c->shifted && strcmp(c->name, LABELS) == 0;
    cp_hash *hash = cp_hash_open();
    for (int64_t token = 0; token < c->B * c->T; token++) {
        if (part_of(&c->trial->found, token) != part || !is_real(c, token))
            continue;
        if (c->which == EMBEDS) {
            cp_ran_hash(hash, batch->inputs_embeds + token * c->width, c->width, dtype);
            continue;
        }
        double value;
        read_batch(c, token, 1, &value);
        int64_t number = labels ? label_of(batch, token) : (int64_t)value;
        cp_hash_add(hash, &number, sizeof number);
    }
    cp_hash_close(hash, digest);
}

static void compare_digests(comparison *c)
{
    const cp_ran_side *side = &c->trial->found;
    for (size_t p = 0; p < side->count; p++) {
        if (!has(side->parts[p], c->name, true))
            continue;
        const cp_ran *ran = &side->parts[p]->ran[cp_ran_find(side->parts[p], c->name)];
        cp_dtype stored = c->which == EMBEDS ? c->trial->fixture->embeds_dtype : CP_F64;
        char exact[CP_HASH_TEXT], rounded[CP_HASH_TEXT];
        hash_batch(exact, c, (int32_t)p, CP_F64);
        hash_batch(rounded, c, (int32_t)p, cp_ran_rounding(c->trial, stored));
        bool right = strcmp(ran->digest, exact) == 0 || strcmp(ran->digest, rounded) == 0;
        c->digests++;
        if (!right && c->wrong_digest < 0)
            c->wrong_digest = (int32_t)p;
    }
}

/* Digests of two dumps speak of the same tokens only where each rank holds the same ones. */
static bool same_cut(const comparison *c)
{
    const cp_ran_side *found = &c->trial->found, *expected = &c->trial->expected;
    bool same = found->count == expected->count && !found->places == !expected->places &&
                strcmp(c->name, c->expected_name) == 0;
    if (same && found->places)
        same = found->source->declaration.B == expected->source->declaration.B &&
               found->source->declaration.S == expected->source->declaration.S;
    int64_t tokens = found->source->declaration.B * found->source->declaration.S;
    for (int64_t token = 0; same && found->places && token < tokens; token++)
        same = part_of(found, token) == part_of(expected, token);
    return same;
}

static void compare_two_digests(comparison *c)
{
    const cp_ran_side *found = &c->trial->found, *expected = &c->trial->expected;
    bool comparable = same_cut(c);
    for (size_t p = 0; comparable && p < found->count; p++) {
        const cp_source *mine = found->parts[p], *other = expected->parts[p];
        if (!has(mine, c->name, true) || !has(other, c->name, true))
            continue;
        c->digests++;
        if (c->wrong_digest < 0 && strcmp(mine->ran[cp_ran_find(mine, c->name)].digest,
                                          other->ran[cp_ran_find(other, c->name)].digest) != 0)
            c->wrong_digest = (int32_t)p;
    }
}

/* ---- one input ---- */

static void report(comparison *c)
{
    char where[CP_RAN_WHERE], all[CP_RAN_WHERE + 8] = "";
    const int64_t extent[3] = {c->B, c->T, c->width};
    int dims = c->width ? 3 : 2;
    const cp_ran_side *side = &c->trial->found;
    if (c->wrong > 0 && !c->elsewhere && side->count > 1)
        snprintf(all, sizeof all, ", all%s", cp_ran_where(where, side, c->part));
    size_t telling = tell(side, c->name, false) + tell(side, c->name, true);
    if (c->wrong > 0)
        cp_ran_find_fault(c->trial, c->name, CP_DIFFERENT, dims, extent,
                          "inputs: %s differ at %" PRId64 " of %" PRId64 " real positions%s, first (%" PRId64
                          ",%" PRId64 "): found %.10g, expected %.10g",
                          c->name, c->wrong, c->judged, all, c->token / c->T, c->token % c->T, c->found,
                          c->expected);
    else if (c->wrong_digest >= 0)
        cp_ran_find_fault(c->trial, c->name, CP_DIFFERENT, dims, extent,
                          "inputs: %s differ%s: another digest over its real positions", c->name,
                          cp_ran_where(where, side, c->wrong_digest));
    else if (c->judged == 0 && c->digests == 0)
        cp_result_note(c->trial->result, "%s%s: told in forms that do not compare: not compared",
                       c->trial->whose, c->name);
    else if (telling < side->count)
        cp_ran_agree(c->trial, "%s (%zu of %zu ranks)", c->name, telling, side->count);
    else
        cp_ran_agree(c->trial, "%s", c->name);
}

static cp_status compare_values(comparison *c)
{
    const cp_ran_trial *trial = c->trial;
    bool arrays = tell(&trial->found, c->name, false) > 0 &&
                  (trial->fixture || tell(&trial->expected, c->expected_name, false) > 0);
    if (arrays)
        CP_TRY(compare_arrays(c));
    if (trial->fixture)
        compare_digests(c);
    else
        compare_two_digests(c);
    return CP_OK;
}

static cp_status compare(cp_ran_trial *trial, input which)
{
    comparison c = {.trial = trial, .which = which, .wrong_digest = -1};
    c.name = name_of(&trial->found, which);
    if (!trial->fixture)
        c.expected_name = name_of(&trial->expected, which);
    if (!c.name || (!trial->fixture && !c.expected_name))
        return CP_OK;
    if (trial->fixture && !fixture_has(batch_of(&c), which)) {
        cp_result_note(trial->result, "%s%s: ran, and the fixture has none: not compared", trial->whose,
                       c.name);
        return CP_OK;
    }
    set_extents(&c);
    if (!fits(&c, &trial->found, c.name) || (!trial->fixture && !fits(&c, &trial->expected, c.expected_name)))
        return CP_OK;
    CP_TRY(compare_values(&c));
    bool wrong = c.wrong > 0 || c.wrong_digest >= 0;
    if (wrong && strcmp(c.name, LABELS) == 0) {
        comparison again = {.trial = trial,
                            .which = which,
                            .name = c.name,
                            .expected_name = c.expected_name,
                            .B = c.B,
                            .T = c.T,
                            .shifted = true,
                            .wrong_digest = -1};
        CP_TRY(compare_values(&again));
        c = again.wrong > 0 || again.wrong_digest >= 0 ? c : again;
    }
    report(&c);
    return CP_OK;
}

cp_status cp_ran_inputs(cp_ran_trial *trial)
{
    for (int which = 0; which < INPUTS; which++)
        CP_TRY(compare(trial, (input)which));
    return CP_OK;
}

#include "harness/files/join_parts.h"
#include "harness/files/join_rules.h"
#include "harness/files/slices.h"
#include "harness/files/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 13 }; /* elements of one part that are in memory at a time */

typedef struct joined {
    cp_source source;
    cp_pool pool;
    cp_source **parts; /* owned, by rank */
    size_t count;
    int64_t B, T;
    const cp_place *places; /* NULL: one whole part, in order */
    const cp_place *logits; /* of logits that are kept of some positions alone; NULL: none are */
    const uint8_t *kept;    /* [B,T] with it */
    cp_source_tensor *tensors;
    int64_t *index; /* [tensor][part]: where the part has it; -1: declared absent */
    double divisor; /* of a summed loss; 0: not known */
    double *block;  /* [BLOCK] */
} joined;

/* Where the rows of a tensor lie; NULL: in order. */
static const cp_place *places_of(const joined *j, const char *name)
{
    return j->logits && strcmp(name, "logits") == 0 ? j->logits : j->places;
}

/* ---- the tensors ------------------------------------------------------------------------------------------------- */

/* A rank whose gradient is None adds nothing to a sum; among replicas it contradicts the others. */
static cp_status check_lacking(const joined *j, const cp_source *part, const cp_source *other,
                               const char *name)
{
    bool declared = strncmp(name, "grads/", 6) == 0 && cp_join_rule_of(name) == CP_RULE_GRADIENT &&
                    cp_lines_have(part->declaration.grad_absent, name + 6);
    if (declared && part->declaration.gradients != CP_GRADIENTS_REDUCED)
        return CP_OK;
    return cp_fail(CP_INCOMPARABLE, "%s: /%s: expected as in %s, found %s", part->label, name,
                   other ? other->label : j->parts[0]->label,
                   declared ? "it in grad_absent of a rank with reduced gradients" : "nothing");
}

static cp_status check_shape(const joined *j, const cp_source *part, const cp_source_tensor *tensor)
{
    if (cp_join_rule_of(tensor->name) != CP_RULE_ROWS || !j->places ||
        places_of(j, tensor->name) == j->logits)
        return CP_OK;
    const cp_declaration *said = &part->declaration;
    if (tensor->dims >= 2 && tensor->extent[0] == said->B && tensor->extent[1] == said->S)
        return CP_OK;
    char found[CP_SHAPE_TEXT];
    return cp_fail(CP_INCOMPARABLE, "%s: /%s: shape %s, expected [%" PRId64 ",%" PRId64 ",…] as token_index",
                   part->label, tensor->name, cp_shape_text(found, tensor->dims, tensor->extent), said->B,
                   said->S);
}

/* Two parts' pieces of one tensor: rows may be of different numbers, all else is equal. */
static cp_status check_pieces(const cp_source *part, const cp_source_tensor *found, const cp_source *first,
                              const cp_source_tensor *expected)
{
    int skipped = cp_join_rule_of(found->name) != CP_RULE_ROWS ? 0
                  : part->declaration.logits_index && found->dims == 2 && strcmp(found->name, "logits") == 0
                      ? 1
                      : 2;
    bool same = found->dims == expected->dims;
    for (int axis = skipped; same && axis < found->dims; axis++)
        same = found->extent[axis] == expected->extent[axis];
    char text[CP_SHAPE_TEXT], wanted[CP_SHAPE_TEXT];
    if (!same)
        return cp_fail(CP_INCOMPARABLE, "%s: /%s: shape %s, which does not go with %s in %s", part->label,
                       found->name, cp_shape_text(text, found->dims, found->extent),
                       cp_shape_text(wanted, expected->dims, expected->extent), first->label);
    if (found->dtype != expected->dtype)
        return cp_fail(CP_INCOMPARABLE, "%s: /%s: stored as %s, expected %s as in %s", part->label,
                       found->name, cp_dtype_name(found->dtype), cp_dtype_name(expected->dtype),
                       first->label);
    return CP_OK;
}

static cp_status join_tensor(joined *j, cp_source_tensor *out, int64_t *index, const char *name)
{
    const cp_source *owner = NULL;
    bool sliced = false;
    for (size_t p = 0; p < j->count; p++)
        index[p] = cp_source_find(j->parts[p], name);
    if (cp_join_rule_of(name) == CP_RULE_GRADIENT)
        CP_TRY(cp_slices_join(&sliced, out, j->parts, index, j->count));
    if (sliced)
        return cp_pool_text(&j->pool, &out->name, name);
    for (size_t p = 0; p < j->count; p++) {
        const cp_source *part = j->parts[p];
        if (index[p] < 0)
            continue;
        const cp_source_tensor *piece = &part->tensors[index[p]];
        CP_TRY(check_shape(j, part, piece));
        if (owner) {
            CP_TRY(check_pieces(part, piece, owner, out));
        } else {
            owner = part;
            *out = *piece;
        }
    }
    for (size_t p = 0; p < j->count; p++)
        if (index[p] < 0)
            CP_TRY(check_lacking(j, j->parts[p], owner, name));
    if (cp_join_rule_of(name) == CP_RULE_NONE && j->count > 1)
        return cp_fail(CP_INCOMPARABLE, "%s: /%s: no rule says how the ranks' values make one", owner->label,
                       name);
    if (cp_join_rule_of(name) == CP_RULE_ROWS && places_of(j, name)) {
        if (places_of(j, name) == j->logits) { /* [n,V] */
            out->dims = 3;
            out->extent[2] = out->extent[1];
        }
        out->extent[0] = j->B;
        out->extent[1] = j->T;
    }
    return cp_pool_text(&j->pool, &out->name, name);
}

static cp_status join_tensors(joined *j)
{
    const char **names;
    size_t count;
    void *tensors, *index;
    CP_TRY(cp_join_names(&j->pool, &names, &count, j->parts, j->count));
    CP_TRY(cp_pool_take(&j->pool, &tensors, count, sizeof *j->tensors));
    CP_TRY(cp_pool_take(&j->pool, &index, count * j->count, sizeof *j->index));
    j->tensors = tensors;
    j->index = index;
    for (size_t t = 0; t < count; t++)
        CP_TRY(join_tensor(j, &j->tensors[t], j->index + t * j->count, names[t]));
    j->source.tensors = j->tensors;
    j->source.count = count;
    return CP_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const int64_t *index_of(const joined *j, size_t tensor)
{
    return j->index + tensor * j->count;
}

static cp_status read_part(const joined *j, size_t part, size_t tensor, int64_t first, int64_t count,
                           double *out)
{
    const cp_source *source = j->parts[part];
    return source->read(source, (size_t)index_of(j, tensor)[part], first, count, out);
}

static void scale(double *out, int64_t count, double factor)
{
    for (int64_t i = 0; i < count; i++)
        out[i] /= factor;
}

/* Neighbouring tokens that are neighbours in their part too are read at once. */
static cp_status read_rows(const joined *j, size_t tensor, int64_t first, int64_t count, double *out)
{
    const cp_source_tensor *t = &j->tensors[tensor];
    const cp_place *places = places_of(j, t->name);
    int64_t inner = 1;
    for (int axis = 2; axis < t->dims; axis++)
        inner *= t->extent[axis];
    while (count > 0) {
        int64_t token = first / inner, within = first % inner;
        cp_place place = places[token];
        int64_t run = inner - within;
        for (int64_t next = 1; run < count && token + next < j->B * j->T; next++) {
            cp_place follower = places[token + next];
            if (follower.part != place.part || follower.row != place.row + next)
                break;
            run += inner;
        }
        run = run < count ? run : count;
        if (place.part != CP_NO_PART)
            CP_TRY(read_part(j, (size_t)place.part, tensor, place.row * inner + within, run, out));
        for (int64_t i = 0; place.part == CP_NO_PART && i < run; i++)
            out[i] = NAN;
        first += run;
        count -= run;
        out += run;
    }
    return CP_OK;
}

/* Σ over the ranks, in rank order, in double. */
static cp_status read_sum(const joined *j, size_t tensor, int64_t first, int64_t count, double *out)
{
    bool started = false;
    for (size_t p = 0; p < j->count; p++) {
        if (index_of(j, tensor)[p] < 0)
            continue;
        if (!started) {
            CP_TRY(read_part(j, p, tensor, first, count, out));
            started = true;
            continue;
        }
        for (int64_t done = 0; done < count;) {
            int64_t n = count - done < BLOCK ? count - done : BLOCK;
            CP_TRY(read_part(j, p, tensor, first + done, n, j->block));
            for (int64_t i = 0; i < n; i++)
                out[done + i] += j->block[i];
            done += n;
        }
    }
    return CP_OK;
}

static cp_status read_gradient(const joined *j, size_t tensor, int64_t first, int64_t count, double *out)
{
    cp_gradient_kind kind = j->parts[0]->declaration.gradients;
    const cp_source_tensor *whole = &j->tensors[tensor];
    if (whole->slice)
        return cp_slices_read(whole, j->parts, index_of(j, tensor), j->count, first, count, out);
    if (kind == CP_GRADIENTS_REDUCED)
        return read_part(j, 0, tensor, first, count, out);
    CP_TRY(read_sum(j, tensor, first, count, out));
    if (kind == CP_GRADIENTS_MEAN)
        scale(out, count, (double)j->count);
    return CP_OK;
}

static cp_status divide_loss(const joined *j, double *loss)
{
    const cp_declaration *said = &j->parts[0]->declaration;
    if (!(j->divisor > 0))
        return cp_fail(CP_INCOMPARABLE,
                       "%s: /loss: loss_kind %s, but neither loss_count nor a fixture's batch gives a target "
                       "to divide by",
                       j->source.label, cp_loss_kind_name(said->loss_kind));
    *loss /= j->divisor;
    return CP_OK;
}

static cp_status read_loss(const joined *j, size_t tensor, int64_t first, int64_t count, double *out)
{
    cp_loss_kind kind = j->parts[0]->declaration.loss_kind;
    if (kind == CP_LOSS_GLOBAL)
        return read_part(j, 0, tensor, first, count, out);
    if (kind != CP_LOSS_LOCAL_MEAN)
        CP_TRY(read_sum(j, tensor, first, count, out));
    else {
        *out = 0;
        for (size_t p = 0; p < j->count; p++) {
            double mean, targets = (double)j->parts[p]->declaration.loss_count;
            CP_TRY(read_part(j, p, tensor, 0, 1, &mean));
            *out += targets > 0 ? mean * targets : 0; /* a mean over nothing is no number */
        }
    }
    if (kind == CP_LOSS_MEAN)
        scale(out, count, (double)j->count);
    return kind == CP_LOSS_SHARE || kind == CP_LOSS_MEAN ? CP_OK : divide_loss(j, out);
}

static cp_status read_joined(const cp_source *source, size_t tensor, int64_t first, int64_t count,
                             double *out)
{
    const joined *j = source->state;
    const char *name = source->tensors[tensor].name;
    if (count == 0)
        return CP_OK;
    switch (cp_join_rule_of(name)) {
    case CP_RULE_LOSS:
        CP_TRY(source->tensors[tensor].dims == 0 ? read_loss(j, tensor, first, count, out)
                                                 : read_part(j, 0, tensor, first, count, out));
        break;
    case CP_RULE_ROWS:
        CP_TRY(places_of(j, name) ? read_rows(j, tensor, first, count, out)
                                  : read_part(j, 0, tensor, first, count, out));
        break;
    case CP_RULE_GRADIENT: CP_TRY(read_gradient(j, tensor, first, count, out)); break;
    case CP_RULE_SAME:
    case CP_RULE_NONE: CP_TRY(read_part(j, 0, tensor, first, count, out)); break;
    }
    double factor = j->parts[0]->declaration.grad_scale;
    if (cp_join_scaled(name) && factor != 1)
        scale(out, count, factor);
    return CP_OK;
}

void cp_join_divide(cp_source *source, double count)
{
    cp_check(source->read == read_joined, "%s is not joined", source->label);
    ((joined *)source->state)->divisor = count;
}

size_t cp_join_parts(const cp_source *source, cp_source *const **parts, const cp_place **places)
{
    if (source->read != read_joined)
        return 0;
    const joined *j = source->state;
    *parts = j->parts;
    *places = j->places;
    return j->count;
}

const uint8_t *cp_join_kept(const cp_source *source)
{
    return source->read == read_joined ? ((const joined *)source->state)->kept : NULL;
}

/* ---- replicas ---------------------------------------------------------------------------------------------------- */

static cp_status compare_replica(const joined *j, size_t tensor, size_t other, size_t part,
                                 double *difference)
{
    const cp_source_tensor *t = &j->parts[part]->tensors[index_of(j, tensor)[part]];
    int64_t count = 1;
    for (int axis = 0; axis < t->dims; axis++)
        count *= t->extent[axis];
    double first[256], squares = 0, reference = 0;
    enum { STEP = sizeof first / sizeof *first };
    for (int64_t done = 0; done < count; done += STEP) {
        int64_t n = count - done < STEP ? count - done : STEP;
        CP_TRY(read_part(j, other, tensor, done, n, first));
        CP_TRY(read_part(j, part, tensor, done, n, j->block));
        for (int64_t i = 0; i < n; i++) {
            squares += (j->block[i] - first[i]) * (j->block[i] - first[i]);
            reference += first[i] * first[i];
        }
    }
    double relative = squares == 0 ? 0 : sqrt(squares / reference);
    *difference = isfinite(squares) && isfinite(reference) ? relative : INFINITY;
    return CP_OK;
}

cp_status cp_join_replicas(const cp_source *source, size_t tensor, double *difference)
{
    *difference = 0;
    if (source->read != read_joined)
        return CP_OK;
    const joined *j = source->state;
    const cp_declaration *said = &j->parts[0]->declaration;
    cp_join_rule how = cp_join_rule_of(source->tensors[tensor].name);
    bool replicated = how == CP_RULE_SAME ||
                      (how == CP_RULE_GRADIENT && said->gradients == CP_GRADIENTS_REDUCED) ||
                      (how == CP_RULE_LOSS && said->loss_kind == CP_LOSS_GLOBAL);
    for (size_t p = 1; replicated && p < j->count; p++) {
        double one = 0;
        bool sliced = source->tensors[tensor].slice;
        int64_t other = sliced ? cp_slices_twin(j->parts, index_of(j, tensor), p) : 0;
        if (other >= 0)
            CP_TRY(compare_replica(j, tensor, (size_t)other, p, &one));
        *difference = one > *difference ? one : *difference;
    }
    return CP_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void close_joined(cp_source *source)
{
    joined *j = source->state;
    for (size_t p = 0; p < j->count; p++)
        cp_source_close(j->parts[p]);
    cp_pool_close(&j->pool);
    free(j);
}

/* Lines that are in the lists of all parts (grad_absent), or in any (notes). */
static cp_status merge_lines(joined *j, const char **out, const char *(*lines_of)(const cp_source *),
                             bool in_all)
{
    size_t sources = in_all ? 1 : j->count;
    size_t room = 1;
    for (size_t p = 0; p < sources; p++)
        room += strlen(lines_of(j->parts[p])) + 1;
    void *memory;
    CP_TRY(cp_pool_take(&j->pool, &memory, room, 1));
    char *end = memory;
    *out = memory;
    char line[CP_NAME_BYTES];
    for (size_t p = 0; p < sources; p++) {
        for (const char *cursor = lines_of(j->parts[p]); cp_lines_next(&cursor, line);) {
            bool wanted = in_all || !cp_lines_have(*out, line);
            for (size_t other = 1; in_all && other < j->count; other++)
                wanted &= cp_lines_have(lines_of(j->parts[other]), line);
            if (wanted)
                end += sprintf(end, "%s\n", line);
        }
    }
    return CP_OK;
}

static const char *absent_of(const cp_source *part)
{
    return part->declaration.grad_absent;
}

static const char *notes_of(const cp_source *part)
{
    return part->notes ? part->notes : "";
}

static cp_status describe(joined *j)
{
    cp_source *source = &j->source;
    source->declaration = j->parts[0]->declaration;
    cp_declaration *said = &source->declaration;
    said->cp_rank = -1;
    said->token_index = said->batch_index = said->logits_index = NULL;
    said->logits_rows = 0;
    said->B = j->B;
    said->S = j->T;
    said->loss_kind = CP_LOSS_GLOBAL;
    said->loss_count = -1;
    said->gradients = CP_GRADIENTS_REDUCED;
    said->grad_scale = 1;
    bool counted = true;
    int64_t targets = 0;
    for (size_t p = 0; p < j->count; p++) {
        counted &= j->parts[p]->declaration.loss_count >= 0;
        targets += j->parts[p]->declaration.loss_count;
    }
    if (counted) {
        said->loss_count = targets;
        j->divisor = (double)targets;
    }
    CP_TRY(merge_lines(j, &said->grad_absent, absent_of, true));
    CP_TRY(merge_lines(j, &source->notes, notes_of, false));
    const char *label = j->parts[0]->label;
    return j->count == 1 ? cp_pool_text(&j->pool, &source->label, label)
                         : cp_pool_format(&j->pool, &source->label, "%s … (%zu ranks)", label, j->count);
}

static cp_status join(joined *j)
{
    if (j->count == 0)
        return cp_fail(CP_INCOMPARABLE, "no dump is given");
    CP_TRY(cp_join_check(j->parts, j->count));
    if (j->parts[0]->declaration.token_index)
        CP_TRY(cp_join_places(&j->pool, &j->places, &j->B, &j->T, j->parts, j->count));
    CP_TRY(cp_join_kept_places(&j->pool, &j->logits, &j->kept, &j->B, &j->T, j->parts, j->count));
    void *block;
    CP_TRY(cp_pool_take(&j->pool, &block, BLOCK, sizeof *j->block));
    j->block = block;
    CP_TRY(describe(j));
    return join_tensors(j);
}

cp_status cp_source_join(cp_source **out, cp_source **parts, size_t count, int64_t B, int64_t T)
{
    *out = NULL;
    cp_status status;
    joined *j = calloc(1, sizeof *j);
    void *owned = NULL;
    if (!j)
        status = cp_fail(CP_INTERNAL, "no memory to join %zu dumps", count);
    else
        status = cp_pool_take(&j->pool, &owned, count, sizeof *parts);
    if (status != CP_OK) {
        for (size_t p = 0; p < count; p++)
            cp_source_close(parts[p]);
        free(j);
        return status;
    }
    j->source = (cp_source){.read = read_joined, .close = close_joined, .state = j};
    j->parts = owned;
    j->count = count;
    j->B = B;
    j->T = T;
    for (size_t p = 0; p < count; p++)
        j->parts[p] = parts[p];
    status = join(j);
    if (status != CP_OK) {
        close_joined(&j->source);
        return status;
    }
    *out = &j->source;
    return CP_OK;
}

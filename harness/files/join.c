#include "harness/files/join_parts.h"
#include "harness/files/join_read.h"
#include "harness/files/join_rules.h"
#include "harness/files/slices.h"
#include "harness/files/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 12 };          /* elements of one part that are in memory at a time */
enum { REPLICA_BYTES = 32 << 20 }; /* what may be unpacked while replicas are compared */

/* ---- the tensors ------------------------------------------------------------------------------------------------- */

/* A rank whose gradient is None adds nothing to a sum; among replicas it contradicts the others. */
static cp_status check_lacking(const cp_joined *j, const cp_source *part, const cp_source *other,
                               const char *name)
{
    cp_join_rule rule = cp_join_rule_of(name);
    const char *slash = strchr(name, '/');
    bool declared = slash && (rule == CP_RULE_GRADIENT || rule == CP_RULE_SUM) &&
                    cp_lines_have(part->declaration.grad_absent, slash + 1);
    if (declared && (rule == CP_RULE_SUM || part->declaration.gradients != CP_GRADIENTS_REDUCED))
        return CP_OK;
    return cp_fail(CP_INCOMPARABLE, "%s: /%s: expected as in %s, found %s", part->label, name,
                   other ? other->label : j->parts[0]->label,
                   declared ? "it in grad_absent of a rank with reduced gradients" : "nothing");
}

static cp_status check_shape(const cp_joined *j, const cp_source *part, const cp_source_tensor *tensor)
{
    if (cp_join_rule_of(tensor->name) != CP_RULE_ROWS || !j->places ||
        cp_joined_places(j, tensor->name) == j->logits)
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

static cp_status join_tensor(cp_joined *j, cp_source_tensor *out, int64_t *index, const char *name)
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
    if (cp_join_rule_of(name) == CP_RULE_ROWS && cp_joined_places(j, name)) {
        if (cp_joined_places(j, name) == j->logits) { /* [n,V] */
            out->dims = 3;
            out->extent[2] = out->extent[1];
        }
        out->extent[0] = j->B;
        out->extent[1] = j->T;
    }
    return cp_pool_text(&j->pool, &out->name, name);
}

static cp_status join_tensors(cp_joined *j)
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

void cp_join_divide(cp_source *source, double count)
{
    cp_check(source->read == cp_joined_read, "%s is not joined", source->label);
    ((cp_joined *)source->state)->divisor = count;
}

static int64_t targets_of(const cp_joined *j, size_t part, const uint8_t *is_target)
{
    int64_t targets = 0;
    for (int64_t token = 0; token < j->B * j->T; token++)
        targets += is_target[token] && (!j->places || j->places[token].part == (int32_t)part);
    return targets;
}

cp_status cp_join_count(cp_source *source, const uint8_t *is_target)
{
    cp_check(source->read == cp_joined_read, "%s is not joined", source->label);
    cp_joined *j = source->state;
    for (size_t p = 0; p < j->count; p++) {
        int64_t said = j->parts[p]->declaration.loss_count, targets = targets_of(j, p, is_target);
        if (said >= 0 && said != targets)
            CP_TRY(cp_pool_format(&j->pool, &source->notes,
                                  "%s%s: declares loss_count %" PRId64 ", and its positions have %" PRId64
                                  " targets of the whole rows\n",
                                  source->notes ? source->notes : "", j->parts[p]->label, said, targets));
    }
    return CP_OK;
}

size_t cp_join_parts(const cp_source *source, cp_source *const **parts, const cp_place **places)
{
    if (source->read != cp_joined_read)
        return 0;
    const cp_joined *j = source->state;
    *parts = j->parts;
    *places = j->places;
    return j->count;
}

const uint8_t *cp_join_kept(const cp_source *source)
{
    return source->read == cp_joined_read ? ((const cp_joined *)source->state)->kept : NULL;
}

/* ---- replicas ---------------------------------------------------------------------------------------------------- */

static cp_status compare_replica(const cp_joined *j, cp_view *view, size_t tensor, size_t other, size_t part,
                                 double *difference)
{
    const cp_source_tensor *t = &j->parts[part]->tensors[(j->index + tensor * j->count)[part]];
    int64_t count = 1;
    for (int axis = 0; axis < t->dims; axis++)
        count *= t->extent[axis];
    double ours[BLOCK], theirs[BLOCK], squares = 0, reference = 0;
    for (int64_t done = 0; done < count; done += BLOCK) {
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        CP_TRY(cp_joined_part(j, view, other, tensor, done, n, ours));
        CP_TRY(cp_joined_part(j, view, part, tensor, done, n, theirs));
        for (int64_t i = 0; i < n; i++) {
            squares += (theirs[i] - ours[i]) * (theirs[i] - ours[i]);
            reference += ours[i] * ours[i];
        }
    }
    double relative = squares == 0 ? 0 : sqrt(squares / reference);
    *difference = isfinite(squares) && isfinite(reference) ? relative : INFINITY;
    return CP_OK;
}

cp_status cp_join_replicas(const cp_source *source, size_t tensor, double *difference)
{
    *difference = 0;
    if (source->read != cp_joined_read)
        return CP_OK;
    const cp_joined *j = source->state;
    const cp_declaration *said = &j->parts[0]->declaration;
    cp_join_rule how = cp_join_rule_of(source->tensors[tensor].name);
    bool replicated = how == CP_RULE_SAME ||
                      (how == CP_RULE_GRADIENT && said->gradients == CP_GRADIENTS_REDUCED) ||
                      (how == CP_RULE_LOSS && said->loss_kind == CP_LOSS_GLOBAL);
    cp_view view;
    cp_view_open(&view, REPLICA_BYTES);
    cp_status status = cp_view_parts(&view, j->count);
    for (size_t p = 1; replicated && p < j->count && status == CP_OK; p++) {
        double one = 0;
        bool sliced = source->tensors[tensor].slice;
        int64_t other = sliced ? cp_slices_twin(j->parts, (j->index + tensor * j->count), p) : 0;
        if (other >= 0)
            status = compare_replica(j, &view, tensor, (size_t)other, p, &one);
        *difference = one > *difference ? one : *difference;
    }
    cp_view_close(&view);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void close_joined(cp_source *source)
{
    cp_joined *j = source->state;
    for (size_t p = 0; p < j->count; p++)
        cp_source_close(j->parts[p]);
    cp_pool_close(&j->pool);
    free(j);
}

/* Lines that are in the lists of all parts (grad_absent), or in any (notes). */
static cp_status merge_lines(cp_joined *j, const char **out, const char *(*lines_of)(const cp_source *),
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

static cp_status describe(cp_joined *j)
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

static cp_status join(cp_joined *j)
{
    if (j->count == 0)
        return cp_fail(CP_INCOMPARABLE, "no dump is given");
    CP_TRY(cp_join_check(j->parts, j->count));
    if (j->parts[0]->declaration.token_index)
        CP_TRY(cp_join_places(&j->pool, &j->places, &j->B, &j->T, j->parts, j->count));
    CP_TRY(cp_join_kept_places(&j->pool, &j->logits, &j->kept, &j->B, &j->T, j->parts, j->count));
    CP_TRY(describe(j));
    return join_tensors(j);
}

cp_status cp_source_join(cp_source **out, cp_source **parts, size_t count, int64_t B, int64_t T)
{
    *out = NULL;
    cp_status status;
    cp_joined *j = calloc(1, sizeof *j);
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
    j->source = (cp_source){.read = cp_joined_read,
                            .look = cp_joined_look,
                            .grain = cp_joined_grain,
                            .close = close_joined,
                            .state = j};
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

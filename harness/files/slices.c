#include "harness/files/slices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what a file says -------------------------------------------------------------------------------------------- */

static cp_status read_axes(int64_t *out, cp_h5 *file, const char *object, const char *name,
                           const cp_source_tensor *tensor, bool *found)
{
    int count = 0;
    CP_TRY(cp_h5_integers(file, object, name, out, CP_MAX_DIMS, &count, found));
    return *found && count != tensor->dims
               ? cp_fail(CP_BAD_INPUT, "%s: %s: attribute %s: expected %d integers, found %d",
                         cp_h5_path(file), object, name, tensor->dims, count)
               : CP_OK;
}

cp_status cp_slice_read(cp_source_tensor *tensor, cp_h5 *file, const char *object)
{
    bool shaped, placed, copied;
    int64_t replicated = 0;
    CP_TRY(read_axes(tensor->whole, file, object, "global_shape", tensor, &shaped));
    CP_TRY(read_axes(tensor->offset, file, object, "offset", tensor, &placed));
    CP_TRY(cp_h5_integer(file, object, "replicated", &replicated, &copied));
    if (shaped != placed)
        return cp_fail(CP_BAD_INPUT, "%s: %s: attribute %s: expected beside %s, found nothing",
                       cp_h5_path(file), object, shaped ? "offset" : "global_shape",
                       shaped ? "global_shape" : "offset");
    if (copied && !shaped)
        return cp_fail(CP_INCOMPARABLE, "%s: %s: declares attribute replicated of what is no slice",
                       cp_h5_path(file), object);
    tensor->slice = shaped;
    tensor->replicated = replicated != 0;
    for (int axis = 0; shaped && axis < tensor->dims; axis++) {
        int64_t from = tensor->offset[axis], whole = tensor->whole[axis], size = tensor->extent[axis];
        if (from < 0 || whole < 0 || from > whole || size > whole - from)
            return cp_fail(CP_BAD_INPUT,
                           "%s: %s: axis %d: %" PRId64 " from %" PRId64 " on, expected to lie in %" PRId64
                           " of global_shape",
                           cp_h5_path(file), object, axis, size, from, whole);
    }
    return CP_OK;
}

/* ---- putting together -------------------------------------------------------------------------------------------- */

static const cp_source_tensor *piece_of(cp_source *const *parts, const int64_t *index, size_t part)
{
    const cp_source_tensor *piece = index[part] >= 0 ? &parts[part]->tensors[index[part]] : NULL;
    for (int axis = 0; piece && axis < piece->dims; axis++)
        if (piece->extent[axis] == 0)
            return NULL;
    return piece;
}

static bool overlap(const cp_source_tensor *a, const cp_source_tensor *b)
{
    for (int axis = 0; axis < a->dims; axis++)
        if (a->offset[axis] >= b->offset[axis] + b->extent[axis] ||
            b->offset[axis] >= a->offset[axis] + a->extent[axis])
            return false;
    return true;
}

static bool are_twins(const cp_source_tensor *a, const cp_source_tensor *b)
{
    size_t bytes = (size_t)a->dims * sizeof *a->offset;
    return a->replicated && b->replicated && memcmp(a->offset, b->offset, bytes) == 0 &&
           memcmp(a->extent, b->extent, bytes) == 0;
}

int64_t cp_slices_twin(cp_source *const *parts, const int64_t *index, size_t part)
{
    const cp_source_tensor *piece = piece_of(parts, index, part);
    for (size_t other = 0; piece && other < part; other++) {
        const cp_source_tensor *found = piece_of(parts, index, other);
        if (found && are_twins(found, piece))
            return (int64_t)other;
    }
    return -1;
}

static cp_status check_same_whole(const cp_source *part, const cp_source_tensor *piece,
                                  const cp_source *first, const cp_source_tensor *expected)
{
    char found[CP_SHAPE_TEXT], wanted[CP_SHAPE_TEXT];
    if (!piece->slice)
        return cp_fail(CP_INCOMPARABLE, "%s: /%s: the whole tensor, expected a slice as in %s", part->label,
                       piece->name, first->label);
    if (part->declaration.gradients != CP_GRADIENTS_REDUCED)
        return cp_fail(CP_INCOMPARABLE, "%s: /%s: a slice of gradients that are %s, expected reduced ones",
                       part->label, piece->name, cp_gradient_kind_name(part->declaration.gradients));
    if (piece->dims == expected->dims && piece->dtype == expected->dtype &&
        memcmp(piece->whole, expected->whole, (size_t)piece->dims * sizeof *piece->whole) == 0)
        return CP_OK;
    return cp_fail(CP_INCOMPARABLE, "%s: /%s: a slice of %s %s, expected %s %s as in %s", part->label,
                   piece->name, cp_dtype_name(piece->dtype), cp_shape_text(found, piece->dims, piece->whole),
                   cp_dtype_name(expected->dtype), cp_shape_text(wanted, expected->dims, expected->whole),
                   first->label);
}

/* Boxes that do not overlap hold as many elements as the whole only where they fill it. */
static cp_status check_cover(const cp_source_tensor *whole, cp_source *const *parts, const int64_t *index,
                             size_t count)
{
    double held = 0, all = 1; /* exact: both are counts of what lies on disks */
    for (int axis = 0; axis < whole->dims; axis++)
        all *= (double)whole->extent[axis];
    for (size_t p = 0; p < count; p++) {
        const cp_source_tensor *piece = piece_of(parts, index, p);
        if (!piece || cp_slices_twin(parts, index, p) >= 0)
            continue;
        double size = 1;
        for (int axis = 0; axis < piece->dims; axis++)
            size *= (double)piece->extent[axis];
        held += size;
        for (size_t other = 0; other < p; other++) {
            const cp_source_tensor *found = piece_of(parts, index, other);
            if (found && overlap(found, piece) && !are_twins(found, piece))
                return cp_fail(
                    CP_INCOMPARABLE,
                    "%s: /%s: a slice that overlaps with that of %s; a slice that several hold is declared "
                    "replicated in each",
                    parts[p]->label, whole->name, parts[other]->label);
        }
    }
    return held == all ? CP_OK
                       : cp_fail(CP_INCOMPARABLE, "%s: /%s: %.0f of its %.0f elements are on no rank",
                                 parts[0]->label, whole->name, all - held, all);
}

cp_status cp_slices_join(bool *sliced, cp_source_tensor *whole, cp_source *const *parts, const int64_t *index,
                         size_t count)
{
    size_t first = 0;
    while (first < count && !(index[first] >= 0 && parts[first]->tensors[index[first]].slice))
        first++;
    *sliced = first < count;
    if (!*sliced)
        return CP_OK;
    const cp_source_tensor *example = &parts[first]->tensors[index[first]];
    for (size_t p = 0; p < count; p++)
        if (index[p] >= 0)
            CP_TRY(check_same_whole(parts[p], &parts[p]->tensors[index[p]], parts[first], example));
    *whole = *example;
    memcpy(whole->extent, example->whole, sizeof whole->extent);
    return check_cover(whole, parts, index, count);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Where `place` of the whole lies in a box; -1: outside. */
static int64_t place_in(const cp_source_tensor *box, const int64_t *place)
{
    int64_t flat = 0;
    for (int axis = 0; axis < box->dims; axis++) {
        int64_t at = place[axis] - box->offset[axis];
        if (at < 0 || at >= box->extent[axis])
            return -1;
        flat = flat * box->extent[axis] + at;
    }
    return flat;
}

/* Reads what follows an element in its own slice too, up to the end of the last axis. */
static cp_status read_run(int64_t *run, cp_source *const *parts, const int64_t *index, size_t count,
                          cp_view *views, const int64_t *place, int64_t most, double *out)
{
    for (size_t p = 0; p < count; p++) {
        const cp_source_tensor *box = piece_of(parts, index, p);
        int64_t flat = box ? place_in(box, place) : -1;
        if (flat < 0)
            continue;
        int last = box->dims - 1;
        int64_t left = last >= 0 ? box->offset[last] + box->extent[last] - place[last] : 1;
        *run = left < most ? left : most;
        return views ? cp_view_read(&views[p], parts[p], (size_t)index[p], flat, *run, out)
                     : parts[p]->read(parts[p], (size_t)index[p], flat, *run, out);
    }
    return cp_fail(CP_INTERNAL, "a slice that is on no rank");
}

cp_status cp_slices_read(const cp_source_tensor *whole, cp_source *const *parts, const int64_t *index,
                         size_t parts_count, cp_view *views, int64_t first, int64_t count, double *out)
{
    while (count > 0) {
        int64_t place[CP_MAX_DIMS] = {0}, rest = first, run = 0;
        for (int axis = whole->dims - 1; axis >= 0; axis--) {
            place[axis] = rest % whole->extent[axis];
            rest /= whole->extent[axis];
        }
        CP_TRY(read_run(&run, parts, index, parts_count, views, place, count, out));
        first += run;
        count -= run;
        out += run;
    }
    return CP_OK;
}

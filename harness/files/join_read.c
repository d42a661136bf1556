#include "harness/files/join_read.h"

#include "harness/files/join_parts.h"
#include "harness/files/join_rules.h"
#include "harness/files/slices.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1 << 12 }; /* elements of one part that are added at a time */

const cp_place *cp_joined_places(const cp_joined *j, const char *name)
{
    return j->logits && strcmp(name, "logits") == 0 ? j->logits : j->places;
}

static const int64_t *index_of(const cp_joined *j, size_t tensor)
{
    return j->index + tensor * j->count;
}

cp_status cp_joined_part(const cp_joined *j, cp_view *view, size_t part, size_t tensor, int64_t first,
                         int64_t count, double *out)
{
    const cp_source *source = j->parts[part];
    size_t index = (size_t)index_of(j, tensor)[part];
    return view ? cp_view_read(&view->parts[part], source, index, first, count, out)
                : source->read(source, index, first, count, out);
}

static void scale(double *out, int64_t count, double factor)
{
    for (int64_t i = 0; i < count; i++)
        out[i] /= factor;
}

/* Elements that follow each other in one part, or that none has: neighbouring tokens that are neighbours there too. */
typedef struct stretch {
    int32_t part; /* CP_NO_PART: none */
    int64_t first, count;
} stretch;

/* The stretch that element `first` begins, of at most `count` elements. */
static stretch stretch_of(const cp_joined *j, size_t tensor, int64_t first, int64_t count)
{
    const cp_source_tensor *t = &j->tensors[tensor];
    const cp_place *places = cp_joined_places(j, t->name);
    int64_t inner = 1;
    for (int axis = 2; axis < t->dims; axis++)
        inner *= t->extent[axis];
    int64_t token = first / inner, within = first % inner;
    cp_place place = places[token];
    int64_t run = inner - within;
    for (int64_t next = 1; run < count && token + next < j->B * j->T; next++) {
        cp_place follower = places[token + next];
        if (follower.part != place.part || follower.row != place.row + next)
            break;
        run += inner;
    }
    return (stretch){place.part, place.row * inner + within, run < count ? run : count};
}

static cp_status read_rows(const cp_joined *j, cp_view *view, size_t tensor, int64_t first, int64_t count,
                           double *out)
{
    while (count > 0) {
        stretch run = stretch_of(j, tensor, first, count);
        if (run.part != CP_NO_PART)
            CP_TRY(cp_joined_part(j, view, (size_t)run.part, tensor, run.first, run.count, out));
        for (int64_t i = 0; run.part == CP_NO_PART && i < run.count; i++)
            out[i] = NAN;
        first += run.count;
        count -= run.count;
        out += run.count;
    }
    return CP_OK;
}

/* Σ over the ranks, in rank order, in double. */
static cp_status read_sum(const cp_joined *j, cp_view *view, size_t tensor, int64_t first, int64_t count,
                          double *out)
{
    bool started = false;
    double block[BLOCK];
    for (size_t p = 0; p < j->count; p++) {
        if (index_of(j, tensor)[p] < 0)
            continue;
        if (!started) {
            CP_TRY(cp_joined_part(j, view, p, tensor, first, count, out));
            started = true;
            continue;
        }
        for (int64_t done = 0; done < count;) {
            int64_t n = count - done < BLOCK ? count - done : BLOCK;
            CP_TRY(cp_joined_part(j, view, p, tensor, first + done, n, block));
            for (int64_t i = 0; i < n; i++)
                out[done + i] += block[i];
            done += n;
        }
    }
    return CP_OK;
}

static cp_status read_gradient(const cp_joined *j, cp_view *view, size_t tensor, int64_t first, int64_t count,
                               double *out)
{
    cp_gradient_kind kind = j->parts[0]->declaration.gradients;
    const cp_source_tensor *whole = &j->tensors[tensor];
    if (whole->slice)
        return cp_slices_read(whole, j->parts, index_of(j, tensor), j->count, view ? view->parts : NULL,
                              first, count, out);
    if (kind == CP_GRADIENTS_REDUCED)
        return cp_joined_part(j, view, 0, tensor, first, count, out);
    CP_TRY(read_sum(j, view, tensor, first, count, out));
    if (kind == CP_GRADIENTS_MEAN)
        scale(out, count, (double)j->count);
    return CP_OK;
}

static cp_status divide_loss(const cp_joined *j, double *loss)
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

static cp_status read_loss(const cp_joined *j, size_t tensor, int64_t first, int64_t count, double *out)
{
    cp_loss_kind kind = j->parts[0]->declaration.loss_kind;
    if (kind == CP_LOSS_GLOBAL)
        return cp_joined_part(j, NULL, 0, tensor, first, count, out);
    if (kind != CP_LOSS_LOCAL_MEAN)
        CP_TRY(read_sum(j, NULL, tensor, first, count, out));
    else {
        *out = 0;
        for (size_t p = 0; p < j->count; p++) {
            double mean, targets = (double)j->parts[p]->declaration.loss_count;
            CP_TRY(cp_joined_part(j, NULL, p, tensor, 0, 1, &mean));
            *out += targets > 0 ? mean * targets : 0; /* a mean over nothing is no number */
        }
    }
    if (kind == CP_LOSS_MEAN)
        scale(out, count, (double)j->count);
    return kind == CP_LOSS_SHARE || kind == CP_LOSS_MEAN ? CP_OK : divide_loss(j, out);
}

static cp_status read_values(const cp_joined *j, cp_view *view, size_t tensor, int64_t first, int64_t count,
                             double *out)
{
    const char *name = j->tensors[tensor].name;
    if (count == 0)
        return CP_OK;
    switch (cp_join_rule_of(name)) {
    case CP_RULE_LOSS:
        CP_TRY(j->tensors[tensor].dims == 0 ? read_loss(j, tensor, first, count, out)
                                            : cp_joined_part(j, view, 0, tensor, first, count, out));
        break;
    case CP_RULE_ROWS:
        CP_TRY(cp_joined_places(j, name) ? read_rows(j, view, tensor, first, count, out)
                                         : cp_joined_part(j, view, 0, tensor, first, count, out));
        break;
    case CP_RULE_SUM: CP_TRY(read_sum(j, view, tensor, first, count, out)); break;
    case CP_RULE_GRADIENT: CP_TRY(read_gradient(j, view, tensor, first, count, out)); break;
    case CP_RULE_SAME:
    case CP_RULE_NONE: CP_TRY(cp_joined_part(j, view, 0, tensor, first, count, out)); break;
    }
    double factor = j->parts[0]->declaration.grad_scale;
    if (cp_join_scaled(name) && factor != 1)
        scale(out, count, factor);
    return CP_OK;
}

cp_status cp_joined_read(const cp_source *source, size_t tensor, int64_t first, int64_t count, double *out)
{
    return read_values(source->state, NULL, tensor, first, count, out);
}

/* False: the elements are not as one part has them. */
static bool lies_in_one(const cp_joined *j, size_t tensor, int64_t first, int64_t count, stretch *where)
{
    const char *name = j->tensors[tensor].name;
    const cp_declaration *said = &j->parts[0]->declaration;
    *where = (stretch){0, first, count};
    if (j->tensors[tensor].slice || (cp_join_scaled(name) && said->grad_scale != 1))
        return false;
    switch (cp_join_rule_of(name)) {
    case CP_RULE_LOSS: return false;
    case CP_RULE_ROWS:
        if (cp_joined_places(j, name))
            *where = stretch_of(j, tensor, first, count);
        return where->count == count && where->part != CP_NO_PART;
    case CP_RULE_GRADIENT:
        return said->gradients == CP_GRADIENTS_REDUCED || (j->count == 1 && index_of(j, tensor)[0] >= 0);
    case CP_RULE_SUM: return j->count == 1 && index_of(j, tensor)[0] >= 0;
    case CP_RULE_SAME:
    case CP_RULE_NONE: break;
    }
    return true;
}

cp_status cp_joined_look(const cp_source *source, cp_view *view, size_t tensor, int64_t first, int64_t count,
                         const void **data, cp_dtype *dtype)
{
    const cp_joined *j = source->state;
    stretch where;
    CP_TRY(cp_view_parts(view, j->count));
    if (count > 0 && lies_in_one(j, tensor, first, count, &where))
        return cp_view_look(&view->parts[where.part], j->parts[where.part],
                            (size_t)index_of(j, tensor)[where.part], where.first, count, data, dtype);
    CP_TRY(cp_view_room(&view->values, &view->values_room, (size_t)count * sizeof(double)));
    *data = view->values;
    *dtype = CP_F64;
    return read_values(j, view, tensor, first, count, view->values);
}

/* All parts may be looked at side by side. */
cp_grain cp_joined_grain(const cp_source *source, size_t tensor)
{
    const cp_joined *j = source->state;
    cp_grain grain = {1, 0};
    for (size_t p = 0; p < j->count; p++) {
        int64_t index = index_of(j, tensor)[p];
        cp_grain part = index >= 0 ? cp_view_grain(j->parts[p], (size_t)index) : (cp_grain){1, 0};
        grain.elements = part.elements > grain.elements ? part.elements : grain.elements;
        grain.bytes = part.bytes > grain.bytes ? part.bytes : grain.bytes;
    }
    grain.bytes *= j->count;
    return grain;
}

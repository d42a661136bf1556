#include "harness/files/name_map.h"

#include "harness/files/name_rules.h"
#include "harness/files/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a tensor comes from: along one axis (after transposition) turns of `turn` rows follow each other, of which it
 * has those from `start` on, `size` of each. */
typedef struct origin {
    size_t tensor; /* of the inner source */
    bool whole;    /* as it is stored */
    bool transposed;
    int axis;
    int64_t turn, start, size;
} origin;

typedef struct mapped {
    cp_source source;
    cp_source *inner;
    cp_pool pool;
    cp_source_tensor *tensors;
    origin *origins;
    size_t room;
} mapped;

static const char *const groups[] = {"grads/", "grads_partial/"};

/* The part of a name that a rule speaks about, and the length of what stands before it. */
static size_t group_of(const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncmp(name, groups[i], strlen(groups[i])) == 0)
            return strlen(groups[i]);
    return 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int64_t stored_row(const origin *from, int64_t row)
{
    return row / from->size * from->turn + from->start + row % from->size;
}

/* Rows of the axis that follow each other in the file too, from this one on. */
static int64_t rows_from(const origin *from, int64_t row, int64_t rows)
{
    int64_t of_turn = from->size - row % from->size;
    return of_turn < rows - row ? of_turn : rows - row;
}

static int64_t product(const int64_t *extent, int from, int to)
{
    int64_t count = 1;
    for (int axis = from; axis < to; axis++)
        count *= extent[axis];
    return count;
}

/* `view`, here and below, is the inner source's; NULL: nothing is to be looked at where it lies. */
static cp_status read_stored(const mapped *m, cp_view *view, size_t tensor, int64_t first, int64_t count,
                             double *out)
{
    return view ? cp_view_read(view, m->inner, tensor, first, count, out)
                : m->inner->read(m->inner, tensor, first, count, out);
}

static cp_status read_cut(const mapped *m, cp_view *view, size_t tensor, int64_t first, int64_t count,
                          double *out)
{
    const cp_source_tensor *ours = &m->tensors[tensor];
    const origin *from = &m->origins[tensor];
    const cp_source_tensor *stored = &m->inner->tensors[from->tensor];
    int64_t rows = ours->extent[from->axis], stored_rows = stored->extent[from->axis];
    int64_t inner = product(ours->extent, from->axis + 1, ours->dims);
    while (count > 0) {
        int64_t within = first % inner, row = first / inner % rows, outer = first / inner / rows;
        int64_t run = rows_from(from, row, rows) * inner - within;
        run = run < count ? run : count;
        int64_t at = (outer * stored_rows + stored_row(from, row)) * inner + within;
        CP_TRY(read_stored(m, view, from->tensor, at, run, out));
        first += run;
        count -= run;
        out += run;
    }
    return CP_OK;
}

/* Of a matrix: what follows each other in the file stands in one column. */
static cp_status read_column(const mapped *m, cp_view *view, size_t tensor, int64_t column, int64_t first,
                             int64_t count, double *out)
{
    enum { STRIP = 256 };
    double strip[STRIP];
    const cp_source_tensor *ours = &m->tensors[tensor];
    const origin *from = &m->origins[tensor];
    int64_t rows = ours->extent[0], columns = ours->extent[1];
    int64_t stride = m->inner->tensors[from->tensor].extent[1];
    int64_t stored_column = from->axis == 1 ? stored_row(from, column) : column;
    int64_t last = (first + count - 1) / columns;
    for (int64_t row = first / columns; row <= last;) {
        int64_t run = from->axis == 0 ? rows_from(from, row, rows) : rows - row;
        run = run < last + 1 - row ? run : last + 1 - row;
        run = run < STRIP ? run : STRIP;
        int64_t at = stored_column * stride + (from->axis == 0 ? stored_row(from, row) : row);
        CP_TRY(read_stored(m, view, from->tensor, at, run, strip));
        for (int64_t i = 0; i < run; i++) {
            int64_t flat = (row + i) * columns + column - first;
            if (flat >= 0 && flat < count)
                out[flat] = strip[i];
        }
        row += run;
    }
    return CP_OK;
}

static cp_status read_values(const mapped *m, cp_view *view, size_t tensor, int64_t first, int64_t count,
                             double *out)
{
    const origin *from = &m->origins[tensor];
    if (count == 0)
        return CP_OK;
    if (from->whole)
        return read_stored(m, view, from->tensor, first, count, out);
    if (!from->transposed)
        return read_cut(m, view, tensor, first, count, out);
    for (int64_t column = 0; column < m->tensors[tensor].extent[1]; column++)
        CP_TRY(read_column(m, view, tensor, column, first, count, out));
    return CP_OK;
}

static cp_status read_mapped(const cp_source *source, size_t tensor, int64_t first, int64_t count,
                             double *out)
{
    return read_values(source->state, NULL, tensor, first, count, out);
}

/* A transposed matrix is read in long stretches: the more rows of it at once, the longer its columns. What is in chunks
 * is left to the library, which keeps those that one column has in common with the next. */
enum { STRETCH = 1 << 18 };

static cp_status use_stretch(const mapped *m, cp_view *view, size_t tensor, int64_t element)
{
    const cp_source_tensor *ours = &m->tensors[tensor];
    bool chunks = cp_view_grain(m->inner, m->origins[tensor].tensor).bytes > 0;
    if (view->band_of == m && view->band_tensor == tensor && element >= view->band_first &&
        element < view->band_first + view->band_count)
        return CP_OK;
    view->band_of = NULL;
    view->band_first = element / STRETCH * STRETCH;
    int64_t left = product(ours->extent, 0, ours->dims) - view->band_first;
    view->band_count = left < STRETCH ? left : STRETCH;
    CP_TRY(cp_view_room(&view->band, &view->band_room, STRETCH * sizeof(double)));
    CP_TRY(
        read_values(m, chunks ? NULL : view->parts, tensor, view->band_first, view->band_count, view->band));
    view->band_of = m;
    view->band_tensor = tensor;
    return CP_OK;
}

static cp_status look_mapped(const cp_source *source, cp_view *view, size_t tensor, int64_t first,
                             int64_t count, const void **data, cp_dtype *dtype)
{
    const mapped *m = source->state;
    const origin *from = &m->origins[tensor];
    CP_TRY(cp_view_parts(view, 1));
    if (from->whole)
        return cp_view_look(view->parts, m->inner, from->tensor, first, count, data, dtype);
    *dtype = CP_F64;
    bool kept = from->transposed && first / STRETCH == (first + count - 1) / STRETCH;
    if (kept) {
        CP_TRY(use_stretch(m, view, tensor, first));
        *data = (double *)view->band + (first - view->band_first);
        return CP_OK;
    }
    CP_TRY(cp_view_room(&view->values, &view->values_room, (size_t)count * sizeof(double)));
    *data = view->values;
    return read_values(m, from->transposed ? NULL : view->parts, tensor, first, count, view->values);
}

static cp_grain grain_of_mapped(const cp_source *source, size_t tensor)
{
    const mapped *m = source->state;
    const origin *from = &m->origins[tensor];
    cp_grain grain = cp_view_grain(m->inner, from->tensor);
    if (from->transposed)
        return (cp_grain){STRETCH, STRETCH * sizeof(double)};
    return from->whole ? grain : (cp_grain){1, grain.bytes};
}

static cp_status read_mapped_ran(const cp_source *source, size_t item, int64_t first, int64_t count,
                                 double *out)
{
    const mapped *m = source->state;
    return m->inner->read_ran(m->inner, item, first, count, out);
}

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

static cp_status too_long(const mapped *m, const char *name)
{
    return cp_fail(CP_BAD_INPUT, "%s: name_map makes too long a name of %s", m->source.label, name);
}

static cp_status does_not_fit(const mapped *m, const cp_source_tensor *stored, const char *why)
{
    char shape[CP_SHAPE_TEXT];
    return cp_fail(CP_INCOMPARABLE, "%s: /%s: shape %s, which name_map %s", m->source.label, stored->name,
                   cp_shape_text(shape, stored->dims, stored->extent), why);
}

static cp_status check_fit(const mapped *m, const cp_name_rule *rule, const cp_source_tensor *stored,
                           int64_t rows, int64_t turn)
{
    char why[96];
    if (stored->slice && (rule->cut || rule->transpose))
        return does_not_fit(m, stored, "takes apart, though it is a slice");
    if (rule->transpose && stored->dims != 2)
        return does_not_fit(m, stored, "transposes as a matrix");
    if (rule->cut && rule->axis >= stored->dims)
        return does_not_fit(m, stored, "cuts along an axis that it has not");
    snprintf(why, sizeof why, "cuts into %s%" PRId64, rule->repeats ? "turns of " : "", turn);
    if (rule->padded ? rows < turn : rule->repeats ? rows % turn != 0 || rows == 0 : rows != turn)
        return does_not_fit(m, stored, why);
    return CP_OK;
}

static cp_status add(mapped *m, const char *name, size_t stored, const origin *from, int64_t rows)
{
    cp_check(m->source.count < m->room, "more than %zu tensors", m->room);
    cp_source_tensor *tensor = &m->tensors[m->source.count];
    m->origins[m->source.count++] = *from;
    *tensor = m->inner->tensors[stored];
    if (from->transposed) {
        tensor->extent[0] = m->inner->tensors[stored].extent[1];
        tensor->extent[1] = m->inner->tensors[stored].extent[0];
    }
    if (!from->whole)
        tensor->extent[from->axis] = rows;
    return cp_pool_text(&m->pool, &tensor->name, name);
}

static cp_status add_pieces(mapped *m, const cp_name_rule *rule, size_t stored, const regmatch_t *found)
{
    const cp_source_tensor *theirs = &m->inner->tensors[stored];
    size_t group = group_of(theirs->name);
    int axis = rule->axis, stored_axis = rule->transpose ? 1 - axis : axis;
    int64_t turn = 0, rows = 0;
    for (size_t i = 0; i < rule->pieces; i++)
        turn += rule->sizes[i];
    if (rule->cut && stored_axis >= 0 && stored_axis < theirs->dims)
        rows = theirs->extent[stored_axis];
    if (rule->cut || rule->transpose)
        CP_TRY(check_fit(m, rule, theirs, rule->cut ? rows : 0, rule->cut ? turn : 0));
    if (!rule->cut)
        rows = turn = theirs->dims > 0 ? theirs->extent[rule->transpose ? 1 : 0] : 1;
    if (rule->padded)
        turn = rows;
    int64_t start = 0;
    for (size_t i = 0; i < rule->pieces; i++) {
        char bare[CP_NAME_BYTES], name[2 * CP_NAME_BYTES];
        if (!cp_name_rule_fill(bare, rule, i, theirs->name + group, found))
            return too_long(m, theirs->name);
        snprintf(name, sizeof name, "%.*s%s", (int)group, theirs->name, bare);
        int64_t size = rule->cut ? rule->sizes[i] : rows;
        origin from = {stored, !rule->cut && !rule->transpose, rule->transpose, axis, turn, start, size};
        CP_TRY(add(m, name, stored, &from, turn > 0 ? rows / turn * size : 0));
        start += size;
    }
    return CP_OK;
}

/* What is cut off a gradient says nothing only where it is zero. */
static cp_status check_padding(mapped *m)
{
    double block[512];
    enum { STEP = sizeof block / sizeof *block };
    origin *from = &m->origins[m->source.count - 1];
    cp_source_tensor *tensor = &m->tensors[m->source.count - 1];
    const origin kept = *from;
    const int64_t rows = tensor->extent[from->axis];
    if (group_of(tensor->name) == 0 || from->turn == from->size)
        return CP_OK;
    from->start = from->size;
    from->size = tensor->extent[from->axis] = from->turn - kept.size;
    int64_t count = product(tensor->extent, 0, tensor->dims);
    for (int64_t done = 0; done < count; done += STEP) {
        int64_t n = count - done < STEP ? count - done : STEP;
        CP_TRY(read_mapped(&m->source, m->source.count - 1, done, n, block));
        for (int64_t i = 0; i < n; i++)
            if (!(block[i] == 0))
                return cp_fail(CP_INCOMPARABLE,
                               "%s: /%s: name_map declares padding from %" PRId64
                               " on, where a gradient is %g and not zero",
                               m->source.label, m->inner->tensors[from->tensor].name, kept.size, block[i]);
    }
    *from = kept;
    tensor->extent[from->axis] = rows;
    return CP_OK;
}

typedef struct entry {
    cp_source_tensor tensor;
    origin from;
} entry;

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor.name, ((const entry *)b)->tensor.name);
}

static cp_status sort(mapped *m)
{
    void *memory;
    CP_TRY(cp_pool_take(&m->pool, &memory, m->source.count + 1, sizeof(entry)));
    entry *all = memory;
    for (size_t i = 0; i < m->source.count; i++)
        all[i] = (entry){m->tensors[i], m->origins[i]};
    qsort(all, m->source.count, sizeof *all, compare_entries);
    for (size_t i = 0; i < m->source.count; i++) {
        m->tensors[i] = all[i].tensor;
        m->origins[i] = all[i].from;
        if (i > 0 && strcmp(all[i - 1].tensor.name, all[i].tensor.name) == 0)
            return cp_fail(CP_INCOMPARABLE, "%s: name_map: /%s and /%s: two tensors of one name, %s",
                           m->source.label, m->inner->tensors[all[i - 1].from.tensor].name,
                           m->inner->tensors[all[i].from.tensor].name, all[i].tensor.name);
    }
    return CP_OK;
}

/* Gradients that are None have their names too. With `out` NULL the length alone is counted. */
static cp_status map_lines(const mapped *m, const cp_name_rules *rules, char *out, size_t *length)
{
    regmatch_t found[CP_MOST_GROUPS];
    char line[CP_NAME_BYTES], name[CP_NAME_BYTES];
    *length = 0;
    for (const char *at = m->source.declaration.grad_absent; cp_lines_next(&at, line);) {
        const cp_name_rule *rule = cp_name_rules_find(rules, line, found);
        for (size_t i = 0; i < (rule ? rule->pieces : 1); i++) {
            if (rule && !cp_name_rule_fill(name, rule, i, line, found))
                return too_long(m, line);
            const char *ours = rule ? name : line;
            if (out)
                sprintf(out + *length, "%s\n", ours);
            *length += strlen(ours) + 1;
        }
    }
    return CP_OK;
}

static cp_status map_absent(mapped *m, const cp_name_rules *rules)
{
    size_t length;
    void *lines;
    CP_TRY(map_lines(m, rules, NULL, &length));
    CP_TRY(cp_pool_take(&m->pool, &lines, length + 1, 1));
    CP_TRY(map_lines(m, rules, lines, &length));
    m->source.declaration.grad_absent = lines;
    return CP_OK;
}

static cp_status map(mapped *m, const cp_name_rules *rules)
{
    size_t renamed = 0, transposed = 0, split = 0, padded = 0;
    void *tensors, *origins;
    m->room = m->inner->count * CP_MOST_PIECES + 1;
    CP_TRY(cp_pool_take(&m->pool, &tensors, m->room, sizeof *m->tensors));
    CP_TRY(cp_pool_take(&m->pool, &origins, m->room, sizeof *m->origins));
    m->source.tensors = m->tensors = tensors;
    m->origins = origins;
    for (size_t t = 0; t < m->inner->count; t++) {
        const char *name = m->inner->tensors[t].name;
        regmatch_t found[CP_MOST_GROUPS];
        const cp_name_rule *rule = cp_name_rules_find(rules, name + group_of(name), found);
        if (!rule) {
            CP_TRY(add(m, name, t, &(origin){.tensor = t, .whole = true}, 0));
            continue;
        }
        CP_TRY(add_pieces(m, rule, t, found));
        if (rule->padded)
            CP_TRY(check_padding(m));
        renamed++;
        transposed += rule->transpose;
        split += rule->pieces > 1;
        padded += rule->padded;
    }
    CP_TRY(sort(m));
    CP_TRY(map_absent(m, rules));
    return cp_pool_format(
        &m->pool, &m->source.notes,
        "%s%s: name_map: of its %zu tensors %zu have other names here; %zu transposed, %zu split, "
        "%zu without their padding\n",
        m->inner->notes ? m->inner->notes : "", m->source.label, m->inner->count, renamed, transposed, split,
        padded);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void close_mapped(cp_source *source)
{
    mapped *m = source->state;
    cp_source_close(m->inner);
    cp_pool_close(&m->pool);
    free(m);
}

cp_status cp_name_map_apply(cp_source **source, const char *text)
{
    cp_source *inner = *source;
    *source = NULL;
    mapped *m = calloc(1, sizeof *m);
    if (!m) {
        cp_source_close(inner);
        return cp_fail(CP_INTERNAL, "no memory for a name_map");
    }
    m->inner = inner;
    m->source = *inner;
    m->source.count = 0;
    m->source.read = read_mapped;
    m->source.look = look_mapped;
    m->source.grain = grain_of_mapped;
    m->source.read_ran = inner->read_ran ? read_mapped_ran : NULL;
    m->source.close = close_mapped;
    m->source.state = m;
    cp_name_rules rules = {0};
    const char *where = NULL;
    cp_status status = cp_pool_format(&m->pool, &where, "%s: attribute name_map", inner->label);
    if (status == CP_OK)
        status = cp_name_rules_read(&rules, &m->pool, text, where);
    if (status == CP_OK)
        status = map(m, &rules);
    cp_name_rules_close(&rules);
    if (status == CP_OK)
        *source = &m->source;
    else
        close_mapped(&m->source);
    return status;
}

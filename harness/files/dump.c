#include "harness/files/dump.h"

#include "harness/files/attention.h"
#include "harness/files/folder.h"
#include "harness/files/header.h"
#include "harness/files/name_map.h"
#include "harness/files/prefixes.h"
#include "harness/files/ran.h"
#include "harness/files/results.h"
#include "harness/files/slices.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dump {
    cp_results results; /* first: its source is the dump's */
    cp_h5 *file;
    cp_pool pool;
    const char *strip, *name_map; /* "" where the file declares none */
} dump;

static const char *path_of(const dump *d)
{
    return d->results.source.label;
}

/* ---- what kind of file it is ------------------------------------------------------------------------------------ */

static cp_status check_kind(const dump *d, const char *kind)
{
    bool fixture = false;
    if (strcmp(kind, CP_KIND_ATTENTION) == 0)
        CP_TRY(cp_attention_is_fixture(&fixture, d->file));
    else if (strcmp(kind, "digest") == 0)
        return cp_fail(CP_INCOMPARABLE, "%s: declares kind digest, which this version does not read",
                       path_of(d));
    else if (strcmp(kind, "dump") != 0)
        return cp_fail(CP_BAD_INPUT, "%s: attribute kind: expected \"dump\", found \"%s\"", path_of(d), kind);
    return fixture ? cp_fail(CP_BAD_INPUT, "%s: /batch: this is a fixture, expected a dump", path_of(d))
                   : CP_OK;
}

/* A gradient that is a part of a tensor says so itself; nothing else may be one. */
static cp_status read_slices(dump *d)
{
    for (size_t t = 0; t < d->results.source.count; t++) {
        const char *object = d->results.paths[t];
        cp_source_tensor *tensor = &d->results.tensors[t];
        cp_h5_array array;
        CP_TRY(cp_h5_describe(d->file, object, &array)); /* opens it once for all three questions */
        CP_TRY(cp_slice_read(tensor, d->file, object));
        bool gradient =
            strncmp(tensor->name, "grads/", 6) == 0 && strcmp(tensor->name, "grads/inputs_embeds") != 0;
        if (tensor->slice && !gradient)
            return cp_fail(
                CP_INCOMPARABLE,
                "%s: %s: declares attribute global_shape, which is read of parameters' gradients alone",
                path_of(d), object);
    }
    return CP_OK;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static cp_status read_int(const dump *d, const char *name, int least, int *out, bool *found)
{
    int64_t value = *out;
    CP_TRY(cp_h5_integer(d->file, "/", name, &value, found));
    if (*found && (value < least || value > INT_MAX))
        return cp_fail(CP_BAD_INPUT, "%s: attribute %s: expected %d to %d, found %" PRId64, path_of(d), name,
                       least, INT_MAX, value);
    *out = (int)value;
    return CP_OK;
}

static cp_status read_rank(const dump *d, cp_declaration *said)
{
    bool found;
    CP_TRY(read_int(d, "cp_size", 1, &said->cp_size, &found));
    CP_TRY(read_int(d, "cp_rank", 0, &said->cp_rank, &found));
    CP_TRY(read_int(d, "dp_size", 1, &said->dp_size, &found));
    CP_TRY(read_int(d, "dp_rank", 0, &said->dp_rank, &found));
    if (said->cp_rank >= said->cp_size)
        return cp_fail(CP_BAD_INPUT, "%s: attribute cp_rank: expected below cp_size %d, found %d", path_of(d),
                       said->cp_size, said->cp_rank);
    if (said->dp_rank >= said->dp_size)
        return cp_fail(CP_BAD_INPUT, "%s: attribute dp_rank: expected below dp_size %d, found %d", path_of(d),
                       said->dp_size, said->dp_rank);
    /* One rank of a group is the group: what it says of its group, it says of itself. */
    if (found && said->dp_size > 1 && said->cp_size == 1)
        said->cp_rank = 0;
    return CP_OK;
}

/* A word that the file may choose; CP_INCOMPARABLE where it is none that is known. */
static cp_status unknown_word(const dump *d, const char *name, const char *word)
{
    return cp_fail(CP_INCOMPARABLE, "%s: declares %s = \"%.64s\", which this version does not know",
                   path_of(d), name, word);
}

static cp_status read_words(dump *d, cp_declaration *said)
{
    const char *loss, *gradients, *dtype, *islands;
    CP_TRY(cp_text_or_empty(d->file, &d->pool, "/", "loss_kind", &loss));
    CP_TRY(cp_text_or_empty(d->file, &d->pool, "/", "gradients", &gradients));
    CP_TRY(cp_text_or_empty(d->file, &d->pool, "/", "compute_dtype", &dtype));
    CP_TRY(cp_text_or_empty(d->file, &d->pool, "/", "islands", &islands));
    if (*loss && !cp_loss_kind_named(&said->loss_kind, loss))
        return unknown_word(d, "loss_kind", loss);
    if (*gradients && !cp_gradient_kind_named(&said->gradients, gradients))
        return unknown_word(d, "gradients", gradients);
    if (*dtype && (!cp_dtype_named(&said->compute_dtype, dtype) || !cp_dtype_is_float(said->compute_dtype)))
        return unknown_word(d, "compute_dtype", dtype);
    if (*islands && strcmp(islands, "float32") != 0)
        return unknown_word(d, "islands", islands);
    said->dtype_declared = *dtype != '\0';
    said->islands = *islands != '\0';

    if (said->cp_rank < 0)
        return CP_OK;
    /* Without a sink an attention function has no gradient that ranks share, and it never has a loss. */
    cp_h5_kind shared = CP_H5_DATASET;
    if (said->attention)
        CP_TRY(cp_h5_look(d->file, "/dsink", &shared));
    const struct {
        const char *name, *word;
        bool needed;
    } needed[] = {{"loss_kind", loss, !said->attention},
                  {"gradients", gradients, shared != CP_H5_NOTHING},
                  {"compute_dtype", dtype, true}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].needed && !*needed[i].word)
            return cp_fail(CP_INCOMPARABLE, "%s: attribute %s: expected in a dump of one rank, found nothing",
                           path_of(d), needed[i].name);
    return CP_OK;
}

static cp_status read_numbers(dump *d, cp_declaration *said)
{
    bool found;
    CP_TRY(cp_h5_integer(d->file, "/", "loss_count", &said->loss_count, &found));
    if (found && said->loss_count < 0)
        return cp_fail(CP_BAD_INPUT, "%s: attribute loss_count: expected at least 0, found %" PRId64,
                       path_of(d), said->loss_count);
    if (!found && said->loss_kind == CP_LOSS_LOCAL_MEAN)
        return cp_fail(CP_INCOMPARABLE,
                       "%s: attribute loss_count: expected with loss_kind local_mean, found nothing",
                       path_of(d));
    CP_TRY(cp_h5_real(d->file, "/", "grad_scale", &said->grad_scale, &found));
    if (!(said->grad_scale > 0 && isfinite(said->grad_scale)))
        return cp_fail(CP_BAD_INPUT, "%s: attribute grad_scale: expected a positive number, found %g",
                       path_of(d), said->grad_scale);
    return CP_OK;
}

static cp_status read_declaration(dump *d, const char *kind, cp_declaration *said)
{
    bool found;
    *said = cp_declaration_whole();
    said->attention = strcmp(kind, CP_KIND_ATTENTION) == 0;
    const struct {
        const char *name;
        const char **text;
    } texts[] = {{"fixture_id", &said->fixture_id},
                 {"implementation", &said->implementation},
                 {"exchange", &said->exchange},
                 {"layout", &said->layout}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CP_TRY(cp_text_or_empty(d->file, &d->pool, "/", texts[i].name, texts[i].text));
    CP_TRY(cp_h5_lines(d->file, &d->pool, "/", "grad_absent", &said->grad_absent, &found));
    d->strip = d->name_map = "";
    CP_TRY(cp_h5_document(d->file, &d->pool, "/", "name_map", &d->name_map, &found));
    CP_TRY(cp_h5_lines(d->file, &d->pool, "/", "strip", &d->strip, &found));
    CP_TRY(read_rank(d, said));
    CP_TRY(read_words(d, said));
    return read_numbers(d, said);
}

/* Widest first: a dump that says nothing is as precise as its least precise tensor. */
static void guess_dtype(dump *d, cp_declaration *said)
{
    const cp_source *source = &d->results.source;
    for (size_t t = 0; !said->dtype_declared && t < source->count; t++)
        if (cp_dtype_epsilon(source->tensors[t].dtype) > cp_dtype_epsilon(said->compute_dtype))
            said->compute_dtype = source->tensors[t].dtype;
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */

typedef struct index_array {
    int64_t *values; /* NULL: the file has none */
    int dims;
    int64_t extent[CP_MAX_DIMS];
} index_array;

static cp_status read_index(dump *d, index_array *out, const char *path, int most_dims)
{
    cp_h5_kind kind;
    cp_h5_array array;
    *out = (index_array){0};
    CP_TRY(cp_h5_look(d->file, path, &kind));
    if (kind == CP_H5_NOTHING)
        return CP_OK;
    CP_TRY(cp_h5_describe(d->file, path, &array));
    char shape[CP_SHAPE_TEXT];
    if ((array.dtype != CP_I64 && array.dtype != CP_I32) || array.dims < 1 || array.dims > most_dims)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected int64 %s, found %s %s", path_of(d), path,
                       most_dims == 1 ? "[B]" : "[S] or [B,S]", cp_dtype_name(array.dtype),
                       cp_shape_text(shape, array.dims, array.extent));
    void *memory;
    CP_TRY(cp_pool_take(&d->pool, &memory, (size_t)array.count + 1,
                        sizeof(int64_t))); /* a rank may hold nothing */
    CP_TRY(cp_h5_read(d->file, path, 0, array.count, memory));
    out->values = memory;
    out->dims = array.dims;
    memcpy(out->extent, array.extent, sizeof out->extent);
    if (array.dtype == CP_I32) /* widened in place, from the end */
        for (int64_t i = array.count - 1; i >= 0; i--) {
            int32_t narrow;
            memcpy(&narrow, (char *)memory + i * (int64_t)sizeof narrow, sizeof narrow);
            out->values[i] = narrow;
        }
    return CP_OK;
}

/* Which positions the rows of /logits [n,V] are of. */
static cp_status read_kept(dump *d, cp_declaration *said)
{
    index_array kept;
    char shape[CP_SHAPE_TEXT];
    CP_TRY(read_index(d, &kept, "/logits_index", 2));
    if (!kept.values)
        return CP_OK;
    int64_t found = cp_source_find(&d->results.source, "logits");
    if (kept.dims != 2 || kept.extent[1] != 2)
        return cp_fail(CP_BAD_INPUT, "%s: /logits_index: expected int64 [n,2], found %s", path_of(d),
                       cp_shape_text(shape, kept.dims, kept.extent));
    if (found < 0)
        return cp_fail(CP_INCOMPARABLE, "%s: /logits_index: expected beside /logits, found alone",
                       path_of(d));
    const cp_source_tensor *logits = &d->results.tensors[found];
    if (logits->dims != 2 || logits->extent[0] != kept.extent[0])
        return cp_fail(CP_BAD_INPUT, "%s: /logits: shape %s, expected [%" PRId64 ",V] as logits_index",
                       path_of(d), cp_shape_text(shape, logits->dims, logits->extent), kept.extent[0]);
    said->logits_rows = kept.extent[0];
    said->logits_index = kept.values;
    return CP_OK;
}

/* The first tensor with one row a token: it tells B and S where the indices do not. */
static const cp_source_tensor *find_rows(const dump *d, const cp_declaration *said)
{
    static const char *const names[] = {"token_loss", "logits", "grads/inputs_embeds", "out", "lse", "dq",
                                        "dk",         "dv"};
    const cp_source *source = &d->results.source;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t found = cp_source_find(source, names[i]);
        bool some = found >= 0 && said->logits_index && strcmp(names[i], "logits") == 0;
        if (found >= 0 && !some && source->tensors[found].dims >= 2)
            return &source->tensors[found];
    }
    for (size_t t = 0; t < source->count; t++)
        if (strncmp(source->tensors[t].name, "trace/", 6) == 0 && source->tensors[t].dims >= 2)
            return &source->tensors[t];
    return NULL;
}

/* [B,S] from what the file has: an index a row, one for all rows, or none, which means in order. */
static cp_status expand_tokens(dump *d, cp_declaration *said, const index_array *tokens)
{
    if (tokens->dims == 2) {
        said->token_index = tokens->values;
        return CP_OK;
    }
    void *memory;
    CP_TRY(cp_pool_take(&d->pool, &memory, (size_t)said->B, (size_t)said->S * sizeof(int64_t)));
    int64_t *out = memory;
    for (int64_t row = 0; row < said->B * said->S; row++)
        out[row] = tokens->values ? tokens->values[row % said->S] : row % said->S;
    said->token_index = out;
    return CP_OK;
}

static cp_status read_indices(dump *d, cp_declaration *said)
{
    index_array tokens, rows;
    CP_TRY(read_index(d, &tokens, "/token_index", 2));
    CP_TRY(read_index(d, &rows, "/batch_index", 1));
    CP_TRY(read_kept(d, said));
    if (!tokens.values && said->cp_rank >= 0)
        return cp_fail(CP_INCOMPARABLE, "%s: /token_index: expected in a dump of one rank, found nothing",
                       path_of(d));
    const cp_source_tensor *example = find_rows(d, said);
    if (!tokens.values && (!rows.values || !example))
        return CP_OK; /* whole, in order */
    said->B = tokens.dims == 2 ? tokens.extent[0]
              : rows.values    ? rows.extent[0]
              : example        ? example->extent[0]
                               : 1;
    said->S = tokens.values ? tokens.extent[tokens.dims - 1] : example->extent[1];
    said->batch_index = rows.values;
    if (rows.values && rows.extent[0] != said->B)
        return cp_fail(CP_BAD_INPUT,
                       "%s: /batch_index: expected %" PRId64 " rows as /token_index, found %" PRId64,
                       path_of(d), said->B, rows.extent[0]);
    return expand_tokens(d, said, &tokens);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void close_dump(cp_source *source)
{
    dump *d = source->state;
    cp_h5_close(d->file);
    cp_pool_close(&d->pool);
    free(d);
}

static cp_status read_dump(dump *d, const char *path)
{
    cp_source *source = &d->results.source;
    const char *kind;
    cp_declaration said;
    CP_TRY(cp_pool_text(&d->pool, &source->label, path));
    const char *label = source->label;
    CP_TRY(cp_folder_is_one(path) ? cp_folder_open(&d->file, path) : cp_h5_open(&d->file, path));
    CP_TRY(cp_header_read(d->file, &d->pool, &kind));
    CP_TRY(check_kind(d, kind));
    CP_TRY(read_declaration(d, kind, &said));
    CP_TRY(
        cp_results_collect(&d->results, d->file, &d->pool, "", "token_index\nbatch_index\nlogits_index\n"));
    source->label = label;
    source->close = close_dump;
    CP_TRY(read_slices(d));
    CP_TRY(read_indices(d, &said));
    CP_TRY(cp_prefixes_strip(&d->results, &d->pool, &said.grad_absent, d->strip));
    CP_TRY(cp_prefixes_drop(&d->results, &d->pool, &said.grad_absent));
    CP_TRY(cp_ran_collect(&d->results, &d->pool));
    guess_dtype(d, &said);
    source->declaration = said;
    return CP_OK;
}

cp_status cp_dump_open(cp_source **out, const char *path)
{
    *out = NULL;
    dump *d = calloc(1, sizeof *d);
    if (!d)
        return cp_fail(CP_INTERNAL, "%s: no memory to open it", path);
    cp_status status = read_dump(d, path);
    if (status != CP_OK) {
        cp_h5_close(d->file);
        cp_pool_close(&d->pool);
        free(d);
        return status;
    }
    *out = &d->results.source;
    return *d->name_map ? cp_name_map_apply(out, d->name_map) : CP_OK;
}

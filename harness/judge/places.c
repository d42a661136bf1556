#include "harness/judge/places.h"

#include "harness/files/targets.h"
#include "harness/judge/names.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *filled(int64_t count, uint8_t place)
{
    uint8_t *places = malloc(count > 0 ? (size_t)count : 1);
    cp_check(places, "no memory for %lld bytes", (long long)count);
    memset(places, place, (size_t)count);
    return places;
}

static void open_positions(cp_places *places, const cp_batch *batch)
{
    int64_t count = batch->B * batch->T;
    places->B = batch->B;
    places->T = batch->T;
    places->rows = filled(count, CP_PLACE_JUDGED);
    places->embeds = filled(count, CP_PLACE_JUDGED);
    for (int64_t i = 0; i < count; i++) {
        bool masked = batch->attention_mask && batch->attention_mask[i] == 0;
        bool outside = batch->document_ids && batch->document_ids[i] < 0;
        if (masked || outside) {
            places->rows[i] = CP_PLACE_UNJUDGED;
            places->embeds[i] = CP_PLACE_ZERO;
        }
    }
}

static void open_targets(cp_places *places, const cp_batch *batch)
{
    if (!batch->labels && !batch->shift_labels)
        return;
    places->targets = filled(batch->B * batch->T, CP_PLACE_JUDGED);
    for (int64_t i = 0; i < batch->B * batch->T; i++)
        if (places->rows[i] == CP_PLACE_UNJUDGED ||
            cp_batch_target(batch, i / batch->T, i % batch->T) == CP_IGNORED)
            places->targets[i] = CP_PLACE_UNJUDGED;
}

void cp_places_keep(cp_places *places, int64_t B, int64_t T, const uint8_t *expected, const uint8_t *actual)
{
    if ((!expected && !actual) || (places->rows && (B != places->B || T != places->T)))
        return;
    places->B = B;
    places->T = T;
    places->logits = filled(B * T, CP_PLACE_JUDGED);
    for (int64_t i = 0; i < B * T; i++)
        if ((places->rows && places->rows[i] == CP_PLACE_UNJUDGED) || (expected && !expected[i]) ||
            (actual && !actual[i]))
            places->logits[i] = CP_PLACE_UNJUDGED;
}

static const cp_weight *first_ending(const cp_fixture *fixture, const char *const *endings)
{
    for (; *endings; endings++) {
        size_t length = strlen(*endings);
        for (size_t i = 0; i < fixture->weight_count; i++) {
            const char *name = fixture->weights[i].name;
            size_t whole = strlen(name);
            bool component = whole == length || (whole > length && name[whole - length - 1] == '.');
            if (component && strcmp(name + whole - length, *endings) == 0)
                return &fixture->weights[i];
        }
    }
    return NULL;
}

/* The input embedding, if it is certain that the output does not use it: the file holds an output matrix of its own,
 * names no tie, and the configuration asks for none. */
static const cp_weight *untied_embedding(const cp_fixture *fixture)
{
    static const char *const inputs[] = {"embed_tokens.weight", "embed_in.weight", "wte.weight",
                                         "word_embeddings.weight", NULL};
    static const char *const outputs[] = {"lm_head.weight", "embed_out.weight", NULL};
    const cp_weight *embedding = first_ending(fixture, inputs);
    const cp_json *tie = fixture->config ? cp_json_member(fixture->config, "tie_word_embeddings") : NULL;
    bool asked = tie && cp_json_kind_of(tie) == CP_JSON_BOOL && cp_json_bool(tie);
    if (!embedding || embedding->tied[0] || embedding->tensor.dims != 2 || asked)
        return NULL;
    return first_ending(fixture, outputs) ? embedding : NULL;
}

static void open_ids(cp_places *places, const cp_fixture *fixture)
{
    const cp_weight *embedding = untied_embedding(fixture);
    if (!embedding)
        return;
    const cp_batch *batch = &fixture->batch;
    places->embedding = embedding->name;
    places->V = embedding->tensor.extent[0];
    places->ids = filled(places->V, CP_PLACE_ZERO);
    for (int64_t i = 0; batch->input_ids && i < batch->B * batch->T; i++) {
        int64_t id = batch->input_ids[i];
        if (id >= 0 && id < places->V)
            places->ids[id] = CP_PLACE_JUDGED;
    }
}

void cp_places_open(cp_places *places, const cp_fixture *fixture)
{
    *places = (cp_places){0};
    if (!fixture)
        return;
    open_positions(places, &fixture->batch);
    open_targets(places, &fixture->batch);
    open_ids(places, fixture);
}

void cp_places_close(cp_places *places)
{
    free(places->rows);
    free(places->embeds);
    free(places->logits);
    free(places->targets);
    free(places->ids);
    *places = (cp_places){0};
}

static int64_t product(const int64_t *extent, int dims)
{
    int64_t count = 1;
    for (int axis = 0; axis < dims; axis++)
        count *= extent[axis];
    return count;
}

bool cp_places_rows(cp_rows *rows, const cp_places *places, const char *name, cp_tensor_kind kind, int dims,
                    const int64_t *extent)
{
    *rows = (cp_rows){0};
    if (places->embedding && kind == CP_TENSOR_GRADIENT && dims == 2 && extent[0] == places->V &&
        strcmp(cp_name_parameter(name), places->embedding) == 0) {
        *rows = (cp_rows){places->ids, extent[1]};
        return true;
    }
    bool embeds = strcmp(name, CP_INPUTS_EMBEDS) == 0;
    const uint8_t *own = strcmp(name, "logits") == 0         ? places->logits
                         : strcmp(name, "target_logit") == 0 ? places->targets
                                                             : NULL;
    if (own && dims >= 2 && extent[0] == places->B && extent[1] == places->T) {
        *rows = (cp_rows){own, product(extent + 2, dims - 2)};
        return true;
    }
    if (!places->rows || kind == CP_TENSOR_LOSS || (kind == CP_TENSOR_GRADIENT && !cp_name_has_rows(name)))
        return true;
    bool fits = dims >= 2 && extent[0] == places->B && extent[1] == places->T;
    if (!fits)
        return kind == CP_TENSOR_TRACE; /* a register need not have positions */
    *rows = (cp_rows){embeds ? places->embeds : places->rows, product(extent + 2, dims - 2)};
    return true;
}

void cp_rows_fill(uint8_t *out, cp_rows rows, int64_t first, int64_t count)
{
    for (int64_t done = 0; done < count;) {
        int64_t row = (first + done) / rows.length;
        int64_t left = (row + 1) * rows.length - (first + done);
        int64_t run = left < count - done ? left : count - done;
        memset(out + done, rows.places[row], (size_t)run);
        done += run;
    }
}

#include "tests/fuzz/targets.h"

#include "base/json.h"
#include "harness/cli/exchanges.h"
#include "harness/cli/layouts.h"
#include "harness/cli/make_batch.h"
#include "harness/cli/suite.h"
#include "harness/files/name_map.h"
#include "models/models.h"

#include <stdlib.h>
#include <string.h>

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void walk(const cp_json *value)
{
    cp_json_kind kind = cp_json_kind_of(value);
    if (kind == CP_JSON_REAL || kind == CP_JSON_INTEGER)
        cp_json_real(value);
    if (kind == CP_JSON_ARRAY)
        for (size_t i = 0; i < cp_json_size(value); i++)
            walk(cp_json_element(value, i));
    void *at = NULL;
    const char *name;
    for (const cp_json *member; kind == CP_JSON_OBJECT && (member = cp_json_next(value, &at, &name)) != NULL;)
        walk(member);
}

void fuzz_json(const uint8_t *data, size_t size)
{
    cp_json *document;
    if (cp_json_parse(&document, (const char *)data, size, "fuzz") != CP_OK)
        return;
    walk(document);
    free(cp_json_text(document));
    cp_json_close(document);
}

void fuzz_config(const uint8_t *data, size_t size)
{
    cp_json *document;
    cp_program *program;
    if (cp_json_parse(&document, (const char *)data, size, "fuzz") != CP_OK)
        return;
    if (cp_models_build(&program, document, "fuzz") == CP_OK)
        cp_program_close(program);
    cp_json_close(document);
}

/* ---- a suite ----------------------------------------------------------------------------------------------------- */

static bool holds(const uint8_t *data, size_t size, const char *word)
{
    size_t length = strlen(word);
    for (size_t at = 0; at + length <= size; at++)
        if (memcmp(data + at, word, length) == 0)
            return true;
    return false;
}

/* Folders of a suite are looked into; those that a fuzzer may name are none. */
void fuzz_suite(const uint8_t *data, size_t size)
{
    if (holds(data, size, "\"/") || holds(data, size, "..") || holds(data, size, "\\"))
        return;
    cp_suite suite = {0};
    cp_suite_parse(&suite, (const char *)data, size, "fuzz", "nowhere");
    cp_suite_close(&suite);
}

/* ---- name_map ---------------------------------------------------------------------------------------------------- */

static char *string_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static int64_t count_of(const cp_source_tensor *tensor)
{
    int64_t count = 1;
    for (int axis = 0; axis < tensor->dims; axis++)
        count *= tensor->extent[axis];
    return count;
}

void fuzz_name_map(const uint8_t *data, size_t size)
{
    static double values[240];
    const cp_memory_tensor tensors[] = {
        {"grads/fused.weight", CP_VIEW(values, CP_F64, 12, 4), false},
        {"grads/h.0.weight", CP_VIEW(values, CP_F64, 4, 6), false},
        {"grads/h.1.bias", CP_VIEW(values, CP_F64, 6), false},
        {"logits", CP_VIEW(values, CP_F64, 2, 5, 24), false},
        {"loss", CP_VIEW(values, CP_F64, 1), true},
    };
    cp_declaration said = cp_declaration_whole();
    cp_source *source;
    if (cp_source_memory(&source, "fuzz", &said, tensors, sizeof tensors / sizeof *tensors) != CP_OK)
        abort();
    char *text = string_of(data, size);
    if (cp_name_map_apply(&source, text) == CP_OK) {
        for (size_t i = 0; i < source->count; i++) {
            double *out = calloc((size_t)count_of(&source->tensors[i]) + 1, sizeof *out);
            if (out)
                cp_source_read_all(source, i, out);
            free(out);
        }
        cp_source_close(source);
    }
    free(text);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

void fuzz_arguments(const uint8_t *data, size_t size)
{
    enum { MOST = 16 };
    static const cp_option options[] = {
        {"length", 0, "T", ""},
        {"batch", 0, "WHAT", ""},
        {"left-pad", 0, "LIST", ""},
        {"right-pad", 0, "L", ""},
        {"embeds", 0, NULL, ""},
        {"prompt", 0, "N", ""},
        {"layout", 0, "L", ""},
        {"exchange", 0, "E", ""},
        {"rtol", 0, "X", ""},
        {"ranks", 0, "LIST", ""},
        {0},
    };
    char *text = string_of(data, size);
    const char *argv[MOST + 1] = {"fuzz"};
    int argc = 1;
    for (char *line = text; line && argc < MOST;) {
        argv[argc++] = line;
        line = strchr(line, '\n');
        if (line)
            *line++ = '\0';
    }
    cp_arguments arguments;
    if (cp_arguments_parse(&arguments, options, argc, argv) == CP_OK) {
        cp_batch_plan plan = {0};
        cp_layout_spec layout = {0}, layouts[MOST];
        cp_exchange_spec exchanges[MOST];
        char room[CP_LAYOUT_TEXT];
        double rtol = 0;
        int64_t ranks[MOST];
        int count = 0;
        cp_batch_plan_read(&plan, &arguments);
        cp_value_real(&rtol, &arguments, "rtol");
        cp_value_integers(ranks, &count, MOST, &arguments, "ranks", 1, 1024);
        if (cp_read_layout(&layout, &arguments) == CP_OK) {
            cp_layout_text(&layout, room);
            for (int P = 1; P <= MOST; P *= 2)
                (void)cp_layout_check(&layout, P, 24);
        }
        cp_read_layouts(layouts, &count, MOST, &arguments);
        count = 0;
        if (cp_read_exchanges(exchanges, &count, MOST, &arguments) == CP_OK)
            for (int i = 0; i < count; i++)
                (void)cp_exchange_check(&exchanges[i], 4, 8, 2);
    }
    cp_arguments_close(&arguments);
    free(text);
}

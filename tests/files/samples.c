#include "tests/files/samples.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int dims;
    int64_t extent[3];
} shapes[] = {
    {"loss", 0, {0}},
    {"token_loss", 2, {SAMPLE_B, SAMPLE_T}},
    {"logits", 3, {SAMPLE_B, SAMPLE_T, SAMPLE_V}},
    {"grads/inputs_embeds", 3, {SAMPLE_B, SAMPLE_T, SAMPLE_C}},
    {"grads/w", 1, {SAMPLE_N}},
    {"trace/embed", 3, {SAMPLE_B, SAMPLE_T, SAMPLE_C}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = SAMPLE_B * SAMPLE_T * SAMPLE_V };

double sample_value(const char *tensor, int64_t index)
{
    for (int i = 0; i < SHAPES; i++)
        if (strcmp(shapes[i].name, tensor) == 0)
            return 100 * (i + 1) + (double)index;
    return -1;
}

cp_source *sample_source(const cp_declaration *declaration)
{
    static double values[SHAPES][MOST];
    cp_memory_tensor tensors[SHAPES];
    for (int i = 0; i < SHAPES; i++) {
        bool scalar = shapes[i].dims == 0;
        const int64_t one = 1;
        for (int64_t index = 0; index < MOST; index++)
            values[i][index] = sample_value(shapes[i].name, index);
        tensors[i] = (cp_memory_tensor){
            shapes[i].name,
            cp_tensor_view(values[i], CP_F64, scalar ? 1 : shapes[i].dims, scalar ? &one : shapes[i].extent),
            scalar};
    }
    cp_source *source;
    assert_ok(cp_source_memory(&source, "sample", declaration, tensors, SHAPES));
    return source;
}

void sample_dump(char path[CP_PATH_BYTES], const char *directory)
{
    cp_declaration said = cp_declaration_whole();
    said.fixture_id = "f1";
    said.implementation = "sample";
    said.dtype_declared = true;
    cp_source *source = sample_source(&said);
    snprintf(path, CP_PATH_BYTES, "%s/dump.h5", directory);
    assert_ok(cp_dump_write(path, source));
    cp_source_close(source);
}

cp_fixture sample_fixture(cp_source *expected)
{
    static float w[SAMPLE_N] = {1, 2, 3, 4};
    static uint16_t frozen[2] = {0x3f80, 0x4000}; /* 1 and 2 */
    static const int64_t ids[SAMPLE_B * SAMPLE_T] = {0, 1, 2, 0, 1, 2, 2, 1, 0, 1};
    static const int64_t labels[SAMPLE_B * SAMPLE_T] = {0, 1, 2, 0, 1, 2, 2, 1, -100, -100};
    static const uint8_t mask[SAMPLE_B * SAMPLE_T] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
    static cp_weight weights[2];
    weights[0] = (cp_weight){"w", "w.again\nw.more\n", "", CP_VIEW(w, CP_F32, SAMPLE_N)};
    weights[1] = (cp_weight){"frozen", "", "frozen", CP_VIEW(frozen, CP_BF16, 2)};
    return (cp_fixture){
        .producer = "test",
        .config_text = "{\"model_type\": \"llama\", \"név\": 1}",
        .weight_count = 2,
        .weights = weights,
        .batch = {.B = SAMPLE_B,
                  .T = SAMPLE_T,
                  .input_ids = ids,
                  .labels = labels,
                  .attention_mask = mask,
                  .num_items_in_batch = 23},
        .items_dtype = CP_I64,
        .order = "w\ninputs_embeds\n",
        .truth = "a test",
        .precision = "float64",
        .expected = expected,
    };
}

void sample_fixture_file(char path[CP_PATH_BYTES], const char *directory)
{
    cp_declaration said = cp_declaration_whole();
    cp_source *expected = sample_source(&said);
    cp_fixture fixture = sample_fixture(expected);
    snprintf(path, CP_PATH_BYTES, "%s/fixture.h5", directory);
    assert_ok(cp_fixture_write(path, &fixture));
    cp_source_close(expected);
}

unsigned char *sample_bytes(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*count + 1);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    fclose(file);
    return bytes;
}

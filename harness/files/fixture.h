/* A fixture: configuration, weights, one batch, and what transformers computes from them. */
#ifndef CPEQ_HARNESS_FILES_FIXTURE_H
#define CPEQ_HARNESS_FILES_FIXTURE_H

#include "base/json.h"
#include "base/tokens/batch.h"
#include "harness/files/calibration.h"
#include "harness/files/source.h"

#define CP_SELF_MADE "self-made:"

typedef struct cp_weight {
    const char *name; /* the framework's */
    const char *tied; /* other names of the same tensor */
    const char *role; /* "", "buffer" or "frozen": the last two have no gradient */
    cp_tensor tensor; /* as stored: float64, float32 or bfloat16, contiguous, native byte order */
} cp_weight;

/* What a fixture of kind "attention" holds beside token members: an attention function's inputs and its parameters.
 * Tensors as stored (float64, float32 or bfloat16), contiguous. */
typedef struct cp_attention_inputs {
    cp_tensor q, dout; /* [B,T,H,D] */
    cp_tensor k, v;    /* [B,T,K,D]; K divides H */
    cp_tensor sink;    /* [H]; data NULL: none */
    double scale;
    double softcap;        /* 0: none */
    int64_t window, chunk; /* tokens; 0: none */
    bool causal;
} cp_attention_inputs;

/* Lists of names are one string, a newline behind each name; "" where there is none. */
typedef struct cp_fixture cp_fixture;
struct cp_fixture {
    const char *path;
    const char *id;          /* 64 hexadecimal digits, checked against the contents */
    const char *producer;    /* "" where the file says nothing */
    const char *config_text; /* "" and NULL where the file has none */
    const cp_json *config;
    size_t weight_count;
    const cp_weight *weights;             /* sorted by name */
    const cp_attention_inputs *attention; /* NULL: a model's training step; else without config and weights */
    cp_batch batch;        /* whole, NOT yet checked with cp_batch_check (that needs the vocabulary) */
    cp_dtype embeds_dtype; /* how inputs_embeds is stored: float64 (0), float32 or bfloat16 */
    cp_dtype items_dtype;  /* how num_items_in_batch is stored: float64 (0), float32, int64 or int32 */
    const char *order;     /* names of all tensors in execution order */
    const char
        *truth; /* /expected's `source`, as the file has it; begins with CP_SELF_MADE where cpeq is it */
    const char *precision; /* /expected's `precision` */
    cp_source *expected; /* loss, token_loss, logits, grads/…, trace/…; label = path. Empty where the file
                                * has no /expected: it gives a batch to the comparison of two dumps */
    cp_calibrations calibrations;
    void *state; /* of an opened fixture; NULL in one that was built */
};

/* Reads all but the expectations, which are read as they are asked for. CP_BAD_INPUT names file and object: not HDF5,
 * truncated, another kind or version, an id that does not fit the contents, a wrong type or shape (of /batch, of
 * /expected/loss, …), a gradient of a trainable weight that is not there, external or cyclic links, a non-finite
 * expectation (found when it is read), a calibration that is not one of all expected tensors. CP_REFUSED for a member of /batch that this version does not read. */
cp_status cp_fixture_open(cp_fixture **out, const char *path);
void cp_fixture_close(cp_fixture *fixture); /* NULL is allowed */

const cp_weight *cp_fixture_weight(const cp_fixture *fixture, const char *name); /* NULL: none */

/* The mask that transformers built for a layer, [B,T,T], 1 = visible; *found false where the file has none. `out` has
 * room for B·T·T. */
cp_status cp_fixture_mask(const cp_fixture *fixture, int64_t layer, uint8_t *out, bool *found);

/* What kind of file this is: "fixture", "dump", …, "attention fixture", "attention dump"; or a failure that says what
 * else it is. */
enum { CP_KIND_TEXT = 32 };
cp_status cp_file_kind(char kind[CP_KIND_TEXT], const char *path);
bool cp_kind_is_fixture(const char *kind);
bool cp_kind_is_dump(const char *kind);

/* Writes a whole fixture beside `path` and renames it when it is complete; the same content gives the same bytes.
 * The id is computed. Uses path's directory; stale temporaries of dead processes are swept. Fields of `fixture` that
 * are derived (path, id, config) are ignored, NULL strings count as "". What a cp_fixture does not hold (masks, other
 * attributes of an opened file) is not written. */
cp_status cp_fixture_write(const char *path, const cp_fixture *fixture);

/* sha256 over configuration, weights and batch as the file-format document says. */
cp_status cp_fixture_identify(const cp_fixture *fixture, char id[65]);

#endif

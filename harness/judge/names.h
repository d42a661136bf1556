/* What the name of a tensor says: its kind, its layer, its place in the order of execution, its other names. */
#ifndef CPEQ_HARNESS_JUDGE_NAMES_H
#define CPEQ_HARNESS_JUDGE_NAMES_H

#include "harness/files/fixture.h"
#include "harness/judge/result.h"

/* "grads/inputs_embeds": the gradient of no parameter. */
extern const char CP_INPUTS_EMBEDS[];

/* False: a name that the format does not know at the root, which a reader passes over. */
bool cp_name_kind(cp_tensor_kind *kind, const char *name);

/* Whether a gradient has a row for each position: that of the embeddings, or of an attention function's inputs. */
bool cp_name_has_rows(const char *name);

/* "grads/model.norm.weight", "grads_partial/model.norm.weight" -> "model.norm.weight"; any other name is returned
 * whole. */
const char *cp_name_parameter(const char *name);

/* Whether it is a gradient before its reduction over ranks. */
bool cp_name_is_partial(const char *name);

/* n of the component pair `layers.<n>.` (`layer.<n>.` in a trace); -1: none. */
int64_t cp_name_layer(const char *name);

/* Whether `list`, newline-separated with a final newline, holds `entry`. */
bool cp_name_listed(const char *list, const char *entry);

/* The weight of this name or of a name tied to it; NULL: none. */
const cp_weight *cp_name_weight(const cp_fixture *fixture, const char *parameter);

/* The weight that a tensor "grads/…" is the gradient of; NULL for any other. */
const cp_weight *cp_name_gradient(const cp_fixture *fixture, const char *name);

/* The index-th name under which the gradient `name` of a weight may stand: its own, then the weight's, then those that
 * it is tied to, of a gradient before its reduction the reduced ones'. False: no more; with `weight` NULL there is its own
 * alone, and of a gradient before its reduction the reduced one's. */
bool cp_name_other(char out[CP_RESULT_NAME], const char *name, const cp_weight *weight, int index);

/* Sorts keys: what was run, trace (forward), logits or an attention's output, token losses, loss, gradients of the trace (backward), gradients
 * of parameters before their reduction, then after it.
 * Gradients stand as `order` has them (with or without "grads/"), then, or where it is "": input embeddings, embedding,
 * layers by number, final norm, head; inside a layer by name. */
typedef struct cp_name_key {
    int group;
    int64_t listed; /* line in `order` */
    int part;
    int64_t layer;
    const char *name; /* borrowed */
} cp_name_key;

cp_name_key cp_name_key_of(const char *name, const char *order);
int cp_name_compare(const cp_name_key *a, const cp_name_key *b);

#endif

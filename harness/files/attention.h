/* What an attention function is given, as files of kind "attention" hold it. */
#ifndef CPEQ_HARNESS_FILES_ATTENTION_H
#define CPEQ_HARNESS_FILES_ATTENTION_H

#include "harness/files/fixture.h"
#include "harness/files/h5file.h"

extern const char CP_KIND_ATTENTION[]; /* "attention" */

/* Fixtures and dumps of an attention function are of one kind: a fixture is what has a batch. */
cp_status cp_attention_is_fixture(bool *fixture, cp_h5 *file);

/* Whether a member of /batch is one of the function's inputs (q, k, v, dout, sink). */
bool cp_attention_has_input(const char *name);

/* Reads inputs and attributes, and B and T from q. CP_BAD_INPUT names the object. */
cp_status cp_attention_read(cp_attention_inputs *attention, cp_batch *batch, cp_h5 *file, cp_pool *pool);

/* Whether the expectations are complete: out, lse, dq, dk, dv, with a sink dsink, and nothing else. */
cp_status cp_attention_check_expected(const cp_attention_inputs *attention, const cp_source *expected,
                                      const char *path);

cp_status cp_attention_write(cp_h5 *file, const cp_attention_inputs *attention);

#endif

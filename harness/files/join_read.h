/* A joined source, and how its values are made of those of its parts. */
#ifndef CPEQ_HARNESS_FILES_JOIN_READ_H
#define CPEQ_HARNESS_FILES_JOIN_READ_H

#include "harness/files/pool.h"
#include "harness/files/source.h"
#include "harness/files/view.h"

typedef struct cp_joined {
    cp_source source;
    cp_pool pool;
    cp_source **parts; /* owned, by rank */
    size_t count;
    int64_t B, T;
    const cp_place *places; /* NULL: one whole part, in order */
    const cp_place *logits; /* of logits that are kept of some positions alone; NULL: none are */
    const uint8_t *kept;    /* [B,T] with it */
    cp_source_tensor *tensors;
    int64_t *index; /* [tensor][part]: where the part has it; -1: declared absent */
    double divisor; /* of a summed loss; 0: not known */
} cp_joined;

/* Where the rows of a tensor lie; NULL: in order. */
const cp_place *cp_joined_places(const cp_joined *j, const char *name);

/* What a source's functions of these names are. */
cp_status cp_joined_read(const cp_source *source, size_t tensor, int64_t first, int64_t count, double *out);
cp_status cp_joined_look(const cp_source *source, cp_view *view, size_t tensor, int64_t first, int64_t count,
                         const void **data, cp_dtype *dtype);
cp_grain cp_joined_grain(const cp_source *source, size_t tensor);

/* Elements of one part's own tensor; `view` is of the whole, and NULL where nothing is to be looked at where it lies. */
cp_status cp_joined_part(const cp_joined *j, cp_view *view, size_t part, size_t tensor, int64_t first,
                         int64_t count, double *out);

#endif

/* safetensors files: a JSON header with names, types, shapes and offsets, then the data, little-endian.
 *
 * The reader is strict: what does not add up exactly (overlaps, holes, sizes, names given twice, a file that ends early
 * or late) is CP_BAD_INPUT, naming file and tensor. */
#ifndef CPEQ_HARNESS_FILES_SAFETENSORS_H
#define CPEQ_HARNESS_FILES_SAFETENSORS_H

#include "harness/files/source.h"

typedef struct cp_safetensor {
    const char *name;
    cp_dtype dtype;
    int dims; /* 0: a scalar */
    int64_t extent[CP_MAX_DIMS];
    int64_t count;        /* elements */
    int64_t begin, bytes; /* of its data in the file */
} cp_safetensor;

typedef struct cp_safetensors {
    const char *path;
    size_t count;
    const cp_safetensor *tensors; /* sorted by name */
    void *state;
} cp_safetensors;

const char *cp_safetensors_dtype(cp_dtype dtype); /* "F32", … */

/* Reads the header; the data is read as it is asked for. */
cp_status cp_safetensors_open(cp_safetensors **out, const char *path);
void cp_safetensors_close(cp_safetensors *file); /* NULL is allowed */

const cp_safetensor *cp_safetensors_find(const cp_safetensors *file, const char *name); /* NULL: none */

/* The whole tensor as stored: `count` elements. */
cp_status cp_safetensors_read(const cp_safetensors *file, const cp_safetensor *tensor, void *out);

/* `count` elements from the `first` on. */
cp_status cp_safetensors_read_some(const cp_safetensors *file, const cp_safetensor *tensor, int64_t first,
                                   int64_t count, void *out);

/* Writes contiguous tensors of any cp_dtype, with the metadata that Hugging Face asks for, beside `path`, renamed when
 * complete; the same content in any order gives the same bytes. */
cp_status cp_safetensors_write(const char *path, const cp_memory_tensor *tensors, size_t count);

#endif

/* libcpeq: reads cpeq's fixtures and writes dumps that cpeq judges, from C, C++ and Fortran (module cpeq). It stands on
 * HDF5 alone and knows no MPI: each rank writes a file of its own. docs/library.md is the way through it; the format of
 * the files is docs/file-format.md.
 *
 * Names are paths without the first slash: "batch/input_ids", "weights/model.norm.weight", "grads/model.norm.weight".
 * Arrays are row-major, extents int64_t. A function that can fail returns a status; the handle keeps one sentence
 * about it. A handle is used by one thread at a time, and so is the library where HDF5 is not thread-safe. */
#ifndef CPEQ_H
#define CPEQ_H

#include <stddef.h>
#include <stdint.h>

#if defined _WIN32
#define CPEQ_API
#else
#define CPEQ_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cpeq_status {
    CPEQ_OK = 0,
    CPEQ_BAD_INPUT = 1, /* the file: it cannot be read, or what is asked for is not there */
    CPEQ_BAD_USAGE = 2, /* the call */
    CPEQ_FAILED = 3     /* memory or disk */
} cpeq_status;

typedef enum cpeq_dtype {
    CPEQ_FLOAT64 = 0,
    CPEQ_FLOAT32 = 1,
    CPEQ_FLOAT16 = 2,  /* read only */
    CPEQ_BFLOAT16 = 3, /* 16-bit words */
    CPEQ_INT64 = 4,
    CPEQ_INT32 = 5,
    CPEQ_UINT8 = 6
} cpeq_dtype;

enum { CPEQ_MAX_DIMS = 4 };

typedef struct cpeq_array {
    cpeq_dtype dtype; /* as stored */
    int dims;         /* 0: a scalar */
    int64_t extent[CPEQ_MAX_DIMS];
} cpeq_array;

/* ---- fixtures ---------------------------------------------------------------------------------------------------- */

typedef struct cpeq_fixture cpeq_fixture;

/* Opens a fixture, of a training step or of an attention function. On failure too *fixture is a handle that holds the
 * sentence and must be closed; NULL only where there is no memory for it. */
CPEQ_API cpeq_status cpeq_fixture_open(cpeq_fixture **fixture, const char *path);
CPEQ_API void cpeq_fixture_close(cpeq_fixture *fixture); /* NULL is allowed */

/* Why the last call failed; "" where none has. Good until the next call. */
CPEQ_API const char *cpeq_fixture_error(const cpeq_fixture *fixture);

/* Good until the fixture is closed. */
CPEQ_API const char *cpeq_fixture_kind(const cpeq_fixture *fixture); /* "fixture" or "attention" */
CPEQ_API const char *cpeq_fixture_id(const cpeq_fixture *fixture);   /* a dump declares it as fixture_id */
CPEQ_API const char *
cpeq_fixture_config(const cpeq_fixture *fixture); /* text of config.json; "": there is none */

/* The members of a group, as "weights", sorted; *count 0 where there is no such group. Good until the fixture is closed. */
CPEQ_API cpeq_status cpeq_fixture_names(cpeq_fixture *fixture, const char *group, const char *const **names,
                                        size_t *count);

/* *found is 1 where there is such an array, else 0. */
CPEQ_API cpeq_status cpeq_fixture_has(cpeq_fixture *fixture, const char *name, int *found);
CPEQ_API cpeq_status cpeq_fixture_describe(cpeq_fixture *fixture, const char *name, cpeq_array *array);

/* The slab of `count` elements along each axis from `offset` on, packed into `data` as `dtype`; both NULL: everything.
 * Floats are converted to float64, float32 or bfloat16, integers to int64; any other type is read as it is stored. */
CPEQ_API cpeq_status cpeq_fixture_read(cpeq_fixture *fixture, const char *name, cpeq_dtype dtype,
                                       const int64_t *offset, const int64_t *count, void *data);

/* Attributes of an object, or of the root ("/"). Where there is none *found is 0 and *value is left alone. */
CPEQ_API cpeq_status cpeq_fixture_integer(cpeq_fixture *fixture, const char *object, const char *attribute,
                                          int64_t *value, int *found);
CPEQ_API cpeq_status cpeq_fixture_real(cpeq_fixture *fixture, const char *object, const char *attribute,
                                       double *value, int *found);
CPEQ_API cpeq_status cpeq_fixture_text(cpeq_fixture *fixture, const char *object, const char *attribute,
                                       const char **value, int *found);

/* ---- dumps ------------------------------------------------------------------------------------------------------- */

typedef struct cpeq_dump cpeq_dump;

/* Begins a dump of kind "dump" or "attention". It grows in a temporary file beside `path` and gets its name when it is
 * finished: no reader ever sees half of it. On failure as cpeq_fixture_open. */
CPEQ_API cpeq_status cpeq_dump_create(cpeq_dump **dump, const char *path, const char *kind);

/* Why the last call failed. After a failure the dump cannot be finished any more: every call repeats it. */
CPEQ_API const char *cpeq_dump_error(const cpeq_dump *dump);

/* Declares an attribute of the root, once. `lines` is a list of strings with a newline behind each. */
CPEQ_API cpeq_status cpeq_dump_set_text(cpeq_dump *dump, const char *attribute, const char *value);
CPEQ_API cpeq_status cpeq_dump_set_lines(cpeq_dump *dump, const char *attribute, const char *lines);
CPEQ_API cpeq_status cpeq_dump_set_integer(cpeq_dump *dump, const char *attribute, int64_t value);
CPEQ_API cpeq_status cpeq_dump_set_real(cpeq_dump *dump, const char *attribute, double value);

/* Writes a slab of an array of this file: `shape` is that of the whole array, `count` elements along each axis from
 * `offset` on are packed in `data`; both NULL: everything. The first slab makes the array, later ones must agree with
 * its type and shape. Groups ("grads/…", "trace/…", "ran/…") are made as they are needed. */
CPEQ_API cpeq_status cpeq_dump_write(cpeq_dump *dump, const char *name, cpeq_dtype dtype, int dims,
                                     const int64_t *shape, const int64_t *offset, const int64_t *count,
                                     const void *data);

/* Puts the dump in its place. CPEQ_BAD_USAGE where the slabs of an array are not as many elements as it has. */
CPEQ_API cpeq_status cpeq_dump_finish(cpeq_dump *dump);

/* Frees the handle; what was not finished is gone. NULL is allowed. */
CPEQ_API void cpeq_dump_close(cpeq_dump *dump);

#ifdef __cplusplus
}
#endif

#endif

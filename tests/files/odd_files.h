/* HDF5 files that this project would never write: the raw library is used on a file that exists already. */
#ifndef CPEQ_TESTS_FILES_ODD_FILES_H
#define CPEQ_TESTS_FILES_ODD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a dataset is stored, and what of. */
typedef enum odd_type {
    ODD_F64,
    ODD_F64_BIG,
    ODD_F32,
    ODD_F32_BIG,
    ODD_F16,
    ODD_F16_BIG,
    ODD_BF16, /* a custom float */
    ODD_BF16_BIG,
    ODD_F24,          /* no float of ours */
    ODD_F32_EXPLICIT, /* without the implied one */
    ODD_I64,
    ODD_I64_BIG,
    ODD_I32,
    ODD_I16,
    ODD_U16,
    ODD_U8,
    ODD_ENUM,
    ODD_RECORD,
    ODD_STRING,
    ODD_REFERENCE
} odd_type;

typedef enum odd_storage {
    ODD_CONTIGUOUS,
    ODD_COMPACT,
    ODD_CHUNKED,
    ODD_PACKED,      /* chunked, shuffle, deflate, fletcher32 */
    ODD_SCALEOFFSET, /* chunked, with a filter that is not allowed */
    ODD_EXTERNAL,
    ODD_VIRTUAL,
    ODD_NEVER_WRITTEN,
    ODD_NEVER_WRITTEN_CHUNKED,
    ODD_HALF_WRITTEN, /* chunked; the first chunk alone */
    ODD_NULL_SPACE
} odd_storage;

/* A new dataset; `data` is in the type's memory form (native byte order) and ignored where nothing is written. */
void odd_dataset(const char *file, const char *path, odd_type type, odd_storage storage, int dims,
                 const uint64_t *extent, const void *data);

/* In chunks of these extents, each shuffled, packed or both. */
void odd_chunks(const char *file, const char *path, odd_type type, int dims, const uint64_t *extent,
                const uint64_t *chunk, bool shuffled, bool packed, const void *data);

typedef enum odd_link { ODD_SOFT, ODD_DANGLING, ODD_EXTERNAL_LINK, ODD_HARD } odd_link;

/* A link at `path` to the object `target`. */
void odd_make_link(const char *file, const char *path, odd_link link, const char *target);
void odd_group(const char *file, const char *path);
void odd_named_type(const char *file, const char *path);
void odd_remove(const char *file, const char *path);

/* Attributes, replaced where they are there. */
void odd_text(const char *file, const char *object, const char *name,
              const char *value); /* of varying length */
void odd_fixed_text(const char *file, const char *object, const char *name, const char *value, size_t width);
void odd_texts(const char *file, const char *object, const char *name, const char *const *values,
               size_t count);
void odd_integer(const char *file, const char *object, const char *name, int value);
void odd_integers(const char *file, const char *object, const char *name, const int *values, size_t count);
void odd_truth(const char *file, const char *object, const char *name, bool value); /* as Python's bool */
void odd_real(const char *file, const char *object, const char *name, double value);
void odd_no_attribute(const char *file, const char *object, const char *name);

/* Writes the dataset's own data over again (of the type in memory), to change what a file holds. */
void odd_overwrite(const char *file, const char *path, odd_type type, const void *data);

/* A foreign HDF5 file, with one group. */
void odd_foreign(const char *file);

#endif

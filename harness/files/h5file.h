/* HDF5 behind one door: the few things that the file format needs, and a refusal for everything that could lead a
 * reader out of its file (links, external storage, virtual datasets, filter plugins) or past its end.
 *
 * Paths are absolute ("/expected/grads/model.norm.weight"), names hold no "/". Failures are CP_BAD_INPUT and name file
 * and object. HDF5's own messages are switched off. Everything that is read is taken from a pool, where there is one. */
#ifndef CPEQ_HARNESS_FILES_H5FILE_H
#define CPEQ_HARNESS_FILES_H5FILE_H

#include "base/tensor.h"
#include "harness/files/pool.h"

typedef struct cp_h5 cp_h5;

cp_status cp_h5_open(cp_h5 **out, const char *path);   /* to read */
cp_status cp_h5_create(cp_h5 **out, const char *path); /* to write; replaces what is there */

/* Frees the file on failure too. CP_INTERNAL where what was written does not reach the disk. NULL is allowed. */
cp_status cp_h5_close(cp_h5 *file);
const char *cp_h5_path(const cp_h5 *file);

/* The file that this thread is reading at the moment, NULL outside of the calls below: the HDF5 library does not survive
 * all damage, and a signal handler may ask here what to blame. */
const char *cp_h5_being_read(void);

/* ---- reading ---------------------------------------------------------------------------------------------------- */
typedef enum cp_h5_kind { CP_H5_NOTHING, CP_H5_GROUP, CP_H5_DATASET, CP_H5_OTHER } cp_h5_kind;

/* What a path leads to. Refuses a path any part of which is a soft, external or user-defined link. */
cp_status cp_h5_look(cp_h5 *file, const char *path, cp_h5_kind *kind);

/* The members of a group, sorted by name (bytes). Refuses links that are not hard, and names that are too long or hold
 * control characters. */
typedef struct cp_h5_member {
    const char *name;
    cp_h5_kind kind;
} cp_h5_member;
cp_status cp_h5_list(cp_h5 *file, cp_pool *pool, const char *group, const cp_h5_member **members,
                     size_t *count);

/* Type and extents of a dataset of numbers. Refuses a type that is none of cp_dtype (bfloat16: an HDF5 float with its
 * fields, or uint16 with an attribute dtype = "bfloat16"), more than CP_MAX_DIMS dimensions, data that is not there or
 * larger than the file can hold, storage outside the file, filters other than deflate, shuffle and fletcher32. */
typedef struct cp_h5_array {
    cp_dtype dtype;
    int dims; /* 0: a scalar */
    int64_t extent[CP_MAX_DIMS];
    int64_t count; /* elements */
    /* Where its bytes stand in the file as they do in memory, in one piece; -1: they do not. */
    int64_t offset;
    /* Extents of the pieces that cp_h5_read_chunk reads; 0: it cannot be read so. */
    int64_t chunk[CP_MAX_DIMS];
    bool shuffled, deflated; /* what was done to each, in this order */
} cp_h5_array;
cp_status cp_h5_describe(cp_h5 *file, const char *path, cp_h5_array *array);

/* `count` elements from the `first` on, in row-major order, as stored but in the machine's byte order. Several threads
 * may read, of one file or many: they wait for each other. */
cp_status cp_h5_read(cp_h5 *file, const char *path, int64_t first, int64_t count, void *out);

/* A chunk as it stands in the file, packed, by its first element's index. `most` is what `out` has room for; more is
 * CP_BAD_INPUT. Bit 0 and 1 of `skipped`: the first and the second filter were not applied. For several threads too. */
cp_status cp_h5_read_chunk(cp_h5 *file, const char *path, const int64_t at[CP_MAX_DIMS], void *out,
                           size_t most, size_t *bytes, unsigned *skipped);

/* The descriptor of a file that is read, for the bytes at an array's offset; -1: there is none. */
int cp_h5_descriptor(const cp_h5 *file);

/* Whether a dataset holds strings. */
cp_status cp_h5_is_text(cp_h5 *file, const char *path, bool *text);

/* A dataset that is one string. `length` counts bytes without the terminating zero. */
cp_status cp_h5_read_text(cp_h5 *file, cp_pool *pool, const char *path, const char **text, size_t *length);

/* Attributes of a group or dataset. An absent one leaves `out` (and `found` false); one of another type is refused.
 * A document is a string of any length, of which nothing was checked. Lines are a string or a list of strings, each followed by a newline. An integer may be stored as any integer type, or as
 * Python's bool, a
 * real as any number. */
cp_status cp_h5_text(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                     bool *found);
cp_status cp_h5_document(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                         bool *found);
cp_status cp_h5_lines(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                      bool *found);
cp_status cp_h5_integer(cp_h5 *file, const char *object, const char *name, int64_t *out, bool *found);
cp_status cp_h5_integers(cp_h5 *file, const char *object, const char *name, int64_t *out, int room,
                         int *count, bool *found); /* a scalar is one; more than `room` are refused */
cp_status cp_h5_real(cp_h5 *file, const char *object, const char *name, double *out, bool *found);
cp_status cp_h5_has(cp_h5 *file, const char *object, const char *name, bool *found);

/* ---- writing: little-endian and contiguous, without times, readable by HDF5 1.10 ----------------------------------
 * The same calls in the same order give the same bytes. Failures are CP_INTERNAL. bfloat16 is written as uint16 words
 * with the attribute. */
cp_status cp_h5_make_group(cp_h5 *file, const char *path);
cp_status cp_h5_make_array(cp_h5 *file, const char *path, cp_dtype dtype, int dims, const int64_t extent[]);
cp_status cp_h5_write(cp_h5 *file, const char *path, int64_t first, int64_t count, const void *data);
cp_status cp_h5_write_text(cp_h5 *file, const char *path, const char *text);
cp_status cp_h5_set_text(cp_h5 *file, const char *object, const char *name, const char *value);
cp_status cp_h5_set_lines(cp_h5 *file, const char *object, const char *name, const char *lines);
cp_status cp_h5_set_integer(cp_h5 *file, const char *object, const char *name, int64_t value);
cp_status cp_h5_set_real(cp_h5 *file, const char *object, const char *name, double value);

/* A member of the root of another file, with all that is in it, as it is stored; and that root's attributes. */
cp_status cp_h5_copy(cp_h5 *file, cp_h5 *from, const char *name);
cp_status cp_h5_copy_attributes(cp_h5 *file, cp_h5 *from);

/* A whole file: written beside `path` by `fill`, renamed when it is complete, and removed where anything fails. */
typedef cp_status cp_h5_filler(cp_h5 *file, const void *content);
cp_status cp_h5_write_file(const char *path, cp_h5_filler *fill, const void *content);

#endif

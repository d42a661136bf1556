/* What h5read.c and h5write.c are made of: the library's calls (cp_h5lib_…, in h5file.c and h5copy.c, which alone know HDF5) and the
 * open file. The calls check nothing and make no sentences; ids are the library's, negative where a call fails. */
#ifndef CPEQ_HARNESS_FILES_H5LIB_H
#define CPEQ_HARNESS_FILES_H5LIB_H

#include "harness/files/h5facts.h"
#include "harness/files/text.h"

typedef int64_t cp_h5_id;

enum { CP_H5_PATH_BYTES = 2 * CP_NAME_BYTES };

/* What stands for the calls of h5file.h where there is no file. A table, so that what reads files alone needs nothing of
 * what reads folders. A text is a string, or with `behind` a list of them, each with that behind it; where a `document` is
 * asked for, a value that is neither is taken as its JSON text. `room` 1 of integers asks for one alone; a truth is 0 or 1. */
typedef struct cp_folder cp_folder;
typedef struct cp_folder_calls {
    void (*close)(cp_folder *folder);
    void (*look)(const cp_folder *folder, const char *path, cp_h5_kind *kind);
    cp_status (*list)(const cp_folder *folder, cp_pool *pool, const char *group, const cp_h5_member **members,
                      size_t *count);
    cp_status (*describe)(const cp_folder *folder, const char *path, cp_h5_array *array);
    cp_status (*read)(const cp_folder *folder, const char *path, int64_t first, int64_t count, void *out);
    cp_status (*text)(const cp_folder *folder, cp_pool *pool, const char *object, const char *name,
                      const char *behind, bool document, const char **out, bool *found);
    cp_status (*integers)(const cp_folder *folder, const char *object, const char *name, int64_t *out,
                          int room, int *count, bool *found);
    cp_status (*real)(const cp_folder *folder, const char *object, const char *name, double *out,
                      bool *found);
    bool (*has)(const cp_folder *folder, const char *object, const char *name);
} cp_folder_calls;

struct cp_h5 {
    cp_folder *folder; /* instead of a file, and of all that follows but calls and path; NULL: a file */
    const cp_folder_calls *calls;
    cp_h5_id id;
    char *path;
    bool writing;
    int64_t bytes; /* length of a file that is read */
    /* the dataset used last stays open: results are moved block by block */
    cp_h5_id dataset; /* negative: none */
    char dataset_path[CP_H5_PATH_BYTES];
    cp_h5_array array;
    char parent
        [CP_H5_PATH_BYTES]; /* a path whose links were found to be hard: the parent of what was used last */
};

/* An open file as a cp_h5; takes the id over. */
cp_status cp_h5_wrap(cp_h5 **out, cp_h5_id id, const char *path, bool writing, int64_t bytes);

/* Makes `path` the dataset used last: what is not as h5file.h says is refused. */
cp_status cp_h5_use(cp_h5 *file, const char *path);

/* Inside a function that has this line cp_h5_being_read() is `path` (NULL: nothing), and what it was before it
 * afterwards. */
#define CP_H5_READING(path)                                                                                  \
    const char *const cp_h5_outside __attribute__((cleanup(cp_h5_leave), unused)) = cp_h5_enter(path)
const char *cp_h5_enter(const char *path);
void cp_h5_leave(const char *const *outside);

/* ---- files, links, objects --------------------------------------------------------------------------------------- */
cp_h5_id cp_h5lib_open(const char *path);
cp_h5_id cp_h5lib_create(const char *path);
bool cp_h5lib_is_hdf5(const char *path);
bool cp_h5lib_close(cp_h5_id file, bool flush);
void cp_h5lib_release(cp_h5_id object); /* an object or attribute; a negative one is allowed */

typedef enum cp_h5_link {
    CP_H5_NO_LINK,
    CP_H5_HARD,
    CP_H5_SOFT,
    CP_H5_EXTERNAL,
    CP_H5_USER,
    CP_H5_DAMAGED
} cp_h5_link;

/* What kind of link the last part of the path is; those before it are followed. */
cp_h5_link cp_h5lib_link(cp_h5_id file, const char *path);
cp_h5_id cp_h5lib_object(cp_h5_id parent, const char *name);
cp_h5_kind cp_h5lib_kind(cp_h5_id object);

int64_t cp_h5lib_member_count(cp_h5_id group);
/* Calls visit for each member, in no order, until it returns false. */
typedef bool cp_h5_visit(void *state, cp_h5_id group, const char *name, cp_h5_link link);
bool cp_h5lib_members(cp_h5_id group, cp_h5_visit *visit, void *state);

/* ---- data -------------------------------------------------------------------------------------------------------- */
void cp_h5lib_facts(cp_h5_facts *facts, cp_h5_id dataset);

/* A box of `count` elements to or from `data`, in the machine's byte order. */
bool cp_h5lib_read(cp_h5_id dataset, int dims, const uint64_t begin[], const uint64_t size[], int64_t count,
                   void *data);
bool cp_h5lib_write(cp_h5_id dataset, int dims, const uint64_t begin[], const uint64_t size[], int64_t count,
                    const void *data);

/* False also where the chunk is not there or larger than `most`. */
bool cp_h5lib_read_chunk(cp_h5_id dataset, int dims, const int64_t at[], void *out, size_t most,
                         size_t *bytes, unsigned *skipped);
int cp_h5lib_descriptor(cp_h5_id file); /* -1: none */

/* Negative where there is none. */
cp_h5_id cp_h5lib_attribute(cp_h5_id object, const char *name, bool *failed);

/* The strings of an attribute or dataset. Not read where it is another type, or larger than the limits. */
typedef struct cp_h5_strings {
    bool usable, read;
    size_t count, width; /* width 0: `data` holds pointers */
    void *data;
    cp_h5_id type, space;
} cp_h5_strings;
void cp_h5lib_strings_open(cp_h5_strings *strings, cp_h5_id object, int64_t most, size_t most_bytes);
void cp_h5lib_strings_close(cp_h5_strings *strings);

/* One number; any integer is a real too. */
bool cp_h5lib_integer(cp_h5_id attribute, int64_t *out);
bool cp_h5lib_integers(cp_h5_id attribute, int64_t *out, int room, int *count);
bool cp_h5lib_real(cp_h5_id attribute, double *out);

/* ---- copying ----------------------------------------------------------------------------------------------------- */
bool cp_h5lib_copy(cp_h5_id to, cp_h5_id from, const char *name); /* a member with all that is in it */
bool cp_h5lib_copy_attributes(cp_h5_id to, cp_h5_id from);

/* ---- writing ----------------------------------------------------------------------------------------------------- */
cp_h5_id cp_h5lib_make_group(cp_h5_id file, const char *path);
cp_h5_id cp_h5lib_make_array(cp_h5_id file, const char *path, cp_dtype dtype, int dims,
                             const int64_t extent[]);
bool cp_h5lib_make_text(cp_h5_id file, const char *path, const char *text);

/* A new attribute of `count` values; of one, as a scalar, where `count` is −1. */
bool cp_h5lib_set_texts(cp_h5_id object, const char *name, int64_t count, const char *const *values);
bool cp_h5lib_set_integer(cp_h5_id object, const char *name, int64_t value);
bool cp_h5lib_set_real(cp_h5_id object, const char *name, double value);

#endif

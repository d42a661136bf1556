/* What an HDF5 dataset says about its type and its storage, and whether that is believed. No HDF5 here: the facts are
 * collected in h5file.c. */
#ifndef CPEQ_HARNESS_FILES_H5FACTS_H
#define CPEQ_HARNESS_FILES_H5FACTS_H

#include "harness/files/h5file.h"

typedef enum cp_h5_class { CP_H5_INTEGER, CP_H5_FLOAT, CP_H5_TEXT, CP_H5_OTHER_CLASS } cp_h5_class;
typedef enum cp_h5_storage { CP_H5_COMPACT, CP_H5_CONTIGUOUS, CP_H5_CHUNKED, CP_H5_ELSEWHERE } cp_h5_storage;

enum { CP_H5_MOST_DIMS = 32 }; /* HDF5's own limit */

typedef struct cp_h5_facts {
    cp_h5_class class;
    const char *class_name; /* "a string", … */
    size_t bytes;           /* of an element */
    bool byte_order;        /* little or big, nothing stranger */
    bool as_in_memory;      /* the machine's own */
    bool whole_word;        /* no unused bits */
    bool is_signed;
    bool bfloat16_words; /* the attribute that makes uint16 words bfloat16 */
    size_t sign, exponent, exponent_bits, mantissa, mantissa_bits,
        bias; /* of a float: places and sizes in bits */
    bool implied_one;

    bool no_space; /* a null dataspace */
    int dims;
    uint64_t extent[CP_H5_MOST_DIMS];

    cp_h5_storage storage;
    uint64_t stored_bytes;
    uint64_t chunk[CP_H5_MOST_DIMS], chunks; /* extents of a chunk; how many were written */
    size_t external_files;
    uint64_t offset;         /* of contiguous data in the file */
    bool shuffled, deflated; /* the only filters, in this order, */
    bool other_filters;      /* unless this is true */
    bool foreign_filter;
    char filter[64]; /* its name */
} cp_h5_facts;

/* The storage of a dataset that is read: inside its file, complete, and no larger than the file can hold. Fills in
 * everything of `array` but the dtype. */
cp_status cp_h5_check_storage(cp_h5_array *array, const cp_h5_facts *facts, int64_t file_bytes,
                              const char *file, const char *object);

/* The dtype of a dataset of numbers. */
cp_status cp_h5_check_type(cp_h5_array *array, const cp_h5_facts *facts, const char *file,
                           const char *object);

/* The largest box of whole rows that begins at element `first` and has at most `count` elements. Returns how many. */
int64_t cp_h5_box(const cp_h5_array *array, int64_t first, int64_t count, uint64_t begin[CP_MAX_DIMS],
                  uint64_t size[CP_MAX_DIMS]);

#endif

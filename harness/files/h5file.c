#include "harness/files/h5lib.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void quiet_library(void)
{
    H5dont_atexit(); /* after a write that failed, the library's own clean-up at exit crashes */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5PLset_loading_state(0); /* a file may name a filter; nobody's code is loaded because of it */
}

static hid_t access_properties(void)
{
    hid_t properties = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(properties, H5F_LIBVER_V18, H5F_LIBVER_V110);
#if H5_VERSION_GE(1, 10, 7)
    H5Pset_file_locking(properties, true, true); /* cluster file systems without locks are usual */
#endif
    return properties;
}

cp_h5_id cp_h5lib_open(const char *path)
{
    quiet_library();
    hid_t access = access_properties();
    hid_t id = H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return id;
}

cp_h5_id cp_h5lib_create(const char *path)
{
    quiet_library();
    hid_t access = access_properties();
    hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(creation, false);
    hid_t id = H5Fcreate(path, H5F_ACC_TRUNC, creation, access);
    H5Pclose(creation);
    H5Pclose(access);
    return id;
}

bool cp_h5lib_is_hdf5(const char *path)
{
    return H5Fis_hdf5(path) > 0;
}

bool cp_h5lib_close(cp_h5_id file, bool flush)
{
    bool flushed = !flush || H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0;
    return H5Fclose(file) >= 0 && flushed;
}

void cp_h5lib_release(cp_h5_id object)
{
    if (object >= 0)
        H5Idec_ref(object);
}

/* ---- links and objects ------------------------------------------------------------------------------------------- */

static cp_h5_link link_kind(H5L_type_t type)
{
    switch (type) {
    case H5L_TYPE_HARD: return CP_H5_HARD;
    case H5L_TYPE_SOFT: return CP_H5_SOFT;
    case H5L_TYPE_EXTERNAL: return CP_H5_EXTERNAL;
    default: return CP_H5_USER;
    }
}

cp_h5_link cp_h5lib_link(cp_h5_id file, const char *path)
{
    H5L_info_t link;
    htri_t exists = H5Lexists(file, path, H5P_DEFAULT);
    if (exists == 0)
        return CP_H5_NO_LINK;
    if (exists < 0 || H5Lget_info(file, path, &link, H5P_DEFAULT) < 0)
        return CP_H5_DAMAGED;
    return link_kind(link.type);
}

cp_h5_id cp_h5lib_object(cp_h5_id parent, const char *name)
{
    return H5Oopen(parent, name, H5P_DEFAULT);
}

cp_h5_kind cp_h5lib_kind(cp_h5_id object)
{
    switch (H5Iget_type(object)) {
    case H5I_GROUP: return CP_H5_GROUP;
    case H5I_DATASET: return CP_H5_DATASET;
    default: return CP_H5_OTHER;
    }
}

int64_t cp_h5lib_member_count(cp_h5_id group)
{
    H5G_info_t info;
    return H5Gget_info(group, &info) < 0 || info.nlinks > INT64_MAX ? -1 : (int64_t)info.nlinks;
}

typedef struct visitor {
    cp_h5_visit *visit;
    void *state;
} visitor;

static herr_t visit_member(hid_t group, const char *name, const H5L_info_t *link, void *state)
{
    const visitor *v = state;
    return v->visit(v->state, group, name, link_kind(link->type)) ? 0 : 1; /* not 0: stop */
}

bool cp_h5lib_members(cp_h5_id group, cp_h5_visit *visit, void *state)
{
    visitor v = {visit, state};
    return H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, visit_member, &v) >= 0;
}

/* ---- datasets of numbers ----------------------------------------------------------------------------------------- */

static void collect_type(cp_h5_facts *facts, hid_t type)
{
    static const char *const names[] = {"integers",       "floating-point numbers",
                                        "times",          "strings",
                                        "bit fields",     "opaque values",
                                        "records",        "references",
                                        "an enumeration", "sequences of varying length",
                                        "arrays"};
    H5T_class_t class = H5Tget_class(type);
    facts->class = class == H5T_INTEGER  ? CP_H5_INTEGER
                   : class == H5T_FLOAT  ? CP_H5_FLOAT
                   : class == H5T_STRING ? CP_H5_TEXT
                                         : CP_H5_OTHER_CLASS;
    facts->class_name =
        class >= 0 && (size_t) class < sizeof names / sizeof *names ? names[class] : "no known type";
    facts->bytes = H5Tget_size(type);
    if (facts->class != CP_H5_INTEGER && facts->class != CP_H5_FLOAT)
        return;
    H5T_order_t order = H5Tget_order(type);
    facts->byte_order = order == H5T_ORDER_LE || order == H5T_ORDER_BE;
    facts->as_in_memory = order == H5Tget_order(H5T_NATIVE_INT) || facts->bytes == 1;
    facts->whole_word = H5Tget_precision(type) == facts->bytes * 8 && H5Tget_offset(type) == 0;
    if (facts->class == CP_H5_INTEGER) {
        facts->is_signed = H5Tget_sign(type) == H5T_SGN_2;
        return;
    }
    H5Tget_fields(type, &facts->sign, &facts->exponent, &facts->exponent_bits, &facts->mantissa,
                  &facts->mantissa_bits);
    facts->bias = H5Tget_ebias(type);
    facts->implied_one = H5Tget_norm(type) == H5T_NORM_IMPLIED;
}

/* The order of filters matters: what was shuffled last is not undone first. */
static void note_filter(cp_h5_facts *facts, H5Z_filter_t id)
{
    bool shuffle = id == H5Z_FILTER_SHUFFLE && !facts->shuffled && !facts->deflated;
    bool deflate = id == H5Z_FILTER_DEFLATE && !facts->deflated;
    facts->shuffled |= shuffle;
    facts->deflated |= deflate;
    facts->other_filters |= !shuffle && !deflate;
}

/* A virtual dataset's extents are not asked for: that alone can open other files. */
static void collect_storage(cp_h5_facts *facts, hid_t dataset)
{
    hid_t creation = H5Dget_create_plist(dataset);
    H5D_layout_t layout = H5Pget_layout(creation);
    facts->storage = layout == H5D_COMPACT      ? CP_H5_COMPACT
                     : layout == H5D_CONTIGUOUS ? CP_H5_CONTIGUOUS
                     : layout == H5D_CHUNKED    ? CP_H5_CHUNKED
                                                : CP_H5_ELSEWHERE;
    facts->external_files = (size_t)H5Pget_external_count(creation);
    int filters = H5Pget_nfilters(creation);
    for (int i = 0; i < filters && !facts->foreign_filter; i++) {
        unsigned flags, config;
        size_t values = 0;
        H5Z_filter_t id = H5Pget_filter2(creation, (unsigned)i, &flags, &values, NULL, sizeof facts->filter,
                                         facts->filter, &config);
        note_filter(facts, id);
        facts->foreign_filter =
            id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32;
        if (facts->foreign_filter &&
            (facts->filter[0] == '\0' ||
             !cp_text_plain(facts->filter, strnlen(facts->filter, sizeof facts->filter))))
            snprintf(facts->filter, sizeof facts->filter, "number %d", (int)id);
    }
    if (facts->storage != CP_H5_ELSEWHERE && facts->external_files == 0 && !facts->foreign_filter) {
        hid_t space = H5Dget_space(dataset);
        hsize_t extent[CP_H5_MOST_DIMS] = {0}, chunk[CP_H5_MOST_DIMS] = {0}, chunks = 0;
        facts->no_space = H5Sget_simple_extent_type(space) == H5S_NULL;
        facts->dims = H5Sget_simple_extent_dims(space, extent, NULL);
        facts->stored_bytes = H5Dget_storage_size(dataset);
        facts->offset = UINT64_MAX;
        if (facts->storage == CP_H5_CONTIGUOUS && H5Dget_offset(dataset) != HADDR_UNDEF)
            facts->offset = H5Dget_offset(dataset);
        if (facts->storage == CP_H5_CHUNKED) {
            unsigned options =
                0; /* chunks at an edge may be left as they are, without saying so themselves */
            facts->other_filters |= H5Pget_chunk_opts(creation, &options) < 0 || options != 0;
            H5Pget_chunk(creation, CP_H5_MOST_DIMS, chunk);
            H5Dget_num_chunks(dataset, space, &chunks);
        }
        H5Sclose(space);
        facts->chunks = chunks;
        for (int axis = 0; axis < facts->dims; axis++) {
            facts->extent[axis] = extent[axis];
            facts->chunk[axis] = chunk[axis] ? chunk[axis] : 1;
        }
    }
    H5Pclose(creation);
}

void cp_h5lib_facts(cp_h5_facts *facts, cp_h5_id dataset)
{
    *facts = (cp_h5_facts){0};
    hid_t type = H5Dget_type(dataset);
    collect_type(facts, type);
    H5Tclose(type);
    collect_storage(facts, dataset);
}

/* The stored type in the machine's byte order: bits are moved, never values converted. */
static hid_t memory_type(hid_t dataset)
{
    hid_t stored = H5Dget_type(dataset);
    hid_t memory = H5Tcopy(stored);
    if (H5Tget_size(memory) > 1)
        H5Tset_order(memory, H5Tget_order(H5T_NATIVE_INT));
    H5Tclose(stored);
    return memory;
}

/* Exactly one of `in` and `out` is given. */
static bool move(hid_t dataset, int dims, const uint64_t begin[], const uint64_t size[], int64_t count,
                 void *out, const void *in)
{
    hsize_t from[CP_MAX_DIMS], extent[CP_MAX_DIMS], length = (hsize_t)count;
    for (int axis = 0; axis < dims; axis++) {
        from[axis] = begin[axis];
        extent[axis] = size[axis];
    }
    hid_t type = memory_type(dataset);
    hid_t space = H5Dget_space(dataset);
    hid_t memory = H5Screate_simple(1, &length, NULL);
    if (dims > 0)
        H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, extent, NULL);
    herr_t done = out ? H5Dread(dataset, type, memory, space, H5P_DEFAULT, out)
                      : H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, in);
    H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    return done >= 0;
}

bool cp_h5lib_read(cp_h5_id dataset, int dims, const uint64_t begin[], const uint64_t size[], int64_t count,
                   void *data)
{
    return move(dataset, dims, begin, size, count, data, NULL);
}

bool cp_h5lib_write(cp_h5_id dataset, int dims, const uint64_t begin[], const uint64_t size[], int64_t count,
                    const void *data)
{
    return move(dataset, dims, begin, size, count, NULL, data);
}

/* ---- strings and attributes -------------------------------------------------------------------------------------- */

cp_h5_id cp_h5lib_attribute(cp_h5_id object, const char *name, bool *failed)
{
    htri_t exists = H5Aexists(object, name);
    hid_t attribute = exists > 0 ? H5Aopen(object, name, H5P_DEFAULT) : H5I_INVALID_HID;
    *failed = exists < 0 || (exists > 0 && attribute < 0);
    return attribute;
}

void cp_h5lib_strings_open(cp_h5_strings *strings, cp_h5_id object, int64_t most, size_t most_bytes)
{
    bool attribute = H5Iget_type(object) == H5I_ATTR;
    hid_t type = attribute ? H5Aget_type(object) : H5Dget_type(object);
    hid_t space = attribute ? H5Aget_space(object) : H5Dget_space(object);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    bool text = H5Tget_class(type) == H5T_STRING;
    bool variable = text && H5Tis_variable_str(type) > 0;
    size_t width = H5Tget_size(type);
    *strings = (cp_h5_strings){.type = type, .space = space, .width = variable ? 0 : width};
    if (!text || count < 0 || count > most || width > most_bytes / (size_t)(count + 1))
        return;
    strings->usable = true;
    strings->count = (size_t)count;
    strings->data = calloc(strings->count + 1, width);
    if (strings->data)
        strings->read =
            (attribute ? H5Aread(object, type, strings->data)
                       : H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, strings->data)) >= 0;
}

void cp_h5lib_strings_close(cp_h5_strings *strings)
{
    if (strings->data && strings->width == 0)
        H5Dvlen_reclaim(strings->type, strings->space, H5P_DEFAULT, strings->data);
    free(strings->data);
    H5Sclose(strings->space);
    H5Tclose(strings->type);
}

static bool read_number(hid_t attribute, hid_t type, void *out)
{
    hid_t stored = H5Aget_type(attribute);
    hid_t space = H5Aget_space(attribute);
    H5T_class_t class = H5Tget_class(stored);
    bool number = class == H5T_INTEGER || (class == H5T_FLOAT && H5Tget_class(type) == H5T_FLOAT);
    bool read = number && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(attribute, type, out) >= 0;
    H5Sclose(space);
    H5Tclose(stored);
    return read;
}

/* h5py's bool: an enumeration over one byte. */
static bool read_truth(hid_t attribute, int64_t *out)
{
    hid_t stored = H5Aget_type(attribute);
    hid_t space = H5Aget_space(attribute);
    int8_t truth = 0;
    bool read = H5Tget_class(stored) == H5T_ENUM && H5Tget_size(stored) == 1 &&
                H5Sget_simple_extent_npoints(space) == 1 && H5Aread(attribute, stored, &truth) >= 0;
    H5Sclose(space);
    H5Tclose(stored);
    if (read)
        *out = truth != 0;
    return read;
}

bool cp_h5lib_integer(cp_h5_id attribute, int64_t *out)
{
    return read_number(attribute, H5T_NATIVE_INT64, out) || read_truth(attribute, out);
}

bool cp_h5lib_integers(cp_h5_id attribute, int64_t *out, int room, int *count)
{
    hid_t stored = H5Aget_type(attribute);
    hid_t space = H5Aget_space(attribute);
    hssize_t points = H5Sget_simple_extent_npoints(space);
    bool read = H5Tget_class(stored) == H5T_INTEGER && points >= 0 && points <= room &&
                H5Sget_simple_extent_ndims(space) <= 1 &&
                (points == 0 || H5Aread(attribute, H5T_NATIVE_INT64, out) >= 0);
    *count = read ? (int)points : 0;
    H5Sclose(space);
    H5Tclose(stored);
    return read;
}

bool cp_h5lib_real(cp_h5_id attribute, double *out)
{
    return read_number(attribute, H5T_NATIVE_DOUBLE, out);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

cp_h5_id cp_h5lib_make_group(cp_h5_id file, const char *path)
{
    hid_t creation = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(creation, false);
    hid_t group = H5Gcreate2(file, path, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    return group;
}

static hid_t make_dataset(hid_t file, const char *path, hid_t type, int dims, const int64_t extent[])
{
    hsize_t size[CP_MAX_DIMS];
    for (int axis = 0; axis < dims; axis++)
        size[axis] = (hsize_t)extent[axis];
    hid_t space = dims ? H5Screate_simple(dims, size, NULL) : H5Screate(H5S_SCALAR);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(creation, false);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    hid_t dataset = H5Dcreate2(file, path, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Sclose(space);
    return dataset;
}

/* float16 is not among the types of HDF5 1.10 and not among those that are written. */
cp_h5_id cp_h5lib_make_array(cp_h5_id file, const char *path, cp_dtype dtype, int dims,
                             const int64_t extent[])
{
    const hid_t types[CP_DTYPES] = {
        [CP_F64] = H5T_IEEE_F64LE, [CP_F32] = H5T_IEEE_F32LE, [CP_F16] = H5I_INVALID_HID,
        [CP_BF16] = H5T_STD_U16LE, [CP_I64] = H5T_STD_I64LE,  [CP_I32] = H5T_STD_I32LE,
        [CP_U8] = H5T_STD_U8LE,
    };
    return make_dataset(file, path, types[dtype], dims, extent);
}

static hid_t string_type(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

bool cp_h5lib_make_text(cp_h5_id file, const char *path, const char *text)
{
    hid_t type = string_type();
    hid_t dataset = make_dataset(file, path, type, 0, NULL);
    bool done = dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) >= 0;
    cp_h5lib_release(dataset);
    H5Tclose(type);
    return done;
}

static bool set_attribute(hid_t object, const char *name, hid_t type, int64_t count, const void *values)
{
    hsize_t size = (hsize_t)count;
    hid_t space = count < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, NULL);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool done = attribute >= 0 && H5Awrite(attribute, type, values) >= 0;
    cp_h5lib_release(attribute);
    H5Sclose(space);
    return done;
}

bool cp_h5lib_set_texts(cp_h5_id object, const char *name, int64_t count, const char *const *values)
{
    hid_t type = string_type();
    bool done = set_attribute(object, name, type, count, values);
    H5Tclose(type);
    return done;
}

bool cp_h5lib_set_integer(cp_h5_id object, const char *name, int64_t value)
{
    return set_attribute(object, name, H5T_STD_I64LE, -1, &value);
}

bool cp_h5lib_set_real(cp_h5_id object, const char *name, double value)
{
    return set_attribute(object, name, H5T_IEEE_F64LE, -1, &value);
}

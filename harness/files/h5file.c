#include "harness/files/h5file.h"

#include "harness/files/h5facts.h"
#include "harness/files/text.h"

#include <errno.h>
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 2 * CP_NAME_BYTES, MOST_STRINGS = 1 << 20, MOST_STRING_BYTES = 64 << 20 };

struct cp_h5 {
    hid_t id;
    char *path;
    bool writing;
    int64_t bytes; /* length of a file that is read */
    /* the dataset used last stays open: results are moved block by block */
    hid_t dataset;
    char dataset_path[PATH_BYTES];
    cp_h5_array array;
};

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void quiet_library(void)
{
    H5dont_atexit(); /* after a write that failed, the library's own clean-up at exit would crash */
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

static cp_status wrap(cp_h5 **out, hid_t id, const char *path, bool writing, int64_t bytes)
{
    cp_h5 *file = calloc(1, sizeof *file);
    char *copy = strdup(path);
    if (!file || !copy) {
        free(file);
        free(copy);
        H5Fclose(id);
        return cp_fail(CP_INTERNAL, "%s: no memory to open it", path);
    }
    *file = (cp_h5){.id = id, .path = copy, .writing = writing, .bytes = bytes, .dataset = H5I_INVALID_HID};
    *out = file;
    return CP_OK;
}

cp_status cp_h5_open(cp_h5 **out, const char *path)
{
    *out = NULL;
    struct stat status;
    if (stat(path, &status) != 0)
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file, found %s", path,
                       S_ISDIR(status.st_mode) ? "a directory" : "something that is no regular file");
    if (status.st_size == 0)
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file, found an empty file", path);

    quiet_library();
    hid_t access = access_properties();
    hid_t id = H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    if (id < 0)
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file, found %s", path,
                       H5Fis_hdf5(path) > 0 ? "one that is truncated, damaged or open elsewhere"
                                            : "something else, or no permission to read it");
    return wrap(out, id, path, false, status.st_size);
}

cp_status cp_h5_create(cp_h5 **out, const char *path)
{
    *out = NULL;
    quiet_library();
    hid_t access = access_properties();
    hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(creation, false);
    hid_t id = H5Fcreate(path, H5F_ACC_TRUNC, creation, access);
    H5Pclose(creation);
    H5Pclose(access);
    if (id < 0)
        return cp_fail(CP_INTERNAL, "%s: cannot be created: %s", path, strerror(errno));
    return wrap(out, id, path, true, 0);
}

static void close_dataset(cp_h5 *file)
{
    if (file->dataset >= 0)
        H5Dclose(file->dataset);
    file->dataset = H5I_INVALID_HID;
}

cp_status cp_h5_close(cp_h5 *file)
{
    if (!file)
        return CP_OK;
    close_dataset(file);
    bool complete = !file->writing || H5Fflush(file->id, H5F_SCOPE_GLOBAL) >= 0;
    complete &= H5Fclose(file->id) >= 0;
    cp_status status =
        complete ? CP_OK
                 : cp_fail(CP_INTERNAL, "%s: not everything could be written; is the disk full?", file->path);
    free(file->path);
    free(file);
    return status;
}

const char *cp_h5_path(const cp_h5 *file)
{
    return file->path;
}

/* ---- links and objects ------------------------------------------------------------------------------------------- */

static cp_status damaged(const cp_h5 *file, const char *object)
{
    return cp_fail(CP_BAD_INPUT, "%s: %s: cannot be read; the file is damaged", file->path, object);
}

static cp_status check_link(const cp_h5 *file, const char *path, H5L_type_t type)
{
    if (type == H5L_TYPE_HARD)
        return CP_OK;
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected the object itself, found %s link", file->path, path,
                   type == H5L_TYPE_SOFT       ? "a soft"
                   : type == H5L_TYPE_EXTERNAL ? "an external"
                                               : "a user-defined");
}

/* Walks the path from the root, so that no library call ever follows a link that is not hard. */
static cp_status check_links(const cp_h5 *file, const char *path, bool *there)
{
    char prefix[PATH_BYTES];
    cp_check(path[0] == '/' && strlen(path) < sizeof prefix, "path \"%s\"", path);
    *there = true;
    for (size_t end = 0; *there && path[end] && path[end + 1];) {
        end += 1 + strcspn(path + end + 1, "/");
        snprintf(prefix, sizeof prefix, "%.*s", (int)end, path);
        htri_t exists = H5Lexists(file->id, prefix, H5P_DEFAULT);
        H5L_info_t link;
        if (exists < 0 || (exists > 0 && H5Lget_info(file->id, prefix, &link, H5P_DEFAULT) < 0))
            return damaged(file, prefix);
        *there = exists > 0;
        if (*there)
            CP_TRY(check_link(file, prefix, link.type));
    }
    return CP_OK;
}

static cp_h5_kind kind_of(hid_t object)
{
    switch (H5Iget_type(object)) {
    case H5I_GROUP: return CP_H5_GROUP;
    case H5I_DATASET: return CP_H5_DATASET;
    default: return CP_H5_OTHER;
    }
}

/* *object is negative where the path leads to nothing. */
static cp_status open_object(const cp_h5 *file, const char *path, hid_t *object)
{
    *object = H5I_INVALID_HID;
    bool there;
    CP_TRY(check_links(file, path, &there));
    if (!there)
        return CP_OK;
    *object = H5Oopen(file->id, path, H5P_DEFAULT);
    return *object < 0 ? damaged(file, path) : CP_OK;
}

cp_status cp_h5_look(cp_h5 *file, const char *path, cp_h5_kind *kind)
{
    hid_t object;
    *kind = CP_H5_NOTHING;
    CP_TRY(open_object(file, path, &object));
    if (object >= 0) {
        *kind = kind_of(object);
        H5Oclose(object);
    }
    return CP_OK;
}

typedef struct listing {
    const cp_h5 *file;
    cp_pool *pool;
    const char *group;
    cp_h5_member *members;
    size_t room, count;
    cp_status status;
} listing;

static cp_status add_member(listing *list, hid_t group, const char *name, const H5L_info_t *link)
{
    char path[PATH_BYTES];
    const char *slash = strcmp(list->group, "/") == 0 ? "" : list->group;
    size_t length = strlen(name);
    bool usable = length < CP_NAME_BYTES && cp_text_plain(name, length) && !strchr(name, '/') && length > 0 &&
                  strcmp(name, ".") != 0;
    if (!usable || list->count == list->room)
        return cp_fail(
            CP_BAD_INPUT,
            "%s: %s: holds a name that is too long, not UTF-8, or has \"/\" or control characters in it",
            list->file->path, list->group);
    snprintf(path, sizeof path, "%s/%s", slash, name);
    CP_TRY(check_link(list->file, path, link->type));
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0)
        return damaged(list->file, path);
    cp_h5_member *member = &list->members[list->count++];
    member->kind = kind_of(object);
    H5Oclose(object);
    return cp_pool_text(list->pool, &member->name, name);
}

static herr_t visit_member(hid_t group, const char *name, const H5L_info_t *link, void *state)
{
    listing *list = state;
    list->status = add_member(list, group, name, link);
    return list->status == CP_OK ? 0 : 1; /* not 0: stop */
}

static int compare_members(const void *a, const void *b)
{
    return strcmp(((const cp_h5_member *)a)->name, ((const cp_h5_member *)b)->name);
}

cp_status cp_h5_list(cp_h5 *file, cp_pool *pool, const char *group, const cp_h5_member **members,
                     size_t *count)
{
    hid_t object;
    CP_TRY(open_object(file, group, &object));
    H5G_info_t info;
    if (object < 0 || kind_of(object) != CP_H5_GROUP || H5Gget_info(object, &info) < 0 ||
        (!file->writing && info.nlinks > (uint64_t)file->bytes)) {
        H5Oclose(object);
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected a group", file->path, group);
    }
    listing list = {.file = file, .pool = pool, .group = group, .room = info.nlinks};
    void *memory;
    list.status = cp_pool_take(pool, &memory, list.room, sizeof *list.members);
    list.members = memory;
    if (list.status == CP_OK &&
        H5Literate(object, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, visit_member, &list) < 0)
        list.status = damaged(file, group);
    H5Oclose(object);
    CP_TRY(list.status);
    qsort(list.members, list.count, sizeof *list.members, compare_members);
    *members = list.members;
    *count = list.count;
    return CP_OK;
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
        if (facts->storage == CP_H5_CHUNKED) {
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

/* Opens a dataset and looks at how it is stored. */
static cp_status open_dataset(cp_h5 *file, const char *path, hid_t *dataset, cp_h5_facts *facts,
                              cp_h5_array *array)
{
    CP_TRY(open_object(file, path, dataset));
    bool is_dataset = *dataset >= 0 && kind_of(*dataset) == CP_H5_DATASET;
    cp_status status = CP_OK;
    if (!is_dataset) {
        status = cp_fail(CP_BAD_INPUT, "%s: %s: expected a dataset, found %s", file->path, path,
                         *dataset < 0                       ? "nothing"
                         : kind_of(*dataset) == CP_H5_GROUP ? "a group"
                                                            : "a named type");
    } else {
        *facts = (cp_h5_facts){0};
        hid_t type = H5Dget_type(*dataset);
        collect_type(facts, type);
        H5Tclose(type);
        collect_storage(facts, *dataset);
        /* what is being written is not complete yet */
        int64_t room = file->writing ? INT64_MAX : file->bytes;
        if (file->writing)
            facts->stored_bytes = INT64_MAX, facts->storage = CP_H5_CONTIGUOUS;
        status = cp_h5_check_storage(array, facts, room, file->path, path);
    }
    if (status != CP_OK && *dataset >= 0)
        H5Oclose(*dataset);
    return status;
}

/* Makes `path` the dataset used last. */
static cp_status use(cp_h5 *file, const char *path)
{
    if (file->dataset >= 0 && strcmp(file->dataset_path, path) == 0)
        return CP_OK;
    close_dataset(file);
    hid_t dataset;
    cp_h5_facts facts;
    cp_h5_array array;
    const char *dtype = "";
    bool declared;
    cp_pool pool = {0};
    CP_TRY(open_dataset(file, path, &dataset, &facts, &array));
    cp_status status = cp_h5_has(file, path, "dtype", &declared);
    if (status == CP_OK && declared)
        status = cp_h5_text(file, &pool, path, "dtype", &dtype, &declared);
    facts.bfloat16_words = strcmp(dtype, "bfloat16") == 0;
    cp_pool_close(&pool);
    if (status == CP_OK)
        status = cp_h5_check_type(&array, &facts, file->path, path);
    if (status != CP_OK) {
        H5Dclose(dataset);
        return status;
    }
    file->dataset = dataset;
    file->array = array;
    snprintf(file->dataset_path, sizeof file->dataset_path, "%s", path);
    return CP_OK;
}

cp_status cp_h5_describe(cp_h5 *file, const char *path, cp_h5_array *array)
{
    CP_TRY(use(file, path));
    *array = file->array;
    return CP_OK;
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

/* `moved` is the number of elements that reached their place. */
static int64_t move(cp_h5 *file, int64_t first, int64_t count, char *data)
{
    hid_t type = memory_type(file->dataset);
    hid_t space = H5Dget_space(file->dataset);
    int64_t moved = 0;
    while (moved < count) {
        hsize_t begin[CP_MAX_DIMS], size[CP_MAX_DIMS];
        uint64_t box_begin[CP_MAX_DIMS], box_size[CP_MAX_DIMS];
        int64_t elements = cp_h5_box(&file->array, first + moved, count - moved, box_begin, box_size);
        for (int axis = 0; axis < file->array.dims; axis++) {
            begin[axis] = box_begin[axis];
            size[axis] = box_size[axis];
        }
        hsize_t length = (hsize_t)elements;
        hid_t memory = H5Screate_simple(1, &length, NULL);
        if (file->array.dims > 0)
            H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, NULL, size, NULL);
        char *place = data + moved * (int64_t)cp_dtype_bytes(file->array.dtype);
        herr_t done = file->writing ? H5Dwrite(file->dataset, type, memory, space, H5P_DEFAULT, place)
                                    : H5Dread(file->dataset, type, memory, space, H5P_DEFAULT, place);
        H5Sclose(memory);
        if (done < 0)
            break;
        moved += elements;
    }
    H5Sclose(space);
    H5Tclose(type);
    return moved;
}

cp_status cp_h5_read(cp_h5 *file, const char *path, int64_t first, int64_t count, void *out)
{
    CP_TRY(use(file, path));
    cp_check(first >= 0 && count >= 0 && first <= file->array.count - count,
             "%s: %s: elements [%" PRId64 ", +%" PRId64 ") of %" PRId64, file->path, path, first, count,
             file->array.count);
    return move(file, first, count, out) == count ? CP_OK : damaged(file, path);
}

/* ---- strings and attributes -------------------------------------------------------------------------------------- */

static herr_t read_all(hid_t object, hid_t type, void *out)
{
    return H5Iget_type(object) == H5I_ATTR ? H5Aread(object, type, out)
                                           : H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
}

/* The strings of an attribute or dataset (`object`, which sentences call `where`) with `behind` behind each. */
static cp_status read_strings(cp_h5 *file, cp_pool *pool, hid_t object, const char *where, const char *behind,
                              const char **out, size_t *length)
{
    bool attribute = H5Iget_type(object) == H5I_ATTR;
    hid_t type = attribute ? H5Aget_type(object) : H5Dget_type(object);
    hid_t space = attribute ? H5Aget_space(object) : H5Dget_space(object);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    bool list = behind[0] != '\0';
    bool text = H5Tget_class(type) == H5T_STRING;
    bool variable = text && H5Tis_variable_str(type) > 0;
    size_t width = variable ? sizeof(char *) : H5Tget_size(type);
    bool fits = count >= (list ? 0 : 1) && count <= (list ? MOST_STRINGS : 1) &&
                width <= MOST_STRING_BYTES / (size_t)(count + 1);

    cp_status status = CP_OK;
    void *strings = text && fits ? calloc((size_t)count + 1, width) : NULL;
    if (!strings)
        status = cp_fail(CP_BAD_INPUT, "%s: %s: expected %s of at most %d MiB", file->path, where,
                         list ? "strings" : "one string", MOST_STRING_BYTES >> 20);
    else if (read_all(object, type, strings) < 0)
        status = damaged(file, where);
    else
        status = cp_lines_join(pool, strings, (size_t)count, variable ? 0 : width, behind, out, length);
    if (strings && variable)
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, strings);
    free(strings);
    H5Sclose(space);
    H5Tclose(type);
    return status;
}

cp_status cp_h5_read_text(cp_h5 *file, cp_pool *pool, const char *path, const char **text, size_t *length)
{
    hid_t dataset;
    cp_h5_facts facts;
    cp_h5_array array;
    CP_TRY(open_dataset(file, path, &dataset, &facts, &array));
    cp_status status = read_strings(file, pool, dataset, path, "", text, length);
    H5Dclose(dataset);
    return status;
}

/* *attribute is negative where there is none. */
static cp_status open_attribute(const cp_h5 *file, const char *object, const char *name, hid_t *attribute)
{
    hid_t owner;
    *attribute = H5I_INVALID_HID;
    CP_TRY(open_object(file, object, &owner));
    htri_t exists = owner < 0 ? 0 : H5Aexists(owner, name);
    if (exists > 0)
        *attribute = H5Aopen(owner, name, H5P_DEFAULT);
    H5Oclose(owner);
    return exists < 0 || (exists > 0 && *attribute < 0) ? damaged(file, object) : CP_OK;
}

cp_status cp_h5_has(cp_h5 *file, const char *object, const char *name, bool *found)
{
    hid_t attribute;
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    H5Aclose(attribute);
    return CP_OK;
}

static cp_status text_attribute(cp_h5 *file, cp_pool *pool, const char *object, const char *name,
                                const char *behind, const char **out, bool *found)
{
    hid_t attribute;
    size_t length;
    char where[PATH_BYTES];
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    if (!*found)
        return CP_OK;
    snprintf(where, sizeof where, "%s: attribute %s", object, name);
    cp_status status = read_strings(file, pool, attribute, where, behind, out, &length);
    H5Aclose(attribute);
    return status == CP_OK ? cp_lines_check(*out, file->path, where) : status;
}

cp_status cp_h5_text(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                     bool *found)
{
    return text_attribute(file, pool, object, name, "", out, found);
}

cp_status cp_h5_lines(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                      bool *found)
{
    return text_attribute(file, pool, object, name, "\n", out, found);
}

static cp_status number_attribute(cp_h5 *file, const char *object, const char *name, hid_t type, void *out,
                                  bool *found)
{
    hid_t attribute;
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    if (!*found)
        return CP_OK;
    hid_t stored = H5Aget_type(attribute);
    hid_t space = H5Aget_space(attribute);
    H5T_class_t class = H5Tget_class(stored);
    bool number = class == H5T_INTEGER || (class == H5T_FLOAT && H5Tget_class(type) == H5T_FLOAT);
    bool read = number && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(attribute, type, out) >= 0;
    H5Sclose(space);
    H5Tclose(stored);
    H5Aclose(attribute);
    return read ? CP_OK
                : cp_fail(CP_BAD_INPUT, "%s: %s: attribute %s: expected one %s", file->path, object, name,
                          H5Tget_class(type) == H5T_FLOAT ? "number" : "integer");
}

cp_status cp_h5_integer(cp_h5 *file, const char *object, const char *name, int64_t *out, bool *found)
{
    return number_attribute(file, object, name, H5T_NATIVE_INT64, out, found);
}

cp_status cp_h5_real(cp_h5 *file, const char *object, const char *name, double *out, bool *found)
{
    return number_attribute(file, object, name, H5T_NATIVE_DOUBLE, out, found);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static cp_status written(const cp_h5 *file, const char *path, bool done)
{
    return done ? CP_OK
                : cp_fail(CP_INTERNAL, "%s: %s: cannot be written; is the disk full?", file->path, path);
}

cp_status cp_h5_make_group(cp_h5 *file, const char *path)
{
    hid_t creation = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(creation, false);
    hid_t group = H5Gcreate2(file->id, path, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Gclose(group);
    return written(file, path, group >= 0);
}

static hid_t make_dataset(cp_h5 *file, const char *path, hid_t type, int dims, const int64_t extent[])
{
    hsize_t size[CP_MAX_DIMS];
    for (int axis = 0; axis < dims; axis++)
        size[axis] = (hsize_t)extent[axis];
    hid_t space = dims ? H5Screate_simple(dims, size, NULL) : H5Screate(H5S_SCALAR);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(creation, false);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    hid_t dataset = H5Dcreate2(file->id, path, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Sclose(space);
    return dataset;
}

static hid_t half_type(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

cp_status cp_h5_make_array(cp_h5 *file, const char *path, cp_dtype dtype, int dims, const int64_t extent[])
{
    const hid_t types[CP_DTYPES] = {
        [CP_F64] = H5T_IEEE_F64LE, [CP_F32] = H5T_IEEE_F32LE, [CP_BF16] = H5T_STD_U16LE,
        [CP_I64] = H5T_STD_I64LE,  [CP_I32] = H5T_STD_I32LE,  [CP_U8] = H5T_STD_U8LE,
    };
    hid_t half = half_type();
    hid_t dataset = make_dataset(file, path, dtype == CP_F16 ? half : types[dtype], dims, extent);
    H5Tclose(half);
    H5Dclose(dataset);
    CP_TRY(written(file, path, dataset >= 0));
    return dtype == CP_BF16 ? cp_h5_set_text(file, path, "dtype", "bfloat16") : CP_OK;
}

cp_status cp_h5_write(cp_h5 *file, const char *path, int64_t first, int64_t count, const void *data)
{
    CP_TRY(use(file, path));
    return written(file, path, move(file, first, count, (char *)(uintptr_t)data) == count);
}

static hid_t string_type(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

cp_status cp_h5_write_text(cp_h5 *file, const char *path, const char *text)
{
    hid_t type = string_type();
    hid_t dataset = make_dataset(file, path, type, 0, NULL);
    bool done = dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) >= 0;
    H5Dclose(dataset);
    H5Tclose(type);
    return written(file, path, done);
}

/* `count` values of a new attribute; -1: one, as a scalar. */
static cp_status set_attribute(cp_h5 *file, const char *object, const char *name, hid_t type, int64_t count,
                               const void *values)
{
    hsize_t size = (hsize_t)count;
    hid_t space = count < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, NULL);
    hid_t owner = H5Oopen(file->id, object, H5P_DEFAULT);
    hid_t attribute = H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool done = attribute >= 0 && H5Awrite(attribute, type, values) >= 0;
    H5Aclose(attribute);
    H5Oclose(owner);
    H5Sclose(space);
    return written(file, object, done);
}

cp_status cp_h5_set_text(cp_h5 *file, const char *object, const char *name, const char *value)
{
    hid_t type = string_type();
    cp_status status = set_attribute(file, object, name, type, -1, &value);
    H5Tclose(type);
    return status;
}

cp_status cp_h5_set_lines(cp_h5 *file, const char *object, const char *name, const char *lines)
{
    cp_pool pool = {0};
    const char *const *names;
    size_t count;
    cp_status status = cp_lines_split(&pool, lines, &names, &count);
    hid_t type = string_type();
    if (status == CP_OK)
        status = set_attribute(file, object, name, type, (int64_t)count, names);
    H5Tclose(type);
    cp_pool_close(&pool);
    return status;
}

cp_status cp_h5_set_integer(cp_h5 *file, const char *object, const char *name, int64_t value)
{
    return set_attribute(file, object, name, H5T_STD_I64LE, -1, &value);
}

cp_status cp_h5_set_real(cp_h5 *file, const char *object, const char *name, double value)
{
    return set_attribute(file, object, name, H5T_IEEE_F64LE, -1, &value);
}

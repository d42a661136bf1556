#include "harness/files/h5lib.h"

#include <hdf5.h>
#include <stdlib.h>

static herr_t copy_attribute(hid_t from, const char *name, const H5A_info_t *info, void *state)
{
    const hid_t *to = state;
    (void)info;
    hid_t attribute = H5Aopen(from, name, H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    void *values = count < 0 ? NULL : calloc((size_t)count + 1, H5Tget_size(type));
    hid_t copy = values ? H5Acreate2(*to, name, type, space, H5P_DEFAULT, H5P_DEFAULT) : H5I_INVALID_HID;
    bool read = copy >= 0 && H5Aread(attribute, type, values) >= 0;
    bool done = read && H5Awrite(copy, type, values) >= 0;
    if (read)
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, values);
    free(values);
    cp_h5lib_release(copy);
    H5Sclose(space);
    H5Tclose(type);
    cp_h5lib_release(attribute);
    return done ? 0 : -1;
}

bool cp_h5lib_copy_attributes(cp_h5_id to, cp_h5_id from)
{
    return H5Aiterate2(from, H5_INDEX_NAME, H5_ITER_INC, NULL, copy_attribute, &to) >= 0;
}

/* H5Ocopy alone would do, but for HDF5 1.10, which crashes over a group with many attributes of varying length. */
typedef struct copying {
    hid_t to;
    int depth; /* a circle of links has none */
} copying;
enum { MOST_DEPTH = 32 };

static herr_t copy_member(hid_t from, const char *name, const H5L_info_t *link, void *state);

static bool copy_group(hid_t to, hid_t from, const char *name, int depth)
{
    copying inside = {cp_h5lib_make_group(to, name), depth + 1};
    hid_t group = H5Gopen2(from, name, H5P_DEFAULT);
    bool done = inside.to >= 0 && group >= 0 && inside.depth < MOST_DEPTH &&
                cp_h5lib_copy_attributes(inside.to, group) &&
                H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, copy_member, &inside) >= 0;
    cp_h5lib_release(group);
    cp_h5lib_release(inside.to);
    return done;
}

static bool copy_object(hid_t to, hid_t from, const char *name)
{
    hid_t how = H5Pcreate(H5P_OBJECT_COPY);
    H5Pset_copy_object(how, H5O_COPY_WITHOUT_ATTR_FLAG);
    bool copied = H5Ocopy(from, name, to, name, how, H5P_DEFAULT) >= 0;
    H5Pclose(how);
    hid_t copy = copied ? H5Oopen(to, name, H5P_DEFAULT) : H5I_INVALID_HID;
    hid_t object = H5Oopen(from, name, H5P_DEFAULT);
    bool done = copy >= 0 && object >= 0 && cp_h5lib_copy_attributes(copy, object);
    cp_h5lib_release(copy);
    cp_h5lib_release(object);
    return done;
}

static bool copy_any(hid_t to, hid_t from, const char *name, int depth)
{
    hid_t object = H5Oopen(from, name, H5P_DEFAULT);
    bool group = object >= 0 && cp_h5lib_kind(object) == CP_H5_GROUP;
    bool done = group ? copy_group(to, from, name, depth) : object >= 0 && copy_object(to, from, name);
    cp_h5lib_release(object);
    return done;
}

static herr_t copy_member(hid_t from, const char *name, const H5L_info_t *link, void *state)
{
    const copying *inside = state;
    bool done = link->type == H5L_TYPE_HARD
                    ? copy_any(inside->to, from, name, inside->depth)
                    : H5Lcopy(from, name, inside->to, name, H5P_DEFAULT, H5P_DEFAULT) >= 0;
    return done ? 0 : -1;
}

bool cp_h5lib_copy(cp_h5_id to, cp_h5_id from, const char *name)
{
    return copy_any(to, from, name, 0);
}

#include "tests/files/odd_files.h"

#include "base/status.h"

#include <hdf5.h>
#include <stdio.h>
#include <string.h>

/* What goes wrong here is a fault of the test. */
static hid_t must(hid_t id)
{
    cp_check(id >= 0, "the HDF5 library refuses to make an odd file");
    return id;
}

static void must_do(herr_t status)
{
    must(status);
}

static hid_t open_file(const char *file)
{
    return must(H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT));
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static hid_t small_float(size_t bytes, size_t exponent, size_t mantissa, H5T_order_t order)
{
    hid_t type = must(H5Tcopy(H5T_IEEE_F32LE));
    must_do(H5Tset_fields(type, exponent + mantissa, mantissa, exponent, 0, mantissa));
    must_do(H5Tset_precision(type, 1 + exponent + mantissa));
    must_do(H5Tset_size(type, bytes));
    must_do(H5Tset_ebias(type, ((size_t)1 << (exponent - 1)) - 1));
    must_do(H5Tset_order(type, order));
    return type;
}

static hid_t explicit_float(void)
{
    hid_t type = must(H5Tcopy(H5T_IEEE_F32LE));
    must_do(H5Tset_norm(type, H5T_NORM_NONE));
    return type;
}

static hid_t enumeration(void)
{
    hid_t type = must(H5Tenum_create(H5T_STD_I8LE));
    const int8_t no = 0, yes = 1;
    must_do(H5Tenum_insert(type, "FALSE", &no));
    must_do(H5Tenum_insert(type, "TRUE", &yes));
    return type;
}

static hid_t record(void)
{
    hid_t type = must(H5Tcreate(H5T_COMPOUND, sizeof(double)));
    must_do(H5Tinsert(type, "value", 0, H5T_IEEE_F64LE));
    return type;
}

static hid_t varying_text(void)
{
    hid_t type = must(H5Tcopy(H5T_C_S1));
    must_do(H5Tset_size(type, H5T_VARIABLE));
    must_do(H5Tset_cset(type, H5T_CSET_UTF8));
    return type;
}

static hid_t stored_type(odd_type type)
{
    switch (type) {
    case ODD_F64: return H5Tcopy(H5T_IEEE_F64LE);
    case ODD_F64_BIG: return H5Tcopy(H5T_IEEE_F64BE);
    case ODD_F32: return H5Tcopy(H5T_IEEE_F32LE);
    case ODD_F32_BIG: return H5Tcopy(H5T_IEEE_F32BE);
    case ODD_F16: return small_float(2, 5, 10, H5T_ORDER_LE);
    case ODD_F16_BIG: return small_float(2, 5, 10, H5T_ORDER_BE);
    case ODD_BF16: return small_float(2, 8, 7, H5T_ORDER_LE);
    case ODD_BF16_BIG: return small_float(2, 8, 7, H5T_ORDER_BE);
    case ODD_F24: return small_float(3, 8, 15, H5T_ORDER_LE);
    case ODD_F32_EXPLICIT: return explicit_float();
    case ODD_I64: return H5Tcopy(H5T_STD_I64LE);
    case ODD_I64_BIG: return H5Tcopy(H5T_STD_I64BE);
    case ODD_I32: return H5Tcopy(H5T_STD_I32LE);
    case ODD_I16: return H5Tcopy(H5T_STD_I16LE);
    case ODD_U16: return H5Tcopy(H5T_STD_U16LE);
    case ODD_U8: return H5Tcopy(H5T_STD_U8LE);
    case ODD_ENUM: return enumeration();
    case ODD_RECORD: return record();
    case ODD_STRING: return varying_text();
    case ODD_REFERENCE: return H5Tcopy(H5T_STD_REF_OBJ);
    }
    return H5I_INVALID_HID;
}

/* ---- datasets ---------------------------------------------------------------------------------------------------- */

/* Chunks of two along the first axis. */
static hid_t creation_of(const char *file, odd_storage storage, int dims, const hsize_t *extent)
{
    hid_t creation = must(H5Pcreate(H5P_DATASET_CREATE));
    hsize_t chunk[8] = {2};
    for (int axis = 1; axis < dims; axis++)
        chunk[axis] = extent[axis];
    char other[4096];
    snprintf(other, sizeof other, "%s.other", file);
    switch (storage) {
    case ODD_COMPACT: must_do(H5Pset_layout(creation, H5D_COMPACT)); break;
    case ODD_PACKED:
        must_do(H5Pset_chunk(creation, dims, chunk));
        must_do(H5Pset_shuffle(creation));
        must_do(H5Pset_deflate(creation, 6));
        must_do(H5Pset_fletcher32(creation));
        break;
    case ODD_SCALEOFFSET:
        must_do(H5Pset_chunk(creation, dims, chunk));
        must_do(H5Pset_scaleoffset(creation, H5Z_SO_INT, 0));
        break;
    case ODD_CHUNKED:
    case ODD_NEVER_WRITTEN_CHUNKED:
    case ODD_HALF_WRITTEN: must_do(H5Pset_chunk(creation, dims, chunk)); break;
    case ODD_EXTERNAL: must_do(H5Pset_external(creation, other, 0, H5F_UNLIMITED)); break;
    case ODD_VIRTUAL: {
        hid_t space = must(H5Screate_simple(dims, extent, NULL));
        must_do(H5Pset_virtual(creation, space, other, "/data", space));
        H5Sclose(space);
        break;
    }
    default: break;
    }
    return creation;
}

static void write_all(hid_t dataset, hid_t stored, hid_t space, const void *data)
{
    hid_t memory = must(H5Tcopy(stored));
    if (H5Tget_class(memory) == H5T_FLOAT || H5Tget_class(memory) == H5T_INTEGER)
        must_do(H5Tset_order(memory, H5Tget_order(H5T_NATIVE_INT)));
    must_do(H5Dwrite(dataset, memory, space, space, H5P_DEFAULT, data));
    H5Tclose(memory);
}

void odd_dataset(const char *file, const char *path, odd_type type, odd_storage storage, int dims,
                 const uint64_t *extent, const void *data)
{
    hsize_t size[8] = {0};
    for (int axis = 0; axis < dims; axis++)
        size[axis] = extent[axis];
    hid_t id = open_file(file);
    hid_t stored = must(stored_type(type));
    hid_t space = must(storage == ODD_NULL_SPACE ? H5Screate(H5S_NULL)
                       : dims == 0               ? H5Screate(H5S_SCALAR)
                                                 : H5Screate_simple(dims, size, NULL));
    hid_t creation = creation_of(file, storage, dims, size);
    hid_t dataset = must(H5Dcreate2(id, path, stored, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    if (storage == ODD_HALF_WRITTEN) {
        hsize_t begin[8] = {0};
        size[0] = 2;
        must_do(H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, NULL, size, NULL));
    }
    bool written = data && storage != ODD_VIRTUAL && storage != ODD_NEVER_WRITTEN &&
                   storage != ODD_NEVER_WRITTEN_CHUNKED && storage != ODD_NULL_SPACE;
    if (written)
        write_all(dataset, stored, space, data);
    H5Dclose(dataset);
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(stored);
    must_do(H5Fclose(id));
}

void odd_chunks(const char *file, const char *path, odd_type type, int dims, const uint64_t *extent,
                const uint64_t *chunk, bool shuffled, bool packed, const void *data)
{
    hsize_t size[8] = {0}, piece[8] = {0};
    for (int axis = 0; axis < dims; axis++) {
        size[axis] = extent[axis];
        piece[axis] = chunk[axis];
    }
    hid_t id = open_file(file);
    hid_t stored = must(stored_type(type));
    hid_t space = must(H5Screate_simple(dims, size, NULL));
    hid_t creation = must(H5Pcreate(H5P_DATASET_CREATE));
    must_do(H5Pset_chunk(creation, dims, piece));
    if (shuffled)
        must_do(H5Pset_shuffle(creation));
    if (packed)
        must_do(H5Pset_deflate(creation, 1));
    hid_t dataset = must(H5Dcreate2(id, path, stored, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    write_all(dataset, stored, space, data);
    H5Dclose(dataset);
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(stored);
    must_do(H5Fclose(id));
}

void odd_overwrite(const char *file, const char *path, odd_type type, const void *data)
{
    hid_t id = open_file(file);
    hid_t memory = must(stored_type(type));
    hid_t dataset = must(H5Dopen2(id, path, H5P_DEFAULT));
    must_do(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    H5Dclose(dataset);
    H5Tclose(memory);
    must_do(H5Fclose(id));
}

/* ---- links and other objects ------------------------------------------------------------------------------------- */

void odd_make_link(const char *file, const char *path, odd_link link, const char *target)
{
    hid_t id = open_file(file);
    switch (link) {
    case ODD_SOFT: must_do(H5Lcreate_soft(target, id, path, H5P_DEFAULT, H5P_DEFAULT)); break;
    case ODD_DANGLING: must_do(H5Lcreate_soft("/nowhere", id, path, H5P_DEFAULT, H5P_DEFAULT)); break;
    case ODD_EXTERNAL_LINK:
        must_do(H5Lcreate_external("/etc/passwd", target, id, path, H5P_DEFAULT, H5P_DEFAULT));
        break;
    case ODD_HARD: must_do(H5Lcreate_hard(id, target, id, path, H5P_DEFAULT, H5P_DEFAULT)); break;
    }
    must_do(H5Fclose(id));
}

void odd_group(const char *file, const char *path)
{
    hid_t id = open_file(file);
    H5Gclose(must(H5Gcreate2(id, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
    must_do(H5Fclose(id));
}

void odd_named_type(const char *file, const char *path)
{
    hid_t id = open_file(file);
    hid_t type = must(H5Tcopy(H5T_IEEE_F64LE));
    must_do(H5Tcommit2(id, path, type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Tclose(type);
    must_do(H5Fclose(id));
}

void odd_remove(const char *file, const char *path)
{
    hid_t id = open_file(file);
    must_do(H5Ldelete(id, path, H5P_DEFAULT));
    must_do(H5Fclose(id));
}

void odd_foreign(const char *file)
{
    hid_t id = must(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    H5Gclose(must(H5Gcreate2(id, "/data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
    must_do(H5Fclose(id));
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* `count` values, or one scalar where it is 0; none at all where there is no type. */
static void replace_attribute(const char *file, const char *object, const char *name, hid_t type,
                              size_t count, const void *values)
{
    hid_t id = open_file(file);
    hid_t owner = must(H5Oopen(id, object, H5P_DEFAULT));
    if (H5Aexists(owner, name) > 0)
        must_do(H5Adelete(owner, name));
    if (type >= 0) {
        hsize_t size = count;
        hid_t space = must(count ? H5Screate_simple(1, &size, NULL) : H5Screate(H5S_SCALAR));
        hid_t attribute = must(H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
        must_do(H5Awrite(attribute, type, values));
        H5Aclose(attribute);
        H5Sclose(space);
    }
    H5Oclose(owner);
    must_do(H5Fclose(id));
}

void odd_text(const char *file, const char *object, const char *name, const char *value)
{
    hid_t type = varying_text();
    replace_attribute(file, object, name, type, 0, &value);
    H5Tclose(type);
}

void odd_fixed_text(const char *file, const char *object, const char *name, const char *value, size_t width)
{
    char padded[256] = {0};
    memcpy(padded, value, strlen(value));
    hid_t type = must(H5Tcopy(H5T_C_S1));
    must_do(H5Tset_size(type, width));
    must_do(H5Tset_strpad(type, H5T_STR_NULLPAD));
    replace_attribute(file, object, name, type, 0, padded);
    H5Tclose(type);
}

void odd_texts(const char *file, const char *object, const char *name, const char *const *values,
               size_t count)
{
    hid_t type = varying_text();
    replace_attribute(file, object, name, type, count, values);
    H5Tclose(type);
}

void odd_integer(const char *file, const char *object, const char *name, int value)
{
    replace_attribute(file, object, name, H5T_NATIVE_INT, 0, &value);
}

void odd_integers(const char *file, const char *object, const char *name, const int *values, size_t count)
{
    replace_attribute(file, object, name, H5T_NATIVE_INT, (hsize_t)count, values);
}

void odd_truth(const char *file, const char *object, const char *name, bool value)
{
    int8_t no = 0, yes = 1, stored = value;
    hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
    H5Tenum_insert(type, "FALSE", &no);
    H5Tenum_insert(type, "TRUE", &yes);
    replace_attribute(file, object, name, type, 0, &stored);
    H5Tclose(type);
}

void odd_real(const char *file, const char *object, const char *name, double value)
{
    replace_attribute(file, object, name, H5T_NATIVE_DOUBLE, 0, &value);
}

void odd_no_attribute(const char *file, const char *object, const char *name)
{
    replace_attribute(file, object, name, H5I_INVALID_HID, 0, NULL);
}

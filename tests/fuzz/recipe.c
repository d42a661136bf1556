#include "tests/fuzz/recipe.h"

#include "harness/files/fixture.h"

#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 4096, MOST_WORDS = 16, MOST_ELEMENTS = 4096, ID_DIGITS = 64 };

typedef struct words {
    char line[LINE_BYTES];
    const char *word[MOST_WORDS]; /* "" behind the last */
    const char *rest[MOST_WORDS]; /* the line from there on */
    int count;
} words;

/* ---- types ------------------------------------------------------------------------------------------------------- */

static hid_t bfloat16(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, 7, 8, 0, 7);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 127);
    return type;
}

static hid_t float16(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

static hid_t named_type(const char *name)
{
    const struct {
        const char *name;
        hid_t type;
    } types[] = {{"f64", H5T_IEEE_F64LE}, {"f32", H5T_IEEE_F32LE}, {"i64", H5T_STD_I64LE},
                 {"i32", H5T_STD_I32LE},  {"i16", H5T_STD_I16LE},  {"u16", H5T_STD_U16LE},
                 {"u8", H5T_STD_U8LE}};
    const char *plain = name + (name[0] == '>');
    hid_t type = strcmp(plain, "bf16") == 0 ? bfloat16() : strcmp(plain, "f16") == 0 ? float16() : -1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(plain, types[i].name) == 0)
            type = H5Tcopy(types[i].type);
    if (type >= 0 && plain != name)
        H5Tset_order(type, H5T_ORDER_BE);
    return type;
}

static hid_t text_type(size_t width)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, width);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static hid_t creation(const char *storage, int dims, const hsize_t extent[])
{
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[H5S_MAX_RANK];
    for (int axis = 0; axis < dims; axis++)
        chunk[axis] = extent[axis] > 2 ? 2 : 1;
    bool packed = strcmp(storage, "packed") == 0;
    if (strcmp(storage, "compact") == 0)
        H5Pset_layout(properties, H5D_COMPACT);
    if ((packed || strcmp(storage, "chunked") == 0) && dims > 0)
        H5Pset_chunk(properties, dims, chunk);
    if (packed) {
        H5Pset_shuffle(properties);
        H5Pset_deflate(properties, 1);
        H5Pset_fletcher32(properties);
    }
    return properties;
}

static void fill(hid_t dataset, hsize_t count, double first, double step)
{
    double *values = calloc(count, sizeof *values);
    for (hsize_t i = 0; values && i < count; i++)
        values[i] = first + step * (double)i;
    if (values)
        H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    free(values);
}

static void make_array(hid_t file, const words *w)
{
    hsize_t extent[H5S_MAX_RANK], count = 1;
    int dims = 0;
    for (const char *at = w->word[4]; *at >= '0' && *at <= '9' && dims < H5S_MAX_RANK; at++) {
        char *end;
        extent[dims++] = strtoull(at, &end, 10);
        at = *end == ',' ? end : end - 1;
    }
    bool small = true;
    for (int axis = 0; axis < dims; axis++) {
        small = small && extent[axis] <= MOST_ELEMENTS;
        count *= small ? extent[axis] : 1;
        small = small && count <= MOST_ELEMENTS;
    }
    hid_t type = named_type(w->word[2]);
    hid_t space = dims ? H5Screate_simple(dims, extent, NULL) : H5Screate(H5S_SCALAR);
    hid_t properties = creation(w->word[3], dims, extent);
    bool absent = strcmp(w->word[3], "absent") == 0; /* what is never written takes no room, however large */
    hid_t dataset = type < 0 || (!small && !absent)
                        ? -1
                        : H5Dcreate2(file, w->word[1], type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    if (dataset >= 0 && !absent)
        fill(dataset, count, atof(w->word[5]), atof(w->word[6]));
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
    H5Tclose(type);
}

static void make_text(hid_t file, const words *w)
{
    hid_t type = text_type(H5T_VARIABLE), space = H5Screate(H5S_SCALAR);
    hid_t dataset = H5Dcreate2(file, w->word[1], type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &w->rest[2]);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Tclose(type);
}

static void make_group(hid_t file, const words *w)
{
    H5Gclose(H5Gcreate2(file, w->word[1], H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

static void make_link(hid_t file, const words *w)
{
    if (strcmp(w->word[2], "hard") == 0)
        H5Lcreate_hard(file, w->word[3], file, w->word[1], H5P_DEFAULT, H5P_DEFAULT);
    else if (strcmp(w->word[2], "external") == 0)
        H5Lcreate_external("other.h5", w->word[3], file, w->word[1], H5P_DEFAULT, H5P_DEFAULT);
    else
        H5Lcreate_soft(w->word[3], file, w->word[1], H5P_DEFAULT, H5P_DEFAULT);
}

static void remove_object(hid_t file, const words *w)
{
    H5Ldelete(file, w->word[1], H5P_DEFAULT);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static void set(hid_t file, const words *w, hid_t type, hsize_t count, const void *values)
{
    hid_t object = H5Oopen(file, w->word[1], H5P_DEFAULT);
    hid_t space = count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, NULL);
    H5Adelete(object, w->word[2]);
    hid_t attribute = H5Acreate2(object, w->word[2], type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, values);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Oclose(object);
}

static void set_string(hid_t file, const words *w)
{
    hid_t type = text_type(H5T_VARIABLE);
    set(file, w, type, 0, &w->rest[3]);
    H5Tclose(type);
}

static void set_strings(hid_t file, const words *w)
{
    hid_t type = text_type(H5T_VARIABLE);
    if (w->count > 3)
        set(file, w, type, (hsize_t)w->count - 3, &w->word[3]);
    H5Tclose(type);
}

static void set_fixed(hid_t file, const words *w)
{
    size_t width = strlen(w->rest[3]);
    hid_t type = text_type(width ? width : 1);
    set(file, w, type, 0, w->rest[3]);
    H5Tclose(type);
}

static void set_number(hid_t file, const words *w)
{
    int64_t value = strtoll(w->word[3], NULL, 10);
    set(file, w, H5T_NATIVE_INT64, 0, &value);
}

static void set_real(hid_t file, const words *w)
{
    double value = strtod(w->word[3], NULL);
    set(file, w, H5T_NATIVE_DOUBLE, 0, &value);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

typedef void instruction(hid_t file, const words *w);

static const struct {
    const char *name;
    instruction *act;
} instructions[] = {
    {"group", make_group},     {"array", make_array},  {"text", make_text},      {"link", make_link},
    {"remove", remove_object}, {"string", set_string}, {"strings", set_strings}, {"fixed", set_fixed},
    {"number", set_number},    {"real", set_real},
};

/* The words of a line; `whole` keeps it for what takes the rest of it. */
static void split(words *w, char whole[LINE_BYTES], const char *line, size_t length)
{
    length = length < LINE_BYTES ? length : LINE_BYTES - 1;
    memcpy(w->line, line, length);
    w->line[length] = '\0';
    memcpy(whole, w->line, length + 1);
    w->count = 0;
    for (char *at = w->line; *at && w->count < MOST_WORDS;) {
        w->word[w->count] = at;
        w->rest[w->count++] = whole + (at - w->line);
        at += strcspn(at, " ");
        if (*at)
            *at++ = '\0';
    }
    for (int i = w->count; i < MOST_WORDS; i++)
        w->word[i] = w->rest[i] = "";
}

/* NULL where no file follows. */
static const char *obey(hid_t file, const char *text)
{
    static char whole[LINE_BYTES];
    static words w;
    while (*text) {
        size_t length = strcspn(text, "\n");
        split(&w, whole, text, length);
        text += length + (text[length] == '\n');
        if (strcmp(w.word[0], "next") == 0)
            return text;
        for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++)
            if (strcmp(w.word[0], instructions[i].name) == 0)
                instructions[i].act(file, &w);
    }
    return NULL;
}

/* Readers refuse a fixture of another id and say which it should be. */
static void identify(const char *path)
{
    static const char before[] = "attribute fixture_id: expected ";
    cp_fixture *fixture;
    if (cp_fixture_open(&fixture, path) == CP_OK) {
        cp_fixture_close(fixture);
        return;
    }
    const char *found = strstr(cp_error(), before);
    if (!found || strlen(found) < sizeof before - 1 + ID_DIGITS)
        return;
    char id[ID_DIGITS + 1];
    snprintf(id, sizeof id, "%s", found + sizeof before - 1);
    words w = {.word = {"fixed", "/", "fixture_id", id}, .rest = {"", "", "", id}};
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    if (file >= 0)
        set_fixed(file, &w);
    H5Fclose(file);
}

const char *recipe_make(const char *path, const char *text)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    const char *next = file < 0 ? NULL : obey(file, text);
    H5Fclose(file);
    identify(path);
    return next;
}

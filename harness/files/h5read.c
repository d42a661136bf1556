#include "harness/files/h5lib.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_STRINGS = 1 << 20, MOST_STRING_BYTES = 64 << 20 };

/* ---- what is being read ------------------------------------------------------------------------------------------ */

static _Thread_local const char *being_read;

const char *cp_h5_being_read(void)
{
    return being_read;
}

const char *cp_h5_enter(const char *path)
{
    const char *outside = being_read;
    being_read = path;
    return outside;
}

void cp_h5_leave(const char *const *outside)
{
    being_read = *outside;
}

/* What is being written is ours and sound. */
#define READING(file) CP_H5_READING((file)->writing ? NULL : (file)->path)

/* ---- the file ---------------------------------------------------------------------------------------------------- */

cp_status cp_h5_open(cp_h5 **out, const char *path)
{
    CP_H5_READING(path);
    *out = NULL;
    struct stat status;
    if (stat(path, &status) != 0)
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file, found %s", path,
                       S_ISDIR(status.st_mode) ? "a directory" : "something that is no regular file");
    if (status.st_size == 0)
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file, found an empty file", path);
    cp_h5_id id = cp_h5lib_open(path);
    if (id < 0)
        return cp_fail(CP_BAD_INPUT, "%s: expected an HDF5 file, found %s", path,
                       cp_h5lib_is_hdf5(path) ? "one that is truncated, damaged or open elsewhere"
                                              : "something else, or no permission to read it");
    return cp_h5_wrap(out, id, path, false, status.st_size);
}

cp_status cp_h5_wrap(cp_h5 **out, cp_h5_id id, const char *path, bool writing, int64_t bytes)
{
    cp_h5 *file = calloc(1, sizeof *file);
    char *copy = strdup(path);
    if (!file || !copy) {
        free(file);
        free(copy);
        cp_h5lib_close(id, false);
        return cp_fail(CP_INTERNAL, "%s: no memory to open it", path);
    }
    *file = (cp_h5){.id = id, .path = copy, .writing = writing, .bytes = bytes, .dataset = -1};
    *out = file;
    return CP_OK;
}

static void close_dataset(cp_h5 *file)
{
    cp_h5lib_release(file->dataset);
    file->dataset = -1;
}

static bool close_file(cp_h5 *file)
{
    READING(file);
    close_dataset(file);
    return cp_h5lib_close(file->id, file->writing);
}

cp_status cp_h5_close(cp_h5 *file)
{
    if (!file)
        return CP_OK;
    if (file->folder)
        file->calls->close(file->folder);
    cp_status status = CP_OK;
    if (!file->folder && !close_file(file) && file->writing)
        status = cp_fail(CP_INTERNAL, "%s: cannot be written to its end; is the disk full?", file->path);
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

static cp_status check_link(const cp_h5 *file, const char *path, cp_h5_link link)
{
    static const char *const names[] = {
        [CP_H5_SOFT] = "a soft", [CP_H5_EXTERNAL] = "an external", [CP_H5_USER] = "a user-defined"};
    if (link == CP_H5_DAMAGED)
        return damaged(file, path);
    if (link == CP_H5_NO_LINK || link == CP_H5_HARD)
        return CP_OK;
    return cp_fail(CP_BAD_INPUT, "%s: %s: expected the object itself, found %s link", file->path, path,
                   names[link]);
}

/* Walks the path from the root, so that no library call ever follows a link that is not hard. */
static cp_status check_links(cp_h5 *file, const char *path, bool *there)
{
    char prefix[CP_H5_PATH_BYTES];
    cp_check(path[0] == '/' && strlen(path) < sizeof prefix, "path \"%s\"", path);
    *there = true;
    size_t known = strlen(file->parent);
    size_t end = known > 0 && strncmp(path, file->parent, known) == 0 && path[known] == '/' ? known : 0;
    while (*there && path[end] && path[end + 1]) {
        snprintf(prefix, sizeof prefix, "%.*s", (int)end, path);
        if (end > 0)
            memcpy(file->parent, prefix, end + 1);
        end += 1 + strcspn(path + end + 1, "/");
        snprintf(prefix, sizeof prefix, "%.*s", (int)end, path);
        cp_h5_link link = cp_h5lib_link(file->id, prefix);
        CP_TRY(check_link(file, prefix, link));
        *there = link == CP_H5_HARD;
    }
    return CP_OK;
}

/* *object is negative where the path leads to nothing. */
static cp_status open_object(cp_h5 *file, const char *path, cp_h5_id *object)
{
    *object = -1;
    bool there;
    CP_TRY(check_links(file, path, &there));
    if (!there)
        return CP_OK;
    *object = cp_h5lib_object(file->id, path);
    return *object < 0 ? damaged(file, path) : CP_OK;
}

cp_status cp_h5_look(cp_h5 *file, const char *path, cp_h5_kind *kind)
{
    if (file->folder) {
        file->calls->look(file->folder, path, kind);
        return CP_OK;
    }
    READING(file);
    cp_h5_id object;
    *kind = CP_H5_NOTHING;
    CP_TRY(open_object(file, path, &object));
    if (object >= 0)
        *kind = cp_h5lib_kind(object);
    cp_h5lib_release(object);
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

static cp_status add_member(listing *list, cp_h5_id group, const char *name, cp_h5_link link)
{
    char path[CP_H5_PATH_BYTES];
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
    CP_TRY(check_link(list->file, path, link));
    cp_h5_id object = cp_h5lib_object(group, name);
    if (object < 0)
        return damaged(list->file, path);
    cp_h5_member *member = &list->members[list->count++];
    member->kind = cp_h5lib_kind(object);
    cp_h5lib_release(object);
    return cp_pool_text(list->pool, &member->name, name);
}

static bool visit_member(void *state, cp_h5_id group, const char *name, cp_h5_link link)
{
    listing *list = state;
    list->status = add_member(list, group, name, link);
    return list->status == CP_OK;
}

static int compare_members(const void *a, const void *b)
{
    return strcmp(((const cp_h5_member *)a)->name, ((const cp_h5_member *)b)->name);
}

static cp_status list_members(listing *list, cp_h5_id group)
{
    int64_t count = cp_h5lib_member_count(group);
    if (count < 0 || count > list->file->bytes)
        return damaged(list->file, list->group);
    list->room = (size_t)count;
    void *memory;
    CP_TRY(cp_pool_take(list->pool, &memory, list->room, sizeof *list->members));
    list->members = memory;
    return cp_h5lib_members(group, visit_member, list) ? list->status : damaged(list->file, list->group);
}

cp_status cp_h5_list(cp_h5 *file, cp_pool *pool, const char *group, const cp_h5_member **members,
                     size_t *count)
{
    if (file->folder)
        return file->calls->list(file->folder, pool, group, members, count);
    READING(file);
    cp_h5_id object;
    CP_TRY(open_object(file, group, &object));
    listing list = {.file = file, .pool = pool, .group = group};
    bool is_group = object >= 0 && cp_h5lib_kind(object) == CP_H5_GROUP;
    cp_status status = is_group ? list_members(&list, object)
                                : cp_fail(CP_BAD_INPUT, "%s: %s: expected a group, found %s", file->path,
                                          group, object < 0 ? "nothing" : "something else");
    cp_h5lib_release(object);
    CP_TRY(status);
    qsort(list.members, list.count, sizeof *list.members, compare_members);
    *members = list.members;
    *count = list.count;
    return CP_OK;
}

/* ---- datasets of numbers ----------------------------------------------------------------------------------------- */

/* What is being written is not complete yet, and what we write ourselves is taken as it is. */
static cp_status check_storage(const cp_h5 *file, const char *path, cp_h5_facts *facts, cp_h5_array *array)
{
    if (file->writing)
        facts->stored_bytes = INT64_MAX;
    return cp_h5_check_storage(array, facts, file->writing ? INT64_MAX : file->bytes, file->path, path);
}

/* Opens a dataset and looks at how it is stored. */
static cp_status open_dataset(cp_h5 *file, const char *path, cp_h5_id *dataset, cp_h5_facts *facts,
                              cp_h5_array *array)
{
    CP_TRY(open_object(file, path, dataset));
    cp_h5_kind kind = *dataset < 0 ? CP_H5_NOTHING : cp_h5lib_kind(*dataset);
    cp_status status;
    if (kind == CP_H5_DATASET) {
        cp_h5lib_facts(facts, *dataset);
        status = check_storage(file, path, facts, array);
    } else {
        status = cp_fail(CP_BAD_INPUT, "%s: %s: expected a dataset, found %s", file->path, path,
                         kind == CP_H5_NOTHING ? "nothing"
                         : kind == CP_H5_GROUP ? "a group"
                                               : "a named type");
    }
    if (status != CP_OK)
        cp_h5lib_release(*dataset);
    return status;
}

static cp_status read_dtype(cp_h5 *file, const char *path, cp_h5_facts *facts, cp_h5_array *array)
{
    cp_pool pool = {0};
    const char *words = "";
    bool noted;
    cp_status status = cp_h5_text(file, &pool, path, "dtype", &words, &noted);
    facts->bfloat16_words = strcmp(words, "bfloat16") == 0;
    cp_pool_close(&pool);
    return status == CP_OK ? cp_h5_check_type(array, facts, file->path, path) : status;
}

cp_status cp_h5_use(cp_h5 *file, const char *path)
{
    READING(file);
    if (file->dataset >= 0 && strcmp(file->dataset_path, path) == 0)
        return CP_OK;
    close_dataset(file);
    cp_h5_id dataset;
    cp_h5_facts facts;
    CP_TRY(open_dataset(file, path, &dataset, &facts, &file->array));
    file->dataset = dataset; /* before its attribute is asked for */
    snprintf(file->dataset_path, sizeof file->dataset_path, "%s", path);
    cp_status status = read_dtype(file, path, &facts, &file->array);
    if (status != CP_OK)
        close_dataset(file);
    return status;
}

cp_status cp_h5_describe(cp_h5 *file, const char *path, cp_h5_array *array)
{
    if (file->folder)
        return file->calls->describe(file->folder, path, array);
    CP_TRY(cp_h5_use(file, path));
    *array = file->array;
    return CP_OK;
}

/* ---- strings and attributes -------------------------------------------------------------------------------------- */

/* The strings of an attribute or dataset (`object`, which sentences call `where`) with `behind` behind each; where that
 * is nothing, there is exactly one. */
static cp_status read_strings(cp_h5 *file, cp_pool *pool, cp_h5_id object, const char *where,
                              const char *behind, const char **out, size_t *length)
{
    bool list = *behind != '\0';
    cp_h5_strings strings;
    cp_h5lib_strings_open(&strings, object, list ? MOST_STRINGS : 1, MOST_STRING_BYTES);
    cp_status status;
    if (!strings.usable || (!list && strings.count != 1))
        status = cp_fail(CP_BAD_INPUT, "%s: %s: expected %s of at most %d MiB", file->path, where,
                         list ? "strings" : "one string", MOST_STRING_BYTES >> 20);
    else if (!strings.read)
        status = damaged(file, where);
    else
        status = cp_lines_join(pool, strings.data, strings.count, strings.width, behind, out, length);
    cp_h5lib_strings_close(&strings);
    return status;
}

cp_status cp_h5_is_text(cp_h5 *file, const char *path, bool *text)
{
    *text = false;
    if (file->folder)
        return CP_OK;
    READING(file);
    cp_h5_id dataset;
    cp_h5_facts facts;
    cp_h5_array array;
    CP_TRY(open_dataset(file, path, &dataset, &facts, &array));
    *text = facts.class == CP_H5_TEXT;
    cp_h5lib_release(dataset);
    return CP_OK;
}

cp_status cp_h5_read_text(cp_h5 *file, cp_pool *pool, const char *path, const char **text, size_t *length)
{
    if (file->folder)
        return cp_fail(CP_BAD_INPUT, "%s: %s: expected a string, found a folder of tensors", file->path,
                       path);
    READING(file);
    cp_h5_id dataset;
    cp_h5_facts facts;
    cp_h5_array array;
    CP_TRY(open_dataset(file, path, &dataset, &facts, &array));
    cp_status status = read_strings(file, pool, dataset, path, "", text, length);
    cp_h5lib_release(dataset);
    return status;
}

/* *attribute is negative where there is none. */
static cp_status open_attribute(cp_h5 *file, const char *object, const char *name, cp_h5_id *attribute)
{
    bool failed = false;
    *attribute = -1;
    if (file->dataset >= 0 && strcmp(file->dataset_path, object) == 0) {
        *attribute = cp_h5lib_attribute(file->dataset, name, &failed);
    } else {
        cp_h5_id owner;
        CP_TRY(open_object(file, object, &owner));
        if (owner >= 0)
            *attribute = cp_h5lib_attribute(owner, name, &failed);
        cp_h5lib_release(owner);
    }
    return failed ? damaged(file, object) : CP_OK;
}

cp_status cp_h5_has(cp_h5 *file, const char *object, const char *name, bool *found)
{
    *found = file->folder && file->calls->has(file->folder, object, name);
    if (file->folder)
        return CP_OK;
    READING(file);
    cp_h5_id attribute;
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    cp_h5lib_release(attribute);
    return CP_OK;
}

static cp_status text_attribute(cp_h5 *file, cp_pool *pool, const char *object, const char *name,
                                const char *behind, bool names, const char **out, bool *found)
{
    if (file->folder) {
        CP_TRY(file->calls->text(file->folder, pool, object, name, behind, !names, out, found));
        return *found && names ? cp_lines_check(*out, file->path, name) : CP_OK;
    }
    READING(file);
    cp_h5_id attribute;
    size_t length;
    char where[CP_H5_PATH_BYTES];
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    if (!*found)
        return CP_OK;
    snprintf(where, sizeof where, "%s: attribute %s", object, name);
    cp_status status = read_strings(file, pool, attribute, where, behind, out, &length);
    cp_h5lib_release(attribute);
    return status == CP_OK && names ? cp_lines_check(*out, file->path, where) : status;
}

cp_status cp_h5_text(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                     bool *found)
{
    return text_attribute(file, pool, object, name, "", true, out, found);
}

cp_status cp_h5_document(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                         bool *found)
{
    return text_attribute(file, pool, object, name, "", false, out, found);
}

cp_status cp_h5_lines(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out,
                      bool *found)
{
    return text_attribute(file, pool, object, name, "\n", true, out, found);
}

static cp_status not_one(const cp_h5 *file, const char *object, const char *name, const char *what)
{
    return cp_fail(CP_BAD_INPUT, "%s: %s: attribute %s: expected one %s", file->path, object, name, what);
}

cp_status cp_h5_integer(cp_h5 *file, const char *object, const char *name, int64_t *out, bool *found)
{
    int count;
    if (file->folder)
        return file->calls->integers(file->folder, object, name, out, 1, &count, found);
    READING(file);
    cp_h5_id attribute;
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    bool read = !*found || cp_h5lib_integer(attribute, out);
    cp_h5lib_release(attribute);
    return read ? CP_OK : not_one(file, object, name, "integer");
}

cp_status cp_h5_integers(cp_h5 *file, const char *object, const char *name, int64_t *out, int room,
                         int *count, bool *found)
{
    if (file->folder)
        return file->calls->integers(file->folder, object, name, out, room, count, found);
    READING(file);
    cp_h5_id attribute;
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    bool read = !*found || cp_h5lib_integers(attribute, out, room, count);
    cp_h5lib_release(attribute);
    return read ? CP_OK
                : cp_fail(CP_BAD_INPUT, "%s: %s: attribute %s: expected a list of at most %d integers",
                          file->path, object, name, room);
}

cp_status cp_h5_real(cp_h5 *file, const char *object, const char *name, double *out, bool *found)
{
    if (file->folder)
        return file->calls->real(file->folder, object, name, out, found);
    READING(file);
    cp_h5_id attribute;
    CP_TRY(open_attribute(file, object, name, &attribute));
    *found = attribute >= 0;
    bool read = !*found || cp_h5lib_real(attribute, out);
    cp_h5lib_release(attribute);
    return read ? CP_OK : not_one(file, object, name, "number");
}

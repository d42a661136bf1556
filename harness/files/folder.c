#include "harness/files/folder.h"

#include "base/json.h"
#include "harness/files/h5lib.h"
#include "harness/files/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, MOST_FILES = 4096 };

struct cp_folder {
    const char *path;
    cp_pool pool;
    cp_json *json;
    size_t count;
    cp_safetensors **files;
};

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static bool json_path(char out[PATH_BYTES], const char *path)
{
    return snprintf(out, PATH_BYTES, "%s/dump.json", path) < PATH_BYTES;
}

bool cp_folder_is_one(const char *path)
{
    char json[PATH_BYTES];
    struct stat status;
    return json_path(json, path) && stat(json, &status) == 0 && S_ISREG(status.st_mode);
}

static int is_safetensors(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 12 && strcmp(entry->d_name + length - 12, ".safetensors") == 0;
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static const cp_safetensor *find(const cp_folder *folder, const char *path, const cp_safetensors **file)
{
    for (size_t i = 0; i < folder->count && path[0] == '/'; i++) {
        const cp_safetensor *tensor = cp_safetensors_find(folder->files[i], path + 1);
        *file = folder->files[i];
        if (tensor)
            return tensor;
    }
    return NULL;
}

/* A tensor is in one file alone, and is no group at the same time. */
static cp_status check_names(const cp_folder *folder, const cp_safetensors *file)
{
    for (size_t t = 0; t < file->count; t++) {
        char path[CP_NAME_BYTES + 1];
        const cp_safetensors *other;
        const char *name = file->tensors[t].name;
        if (!*name || *name == '/' || strstr(name, "//") || strlen(name) >= CP_NAME_BYTES ||
            name[strlen(name) - 1] == '/')
            return cp_fail(CP_BAD_INPUT,
                           "%s: \"%.64s\": expected the path of an object without its first slash",
                           file->path, name);
        snprintf(path, sizeof path, "/%s", name);
        if (find(folder, path, &other))
            return cp_fail(CP_BAD_INPUT, "%s: %s is also in %s", file->path, name, other->path);
    }
    return CP_OK;
}

static cp_status open_files(cp_folder *folder, struct dirent **entries, int count)
{
    void *memory;
    if (count > MOST_FILES)
        return cp_fail(CP_BAD_INPUT, "%s: %d files, expected at most %d", folder->path, count, MOST_FILES);
    CP_TRY(cp_pool_take(&folder->pool, &memory, (size_t)count + 1, sizeof *folder->files));
    folder->files = memory;
    for (int i = 0; i < count; i++) {
        const char *path;
        cp_safetensors *file;
        CP_TRY(cp_pool_format(&folder->pool, &path, "%s/%s", folder->path, entries[i]->d_name));
        CP_TRY(cp_safetensors_open(&file, path));
        cp_status status = check_names(folder, file);
        if (status != CP_OK) {
            cp_safetensors_close(file);
            return status;
        }
        folder->files[folder->count++] = file;
    }
    return CP_OK;
}

static cp_status read_folder(cp_folder *folder, const char *path)
{
    char json[PATH_BYTES];
    struct dirent **entries;
    CP_TRY(cp_pool_text(&folder->pool, &folder->path, path));
    cp_check(json_path(json, path), "%s: too long", path);
    CP_TRY(cp_json_read(&folder->json, json));
    if (cp_json_kind_of(folder->json) != CP_JSON_OBJECT)
        return cp_fail(CP_BAD_INPUT, "%s: expected an object, found %s", json,
                       cp_json_kind_name(cp_json_kind_of(folder->json)));
    int count = scandir(path, &entries, is_safetensors, compare_entries);
    if (count < 0)
        return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    cp_status status = open_files(folder, entries, count);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return status;
}

static void folder_close(cp_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        cp_safetensors_close(folder->files[i]);
    cp_json_close(folder->json);
    cp_pool_close(&folder->pool);
    free(folder);
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* What of a tensor's name stands behind the group, "/" or "/grads"; NULL: it is none of its members. */
static const char *inside(const char *name, const char *group)
{
    size_t length = strlen(group + 1);
    if (length == 0)
        return name;
    return strncmp(name, group + 1, length) == 0 && name[length] == '/' ? name + length + 1 : NULL;
}

static void folder_look(const cp_folder *folder, const char *path, cp_h5_kind *kind)
{
    const cp_safetensors *file = NULL;
    *kind = strcmp(path, "/") == 0 ? CP_H5_GROUP : find(folder, path, &file) ? CP_H5_DATASET : CP_H5_NOTHING;
    for (size_t i = 0; *kind == CP_H5_NOTHING && i < folder->count; i++)
        for (size_t t = 0; *kind == CP_H5_NOTHING && t < folder->files[i]->count; t++)
            if (inside(folder->files[i]->tensors[t].name, path))
                *kind = CP_H5_GROUP;
}

static int compare_members(const void *a, const void *b)
{
    return strcmp(((const cp_h5_member *)a)->name, ((const cp_h5_member *)b)->name);
}

static cp_status folder_list(const cp_folder *folder, cp_pool *pool, const char *group,
                             const cp_h5_member **members, size_t *count)
{
    size_t room = 0, used = 0;
    void *memory;
    for (size_t i = 0; i < folder->count; i++)
        room += folder->files[i]->count;
    CP_TRY(cp_pool_take(pool, &memory, room + 1, sizeof(cp_h5_member)));
    cp_h5_member *list = memory;
    for (size_t i = 0; i < folder->count; i++) {
        for (size_t t = 0; t < folder->files[i]->count; t++) {
            const char *rest = inside(folder->files[i]->tensors[t].name, group);
            if (!rest)
                continue;
            size_t length = strcspn(rest, "/");
            list[used].kind = rest[length] ? CP_H5_GROUP : CP_H5_DATASET;
            CP_TRY(cp_pool_format(pool, &list[used].name, "%.*s", (int)length, rest));
            used++;
        }
    }
    qsort(list, used, sizeof *list, compare_members);
    *count = 0;
    for (size_t i = 0; i < used; i++) {
        cp_h5_member *last = *count > 0 ? &list[*count - 1] : NULL;
        if (!last || strcmp(last->name, list[i].name) != 0)
            list[(*count)++] = list[i];
        else if (last->kind != list[i].kind)
            return cp_fail(CP_BAD_INPUT, "%s: %s: %s: a tensor, and a group of others", folder->path, group,
                           last->name);
    }
    *members = list;
    return CP_OK;
}

static cp_status expect(const cp_folder *folder, const char *path, const cp_safetensor **tensor,
                        const cp_safetensors **file)
{
    cp_h5_kind kind;
    *tensor = find(folder, path, file);
    folder_look(folder, path, &kind);
    return *tensor ? CP_OK
                   : cp_fail(CP_BAD_INPUT, "%s: %s: expected a dataset, found %s", folder->path, path,
                             kind == CP_H5_GROUP ? "a group" : "nothing");
}

static cp_status folder_describe(const cp_folder *folder, const char *path, cp_h5_array *array)
{
    const cp_safetensor *tensor;
    const cp_safetensors *file = NULL;
    CP_TRY(expect(folder, path, &tensor, &file));
    *array =
        (cp_h5_array){.dtype = tensor->dtype, .dims = tensor->dims, .count = tensor->count, .offset = -1};
    memcpy(array->extent, tensor->extent, sizeof array->extent);
    return CP_OK;
}

static cp_status folder_read(const cp_folder *folder, const char *path, int64_t first, int64_t count,
                             void *out)
{
    const cp_safetensor *tensor;
    const cp_safetensors *file = NULL;
    CP_TRY(expect(folder, path, &tensor, &file));
    return cp_safetensors_read_some(file, tensor, first, count, out);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static const cp_json *attribute(const cp_folder *folder, const char *object, const char *name)
{
    const cp_json *owner = strcmp(object, "/") == 0 ? folder->json : cp_json_member(folder->json, object);
    return owner ? cp_json_member(owner, name) : NULL;
}

static cp_status another_type(const cp_folder *folder, const char *object, const char *name,
                              const char *expected, const cp_json *found)
{
    bool root = strcmp(object, "/") == 0;
    return cp_fail(CP_BAD_INPUT, "%s/dump.json: %s%sattribute %s: expected %s, found %s", folder->path,
                   root ? "" : object, root ? "" : ": ", name, expected,
                   cp_json_kind_name(cp_json_kind_of(found)));
}

static bool folder_has(const cp_folder *folder, const char *object, const char *name)
{
    return attribute(folder, object, name) != NULL;
}

static cp_status join_strings(const cp_folder *folder, cp_pool *pool, const char *name, const cp_json *list,
                              const char *behind, const char **out)
{
    size_t length = 1, count = cp_json_size(list);
    for (int filling = 0; filling < 2; filling++) {
        void *memory = NULL;
        if (filling)
            CP_TRY(cp_pool_take(pool, &memory, length, 1));
        char *end = memory;
        for (size_t i = 0; i < count; i++) {
            const cp_json *entry = cp_json_element(list, i);
            if (cp_json_kind_of(entry) != CP_JSON_STRING)
                return another_type(folder, "/", name, "strings", entry);
            if (filling)
                end = stpcpy(stpcpy(end, cp_json_string(entry)), behind);
            else
                length += strlen(cp_json_string(entry)) + strlen(behind);
        }
        *out = memory;
    }
    return CP_OK;
}

static cp_status folder_text(const cp_folder *folder, cp_pool *pool, const char *object, const char *name,
                             const char *behind, bool document, const char **out, bool *found)
{
    const cp_json *value = attribute(folder, object, name);
    *found = value != NULL;
    if (!value)
        return CP_OK;
    if (cp_json_kind_of(value) == CP_JSON_STRING)
        return cp_pool_format(pool, out, "%s%s", cp_json_string(value), behind);
    if (document) {
        char *text = cp_json_text(value);
        cp_status status = cp_pool_text(pool, out, text);
        free(text);
        return status;
    }
    if (*behind && cp_json_kind_of(value) == CP_JSON_ARRAY)
        return join_strings(folder, pool, name, value, behind, out);
    return another_type(folder, object, name, *behind ? "strings" : "one string", value);
}

static bool is_integer(const cp_json *value, int64_t *out)
{
    bool truth = cp_json_kind_of(value) == CP_JSON_BOOL;
    if (!truth && cp_json_kind_of(value) != CP_JSON_INTEGER)
        return false;
    *out = truth ? cp_json_bool(value) : cp_json_integer(value);
    return true;
}

static cp_status folder_integers(const cp_folder *folder, const char *object, const char *name, int64_t *out,
                                 int room, int *count, bool *found)
{
    const cp_json *value = attribute(folder, object, name);
    *found = value != NULL;
    *count = 0;
    if (!value)
        return CP_OK;
    const char *expected = room == 1 ? "one integer" : "a list of integers";
    if (is_integer(value, out)) {
        *count = 1;
        return CP_OK;
    }
    if (room == 1 || cp_json_kind_of(value) != CP_JSON_ARRAY || cp_json_size(value) > (size_t)room)
        return another_type(folder, object, name, expected, value);
    for (size_t i = 0; i < cp_json_size(value); i++)
        if (!is_integer(cp_json_element(value, i), &out[i]))
            return another_type(folder, object, name, expected, cp_json_element(value, i));
    *count = (int)cp_json_size(value);
    return CP_OK;
}

static cp_status folder_real(const cp_folder *folder, const char *object, const char *name, double *out,
                             bool *found)
{
    const cp_json *value = attribute(folder, object, name);
    *found = value != NULL;
    if (!value)
        return CP_OK;
    if (cp_json_kind_of(value) != CP_JSON_INTEGER && cp_json_kind_of(value) != CP_JSON_REAL)
        return another_type(folder, object, name, "one number", value);
    *out = cp_json_real(value);
    return CP_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static const cp_folder_calls CALLS = {folder_close,    folder_look, folder_list,
                                      folder_describe, folder_read, folder_text,
                                      folder_integers, folder_real, folder_has};

cp_status cp_folder_open(cp_h5 **out, const char *path)
{
    *out = NULL;
    cp_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return cp_fail(CP_INTERNAL, "%s: no memory to open it", path);
    cp_status status = read_folder(folder, path);
    if (status == CP_OK)
        status = cp_h5_wrap(out, -1, path, false, 0);
    if (status != CP_OK) {
        folder_close(folder);
        return status;
    }
    (*out)->folder = folder;
    (*out)->calls = &CALLS;
    return CP_OK;
}

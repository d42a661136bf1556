#include "harness/cli/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *cp_collected_name(const char *path)
{
    const char *end = path + strlen(path), *start = end;
    for (int slashes = 0; start > path; start--)
        if (start[-1] == '/' && ++slashes == 2)
            break;
    while (start[0] == '.' && (start[1] == '/' || (start[1] == '.' && start[2] == '/')))
        start += start[1] == '/' ? 2 : 3;
    if (end - start > 3 && strcmp(end - 3, ".h5") == 0)
        end -= 3;
    char *name = strndup(start, (size_t)(end - start));
    cp_check(name != NULL, "out of memory");
    return name;
}

static bool already_there(const cp_collection *collection, const char *path)
{
    for (int i = 0; i < collection->count; i++)
        if (strcmp(collection->files[i].path, path) == 0)
            return true;
    return false;
}

static void add_file(cp_collection *collection, const char *path, const char *glob)
{
    char *name = cp_collected_name(path);
    if (already_there(collection, path) || (glob != NULL && fnmatch(glob, name, 0) != 0)) {
        free(name);
        return;
    }
    int count = collection->count;
    if ((count & (count - 1)) == 0) { /* at 0, 1, 2, 4, …: room for twice as many */
        size_t room = count == 0 ? 1 : 2 * (size_t)count;
        collection->files = realloc(collection->files, room * sizeof *collection->files);
        cp_check(collection->files != NULL, "out of memory");
    }
    char *copy = strdup(path);
    cp_check(copy != NULL, "out of memory");
    collection->files[count] = (cp_collected){copy, name};
    collection->count++;
}

static bool ends_in(const char *path, const char *end)
{
    size_t length = strlen(path), part = strlen(end);
    return length > part && strcmp(path + length - part, end) == 0;
}

typedef bool is_wanted(const char *path);

static bool ends_in_h5(const char *path)
{
    return ends_in(path, ".h5");
}

static bool makes_a_dump(const char *path)
{
    return ends_in_h5(path) || ends_in(path, "/dump.json");
}

/* Names that begin with a dot are temporaries, or nobody's business. */
static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static cp_status add_folder(cp_collection *collection, const char *folder, const char *glob,
                            is_wanted *wanted)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_visible, by_bytes);
    if (count < 0)
        return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", folder, strerror(errno));
    cp_status status = CP_OK;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(folder) + strlen(entries[i]->d_name) + 2;
        char *path = malloc(length);
        cp_check(path != NULL, "out of memory");
        bool slash = folder[strlen(folder) - 1] == '/';
        snprintf(path, length, "%s%s%s", folder, slash ? "" : "/", entries[i]->d_name);
        struct stat about;
        if (status == CP_OK && lstat(path, &about) == 0) { /* a linked folder may be a circle: not followed */
            if (S_ISDIR(about.st_mode))
                status = add_folder(collection, path, glob, wanted);
            else if (wanted(path))
                add_file(collection, path, glob);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

cp_status cp_collect(cp_collection *collection, const char *const *operands, int count, const char *glob)
{
    *collection = (cp_collection){0};
    for (int i = 0; i < count; i++) {
        struct stat about;
        if (stat(operands[i], &about) != 0)
            return cp_fail(CP_BAD_INPUT, "'%s': cannot be read: %s", operands[i], strerror(errno));
        if (S_ISDIR(about.st_mode))
            CP_TRY(add_folder(collection, operands[i], glob, ends_in_h5));
        else
            add_file(collection, operands[i], glob);
    }
    return CP_OK;
}

cp_status cp_collect_dumps(cp_collection *collection, const char *folder)
{
    *collection = (cp_collection){0};
    return add_folder(collection, folder, NULL, makes_a_dump);
}

void cp_collection_close(cp_collection *collection)
{
    for (int i = 0; i < collection->count; i++) {
        free(collection->files[i].path);
        free(collection->files[i].name);
    }
    free(collection->files);
    *collection = (cp_collection){0};
}

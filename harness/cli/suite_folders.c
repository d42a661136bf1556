#include "harness/cli/suite_folders.h"

#include "harness/cli/collect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

cp_status cp_suite_add(cp_suite *suite, const cp_suite_row *row)
{
    if (suite->count == suite->room) {
        size_t room = 2 * suite->room + 16;
        cp_suite_row *longer = realloc(suite->rows, room * sizeof *longer);
        if (longer == NULL)
            return cp_fail(CP_INTERNAL, "memory: none for %zu rows of a suite", room);
        suite->rows = longer;
        suite->room = room;
    }
    suite->rows[suite->count++] = *row;
    return CP_OK;
}

cp_status cp_suite_path(cp_suite *suite, const char **out, const char *folder, const char *path)
{
    bool joined = path[0] != '/' && folder[0] != '\0';
    void *memory;
    CP_TRY(cp_pool_take(&suite->pool, &memory, strlen(folder) + strlen(path) + 2, 1));
    char *text = memory, *to = text;
    const char *pieces[] = {joined ? folder : "", joined ? "/" : "", path};
    for (int i = 0; i < 3; i++) {
        memcpy(to, pieces[i], strlen(pieces[i]));
        to += strlen(pieces[i]);
    }
    *to = '\0';
    const char *from = to = text;
    while (*from != '\0') {
        bool part = from == text || from[-1] == '/';
        if (part && from[0] == '.' && (from[1] == '/' || (from[1] == '\0' && to > text)))
            from += from[1] == '/' ? 2 : 1;
        else if (*from == '/' && to > text && to[-1] == '/')
            from++;
        else
            *to++ = *from++;
    }
    while (to - text > 1 && to[-1] == '/')
        to--;
    *to = '\0';
    if (to == text)
        strcpy(text, ".");
    *out = text;
    return CP_OK;
}

/* ---- names -------------------------------------------------------------------------------------------------------- */

static size_t without_h5(const char *path)
{
    size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".h5") == 0 ? length - 3 : length;
}

static bool same_but_h5(const char *a, const char *b)
{
    size_t length = without_h5(a);
    return length == without_h5(b) && strncmp(a, b, length) == 0;
}

/* `path` below `folder`. */
static const char *below(const char *path, const char *folder)
{
    const char *rest = path + strlen(folder);
    return *rest == '/' ? rest + 1 : rest;
}

/* Whether `path` is `folder`, or lies in it. */
static bool lies_in(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* ---- pairs -------------------------------------------------------------------------------------------------------- */

typedef struct pairing {
    cp_suite *suite;
    const cp_suite_folder *folders;
    size_t before;
} pairing;

static bool exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

/* A file comes before a folder of its name, whose files are extra then. */
static cp_status find_dump(pairing *self, cp_suite_row *row, const char *name)
{
    cp_pool *pool = &self->suite->pool;
    void *paths;
    const char *file, *folder;
    CP_TRY(cp_pool_take(pool, &paths, 1, sizeof *row->paths));
    CP_TRY(cp_pool_format(pool, &file, "%s/%s.h5", self->folders->dumps, name));
    CP_TRY(cp_pool_format(pool, &folder, "%s/%s", self->folders->dumps, name));
    bool one = exists(file);
    row->wanted = one ? file : folder;
    row->path_count = one || exists(folder);
    CP_TRY(cp_pool_format(pool, &row->absent, "%s: there is no such dump", row->wanted));
    ((const char **)paths)[0] = row->wanted;
    row->paths = paths;
    return CP_OK;
}

static bool holds(const cp_suite_row *row, const char *folder)
{
    for (size_t i = 0; i < row->path_count; i++) {
        if (lies_in(row->paths[i], folder))
            return true;
    }
    return false;
}

static bool stands_before(const pairing *self, const cp_suite_row *row)
{
    for (size_t i = 0; i < self->before; i++) {
        const cp_suite_row *other = &self->suite->rows[i];
        if (strcmp(other->expected, row->expected) == 0 &&
            (same_but_h5(other->wanted, row->wanted) || holds(other, row->wanted)))
            return true;
    }
    return false;
}

static cp_status add_pair(pairing *self, const char *path)
{
    cp_pool *pool = &self->suite->pool;
    cp_suite_row row = self->folders->common;
    const char *name = below(path, self->folders->fixtures);
    CP_TRY(cp_pool_format(pool, &name, "%.*s", (int)without_h5(name), name));
    CP_TRY(cp_pool_format(pool, &row.name, "%s%s", self->folders->prefix, name));
    CP_TRY(cp_pool_text(pool, &row.expected, path));
    CP_TRY(find_dump(self, &row, name));
    return stands_before(self, &row) ? CP_OK : cp_suite_add(self->suite, &row);
}

/* ---- what is left over -------------------------------------------------------------------------------------------- */

static bool belongs(const cp_suite *suite, const char *path)
{
    for (size_t i = 0; i < suite->count; i++) {
        const cp_suite_row *row = &suite->rows[i];
        for (size_t p = 0; p < row->path_count; p++) {
            if (lies_in(path, row->paths[p]))
                return true;
        }
        if (row->expected[0] == '\0' && lies_in(path, row->wanted)) /* an extra dump */
            return true;
    }
    return false;
}

/* Files of ranks lie in a folder that is theirs alone: they are one dump. So is what lies beside a dump.json. */
static size_t whole_folder(const pairing *self, const cp_collection *found, int first)
{
    const char *path = found->files[first].path;
    size_t folder = (size_t)(strrchr(path, '/') - path);
    if (folder <= strlen(self->folders->dumps))
        return 0;
    if (strcmp(path + folder, "/dump.json") == 0)
        return folder;
    for (int i = 0; i < found->count; i++) {
        const char *other = found->files[i].path;
        if (strncmp(other, path, folder + 1) == 0 &&
            (strchr(other + folder + 1, '/') != NULL || belongs(self->suite, other)))
            return 0;
    }
    return folder;
}

static bool is_taken(const cp_suite *suite, const char *name)
{
    for (size_t i = 0; i < suite->count; i++) {
        if (strcmp(suite->rows[i].name, name) == 0)
            return true;
    }
    return false;
}

static cp_status add_extra(pairing *self, const char *path, size_t length)
{
    cp_pool *pool = &self->suite->pool;
    const char *prefix = self->folders->prefix;
    cp_suite_row row = {.expected = "", .because = "", .says = ""};
    CP_TRY(cp_pool_format(pool, &row.wanted, "%.*s", (int)length, path));
    CP_TRY(cp_pool_format(pool, &row.absent, "%s: a dump that belongs to no fixture", row.wanted));
    const char *name = below(row.wanted, self->folders->dumps);
    CP_TRY(cp_pool_format(pool, &row.name, "%s%.*s", prefix, (int)without_h5(name), name));
    if (is_taken(self->suite, row.name)) /* by NAME.h5 beside a folder NAME */
        CP_TRY(cp_pool_format(pool, &row.name, "%s%s/", prefix, name));
    return cp_suite_add(self->suite, &row);
}

static cp_status add_extras(pairing *self, const cp_collection *found)
{
    for (int i = 0; i < found->count; i++) {
        const char *path = found->files[i].path;
        if (belongs(self->suite, path))
            continue;
        size_t folder = whole_folder(self, found, i);
        CP_TRY(add_extra(self, path, folder > 0 ? folder : strlen(path)));
    }
    return CP_OK;
}

/* ---- two folders -------------------------------------------------------------------------------------------------- */

static cp_status check_folder(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", path, strerror(errno));
    return S_ISDIR(about.st_mode) ? CP_OK
                                  : cp_fail(CP_BAD_INPUT, "%s: expected a folder, found a file", path);
}

cp_status cp_suite_add_pairs(cp_suite *suite, const cp_suite_folder *folders, size_t before)
{
    pairing self = {suite, folders, before};
    cp_collection expected = {0};
    CP_TRY(check_folder(folders->fixtures));
    CP_TRY(check_folder(folders->dumps));
    cp_status status = cp_collect(&expected, &folders->fixtures, 1, NULL);
    for (int i = 0; status == CP_OK && i < expected.count; i++)
        status = add_pair(&self, expected.files[i].path);
    cp_collection_close(&expected);
    return status;
}

cp_status cp_suite_add_extras(cp_suite *suite, const cp_suite_folder *folders)
{
    pairing self = {suite, folders, 0};
    cp_collection found = {0};
    cp_status status = cp_collect_dumps(&found, folders->dumps);
    if (status == CP_OK)
        status = add_extras(&self, &found);
    cp_collection_close(&found);
    return status;
}

cp_status cp_suite_folders(cp_suite *suite, const char *fixtures, const char *dumps)
{
    cp_suite_folder folders = {.prefix = "", .common = {.because = "", .says = ""}};
    CP_TRY(cp_suite_path(suite, &folders.fixtures, "", fixtures));
    CP_TRY(cp_suite_path(suite, &folders.dumps, "", dumps));
    CP_TRY(cp_suite_add_pairs(suite, &folders, 0));
    return cp_suite_add_extras(suite, &folders);
}

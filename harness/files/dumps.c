#include "harness/files/dump.h"
#include "harness/files/folder.h"
#include "harness/files/pool.h"
#include "harness/files/targets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Files to open; directories are replaced by what is in them. */
typedef struct file_list {
    cp_pool pool;
    const char **paths;
    size_t count, room;
} file_list;

static cp_status add_path(file_list *list, const char *path)
{
    if (list->count == list->room) {
        size_t room = 2 * list->room + 16;
        void *grown;
        CP_TRY(cp_pool_take(&list->pool, &grown, room, sizeof *list->paths));
        if (list->count > 0)
            memcpy(grown, list->paths, list->count * sizeof *list->paths);
        list->paths = grown;
        list->room = room;
    }
    return cp_pool_text(&list->pool, &list->paths[list->count++], path);
}

static int is_dump(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 3 && strcmp(entry->d_name + length - 3, ".h5") == 0;
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* alphasort would follow the locale */
}

static int is_folder(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !is_dump(entry);
}

/* Adds the members that `wanted` picks, and of these with `folders` those that are dumps of safetensors. */
static cp_status add_members(file_list *list, const char *directory, int (*wanted)(const struct dirent *),
                             bool folders)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, wanted, compare_entries);
    if (count < 0)
        return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", directory, strerror(errno));
    cp_status status = CP_OK;
    for (int i = 0; i < count; i++) {
        const char *path = "";
        if (status == CP_OK)
            status = cp_pool_format(&list->pool, &path, "%s/%s", directory, entries[i]->d_name);
        if (status == CP_OK && (!folders || cp_folder_is_one(path)))
            status = add_path(list, path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* A dump of safetensors; else all *.h5, and all folders that are such dumps. */
static cp_status add_directory(file_list *list, const char *directory)
{
    size_t before = list->count;
    bool one = cp_folder_is_one(directory);
    CP_TRY(add_members(list, directory, is_dump, false));
    if (one && list->count > before)
        return cp_fail(CP_INCOMPARABLE, "%s: dump.json beside *.h5: which of them is the dump?", directory);
    if (one)
        return add_path(list, directory);
    CP_TRY(add_members(list, directory, is_folder, true));
    return list->count > before ? CP_OK
                                : cp_fail(CP_INCOMPARABLE,
                                          "%s: expected dumps (*.h5) in the directory, or dump.json and "
                                          "*.safetensors, found none",
                                          directory);
}

static cp_status list_files(file_list *list, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct stat status;
        bool directory = stat(paths[i], &status) == 0 && S_ISDIR(status.st_mode);
        CP_TRY(directory ? add_directory(list, paths[i]) : add_path(list, paths[i]));
    }
    return CP_OK;
}

/* A step is trained on labels; an attention function knows none. */
static bool is_attention(const cp_batch *batch)
{
    return !batch->labels && !batch->shift_labels;
}

/* Said before the ranks are joined, where another step's tokens would be missed first. */
static cp_status check_step(const cp_source *part, const cp_batch *batch, const char *fixture_id)
{
    const char *own = part->declaration.fixture_id;
    if (fixture_id && part->declaration.cp_size > 1 && own[0] && strcmp(own, fixture_id) != 0)
        return cp_fail(CP_INCOMPARABLE, "%s: is of another fixture: %.12s…, expected %.12s…", part->label,
                       own, fixture_id);
    if (!batch || part->declaration.attention == is_attention(batch))
        return CP_OK;
    return cp_fail(CP_INCOMPARABLE,
                   part->declaration.attention ? "%s: is of kind \"attention\", expected a training step"
                                               : "%s: is of a training step, expected kind \"attention\"",
                   part->label);
}

/* What a loss is divided by, and whether the ranks have counted it right. */
static cp_status count_targets(cp_source *joined, const cp_batch *batch, cp_pool *pool)
{
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, (size_t)batch->B, (size_t)batch->T));
    uint8_t *is_target = memory;
    for (int64_t b = 0; b < batch->B; b++)
        for (int64_t t = 0; t < batch->T; t++)
            is_target[b * batch->T + t] = cp_batch_target(batch, b, t) != CP_IGNORED;
    cp_join_divide(joined, cp_batch_divisor(batch));
    return cp_join_count(joined, is_target);
}

cp_status cp_dumps_open(cp_source **out, const char *const *paths, size_t count, const cp_batch *batch,
                        const char *fixture_id)
{
    *out = NULL;
    file_list list = {0};
    void *memory = NULL;
    cp_status status = list_files(&list, paths, count);
    if (status == CP_OK)
        status = cp_pool_take(&list.pool, &memory, list.count, sizeof(cp_source *));
    cp_source **parts = memory;
    size_t opened = 0;
    while (status == CP_OK && opened < list.count) {
        status = cp_dump_open(&parts[opened], list.paths[opened]);
        opened += status == CP_OK;
        if (status == CP_OK)
            status = check_step(parts[opened - 1], batch, fixture_id);
    }
    if (status == CP_OK)
        status = cp_source_join(out, parts, opened, batch ? batch->B : 0, batch ? batch->T : 0);
    else
        for (size_t i = 0; i < opened; i++)
            cp_source_close(parts[i]);
    if (status == CP_OK && batch && !is_attention(batch))
        status = count_targets(*out, batch, &list.pool);
    if (status != CP_OK && *out) {
        cp_source_close(*out);
        *out = NULL;
    }
    cp_pool_close(&list.pool);
    return status;
}

#include "tests/run/golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void append(golden_list *list, const char *path)
{
    list->paths = realloc(list->paths, (list->count + 1) * sizeof *list->paths);
    assert_non_null(list->paths);
    list->paths[list->count++] = strdup(path);
}

static void walk(golden_list *list, const char *directory)
{
    DIR *stream = opendir(directory);
    if (!stream)
        fail_msg("%s: cannot be read", directory);
    for (struct dirent *entry; (entry = readdir(stream));) {
        char path[CP_RESULT_SENTENCE];
        struct stat status;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
            walk(list, path);
        else if (strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".h5") == 0)
            append(list, path);
    }
    closedir(stream);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

golden_list golden_all(void)
{
    golden_list list = {0};
    walk(&list, CPEQ_GOLDEN);
    qsort(list.paths, list.count, sizeof *list.paths, by_text);
    assert_in_range(list.count, 140, 10000);
    return list;
}

void golden_close(golden_list list)
{
    for (size_t n = 0; n < list.count; n++)
        free(list.paths[n]);
    free(list.paths);
}

const char *golden_name(const char *path)
{
    return path + strlen(CPEQ_GOLDEN) + 1;
}

golden_model golden_open(const char *path)
{
    golden_model golden = {0};
    assert_ok(cp_fixture_open(&golden.fixture, path));
    assert_ok(cp_model_open(&golden.model, golden.fixture));
    return golden;
}

void golden_release(golden_model golden)
{
    cp_model_close(golden.model);
    cp_fixture_close(golden.fixture);
}

bool golden_same(const golden_model *golden, const cp_run_options *options, double *worst, char *worst_name,
                 size_t bytes)
{
    cp_result result;
    cp_diff_options diff = {0};
    const char *name = golden_name(golden->fixture->path);
    cp_status status = cp_trial_run(&result, golden->model, golden->fixture, options, &diff);
    if (status != CP_OK) {
        print_error("%s: P %d: %s\n", name, options->P, cp_error());
        return false;
    }
    bool same = result.verdict == CP_SAME;
    for (size_t n = 0; n < result.failure_count; n++)
        print_error("%s: P %d: %s\n", name, options->P, result.failures[n]);
    for (size_t t = 0; t < result.count; t++) {
        const cp_tensor_result *tensor = &result.tensors[t];
        if (tensor->verdict != CP_SAME)
            print_error("%s: P %d: %s: %s\n", name, options->P, tensor->name, tensor->reason);
        if (!(tensor->scaled_error <= *worst)) {
            *worst = tensor->scaled_error;
            snprintf(worst_name, bytes, "%s P %d %s", name, options->P, tensor->name);
        }
    }
    cp_result_close(&result);
    return same;
}

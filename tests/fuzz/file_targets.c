#include "tests/fuzz/targets.h"

#include "harness/cli/hub.h"
#include "harness/files/dump.h"
#include "harness/files/fixture.h"
#include "harness/files/h5file.h"
#include "harness/files/safetensors.h"
#include "harness/judge/diff.h"
#include "harness/report/report.h"
#include "tests/fuzz/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ELEMENTS = 1 << 16 };

static char names[FUZZ_FILES][64];

static void remove_files(void)
{
    for (int i = 0; i < FUZZ_FILES; i++)
        if (names[i][0])
            unlink(names[i]);
}

/* A file with a name: the HDF5 library follows links, so one that is open and removed cannot be given to it. */
const char *fuzz_file(int which, const uint8_t *data, size_t size)
{
    if (!names[which][0]) {
        if (which == 0)
            atexit(remove_files);
        bool memory = access("/dev/shm", W_OK) == 0;
        snprintf(names[which], sizeof names[which], "%s/cpeq-fuzz-%ld-%d", memory ? "/dev/shm" : "/tmp",
                 (long)getpid(), which);
    }
    int descriptor = open(names[which], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (descriptor < 0 || (size > 0 && write(descriptor, data, size) != (ssize_t)size) ||
        close(descriptor) != 0)
        abort();
    return names[which];
}

/* ---- HDF5 -------------------------------------------------------------------------------------------------------- */

static double *room_for(const cp_source_tensor *tensor, int64_t *count)
{
    *count = 1;
    for (int axis = 0; axis < tensor->dims; axis++)
        if (__builtin_mul_overflow(*count, tensor->extent[axis], count))
            abort();
    return *count <= MOST_ELEMENTS ? calloc((size_t)*count + 1, sizeof(double)) : NULL;
}

static void read_source(const cp_source *source)
{
    int64_t count;
    for (size_t i = 0; i < source->count; i++) {
        double *out = room_for(&source->tensors[i], &count);
        if (out)
            (void)source->read(source, i, count / 2, count - count / 2, out);
        if (out)
            cp_source_read_all(source, i, out);
        free(out);
    }
    for (size_t i = 0; i < source->ran_count; i++) {
        double *out = source->ran[i].digest ? NULL : room_for(&source->ran[i].tensor, &count);
        if (out)
            (void)source->read_ran(source, i, 0, count, out);
        free(out);
    }
}

static void read_fixture(const cp_fixture *fixture)
{
    int64_t B = fixture->batch.B, T = fixture->batch.T, cells;
    bool found;
    if (!fixture->attention)
        (void)cp_batch_check(&fixture->batch, 16, "fuzz");
    if (__builtin_mul_overflow(T, T, &cells) || __builtin_mul_overflow(cells, B, &cells) ||
        cells > MOST_ELEMENTS)
        return;
    uint8_t *mask = calloc((size_t)cells + 1, 1);
    if (mask)
        (void)cp_fixture_mask(fixture, 0, mask, &found);
    free(mask);
    read_source(fixture->expected);
}

/* By the judge's own ways: windows, chunks, sums over ranks, several threads. */
static void judge(const cp_source *expected, const cp_source *actual, const cp_fixture *fixture)
{
    cp_result result;
    for (size_t i = 0; i < actual->count; i++) {
        int64_t count = 1;
        for (int axis = 0; axis < actual->tensors[i].dims; axis++)
            count *= actual->tensors[i].extent[axis];
        if (count > MOST_ELEMENTS)
            return;
    }
    if (cp_diff(&result, expected, actual, fixture, &(cp_diff_options){0}) != CP_OK)
        return;
    free(cp_report_result(&result, CP_REPORT_HTML, (cp_report_style){0}));
    cp_result_close(&result);
}

static void read_dump(const cp_source *source, const cp_fixture *fixture)
{
    read_source(source);
    judge(source, source, NULL);
    if (fixture && !fixture->attention)
        judge(fixture->expected, source, fixture);
}

void fuzz_read_files(const char *const *paths, size_t count)
{
    char kind[CP_KIND_TEXT];
    cp_fixture *fixture;
    cp_limits_file *limits;
    cp_source *source;
    (void)cp_file_kind(kind, paths[0]);
    if (cp_limits_file_open(&limits, paths[0]) == CP_OK)
        cp_limits_file_close(limits);
    bool have = cp_fixture_open(&fixture, paths[0]) == CP_OK;
    if (have)
        read_fixture(fixture);
    if (cp_dump_open(&source, paths[0]) == CP_OK) {
        read_source(source);
        cp_source_close(source);
    }
    if (cp_dumps_open(&source, paths, count, have ? &fixture->batch : NULL, NULL) == CP_OK) {
        read_dump(source, have ? fixture : NULL);
        cp_source_close(source);
    }
    if (have)
        cp_fixture_close(fixture);
}

void fuzz_recipe(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const char *paths[FUZZ_FILES];
    size_t count = 0;
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    for (const char *at = text; at && count < FUZZ_FILES; count++) {
        paths[count] = fuzz_file((int)count, NULL, 0);
        at = recipe_make(paths[count], at);
    }
    fuzz_read_files(paths, count);
    free(text);
}

/* dump.json up to a NUL, then the bytes of the tensors beside it. */
void fuzz_folder(const uint8_t *data, size_t size)
{
    static const char *const files[] = {"dump.json", "t.safetensors"};
    char folder[80], path[2][128];
    const uint8_t *end = memchr(data, 0, size);
    const size_t text = end ? (size_t)(end - data) : size;
    const void *from[] = {data, end ? end + 1 : data};
    const size_t bytes[] = {text, end ? size - text - 1 : 0};
    snprintf(folder, sizeof folder, "%s.d", fuzz_file(0, NULL, 0));
    if (mkdir(folder, 0700) != 0)
        abort();
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", folder, files[i]);
        FILE *file = fopen(path[i], "wb");
        if (!file || fwrite(from[i], 1, bytes[i], file) != bytes[i] || fclose(file) != 0)
            abort();
    }
    const char *opened = folder;
    fuzz_read_files(&opened, 1);
    for (int i = 0; i < 2; i++)
        unlink(path[i]);
    if (rmdir(folder) != 0)
        abort();
}

/* ---- bytes that the HDF5 library may not survive ------------------------------------------------------------------ */

enum { LIBRARY_DIED = 77, PATIENCE_SECONDS = 10 };

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(ADDRESS_SANITIZER)
void __sanitizer_set_death_callback(void (*callback)(void));
#else
#define __sanitizer_set_death_callback(callback) (void)(callback)
#endif

/* What dies inside the library is not this project's. */
static void end_quietly(void)
{
    if (cp_h5_being_read())
        _exit(LIBRARY_DIED);
}

static bool library_survives(const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
        signal(SIGALRM, SIG_DFL); /* the fuzzer's own handler would call it a find */
        alarm(PATIENCE_SECONDS);
        __sanitizer_set_death_callback(end_quietly);
        fuzz_read_files(&path, 1);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) /* by the fuzzer's own alarm */
        continue;
    bool died = WIFEXITED(status) && WEXITSTATUS(status) == LIBRARY_DIED;
    return !died && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

void fuzz_hdf5(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    if (library_survives(path))
        fuzz_read_files(&path, 1);
}

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

static void read_tensors(const cp_safetensors *file)
{
    for (size_t i = 0; i < file->count; i++) {
        const cp_safetensor *tensor = cp_safetensors_find(file, file->tensors[i].name);
        void *out = tensor ? malloc((size_t)tensor->bytes + 1) : NULL;
        if (!out)
            abort(); /* not found, or larger than its file */
        (void)cp_safetensors_read(file, tensor, out);
        free(out);
    }
}

void fuzz_safetensors(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    cp_safetensors *file;
    if (cp_safetensors_open(&file, path) != CP_OK)
        return;
    read_tensors(file);
    cp_safetensors_close(file);
    cp_arena arena = cp_arena_growing();
    cp_weight *weights;
    size_t count;
    cp_batch batch;
    (void)cp_hub_read_weights(&weights, &count, path, &arena);
    if (cp_hub_read_batch(&batch, path, &arena) == CP_OK)
        (void)cp_batch_check(&batch, 16, "fuzz");
    cp_arena_close(&arena);
}

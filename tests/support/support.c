#include "tests/support/support.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- statuses ---------------------------------------------------------------------------------------------------- */

void test_assert_ok(cp_status status, const char *call, const char *file, int line)
{
    if (status == CP_OK)
        return;
    print_error("%s: status %d: %s\n", call, (int)status, cp_error());
    _fail(file, line);
}

void test_assert_text_holds(const char *text, const char *words, const char *file, int line)
{
    if (strstr(text, words))
        return;
    print_error("\"%s\"\ndoes not hold \"%s\"\n", text, words);
    _fail(file, line);
}

void test_assert_status(cp_status status, cp_status code, const char *words, const char *call,
                        const char *file, int line)
{
    if (status != code) {
        print_error("%s: status %d (%s), expected %d (\"%s\")\n", call, (int)status,
                    status == CP_OK ? "no failure" : cp_error(), (int)code, words);
        _fail(file, line);
    }
    test_assert_text_holds(cp_error(), words, file, line);
}

/* The child's standard error is `pipe`; a body that returns ends it with 0. */
static _Noreturn void run_and_leave(void (*body)(void *argument), void *argument, const int pipe[2])
{
    dup2(pipe[1], STDERR_FILENO);
    close(pipe[0]);
    body(argument);
    _exit(0);
}

static void read_text(int descriptor, char *text, size_t bytes)
{
    size_t used = 0;
    ssize_t got;
    while (used < bytes - 1 && (got = read(descriptor, text + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
}

void test_assert_stops(void (*body)(void *argument), void *argument, const char *words, const char *file,
                       int line)
{
    enum { EXIT_OF_PANIC = 4, TEXT_BYTES = 8192 };
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0)
        _fail(file, line);
    pid_t child = fork();
    if (child == 0)
        run_and_leave(body, argument, ends);
    close(ends[1]);
    char text[TEXT_BYTES];
    read_text(ends[0], text, sizeof text);
    close(ends[0]);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        _fail(file, line);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_OF_PANIC) {
        print_error("it did not stop the job (wait status %d): \"%s\"\n", status, text);
        _fail(file, line);
    }
    test_assert_text_holds(text, words, file, line);
}

/* ---- randomness and files ---------------------------------------------------------------------------------------- */

uint64_t test_seed(void)
{
    enum { USUAL_SEED = 20240607 };
    const char *given = getenv("CPEQ_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : USUAL_SEED;
    print_message("CPEQ_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static char *joined(const char *directory, const char *name)
{
    size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = malloc(bytes);
    cp_check(path, "%zu bytes", bytes);
    snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

char *test_new_directory(void)
{
    const char *parent = getenv("TMPDIR");
    char *path = joined(parent ? parent : "/tmp", "cpeq-test-XXXXXX");
    cp_check(mkdtemp(path), "%s cannot be made", path);
    return path;
}

void test_remove_directory(char *path)
{
    DIR *directory = opendir(path);
    cp_check(directory, "%s cannot be opened", path);
    const struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *inside = joined(path, entry->d_name);
        struct stat about;
        if (lstat(inside, &about) == 0 && S_ISDIR(about.st_mode)) {
            test_remove_directory(inside);
        } else {
            unlink(inside);
            free(inside);
        }
    }
    closedir(directory);
    rmdir(path);
    free(path);
}

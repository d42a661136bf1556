#include "harness/files/dump.h"
#include "harness/files/safetensors.h"

#include "tests/files/groups.h"
#include "tests/support/support.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

static void committed(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], temporary[CP_PATH_BYTES];
    snprintf(path, sizeof path, "%s/a.h5", directory);
    assert_ok(cp_temporary_name(temporary, path));
    assert_int_equal(strncmp(temporary, path, strlen(path)),
                     0); /* beside it: rename does not cross file systems */
    write_text(path, "old");
    write_text(temporary, "new");
    assert_ok(cp_temporary_commit(temporary, path));
    assert_false(exists(temporary));
    char text[8] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "new");
    test_remove_directory(directory);
}

/* The id of a process that has ended. */
static long dead_process(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return (long)child;
}

static void stale_ones_are_swept(void **state)
{
    (void)state;
    char *directory = test_new_directory();
    long dead = dead_process();
    const struct {
        const char *name;
        long process;
        const char *suffix;
        bool swept;
    } cases[] = {
        {"a.h5", dead, ".tmp", true},
        {"a.h5", 1, ".tmp", false}, /* alive */
        {"a.h5", (long)getpid(), ".tmp", false},
        {"b.h5", dead, ".tmp", false}, /* another file's */
        {"a.h5", dead, ".tmp.old", false},
        {"a.h5x", dead, ".tmp", false},
    };
    char path[CP_PATH_BYTES], temporary[CP_PATH_BYTES], beside[CP_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(beside, sizeof beside, "%s/%s.%ld%s", directory, cases[i].name, cases[i].process,
                 cases[i].suffix);
        write_text(beside, "half");
    }
    snprintf(path, sizeof path, "%s/a.h5", directory);
    assert_ok(cp_temporary_name(temporary, path));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(beside, sizeof beside, "%s/%s.%ld%s", directory, cases[i].name, cases[i].process,
                 cases[i].suffix);
        assert_int_equal(exists(beside), !cases[i].swept);
    }
    test_remove_directory(directory);
}

static void failures(void **state)
{
    (void)state;
    char temporary[CP_PATH_BYTES], path[CP_PATH_BYTES + 8];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_status(cp_temporary_name(temporary, path), CP_BAD_INPUT, "expected the name of a file");
    assert_status(cp_temporary_name(temporary, ""), CP_BAD_INPUT, "expected the name of a file");
    assert_status(cp_temporary_name(temporary, "directory/"), CP_BAD_INPUT, "expected the name of a file");
    assert_status(cp_temporary_commit("/nowhere/a.h5.1.tmp", "/nowhere/a.h5"), CP_INTERNAL, "/nowhere/a.h5");
    cp_source source = {.declaration = cp_declaration_whole()};
    assert_status(cp_dump_write("/nowhere/a.h5", &source), CP_INTERNAL, "/nowhere/a.h5");
}

/* Where files may grow to 4 KiB only, a dump of more than that cannot be completed: nothing of it stays. */
static void disk_full(void *unused)
{
    (void)unused;
    enum { LONG = 4096 };
    static double values[LONG];
    const cp_memory_tensor tensor = {"grads/w", CP_VIEW(values, CP_F64, LONG), false};
    const struct rlimit limit = {4096, 4096};
    cp_declaration said = cp_declaration_whole();
    cp_source *source;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES];
    snprintf(path, sizeof path, "%s/a.h5", directory);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    cp_status dump = cp_source_memory(&source, "run", &said, &tensor, 1);
    dump = dump == CP_OK ? cp_dump_write(path, source) : dump;
    cp_source_close(source);
    cp_status tensors = cp_safetensors_write(path, &tensor, 1);
    bool empty = rmdir(directory) == 0;
    fprintf(stderr, "dump %d, safetensors %d, %s", (int)dump, (int)tensors,
            empty ? "nothing stays" : "something stays");
    _exit(4);
}

static void nothing_stays_where_the_disk_is_full(void **state)
{
    (void)state;
    assert_stops(disk_full, NULL, "dump 5, safetensors 5, nothing stays"); /* CP_INTERNAL */
}

/* ---- a process that is killed ------------------------------------------------------------------------------------ */

/* Reads the loss; whoever asks for more is killed in the middle of what he writes. */
static cp_status read_and_die(const cp_source *source, size_t tensor, int64_t first, int64_t count,
                              double *out)
{
    (void)first;
    (void)count;
    if (strcmp(source->tensors[tensor].name, "loss") != 0)
        raise(SIGKILL);
    *out = 1;
    return CP_OK;
}

static size_t names_in(const char *directory)
{
    size_t count = 0;
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

static void a_killed_writer_leaves_the_old_file(void **state)
{
    (void)state;
    const cp_source_tensor tensors[] = {{.name = "loss", .dtype = CP_F64},
                                        {.name = "token_loss", .dtype = CP_F64, .dims = 2, .extent = {1, 4}}};
    cp_source dying = {.declaration = cp_declaration_whole(), .count = 2, .tensors = tensors, .notes = ""};
    cp_source whole = dying, *read;
    double loss;
    char *directory = test_new_directory();
    char path[CP_PATH_BYTES], temporary[CP_PATH_BYTES];
    dying.read = whole.read = read_and_die;
    whole.count = 1;
    snprintf(path, sizeof path, "%s/a.h5", directory);
    assert_ok(cp_dump_write(path, &whole));
    pid_t child = fork();
    if (child == 0) {
        (void)cp_dump_write(path, &dying);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(names_in(directory), 2); /* the old file, and what was begun */
    assert_ok(cp_dump_open(&read, path));
    assert_int_equal(read->count, 1);
    assert_ok(cp_source_read_all(read, 0, &loss));
    cp_source_close(read);
    assert_ok(cp_temporary_name(temporary, path)); /* as the next writer */
    assert_int_equal(names_in(directory), 1);
    test_remove_directory(directory);
}

int temporary_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(committed), cmocka_unit_test(stale_ones_are_swept),
                                       cmocka_unit_test(failures),
                                       cmocka_unit_test(nothing_stays_where_the_disk_is_full),
                                       cmocka_unit_test(a_killed_writer_leaves_the_old_file)};
    return cmocka_run_group_tests_name("temporary", tests, NULL, NULL);
}

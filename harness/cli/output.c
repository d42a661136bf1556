#include "harness/cli/output.h"

#include "harness/files/dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static cp_status write_text(const char *shown, const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return cp_fail(CP_INTERNAL, "%s: cannot be written: %s", shown, strerror(errno));
    bool written = fputs(text, file) != EOF && fflush(file) == 0;
    int reason = errno;
    if (fclose(file) != 0 && written) {
        written = false;
        reason = errno;
    }
    return written ? CP_OK : cp_fail(CP_INTERNAL, "%s: cannot be written: %s", shown, strerror(reason));
}

static bool is_special(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && !S_ISREG(about.st_mode);
}

cp_status cp_write_report(const char *path, const char *text)
{
    if (is_special(path))
        return write_text(path, path, text);
    char temporary[CP_PATH_BYTES];
    CP_TRY(cp_temporary_name(temporary, path));
    cp_status status = write_text(path, temporary, text);
    if (status == CP_OK)
        status = cp_temporary_commit(temporary, path);
    if (status != CP_OK)
        unlink(temporary);
    return status;
}

static bool same_file(const char *a, const char *b)
{
    struct stat about_a, about_b;
    return stat(a, &about_a) == 0 && stat(b, &about_b) == 0 && about_a.st_dev == about_b.st_dev &&
           about_a.st_ino == about_b.st_ino;
}

cp_status cp_target_check(const char *path, const char *input)
{
    if (same_file(path, input))
        return cp_fail(CP_BAD_USAGE, "%s: is the input %s itself; choose another output", path, input);
    if (is_special(path))
        return cp_fail(CP_INTERNAL, "%s: cannot be written: it is not a regular file", path);
    char folder[CP_PATH_BYTES];
    if ((size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder)
        return cp_fail(CP_BAD_USAGE, "%.60s…: a path of more than %d characters", path, CP_PATH_BYTES);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return CP_OK;
    *(slash == folder ? slash + 1 : slash) = '\0';
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode))
        return cp_fail(CP_INTERNAL, "%s: cannot be written: there is no folder %s", path, folder);
    return CP_OK;
}

cp_status cp_make_folder(const char *path)
{
    char part[CP_PATH_BYTES];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return cp_fail(CP_BAD_USAGE, "%.60s…: a path of more than %d characters", path, CP_PATH_BYTES);
    for (char *slash = part; slash != NULL;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return cp_fail(CP_INTERNAL, "%s: cannot be made: %s", part, strerror(errno));
        if (slash != NULL)
            *slash = '/';
    }
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return cp_fail(CP_INTERNAL, "%s: cannot be made: it exists and is no folder", path);
    return CP_OK;
}

void cp_print_json(cp_json *document)
{
    char *text = cp_json_text(document);
    printf("%s\n", text);
    free(text);
    cp_json_close(document);
}

cp_status cp_standard_output_check(void)
{
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        return cp_fail(CP_INTERNAL, "standard output: cannot be written: %s",
                       errno != 0 ? strerror(errno) : "an earlier write failed");
    return CP_OK;
}

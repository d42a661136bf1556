#include "harness/files/dump.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char suffix[] = ".tmp";

/* "name.<pid>.tmp" of a process that is no more. */
static bool is_stale(const char *entry, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(entry, name, length) != 0 || entry[length] != '.')
        return false;
    const char *digits = entry + length + 1;
    size_t digit_count = strspn(digits, "0123456789");
    if (digit_count == 0 || digit_count > 9 || strcmp(digits + digit_count, suffix) != 0)
        return false;
    long pid = strtol(digits, NULL, 10);
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* The directory of `path` ("." where it names none) and the name in it. */
static const char *split(char directory[CP_PATH_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(directory, CP_PATH_BYTES, ".");
    else
        snprintf(directory, CP_PATH_BYTES, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return slash ? slash + 1 : path;
}

static void sweep(const char *path)
{
    char directory[CP_PATH_BYTES];
    const char *name = split(directory, path);
    DIR *entries = opendir(directory);
    if (!entries)
        return;
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        char stale[CP_PATH_BYTES + sizeof entry->d_name];
        if (!is_stale(entry->d_name, name))
            continue;
        snprintf(stale, sizeof stale, "%s/%s", directory, entry->d_name);
        unlink(stale);
    }
    closedir(entries);
}

cp_status cp_temporary_name(char out[CP_PATH_BYTES], const char *path)
{
    int length = snprintf(out, CP_PATH_BYTES, "%s.%ld%s", path, (long)getpid(), suffix);
    const char *slash = strrchr(path, '/');
    if (length >= CP_PATH_BYTES || path[0] == '\0' || (slash && slash[1] == '\0'))
        return cp_fail(CP_BAD_INPUT, "\"%.64s\": expected the name of a file, shorter than %d bytes", path,
                       CP_PATH_BYTES);
    sweep(path);
    return CP_OK;
}

static bool sync_path(const char *path, int flags)
{
    int descriptor = open(path, flags);
    if (descriptor < 0)
        return false;
    bool done = fsync(descriptor) == 0;
    close(descriptor);
    return done;
}

cp_status cp_temporary_commit(const char *temporary, const char *path)
{
    if (!sync_path(temporary, O_RDWR) || rename(temporary, path) != 0) {
        cp_status status = cp_fail(CP_INTERNAL, "%s: cannot be written: %s", path, strerror(errno));
        unlink(temporary);
        return status;
    }
    char directory[CP_PATH_BYTES];
    split(directory, path);
    sync_path(directory, O_RDONLY); /* some file systems cannot; the file itself is complete either way */
    return CP_OK;
}

cp_status cp_temporary_reserve(const char *temporary, const char *like)
{
    struct stat wanted, have;
    int descriptor = open(temporary, O_WRONLY);
    bool known = descriptor >= 0 && stat(like, &wanted) == 0 && fstat(descriptor, &have) == 0;
    int error = known ? posix_fallocate(descriptor, have.st_size, wanted.st_size) : errno;
    if (known && ftruncate(descriptor, have.st_size) != 0)
        error = errno;
    if (descriptor >= 0)
        close(descriptor);
    return error == 0 ? CP_OK : cp_fail(CP_INTERNAL, "%s: cannot be written: %s", temporary, strerror(error));
}

void cp_temporary_discard(const char *temporary)
{
    unlink(temporary);
}

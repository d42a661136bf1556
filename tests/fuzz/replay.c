/* replay CORPUS [OUT]: every target over every file of its folder in CORPUS; with OUT, makes the first file of every
 * recipe there too, for the fuzzer of bytes to begin with. */
#include "tests/fuzz/recipe.h"
#include "tests/fuzz/targets.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024 };

static const struct {
    const char *folder;
    fuzz_target *target;
} targets[] = {
    {"json", fuzz_json},         {"config", fuzz_config},       {"suite", fuzz_suite},
    {"name_map", fuzz_name_map}, {"arguments", fuzz_arguments}, {"safetensors", fuzz_safetensors},
    {"folder", fuzz_folder},     {"recipe", fuzz_recipe},       {"hdf5", fuzz_hdf5},
};

static uint8_t *read_bytes(const char *path, size_t *size)
{
    enum { MOST_BYTES = 1 << 20 };
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = calloc(MOST_BYTES + 1, 1);
    if (!file || !bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    *size = fread(bytes, 1, MOST_BYTES, file);
    fclose(file);
    uint8_t *exact = malloc(*size + 1); /* so that a reader's step too far is seen */
    if (!exact)
        exit(2);
    memcpy(exact, bytes, *size + 1);
    free(bytes);
    return exact;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* How many files there were. */
static int replay(const char *corpus, size_t which, const char *out)
{
    char path[PATH_BYTES], made[PATH_BYTES];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", corpus, targets[which].folder);
    int count = scandir(path, &entries, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        size_t size;
        snprintf(path, sizeof path, "%s/%s/%s", corpus, targets[which].folder, entries[i]->d_name);
        snprintf(made, sizeof made, "%s/%s.h5", out ? out : "", entries[i]->d_name);
        uint8_t *bytes = read_bytes(path, &size);
        printf("%s\n", path);
        fflush(stdout); /* the last line is the one that stopped it */
        targets[which].target(bytes, size);
        if (out && targets[which].target == fuzz_recipe)
            recipe_make(made, (const char *)bytes);
        free(bytes);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return count;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s CORPUS [OUT]\n", argv[0]);
        return 3;
    }
    bool complete = true;
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
        if (replay(argv[1], t, argc > 2 ? argv[2] : NULL) <= 0) {
            fprintf(stderr, "%s/%s: expected files\n", argv[1], targets[t].folder);
            complete = false;
        }
    return complete ? 0 : 1;
}

#include "harness/files/prefixes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    bool anywhere; /* before any component; else only before the whole name */
} prefixes[] = {
    {"module.", false},
    {"base_model.model.", false},
    {"_orig_mod.", true},
    {"_fsdp_wrapped_module.", true},
    {"_checkpoint_wrapped_module.", true},
};
enum { PREFIXES = sizeof prefixes / sizeof *prefixes };

/* `dropped` gathers which prefixes there were. */
static void strip(char out[CP_NAME_BYTES], const char *name, bool dropped[PREFIXES])
{
    char *end = out;
    bool component = true; /* a component begins here */
    while (*name) {
        size_t skipped = 0;
        for (int p = 0; component && !skipped && p < PREFIXES; p++) {
            size_t length = strlen(prefixes[p].text);
            if ((prefixes[p].anywhere || end == out) && strncmp(name, prefixes[p].text, length) == 0) {
                skipped = length;
                dropped[p] = true;
            }
        }
        name += skipped;
        if (skipped)
            continue;
        component = *name == '.';
        *end++ = *name++;
    }
    *end = '\0';
}

void cp_prefixes_bare(char bare[CP_NAME_BYTES], const char *name)
{
    bool dropped[PREFIXES];
    strip(bare, name, dropped);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool are_unique(const char **sorted, size_t count)
{
    qsort(sorted, count, sizeof *sorted, compare_texts);
    for (size_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return false;
    return true;
}

static cp_status note(cp_results *results, cp_pool *pool, const bool dropped[PREFIXES], bool unique)
{
    char list[256];
    size_t used = 0;
    for (int p = 0; p < PREFIXES; p++)
        if (dropped[p])
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", prefixes[p].text);
    return used == 0
               ? CP_OK
               : cp_pool_format(pool, &results->source.notes,
                                unique ? "%snames of gradients: dropped %s\n"
                                       : "%snames of gradients: kept %s, without which two would be one\n",
                                results->source.notes, list);
}

static cp_status strip_absent(cp_pool *pool, const char **absent, bool dropped[PREFIXES])
{
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, strlen(*absent) + 1, 1));
    char *end = memory;
    char line[CP_NAME_BYTES], bare[CP_NAME_BYTES];
    for (const char *cursor = *absent; cp_lines_next(&cursor, line);) {
        strip(bare, line, dropped);
        end += sprintf(end, "%s\n", bare);
    }
    *absent = memory;
    return CP_OK;
}

/* The length of what stands before the name of a parameter; 0: it is not a parameter's. */
static size_t group_of(const char *name)
{
    static const char *const groups[] = {"grads/", "grads_partial/"};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        if (strncmp(name, groups[g], strlen(groups[g])) == 0)
            return strlen(groups[g]);
    return 0;
}

cp_status cp_prefixes_drop(cp_results *results, cp_pool *pool, const char **absent)
{
    size_t count = results->source.count;
    void *named_memory, *sorted_memory;
    CP_TRY(cp_pool_take(pool, &named_memory, count, sizeof(char *)));
    CP_TRY(cp_pool_take(pool, &sorted_memory, count, sizeof(char *)));
    const char **named = named_memory, **sorted = sorted_memory;
    bool dropped[PREFIXES] = {false};
    for (size_t i = 0; i < count; i++) {
        const char *name = results->tensors[i].name;
        sorted[i] = named[i] = name;
        size_t group = group_of(name);
        if (group == 0)
            continue;
        char bare[CP_NAME_BYTES];
        strip(bare, name + group, dropped);
        CP_TRY(cp_pool_format(pool, &named[i], "%.*s%s", (int)group, name, bare));
        sorted[i] = named[i];
    }
    const char *bare_absent = *absent;
    CP_TRY(strip_absent(pool, &bare_absent, dropped));
    bool unique = are_unique(sorted, count);
    CP_TRY(note(results, pool, dropped, unique));
    if (!unique)
        return CP_OK;
    *absent = bare_absent;
    for (size_t i = 0; i < count; i++)
        results->tensors[i].name = named[i];
    return cp_results_sort(results, pool);
}

/* ---- declared prefixes -------------------------------------------------------------------------------------------- */

static const char *skip_declared(const char *name, const char *declared)
{
    char prefix[CP_NAME_BYTES];
    for (const char *at = declared; cp_lines_next(&at, prefix);) {
        size_t length = strlen(prefix);
        if (length > 0 && strncmp(name, prefix, length) == 0 && name[length]) {
            name += length;
            at = declared; /* what was behind it may begin with another */
        }
    }
    return name;
}

cp_status cp_prefixes_strip(cp_results *results, cp_pool *pool, const char **absent, const char *declared)
{
    size_t stripped = 0;
    if (!*declared)
        return CP_OK;
    for (size_t i = 0; i < results->source.count; i++) {
        const char *name = results->tensors[i].name;
        size_t group = group_of(name);
        const char *bare = group > 0 ? skip_declared(name + group, declared) : name;
        if (group == 0 || bare == name + group)
            continue;
        CP_TRY(cp_pool_format(pool, &results->tensors[i].name, "%.*s%s", (int)group, name, bare));
        stripped++;
    }
    void *lines;
    char line[CP_NAME_BYTES];
    CP_TRY(cp_pool_take(pool, &lines, strlen(*absent) + 1, 1));
    char *end = lines;
    for (const char *at = *absent; cp_lines_next(&at, line);)
        end += sprintf(end, "%s\n", skip_declared(line, declared));
    *absent = lines;
    CP_TRY(cp_pool_format(pool, &results->source.notes,
                          "%snames of %zu gradients: dropped what strip declares\n", results->source.notes,
                          stripped));
    return cp_results_sort(results, pool);
}

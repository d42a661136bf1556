#include "harness/cli/suite.h"

#include "harness/cli/suite_folders.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- an entry, as it is written ----------------------------------------------------------------------------------- */

enum { PLACE_BYTES = 512 };

typedef struct entry {
    char place[PLACE_BYTES]; /* "suite.json: [2]" */
    const char *name, *fixture, *expected, *fixtures, *dumps, *only, *limits, *expect, *because, *says;
    const cp_json *dump;
    double rtol, atol; /* negative: not given */
    int64_t count;     /* 0: not given */
} entry;

typedef struct property {
    const char *name;
    size_t at; /* in entry */
    enum { TEXT, REAL, COUNT, DUMP } kind;
} property;

static const property PROPERTIES[] = {
    {"name", offsetof(entry, name), TEXT},         {"fixture", offsetof(entry, fixture), TEXT},
    {"expected", offsetof(entry, expected), TEXT}, {"dump", offsetof(entry, dump), DUMP},
    {"count", offsetof(entry, count), COUNT},      {"fixtures", offsetof(entry, fixtures), TEXT},
    {"dumps", offsetof(entry, dumps), TEXT},       {"only", offsetof(entry, only), TEXT},
    {"rtol", offsetof(entry, rtol), REAL},         {"atol", offsetof(entry, atol), REAL},
    {"limits", offsetof(entry, limits), TEXT},     {"expect", offsetof(entry, expect), TEXT},
    {"because", offsetof(entry, because), TEXT},   {"says", offsetof(entry, says), TEXT},
};
enum { PROPERTY_COUNT = sizeof PROPERTIES / sizeof *PROPERTIES };

static cp_status unexpected(const entry *self, const char *name, const cp_json *value, const char *expected)
{
    return cp_fail(CP_BAD_INPUT, "%s.%s: found %s, expected %s", self->place, name,
                   cp_json_kind_name(cp_json_kind_of(value)), expected);
}

static bool is_text(const cp_json *value)
{
    return cp_json_kind_of(value) == CP_JSON_STRING && cp_json_string(value)[0] != '\0';
}

static bool is_dump(const cp_json *value)
{
    bool list = cp_json_kind_of(value) == CP_JSON_ARRAY;
    for (size_t i = 0; list && i < cp_json_size(value); i++) {
        if (!is_text(cp_json_element(value, i)))
            return false;
    }
    return list ? cp_json_size(value) > 0 : is_text(value);
}

static cp_status read_property(entry *self, const property *what, const cp_json *value)
{
    void *to = (char *)self + what->at;
    cp_json_kind kind = cp_json_kind_of(value);
    switch (what->kind) {
    case TEXT:
        if (!is_text(value))
            return unexpected(self, what->name, value, "a text that is not empty");
        *(const char **)to = cp_json_string(value);
        break;
    case REAL:
        if ((kind != CP_JSON_INTEGER && kind != CP_JSON_REAL) || !(cp_json_real(value) >= 0) ||
            !isfinite(cp_json_real(value)))
            return unexpected(self, what->name, value, "a number that is not negative");
        *(double *)to = cp_json_real(value);
        break;
    case COUNT:
        if (kind != CP_JSON_INTEGER || cp_json_integer(value) < 1)
            return unexpected(self, what->name, value, "a whole number above 0");
        *(int64_t *)to = cp_json_integer(value);
        break;
    case DUMP:
        if (!is_dump(value))
            return unexpected(self, what->name, value, "a path, or a list of those of all ranks");
        *(const cp_json **)to = value;
        break;
    }
    return CP_OK;
}

static cp_status no_such_property(const entry *self, const char *name)
{
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < PROPERTY_COUNT && used < sizeof list; i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", PROPERTIES[i].name);
    return cp_fail(CP_BAD_INPUT, "%s.%.60s: no such property; there are %s", self->place, name, list);
}

static cp_status read_properties(entry *self, const cp_json *object)
{
    if (cp_json_kind_of(object) != CP_JSON_OBJECT)
        return cp_fail(CP_BAD_INPUT, "%s: found %s, expected an object", self->place,
                       cp_json_kind_name(cp_json_kind_of(object)));
    void *at = NULL;
    const char *name;
    for (const cp_json *value; (value = cp_json_next(object, &at, &name)) != NULL;) {
        size_t p = 0;
        while (p < PROPERTY_COUNT && strcmp(PROPERTIES[p].name, name) != 0)
            p++;
        if (p == PROPERTY_COUNT)
            return no_such_property(self, name);
        CP_TRY(read_property(self, &PROPERTIES[p], value));
    }
    return CP_OK;
}

static bool is_pair(const entry *self)
{
    return self->fixtures != NULL || self->dumps != NULL;
}

static cp_status check_entry(const entry *self)
{
    const char *place = self->place;
    bool of_its_own = self->dump != NULL || self->fixture != NULL || self->expected != NULL;
    if (is_pair(self) && of_its_own)
        return cp_fail(CP_BAD_INPUT, "%s: two folders (fixtures, dumps) leave no room for a dump of its own",
                       place);
    if (is_pair(self) && (self->fixtures == NULL || self->dumps == NULL))
        return cp_fail(CP_BAD_INPUT, "%s: expected both folders, fixtures and dumps", place);
    if (!is_pair(self) && self->dump == NULL)
        return cp_fail(CP_BAD_INPUT, "%s: expected a dump, or two folders, fixtures and dumps", place);
    if (!is_pair(self) && self->fixture == NULL && self->expected == NULL)
        return cp_fail(CP_BAD_INPUT, "%s: expected what the dump is held against: a fixture, or expected",
                       place);
    if (self->count > 0 && (self->dump == NULL || cp_json_kind_of(self->dump) == CP_JSON_ARRAY))
        return cp_fail(CP_BAD_INPUT, "%s.count: of the dumps that fit one pattern, and there is none", place);
    if (self->limits != NULL && (self->rtol >= 0 || self->atol >= 0))
        return cp_fail(CP_BAD_INPUT, "%s.limits: not with rtol or atol", place);
    if (self->expect == NULL && (self->because != NULL || self->says != NULL))
        return cp_fail(CP_BAD_INPUT, "%s: because and says are of what is expected, and there is no expect",
                       place);
    return CP_OK;
}

/* ---- its rows ----------------------------------------------------------------------------------------------------- */

typedef struct reading {
    cp_suite *suite;
    const char *folder;
    entry *entries;
    size_t count;
} reading;

static cp_status read_expectation(cp_suite *suite, cp_suite_row *row, const entry *self)
{
    if (self->expect == NULL)
        return CP_OK;
    int known = CP_GATE_SAME;
    while (known <= CP_GATE_MISSING &&
           strcmp(self->expect, cp_gate_outcome_name((cp_gate_outcome)known)) != 0)
        known++;
    if (known > CP_GATE_MISSING)
        return cp_fail(CP_BAD_INPUT,
                       "%s.expect: '%.60s', expected same, different, not comparable or missing", self->place,
                       self->expect);
    if (known != CP_GATE_SAME && self->because == NULL)
        return cp_fail(CP_BAD_INPUT, "%s: because is missing: why is '%s' expected?", self->place,
                       self->expect);
    if (known == CP_GATE_SAME && (self->because != NULL || self->says != NULL))
        return cp_fail(CP_BAD_INPUT, "%s: because and says are of known failures, and 'same' is none",
                       self->place);
    row->known = (cp_gate_outcome)known;
    CP_TRY(cp_pool_text(&suite->pool, &row->because, self->because));
    return cp_pool_text(&suite->pool, &row->says, self->says);
}

static cp_status optional_text(cp_suite *suite, const char **out, const char *text)
{
    return text == NULL ? CP_OK : cp_pool_text(&suite->pool, out, text);
}

/* What all rows of an entry have in common. */
static cp_status read_common(reading *self, cp_suite_row *row, const entry *from)
{
    *row = (cp_suite_row){.expected = "", .because = "", .says = ""};
    CP_TRY(optional_text(self->suite, &row->only, from->only));
    row->user_limits = from->rtol >= 0 || from->atol >= 0;
    row->rtol = from->rtol >= 0 ? from->rtol : 0;
    row->atol = from->atol >= 0 ? from->atol : 0;
    if (from->limits != NULL)
        CP_TRY(cp_suite_path(self->suite, &row->limits, self->folder, from->limits));
    CP_TRY(read_expectation(self->suite, row, from));
    if (from->expected != NULL) {
        CP_TRY(cp_suite_path(self->suite, &row->expected, self->folder, from->expected));
        if (from->fixture != NULL)
            CP_TRY(cp_suite_path(self->suite, &row->fixture, self->folder, from->fixture));
    } else if (from->fixture != NULL) {
        CP_TRY(cp_suite_path(self->suite, &row->expected, self->folder, from->fixture));
    }
    return CP_OK;
}

/* As the suite writes it, where that can be. */
static const char *shown(const reading *self, const char *path)
{
    size_t length = strlen(self->folder);
    return length > 0 && strncmp(path, self->folder, length) == 0 && path[length] == '/' ? path + length + 1
                                                                                         : path;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b); /* glob would follow the locale */
}

/* Folders that cannot be read are no folders without matches. */
static int glob_failed(const char *path, int reason)
{
    (void)path;
    return reason != ENOENT && reason != ENOTDIR;
}

/* The files and folders that a pattern means, in order of name; none: there are none. */
static cp_status find_paths(reading *self, const char ***paths, size_t *count, const char *pattern)
{
    struct stat about;
    glob_t found = {0};
    *count = 0;
    if (stat(pattern, &about) == 0) {
        void *one;
        CP_TRY(cp_pool_take(&self->suite->pool, &one, 1, sizeof **paths));
        *paths = one;
        (*paths)[(*count)++] = pattern;
        return CP_OK;
    }
    int failed = glob(pattern, GLOB_NOSORT, glob_failed, &found);
    cp_status status = CP_OK;
    if (failed == GLOB_NOMATCH)
        found.gl_pathc = 0;
    else if (failed != 0)
        status = cp_fail(CP_BAD_INPUT, "%s: cannot be searched: %s", pattern, strerror(errno));
    if (status == CP_OK && found.gl_pathc > 0) {
        void *many;
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
        status = cp_pool_take(&self->suite->pool, &many, found.gl_pathc, sizeof **paths);
        *paths = many;
    }
    for (size_t i = 0; status == CP_OK && i < found.gl_pathc; i++)
        status = cp_suite_path(self->suite, &(*paths)[(*count)++], "", found.gl_pathv[i]);
    globfree(&found);
    return status;
}

static cp_status say_missing(cp_suite *suite, cp_suite_row *row)
{
    return cp_pool_format(&suite->pool, &row->absent, "%s: there is no such dump", row->wanted);
}

/* A pattern alone cannot know what is missing. */
static cp_status check_count(reading *self, const entry *from, const cp_suite_row *common,
                             const char *pattern, size_t count)
{
    if (from->count == 0 || (size_t)from->count == count || count == 0)
        return CP_OK;
    cp_suite_row row = *common;
    row.wanted = pattern;
    CP_TRY(cp_pool_format(&self->suite->pool, &row.name, "%s: count",
                          from->name != NULL ? from->name : shown(self, pattern)));
    CP_TRY(cp_pool_format(&self->suite->pool, &row.absent, "%s: %zu dump%s there, expected %lld", pattern,
                          count, count == 1 ? " is" : "s are", (long long)from->count));
    return cp_suite_add(self->suite, &row);
}

/* Every match is a dump. */
static cp_status add_dumps(reading *self, const entry *from, const cp_suite_row *common)
{
    cp_pool *pool = &self->suite->pool;
    const char *pattern, **paths;
    size_t count;
    CP_TRY(cp_suite_path(self->suite, &pattern, self->folder, cp_json_string(from->dump)));
    CP_TRY(find_paths(self, &paths, &count, pattern));
    for (size_t i = 0; i < (count > 0 ? count : 1); i++) {
        cp_suite_row row = *common;
        row.wanted = count > 0 ? paths[i] : pattern;
        row.paths = count > 0 ? &paths[i] : NULL;
        row.path_count = count > 0;
        CP_TRY(say_missing(self->suite, &row));
        const char *path = shown(self, row.wanted);
        if (from->name == NULL)
            CP_TRY(cp_pool_text(pool, &row.name, path));
        else if (count <= 1)
            CP_TRY(cp_pool_text(pool, &row.name, from->name));
        else
            CP_TRY(cp_pool_format(pool, &row.name, "%s: %s", from->name, path));
        CP_TRY(cp_suite_add(self->suite, &row));
    }
    return check_count(self, from, common, pattern, count);
}

/* A list: all matches are one dump. One of its patterns without a match makes it missing. */
static cp_status add_ranks(reading *self, const entry *from, const cp_suite_row *common)
{
    cp_pool *pool = &self->suite->pool;
    cp_suite_row row = *common;
    bool missing = false;
    for (size_t i = 0; i < cp_json_size(from->dump) && !missing; i++) {
        const char *pattern, **paths;
        size_t count;
        void *longer;
        CP_TRY(cp_suite_path(self->suite, &pattern, self->folder,
                             cp_json_string(cp_json_element(from->dump, i))));
        CP_TRY(find_paths(self, &paths, &count, pattern));
        missing = count == 0;
        row.wanted = i == 0 || missing ? pattern : row.wanted;
        if (missing)
            break;
        CP_TRY(cp_pool_take(pool, &longer, row.path_count + count, sizeof *paths));
        if (row.path_count > 0)
            memcpy(longer, row.paths, row.path_count * sizeof *paths);
        memcpy((const char **)longer + row.path_count, paths, count * sizeof *paths);
        row.paths = longer;
        row.path_count += count;
    }
    row.path_count = missing ? 0 : row.path_count;
    CP_TRY(say_missing(self->suite, &row));
    CP_TRY(cp_pool_text(pool, &row.name, from->name != NULL ? from->name : shown(self, row.wanted)));
    return cp_suite_add(self->suite, &row);
}

static cp_status add_own(reading *self, const entry *from)
{
    cp_suite_row common;
    CP_TRY(read_common(self, &common, from));
    return cp_json_kind_of(from->dump) == CP_JSON_ARRAY ? add_ranks(self, from, &common)
                                                        : add_dumps(self, from, &common);
}

static cp_status read_folders(reading *self, cp_suite_folder *folders, const entry *from)
{
    CP_TRY(read_common(self, &folders->common, from));
    CP_TRY(cp_suite_path(self->suite, &folders->fixtures, self->folder, from->fixtures));
    CP_TRY(cp_suite_path(self->suite, &folders->dumps, self->folder, from->dumps));
    return cp_pool_format(&self->suite->pool, &folders->prefix, "%s/",
                          from->name != NULL ? from->name : shown(self, folders->dumps));
}

/* ---- a suite ------------------------------------------------------------------------------------------------------ */

static cp_status read_entries(reading *self, const cp_json *root, const char *where)
{
    if (cp_json_kind_of(root) != CP_JSON_ARRAY)
        return cp_fail(CP_BAD_INPUT, "%s: found %s, expected a list of dumps to judge", where,
                       cp_json_kind_name(cp_json_kind_of(root)));
    void *memory;
    self->count = cp_json_size(root);
    CP_TRY(cp_pool_take(&self->suite->pool, &memory, self->count, sizeof *self->entries));
    self->entries = memory;
    for (size_t i = 0; i < self->count; i++) {
        entry *one = &self->entries[i];
        *one = (entry){.rtol = -1, .atol = -1};
        snprintf(one->place, sizeof one->place, "%.480s: [%zu]", where, i);
        CP_TRY(read_properties(one, cp_json_element(root, i)));
        CP_TRY(check_entry(one));
    }
    return CP_OK;
}

/* What an entry of its own says comes before what two folders say, and what is left over last. */
static cp_status add_rows(reading *self)
{
    for (size_t i = 0; i < self->count; i++) {
        if (!is_pair(&self->entries[i]))
            CP_TRY(add_own(self, &self->entries[i]));
    }
    size_t before = self->suite->count;
    for (int extras = 0; extras < 2; extras++) {
        for (size_t i = 0; i < self->count; i++) {
            cp_suite_folder folders;
            if (!is_pair(&self->entries[i]))
                continue;
            CP_TRY(read_folders(self, &folders, &self->entries[i]));
            CP_TRY(extras ? cp_suite_add_extras(self->suite, &folders)
                          : cp_suite_add_pairs(self->suite, &folders, before));
        }
    }
    return CP_OK;
}

static cp_status check_names(const cp_suite *suite, const char *where)
{
    for (size_t i = 0; i < suite->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(suite->rows[i].name, suite->rows[j].name) == 0)
                return cp_fail(CP_BAD_INPUT, "%s: two dumps are called '%s': give one of them another name",
                               where, suite->rows[i].name);
        }
    }
    return CP_OK;
}

static cp_status read_document(cp_suite *suite, const cp_json *root, const char *where, const char *folder)
{
    reading self = {.suite = suite, .folder = folder};
    CP_TRY(read_entries(&self, root, where));
    CP_TRY(add_rows(&self));
    return check_names(suite, where);
}

cp_status cp_suite_parse(cp_suite *suite, const char *text, size_t length, const char *where,
                         const char *folder)
{
    cp_json *root;
    CP_TRY(cp_json_parse(&root, text, length, where));
    cp_status status = read_document(suite, root, where, folder);
    cp_json_close(root);
    return status;
}

cp_status cp_suite_read(cp_suite *suite, const char *path)
{
    cp_json *root;
    const char *folder, *slash = strrchr(path, '/');
    CP_TRY(cp_json_read(&root, path));
    cp_status status = cp_pool_format(&suite->pool, &folder, "%.*s",
                                      slash == NULL   ? 0
                                      : slash == path ? 1
                                                      : (int)(slash - path),
                                      path);
    if (status == CP_OK)
        status = cp_suite_path(suite, &folder, "", folder[0] != '\0' ? folder : ".");
    if (status == CP_OK)
        status = read_document(suite, root, path, strcmp(folder, ".") == 0 ? "" : folder);
    cp_json_close(root);
    return status;
}

void cp_suite_close(cp_suite *suite)
{
    free(suite->rows);
    cp_pool_close(&suite->pool);
    *suite = (cp_suite){0};
}

#include "harness/files/header.h"

#include "harness/files/attention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

cp_status cp_text_or_empty(cp_h5 *file, cp_pool *pool, const char *object, const char *name, const char **out)
{
    bool found;
    *out = "";
    return cp_h5_text(file, pool, object, name, out, &found);
}

cp_status cp_header_read(cp_h5 *file, cp_pool *pool, const char **kind)
{
    const char *format;
    int64_t version = 0;
    bool found;
    CP_TRY(cp_text_or_empty(file, pool, "/", "format", &format));
    if (strcmp(format, "cpeq") != 0)
        return cp_fail(CP_BAD_INPUT, "%s: attribute format: expected \"cpeq\", found \"%.64s\"",
                       cp_h5_path(file), format);
    CP_TRY(cp_h5_integer(file, "/", "format_version", &version, &found));
    if (version != CP_FORMAT_VERSION)
        return cp_fail(CP_BAD_INPUT, "%s: attribute format_version: expected %d, found %" PRId64,
                       cp_h5_path(file), CP_FORMAT_VERSION, version);
    CP_TRY(cp_text_or_empty(file, pool, "/", "kind", kind));
    if (**kind == '\0' || strlen(*kind) >= CP_KIND_TEXT)
        return cp_fail(CP_BAD_INPUT,
                       "%s: attribute kind: expected \"fixture\", \"dump\" or the like, found \"%.64s\"",
                       cp_h5_path(file), *kind);
    return CP_OK;
}

cp_status cp_header_write(cp_h5 *file, const char *kind)
{
    CP_TRY(cp_h5_set_text(file, "/", "format", "cpeq"));
    CP_TRY(cp_h5_set_integer(file, "/", "format_version", CP_FORMAT_VERSION));
    return cp_h5_set_text(file, "/", "kind", kind);
}

bool cp_kind_is_fixture(const char *kind)
{
    return strcmp(kind, "fixture") == 0 || strcmp(kind, "attention fixture") == 0;
}

bool cp_kind_is_dump(const char *kind)
{
    return strcmp(kind, "dump") == 0 || strcmp(kind, "attention dump") == 0;
}

cp_status cp_file_kind(char kind[CP_KIND_TEXT], const char *path)
{
    cp_h5 *file;
    cp_pool pool = {0};
    const char *found = "";
    CP_TRY(cp_h5_open(&file, path));
    cp_status status = cp_header_read(file, &pool, &found);
    bool fixture = false, attention = strcmp(found, CP_KIND_ATTENTION) == 0;
    if (status == CP_OK && attention)
        status = cp_attention_is_fixture(&fixture, file);
    snprintf(kind, CP_KIND_TEXT, "%.*s%s", CP_KIND_TEXT - 9, found,
             !attention ? ""
             : fixture  ? " fixture"
                        : " dump");
    cp_pool_close(&pool);
    cp_h5_close(file);
    return status;
}

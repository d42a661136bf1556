#include "harness/files/text.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the UTF-8 character at `text`, 0 where there is none. */
static size_t character_bytes(const unsigned char *text, size_t length)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least; /* a longer form of a smaller code is not valid */
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t extra = 0; extra < sizeof forms / sizeof *forms; extra++) {
        if ((text[0] & forms[extra].mask) != forms[extra].lead)
            continue;
        if (extra >= length)
            return 0;
        uint32_t code = text[0] & (unsigned char)~forms[extra].mask;
        for (size_t i = 1; i <= extra; i++) {
            if ((text[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (text[i] & 0x3f);
        }
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        return code < forms[extra].least || surrogate || code > 0x10ffff ? 0 : extra + 1;
    }
    return 0;
}

bool cp_text_plain(const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    while (length > 0) {
        size_t bytes = character_bytes(at, length);
        bool control = at[0] < 0x20 || at[0] == 0x7f || (bytes == 2 && at[0] == 0xc2 && at[1] < 0xa0);
        if (bytes == 0 || control)
            return false;
        at += bytes;
        length -= bytes;
    }
    return true;
}

bool cp_lines_have(const char *lines, const char *name)
{
    char line[CP_NAME_BYTES];
    for (const char *cursor = lines; cp_lines_next(&cursor, line);)
        if (strcmp(line, name) == 0)
            return true;
    return false;
}

bool cp_lines_next(const char **cursor, char name[CP_NAME_BYTES])
{
    if (**cursor == '\0')
        return false;
    size_t length = strcspn(*cursor, "\n");
    cp_check(length < CP_NAME_BYTES, "a name of %zu bytes", length);
    memcpy(name, *cursor, length);
    name[length] = '\0';
    *cursor += length;
    if (**cursor == '\n')
        (*cursor)++;
    return true;
}

cp_status cp_lines_join(cp_pool *pool, const void *strings, size_t count, size_t width, const char *behind,
                        const char **out, size_t *length)
{
    const char *const *pointers = strings;
    size_t room = 1;
    for (size_t i = 0; i < count; i++)
        room += (width ? width : pointers[i] ? strlen(pointers[i]) : 0) + strlen(behind);
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, room, 1));
    char *end = memory;
    for (size_t i = 0; i < count; i++) {
        const char *string = width ? (const char *)strings + i * width : pointers[i] ? pointers[i] : "";
        size_t bytes = width ? strnlen(string, width) : strlen(string);
        memcpy(end, string, bytes);
        end += bytes;
        memcpy(end, behind, strlen(behind));
        end += strlen(behind);
    }
    *out = memory;
    *length = (size_t)(end - *out);
    return CP_OK;
}

cp_status cp_lines_split(cp_pool *pool, const char *lines, const char *const **names, size_t *count)
{
    char line[CP_NAME_BYTES];
    *count = 0;
    for (const char *cursor = lines; cp_lines_next(&cursor, line);)
        ++*count;
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, *count, sizeof(char *)));
    const char **out = memory;
    *names = out;
    for (const char *cursor = lines; cp_lines_next(&cursor, line);)
        CP_TRY(cp_pool_text(pool, out++, line));
    return CP_OK;
}

cp_status cp_lines_check(const char *lines, const char *file, const char *object)
{
    for (const char *line = lines; *line;) {
        size_t length = strcspn(line, "\n");
        if (length >= CP_NAME_BYTES || !cp_text_plain(line, length))
            return cp_fail(CP_BAD_INPUT, "%s: %s: expected UTF-8 without control characters, below %d bytes",
                           file, object, CP_NAME_BYTES);
        line += length + (line[length] == '\n');
    }
    return CP_OK;
}

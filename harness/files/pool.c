#include "harness/files/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t MOST_BYTES = (size_t)1 << 40;

typedef struct block {
    struct block *next;
    max_align_t memory[];
} block;

cp_status cp_pool_take(cp_pool *pool, void **out, size_t count, size_t bytes)
{
    *out = NULL;
    size_t room;
    if (__builtin_mul_overflow(count, bytes, &room) || room >= MOST_BYTES)
        return cp_fail(CP_INTERNAL, "memory: %zu times %zu bytes are more than any machine has", count,
                       bytes);
    room += sizeof(block);
    block *taken = calloc(1, room);
    if (!taken)
        return cp_fail(CP_INTERNAL, "memory: %zu MiB are needed and the system does not give them",
                       room >> 20);
    taken->next = pool->last;
    pool->last = taken;
    *out = taken->memory;
    return CP_OK;
}

cp_status cp_pool_text(cp_pool *pool, const char **out, const char *text)
{
    return cp_pool_format(pool, out, "%s", text ? text : "");
}

cp_status cp_pool_format(cp_pool *pool, const char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    cp_check(length >= 0, "format \"%s\"", format);

    void *text;
    CP_TRY(cp_pool_take(pool, &text, (size_t)length + 1, 1));
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    *out = text;
    return CP_OK;
}

void cp_pool_close(cp_pool *pool)
{
    block *next;
    for (block *taken = pool->last; taken; taken = next) {
        next = taken->next;
        free(taken);
    }
    pool->last = NULL;
}

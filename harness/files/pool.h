/* Memory that belongs to one opened thing and is freed with it, at once. */
#ifndef CPEQ_HARNESS_FILES_POOL_H
#define CPEQ_HARNESS_FILES_POOL_H

#include "base/status.h"

#include <stdint.h>

typedef struct cp_pool {
    void *last; /* a chain of blocks */
} cp_pool;

/* `count` elements of `bytes` each, zeroed. CP_INTERNAL when the system has not enough memory. */
cp_status cp_pool_take(cp_pool *pool, void **out, size_t count, size_t bytes);

/* A copy of `text`; NULL counts as "". */
cp_status cp_pool_text(cp_pool *pool, const char **out, const char *text);
cp_status cp_pool_format(cp_pool *pool, const char **out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void cp_pool_close(cp_pool *pool);

#endif

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = CP_ARENA_ALIGNMENT }; /* between two allocations, so that an overrun is seen at once */
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
enum { RED_ZONE = 0 };
#endif

#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
enum { FILL_WITH_NAN = 1 };
#else
enum { FILL_WITH_NAN = 0 };
#endif

static size_t rounded(size_t bytes)
{
    return (bytes + CP_ARENA_ALIGNMENT - 1) / CP_ARENA_ALIGNMENT * CP_ARENA_ALIGNMENT + RED_ZONE;
}

cp_arena cp_arena_measuring(void)
{
    return (cp_arena){.measuring = true};
}

cp_status cp_arena_open(cp_arena *arena, size_t capacity)
{
    *arena = (cp_arena){.capacity = capacity};
    if (capacity == 0)
        return CP_OK;
    void *block = NULL;
    if (posix_memalign(&block, CP_ARENA_ALIGNMENT, capacity) != 0)
        return cp_fail(CP_INTERNAL, "memory: %zu MiB are needed and the system does not give them",
                       capacity >> 20);
    arena->block = block;
    ASAN_POISON_MEMORY_REGION(block, capacity);
    return CP_OK;
}

/* The first bytes of a growing arena's block lead to the block before it. */
typedef struct older_block {
    void *older;
} older_block;

cp_arena cp_arena_growing(void)
{
    return (cp_arena){.growing = true};
}

static void grow(cp_arena *arena, size_t bytes)
{
    enum { LEAST_BLOCK = 1 << 16 };
    size_t capacity = bytes + CP_ARENA_ALIGNMENT > LEAST_BLOCK ? bytes + CP_ARENA_ALIGNMENT : LEAST_BLOCK;
    void *older = arena->block;
    void *block = NULL;
    cp_check(posix_memalign(&block, CP_ARENA_ALIGNMENT, capacity) == 0, "no memory for %zu bytes", capacity);
    ((older_block *)block)->older = older;
    *arena = (cp_arena){.block = block, .capacity = capacity, .used = CP_ARENA_ALIGNMENT, .growing = true};
}

void cp_arena_close(cp_arena *arena)
{
    if (arena->block && !arena->growing)
        ASAN_UNPOISON_MEMORY_REGION(arena->block, arena->capacity);
    void *block = arena->block;
    while (block) {
        void *older = arena->growing ? ((older_block *)block)->older : NULL;
        free(block);
        block = older;
    }
    *arena = (cp_arena){0};
}

void *cp_arena_take(cp_arena *arena, size_t bytes)
{
    if (arena->growing && arena->used + rounded(bytes) > arena->capacity)
        grow(arena, rounded(bytes));
    size_t begin = arena->used;
    arena->used += rounded(bytes);
    if (arena->used > arena->peak)
        arena->peak = arena->used;
    if (arena->measuring)
        return NULL;
    cp_check(arena->used <= arena->capacity, "the plan has %zu bytes, the run takes %zu", arena->capacity,
             arena->used);
    unsigned char *address = arena->block + begin;
    ASAN_UNPOISON_MEMORY_REGION(address, bytes);
    if (FILL_WITH_NAN)
        memset(address, 0xff, bytes);
    return address;
}

size_t cp_arena_mark(const cp_arena *arena)
{
    return arena->used;
}

void cp_arena_release(cp_arena *arena, size_t mark)
{
    cp_check(!arena->growing, "a growing arena knows no marks");
    cp_check(mark <= arena->used, "released to %zu, but only %zu bytes are in use", mark, arena->used);
    if (!arena->measuring && mark < arena->used)
        ASAN_POISON_MEMORY_REGION(arena->block + mark, arena->used - mark);
    arena->used = mark;
}

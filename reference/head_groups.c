#include "reference/head_groups.h"

typedef struct tables {
    const int32_t *key_head, *value_head;
    int32_t *unit; /* [H]: the lowest query head that a head is joined with */
} tables;

static bool same_heads(const int32_t *key_head, const int32_t *value_head, int64_t g, int64_t h)
{
    return key_head[g] == key_head[h] && value_head[g] == value_head[h];
}

int64_t cp_largest_stack(const int32_t *key_head, const int32_t *value_head, int64_t H, int64_t most)
{
    int64_t largest = 1;
    for (int64_t h = 0; h < H; h++) {
        int64_t count = 0;
        for (int64_t g = 0; g < H; g++)
            count += same_heads(key_head, value_head, g, h);
        largest = count > largest ? count : largest;
    }
    return largest < most ? largest : most;
}

/* Two heads that share one become one unit, and with them all that they were joined with before. */
static void join_heads(const tables *t, int64_t H)
{
    for (int64_t h = 0; h < H; h++) {
        t->unit[h] = (int32_t)h;
        for (int64_t g = 0; g < h; g++) {
            bool shared = t->key_head[g] == t->key_head[h] || t->value_head[g] == t->value_head[h];
            if (!shared || t->unit[g] == t->unit[h])
                continue;
            int32_t low = t->unit[g] < t->unit[h] ? t->unit[g] : t->unit[h];
            int32_t high = t->unit[g] < t->unit[h] ? t->unit[h] : t->unit[g];
            for (int64_t f = 0; f <= h; f++)
                t->unit[f] = t->unit[f] == high ? low : t->unit[f];
        }
    }
}

static bool goes_before(const tables *t, int32_t g, int32_t h)
{
    if (t->unit[g] != t->unit[h])
        return t->unit[g] < t->unit[h];
    if (t->key_head[g] != t->key_head[h])
        return t->key_head[g] < t->key_head[h];
    return t->value_head[g] < t->value_head[h];
}

static void sort_heads(int32_t *heads, const tables *t, int64_t H)
{
    for (int32_t h = 0; h < H; h++) {
        int32_t at = h;
        for (; at > 0 && goes_before(t, h, heads[at - 1]); at--)
            heads[at] = heads[at - 1];
        heads[at] = h;
    }
}

cp_head_groups cp_head_groups_plan(const int32_t *key_head, const int32_t *value_head, int64_t H,
                                   int64_t most, cp_arena *scratch)
{
    size_t bytes = (size_t)H * sizeof(int32_t);
    cp_head_groups groups = {.heads = cp_arena_take(scratch, bytes),
                             .stack_end = cp_arena_take(scratch, bytes),
                             .unit_end = cp_arena_take(scratch, bytes)};
    tables t = {key_head, value_head, cp_arena_take(scratch, bytes)};
    if (scratch->measuring)
        return groups;
    join_heads(&t, H);
    sort_heads(groups.heads, &t, H);
    const int32_t *heads = groups.heads;
    int32_t begin = 0;
    for (int32_t n = 1; n <= H; n++) {
        if (n < H && n - begin < most && same_heads(key_head, value_head, heads[n], heads[begin]))
            continue;
        groups.stack_end[groups.stacks++] = n;
        if (n == H || t.unit[heads[n]] != t.unit[heads[begin]])
            groups.unit_end[groups.units++] = groups.stacks;
        begin = n;
    }
    return groups;
}

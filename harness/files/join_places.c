#include "harness/files/join_places.h"

#include <inttypes.h>

/* Beyond this a missing token is not looked for by name: an absurd index must not cost absurd memory. */
enum { TOKENS_TO_SEARCH = 1 << 24 };

static int64_t row_of(const cp_declaration *part, int64_t b)
{
    return part->batch_index ? part->batch_index[b] : b;
}

static void reach(int64_t *B, int64_t *T, const cp_declaration *part)
{
    for (int64_t b = 0; b < part->B; b++) {
        if (row_of(part, b) >= *B)
            *B = row_of(part, b) + 1;
        for (int64_t s = 0; s < part->S; s++)
            if (part->token_index[b * part->S + s] >= *T)
                *T = part->token_index[b * part->S + s] + 1;
    }
}

static cp_status check_range(const cp_source *part, int64_t B, int64_t T)
{
    const cp_declaration *said = &part->declaration;
    for (int64_t b = 0; b < said->B; b++) {
        if (row_of(said, b) < 0 || row_of(said, b) >= B)
            return cp_fail(CP_INCOMPARABLE,
                           "%s: /batch_index: row %" PRId64 ", expected one of %" PRId64 " rows", part->label,
                           row_of(said, b), B);
        for (int64_t s = 0; s < said->S; s++) {
            int64_t token = said->token_index[b * said->S + s];
            if (token < -1 || token >= T)
                return cp_fail(CP_INCOMPARABLE,
                               "%s: /token_index: token %" PRId64 ", expected -1 or one of %" PRId64
                               " tokens",
                               part->label, token, T);
        }
    }
    return CP_OK;
}

/* A part that is no place of any token: not seen yet. */
enum { NOWHERE = -1 };

static cp_status place_part(cp_place *places, cp_source *const *parts, int32_t index, int64_t T)
{
    const cp_declaration *said = &parts[index]->declaration;
    for (int64_t row = 0; row < said->B * said->S; row++) {
        int64_t b = row_of(said, row / said->S);
        int64_t token = said->token_index[row];
        if (token < 0)
            continue;
        cp_place *place = &places[b * T + token];
        if (place->part != NOWHERE)
            return cp_fail(CP_INCOMPARABLE,
                           "%s: /token_index: token %" PRId64 " of row %" PRId64 " is also in %s",
                           parts[index]->label, token, b, parts[place->part]->label);
        *place = (cp_place){index, row};
    }
    return CP_OK;
}

cp_status cp_join_places(cp_pool *pool, const cp_place **places, int64_t *B, int64_t *T,
                         cp_source *const *parts, size_t count)
{
    bool rows_given = *B > 0, length_given = *T > 0;
    int64_t reached_rows = 0, reached_length = 0;
    int64_t held = 0;
    for (size_t i = 0; i < count; i++) {
        reach(&reached_rows, &reached_length, &parts[i]->declaration);
        held += parts[i]->declaration.B * parts[i]->declaration.S;
    }
    *B = rows_given ? *B : reached_rows;
    *T = length_given ? *T : reached_length;
    for (size_t i = 0; i < count; i++)
        CP_TRY(check_range(parts[i], *B, *T));
    int64_t tokens;
    if (__builtin_mul_overflow(*B, *T, &tokens) || (tokens > held && tokens > TOKENS_TO_SEARCH))
        return cp_fail(CP_INCOMPARABLE,
                       "%s: /token_index: expected the %" PRId64 " × %" PRId64
                       " tokens of the batch, found %" PRId64 " positions on all ranks",
                       parts[0]->label, *B, *T, held);

    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, (size_t)tokens, sizeof(cp_place)));
    cp_place *out = memory;
    for (int64_t i = 0; i < tokens; i++)
        out[i].part = NOWHERE;
    for (size_t i = 0; i < count; i++)
        CP_TRY(place_part(out, parts, (int32_t)i, *T));
    for (int64_t i = 0; i < tokens; i++)
        if (out[i].part == NOWHERE)
            return cp_fail(CP_INCOMPARABLE,
                           "%s: /token_index: token %" PRId64 " of row %" PRId64 " is on no rank",
                           parts[0]->label, i % *T, i / *T);
    *places = out;
    return CP_OK;
}

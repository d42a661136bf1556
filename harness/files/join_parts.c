#include "harness/files/join_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- do the parts belong together? ------------------------------------------------------------------------------- */

/* A rank among all ranks: data-parallel group after group. */
static int64_t rank_of(const cp_declaration *said)
{
    return (int64_t)said->dp_rank * said->cp_size + said->cp_rank;
}

static int compare_ranks(const void *a, const void *b)
{
    cp_source *const *left = a, *const *right = b;
    int64_t l = rank_of(&(*left)->declaration), r = rank_of(&(*right)->declaration);
    return (l > r) - (l < r);
}

/* "rank 1", or "rank 1 of group 2" */
enum { RANK_TEXT = 64 };
static const char *rank_text(char text[RANK_TEXT], int64_t rank, const cp_declaration *first)
{
    if (first->dp_size > 1)
        snprintf(text, RANK_TEXT, "rank %" PRId64 " of group %" PRId64, rank % first->cp_size,
                 rank / first->cp_size);
    else
        snprintf(text, RANK_TEXT, "rank %" PRId64, rank);
    return text;
}

static cp_status missing(const cp_source *first, int64_t rank)
{
    char text[RANK_TEXT];
    const cp_declaration *said = &first->declaration;
    if (said->dp_size > 1)
        return cp_fail(CP_INCOMPARABLE, "%s: %s is missing, of %d groups of %d", first->label,
                       rank_text(text, rank, said), said->dp_size, said->cp_size);
    return cp_fail(CP_INCOMPARABLE, "%s: rank %" PRId64 " of %d is missing", first->label, rank,
                   said->cp_size);
}

static cp_status check_sizes(const cp_source *part, const cp_source *first)
{
    const cp_declaration *said = &part->declaration, *expected = &first->declaration;
    if (said->cp_size != expected->cp_size)
        return cp_fail(CP_INCOMPARABLE, "%s: cp_size %d, expected %d as in %s", part->label, said->cp_size,
                       expected->cp_size, first->label);
    if (said->dp_size != expected->dp_size)
        return cp_fail(CP_INCOMPARABLE, "%s: dp_size %d, expected %d as in %s", part->label, said->dp_size,
                       expected->dp_size, first->label);
    return CP_OK;
}

static cp_status check_ranks(cp_source **parts, size_t count)
{
    qsort(parts, count, sizeof *parts, compare_ranks);
    const cp_source *first = parts[0];
    char text[RANK_TEXT];
    for (size_t i = 0; i < count; i++)
        if (parts[i]->declaration.cp_rank < 0 && count > 1)
            return cp_fail(CP_INCOMPARABLE, "%s: a whole dump, expected one rank's, beside %s",
                           parts[i]->label, parts[i == 0]->label);
    if (first->declaration.cp_rank < 0)
        return CP_OK;
    for (size_t i = 0; i < count; i++) {
        const cp_declaration *said = &parts[i]->declaration;
        if (i > 0 && rank_of(said) == rank_of(&parts[i - 1]->declaration))
            return cp_fail(CP_INCOMPARABLE, "%s: %s, which %s is too", parts[i]->label,
                           rank_text(text, rank_of(said), said), parts[i - 1]->label);
        CP_TRY(check_sizes(parts[i], first));
        if (rank_of(said) != (int64_t)i)
            return missing(first, (int64_t)i);
        if (!said->token_index)
            return cp_fail(CP_INCOMPARABLE, "%s: /token_index: expected in a dump of one rank, found nothing",
                           parts[i]->label);
        if (!said->batch_index && said->dp_size > 1)
            return cp_fail(CP_INCOMPARABLE,
                           "%s: /batch_index: expected in a dump of one data-parallel group, found nothing",
                           parts[i]->label);
    }
    if ((int64_t)count != (int64_t)first->declaration.cp_size * first->declaration.dp_size)
        return missing(first, (int64_t)count);
    return CP_OK;
}

static cp_status check_same_run(cp_source *const *parts, size_t count)
{
    const cp_declaration *first = &parts[0]->declaration;
    for (size_t i = 1; i < count; i++) {
        const cp_declaration *said = &parts[i]->declaration;
        const struct {
            const char *what, *found, *expected;
        } words[] = {
            {"kind", said->attention ? "attention" : "dump", first->attention ? "attention" : "dump"},
            {"fixture_id", said->fixture_id, first->fixture_id},
            {"layout", said->layout, first->layout},
            {"exchange", said->exchange, first->exchange},
            {"compute_dtype", cp_dtype_name(said->compute_dtype), cp_dtype_name(first->compute_dtype)},
            {"loss_kind", cp_loss_kind_name(said->loss_kind), cp_loss_kind_name(first->loss_kind)},
            {"gradients", cp_gradient_kind_name(said->gradients), cp_gradient_kind_name(first->gradients)},
            {"islands", said->islands ? "float32" : "none", first->islands ? "float32" : "none"},
        };
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            if (strcmp(words[w].found, words[w].expected) != 0)
                return cp_fail(CP_INCOMPARABLE, "%s: %s %s, expected %s as in %s", parts[i]->label,
                               words[w].what, words[w].found, words[w].expected, parts[0]->label);
        if (said->grad_scale != first->grad_scale)
            return cp_fail(CP_INCOMPARABLE, "%s: grad_scale %g, expected %g as in %s", parts[i]->label,
                           said->grad_scale, first->grad_scale, parts[0]->label);
    }
    return CP_OK;
}

cp_status cp_join_check(cp_source **parts, size_t count)
{
    CP_TRY(check_ranks(parts, count));
    return check_same_run(parts, count);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

cp_status cp_join_names(cp_pool *pool, const char ***names, size_t *name_count, cp_source *const *parts,
                        size_t count)
{
    size_t room = 0;
    for (size_t p = 0; p < count; p++)
        room += parts[p]->count;
    void *memory;
    CP_TRY(cp_pool_take(pool, &memory, room, sizeof(char *)));
    const char **all = *names = memory;
    size_t used = 0;
    for (size_t p = 0; p < count; p++)
        for (size_t t = 0; t < parts[p]->count; t++)
            all[used++] = parts[p]->tensors[t].name;
    qsort(all, used, sizeof *all, compare_names);
    *name_count = 0;
    for (size_t i = 0; i < used; i++)
        if (*name_count == 0 || strcmp(all[*name_count - 1], all[i]) != 0)
            all[(*name_count)++] = all[i];
    return CP_OK;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

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
enum { NOWHERE = CP_NO_PART };

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

/* ---- logits of some positions ------------------------------------------------------------------------------------ */

static cp_status check_kept(cp_source *const *parts, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        bool some = parts[i]->declaration.logits_index, first = parts[0]->declaration.logits_index;
        if (some != first)
            return cp_fail(CP_INCOMPARABLE, "%s: /logits_index: expected as in %s, found nothing",
                           parts[some ? 0 : i]->label, parts[some ? i : 0]->label);
    }
    return CP_OK;
}

static cp_status keep_part(cp_place *places, uint8_t *kept, cp_source *const *parts, int32_t index, int64_t B,
                           int64_t T)
{
    const cp_declaration *said = &parts[index]->declaration;
    for (int64_t i = 0; i < said->logits_rows; i++) {
        int64_t b = said->logits_index[2 * i], t = said->logits_index[2 * i + 1];
        if (b < 0 || b >= B || t < 0 || t >= T)
            return cp_fail(CP_INCOMPARABLE,
                           "%s: /logits_index: row %" PRId64 ", token %" PRId64 ", expected one of %" PRId64
                           " rows and %" PRId64 " tokens",
                           parts[index]->label, b, t, B, T);
        if (kept[b * T + t])
            return cp_fail(CP_INCOMPARABLE,
                           "%s: /logits_index: token %" PRId64 " of row %" PRId64 " is also in %s",
                           parts[index]->label, t, b, parts[places[b * T + t].part]->label);
        kept[b * T + t] = 1;
        places[b * T + t] = (cp_place){index, i};
    }
    return CP_OK;
}

cp_status cp_join_kept_places(cp_pool *pool, const cp_place **places, const uint8_t **kept, int64_t *B,
                              int64_t *T, cp_source *const *parts, size_t count)
{
    *places = NULL;
    *kept = NULL;
    CP_TRY(check_kept(parts, count));
    if (!parts[0]->declaration.logits_index)
        return CP_OK;
    bool given = *B > 0 && *T > 0;
    for (size_t p = 0; p < count && !given; p++) {
        const cp_declaration *said = &parts[p]->declaration;
        for (int64_t i = 0; i < said->logits_rows; i++) {
            *B = said->logits_index[2 * i] >= *B ? said->logits_index[2 * i] + 1 : *B;
            *T = said->logits_index[2 * i + 1] >= *T ? said->logits_index[2 * i + 1] + 1 : *T;
        }
    }
    int64_t tokens;
    void *memory, *mask;
    if (__builtin_mul_overflow(*B, *T, &tokens) || (!given && tokens > TOKENS_TO_SEARCH))
        return cp_fail(CP_INCOMPARABLE,
                       "%s: /logits_index: %" PRId64 " rows of %" PRId64 " tokens, expected a batch",
                       parts[0]->label, *B, *T);
    CP_TRY(cp_pool_take(pool, &memory, (size_t)tokens + 1, sizeof(cp_place)));
    CP_TRY(cp_pool_take(pool, &mask, (size_t)tokens + 1, 1));
    cp_place *out = memory;
    for (int64_t i = 0; i < tokens; i++)
        out[i].part = CP_NO_PART;
    for (size_t p = 0; p < count; p++)
        CP_TRY(keep_part(out, mask, parts, (int32_t)p, *B, *T));
    *places = out;
    *kept = mask;
    return CP_OK;
}

#include "harness/judge/spread.h"

#include "base/tokens/tokens.h"
#include "harness/judge/names.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *zeros(int64_t count, size_t size)
{
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    cp_check(memory, "no memory for %lld numbers", (long long)count);
    return memory;
}

/* ---- the batch ---- */

static void find_extents(cp_bins *bins, const cp_sides *sides)
{
    static const char *const names[] = {"token_loss", "logits", "out"};
    if (sides->fixture) {
        bins->B = sides->fixture->batch.B;
        bins->T = sides->fixture->batch.T;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !sides->fixture && bins->T == 0; i++) {
        int64_t found = cp_source_find(sides->actual, names[i]);
        const cp_source_tensor *tensor = found >= 0 ? &sides->actual->tensors[found] : NULL;
        if (tensor && tensor->dims >= 2 && tensor->extent[0] > 0 && tensor->extent[1] > 0) {
            bins->B = tensor->extent[0];
            bins->T = tensor->extent[1];
        }
    }
    if (bins->T == 0)
        return;
    int64_t of_a_row = bins->B < CP_MOST_BINS ? CP_MOST_BINS / bins->B : 1;
    bins->width = (bins->T + of_a_row - 1) / of_a_row;
    bins->bins = (bins->T + bins->width - 1) / bins->width;
}

/* Documents as transformers finds them; where padding is told by a mask there is one. */
static int64_t *documents_of(const cp_batch *batch)
{
    int64_t count = batch->B * batch->T;
    int64_t *documents = zeros(count, sizeof *documents);
    if (batch->document_ids)
        memcpy(documents, batch->document_ids, (size_t)count * sizeof *documents);
    else if (batch->position_ids && !batch->attention_mask)
        cp_documents_from_positions(documents, batch->position_ids, batch->B, batch->T);
    return documents;
}

static int64_t bin_of(const cp_bins *bins, int64_t position)
{
    return position / bins->T * bins->bins + position % bins->T / bins->width;
}

static void join_bin(int32_t *bin, int32_t value)
{
    if (*bin == CP_BIN_PADDING)
        *bin = value;
    else if (*bin != value)
        *bin = CP_BIN_MIXED;
}

static bool is_real(const cp_places *places, int64_t position)
{
    return !places->rows || places->rows[position] != CP_PLACE_UNJUDGED;
}

/* Ids of documents are any numbers; here they count from 0. */
static void fill_documents(cp_bins *bins, const cp_sides *sides, const cp_places *places)
{
    int64_t count = bins->B * bins->T;
    int64_t *ids = sides->fixture ? documents_of(&sides->fixture->batch) : zeros(count, sizeof *ids);
    for (int64_t i = 0; i < bins->B * bins->bins; i++)
        bins->document[i] = CP_BIN_PADDING;
    for (int64_t b = 0; b < bins->B; b++) {
        int32_t document = -1;
        int64_t last = 0;
        for (int64_t i = b * bins->T; i < (b + 1) * bins->T; i++) {
            if (!is_real(places, i))
                continue;
            document += document < 0 || ids[i] != last;
            last = ids[i];
            join_bin(&bins->document[bin_of(bins, i)], document);
        }
    }
    free(ids);
}

/* ---- ranks ---- */

static int32_t *owners_of_parts(const cp_bins *bins, cp_source *const *parts, const cp_place *at)
{
    int64_t count = bins->B * bins->T;
    int32_t *owners = zeros(count, sizeof *owners);
    for (int64_t i = 0; i < count; i++)
        owners[i] = parts[at[i].part]->declaration.cp_rank;
    return owners;
}

enum { MOST_RANKS = 1024 };

/* NULL: the declared layout is none that is known, or does not fit the rows. */
static int32_t *owners_of_layout(const cp_bins *bins, const cp_fixture *fixture,
                                 const cp_declaration *declaration)
{
    cp_layout_spec spec;
    int P = declaration->cp_size;
    if (P > MOST_RANKS || cp_layout_parse(&spec, declaration->layout) != CP_OK ||
        cp_layout_check(&spec, P, bins->T) != CP_OK)
        return NULL;
    int64_t count = bins->B * bins->T, *any = zeros(count, sizeof *any);
    cp_batch batch = {.B = bins->B, .T = bins->T, .input_ids = any, .labels = any};
    if (fixture) {
        batch.attention_mask = fixture->batch.attention_mask;
        batch.position_ids = fixture->batch.position_ids;
        batch.document_ids = fixture->batch.document_ids;
    }
    cp_arena arena = cp_arena_growing();
    cp_layout layout;
    cp_tokens tokens;
    cp_tokens_plan(&tokens, &layout, &batch, &spec, P, &(cp_token_rules){0}, &arena);
    int32_t *owners = zeros(count, sizeof *owners);
    for (int64_t place = 0; place < tokens.B * tokens.T; place++)
        if (tokens.home[place] >= 0)
            owners[place / tokens.T * bins->T + tokens.home[place]] = layout.owner[place];
    cp_arena_close(&arena);
    free(any);
    return owners;
}

static int32_t *find_owners(const cp_bins *bins, const cp_sides *sides)
{
    const cp_source *actual = sides->actual;
    cp_source *const *parts;
    const cp_place *at = NULL;
    size_t count = cp_join_parts(actual, &parts, &at);
    if (actual->declaration.cp_size < 2)
        return NULL;
    return count > 0 && at ? owners_of_parts(bins, parts, at)
                           : owners_of_layout(bins, sides->fixture, &actual->declaration);
}

static void fill_owners(cp_bins *bins, const int32_t *owners, const cp_places *places)
{
    bins->owner = zeros(bins->B * bins->bins, sizeof *bins->owner);
    bins->rank_tokens = zeros(bins->ranks, sizeof *bins->rank_tokens);
    memset(bins->owner, 0xff, (size_t)(bins->B * bins->bins) * sizeof *bins->owner); /* no position yet */
    for (int64_t i = 0; i < bins->B * bins->T; i++) {
        bool known = owners[i] >= 0 && owners[i] < bins->ranks;
        join_bin(&bins->owner[bin_of(bins, i)], known ? owners[i] : CP_BIN_MIXED);
        if (known && is_real(places, i))
            bins->rank_tokens[owners[i]]++;
    }
}

cp_owners cp_bins_open(cp_bins *bins, const cp_sides *sides, const cp_places *places)
{
    *bins = (cp_bins){0};
    find_extents(bins, sides);
    if (bins->T == 0)
        return NULL;
    bins->document = zeros(bins->B * bins->bins, sizeof *bins->document);
    fill_documents(bins, sides, places);
    int32_t *owners = find_owners(bins, sides);
    if (owners) {
        bins->ranks = sides->actual->declaration.cp_size;
        fill_owners(bins, owners, places);
    }
    return owners;
}

void cp_owners_close(cp_owners owners)
{
    free(owners);
}

/* ---- one tensor ---- */

static bool has_positions(const cp_tensor_result *tensor, const cp_bins *bins)
{
    bool of_a_parameter = tensor->kind == CP_TENSOR_GRADIENT && !cp_name_has_rows(tensor->name);
    return bins->T > 0 && !of_a_parameter && tensor->dims >= 2 && tensor->extent[0] == bins->B &&
           tensor->extent[1] == bins->T;
}

void cp_spread_begin(cp_spread *spread, const cp_tensor_result *tensor, const cp_bins *bins, cp_owners owners)
{
    *spread = (cp_spread){.bins = bins, .owners = owners};
    if (!has_positions(tensor, bins))
        return;
    spread->width = 1;
    for (int axis = 2; axis < tensor->dims; axis++)
        spread->width *= tensor->extent[axis];
    spread->errors = zeros(bins->B * bins->bins, sizeof *spread->errors);
    if (owners)
        spread->sums = zeros(bins->ranks, sizeof *spread->sums);
}

void cp_spread_part_begin(cp_spread_part *part, const cp_spread *spread, int64_t first, int64_t end)
{
    size_t ranks = spread->sums ? (size_t)spread->bins->ranks : 0;
    part->next = first;
    part->first_bin = bin_of(spread->bins, first / spread->width);
    part->bins = bin_of(spread->bins, (end - 1) / spread->width) + 1 - part->first_bin;
    if ((size_t)part->bins > part->error_room) {
        free(part->errors);
        part->errors = zeros(part->bins, sizeof *part->errors);
        part->error_room = (size_t)part->bins;
    }
    if (ranks > part->ranks) {
        free(part->sums);
        part->sums = zeros((int64_t)ranks, sizeof *part->sums);
        part->ranks = ranks;
    }
    memset(part->errors, 0, (size_t)part->bins * sizeof *part->errors);
    if (ranks > 0)
        memset(part->sums, 0, ranks * sizeof *part->sums);
}

void cp_spread_part_close(cp_spread_part *part)
{
    free(part->errors);
    free(part->sums);
}

/* `count` elements of one position, in pieces. */
static void add_position(cp_spread_part *part, const cp_spread *spread, int64_t position,
                         const double *expected, const double *actual, const uint8_t *places, int64_t count)
{
    enum { PIECE = 256 };
    double *bin = &part->errors[bin_of(spread->bins, position) - part->first_bin];
    int32_t rank = spread->sums ? spread->owners[position] : -1;
    bool known = rank >= 0 && rank < spread->bins->ranks;
    cp_sum unknown = {0};
    for (int64_t begin = 0; begin < count; begin += PIECE) {
        double errors[PIECE];
        int64_t n = count - begin < PIECE ? count - begin : PIECE;
        bool finite = true;
        for (int64_t i = 0; i < n; i++) {
            bool judged = !places || places[begin + i] != CP_PLACE_UNJUDGED;
            double error = judged ? fabs(actual[begin + i] - expected[begin + i]) : 0;
            bool usable = error <= DBL_MAX;
            errors[i] = usable ? error : 0;
            finite &= usable;
        }
        double largest = cp_sum_add_squares(known ? &part->sums[rank] : &unknown, errors, n);
        largest = finite ? largest : INFINITY;
        *bin = largest > *bin ? largest : *bin;
    }
}

void cp_spread_add(cp_spread_part *part, const cp_spread *spread, const double *expected,
                   const double *actual, const uint8_t *places, int64_t count)
{
    for (int64_t done = 0; done < count;) {
        int64_t position = (part->next + done) / spread->width;
        int64_t left = (position + 1) * spread->width - (part->next + done);
        int64_t run = left < count - done ? left : count - done;
        add_position(part, spread, position, expected + done, actual + done, places ? places + done : NULL,
                     run);
        done += run;
    }
    part->next += count;
}

void cp_spread_merge(cp_spread *spread, const cp_spread_part *part)
{
    for (int64_t i = 0; i < part->bins; i++) {
        double *bin = &spread->errors[part->first_bin + i];
        *bin = part->errors[i] > *bin ? part->errors[i] : *bin;
    }
    for (int rank = 0; spread->sums && rank < spread->bins->ranks; rank++)
        cp_sum_merge(&spread->sums[rank], &part->sums[rank]);
}

/* Sums in units of the largest exponent, then of their own sum. */
static double *shares_of(const cp_spread *spread)
{
    int ranks = spread->bins->ranks, exponent = INT_MIN;
    double *shares = zeros(ranks, sizeof *shares), whole = 0;
    for (int rank = 0; rank < ranks; rank++)
        if (spread->sums[rank].high > 0 && spread->sums[rank].exponent > exponent)
            exponent = spread->sums[rank].exponent;
    for (int rank = 0; rank < ranks && exponent > INT_MIN; rank++) {
        const cp_sum *sum = &spread->sums[rank];
        shares[rank] = ldexp(sum->high + sum->low, sum->exponent - exponent);
        whole += shares[rank];
    }
    for (int rank = 0; rank < ranks && whole > 0; rank++)
        shares[rank] /= whole;
    return shares;
}

void cp_spread_finish(cp_spread *spread, cp_tensor_result *tensor)
{
    tensor->bin_errors = spread->errors;
    tensor->rank_share = spread->sums ? shares_of(spread) : NULL;
    free(spread->sums);
}

#include "harness/judge/clues.h"

#include "harness/files/targets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cp_batch *batch_of(const cp_clues *clues)
{
    const cp_fixture *fixture = clues->sides->fixture;
    bool labels = fixture && (fixture->batch.labels || fixture->batch.shift_labels);
    return labels ? &fixture->batch : NULL;
}

/* ---- another number of targets ---- */

/* What there are so many of that could have been taken for targets; "": nothing. */
static void say_counted(char *out, size_t room, const cp_batch *batch, int ranks, int64_t targets,
                        int64_t number)
{
    int64_t real = 0, labelled = 0, all = batch->B * batch->T;
    for (int64_t i = 0; i < all; i++) {
        bool padding = (batch->attention_mask && batch->attention_mask[i] == 0) ||
                       (batch->document_ids && batch->document_ids[i] < 0);
        real += !padding;
        labelled += batch->labels && batch->labels[i] != CP_IGNORED;
    }
    const struct {
        int64_t number;
        const char *called;
    } counts[] = {{labelled, "labels before they are shifted"},
                  {targets + batch->B * ((ranks - batch->T % ranks) % ranks),
                   "padding that was added for the cut counted too"},
                  {real, "all real tokens"},
                  {all, "all positions"}};
    size_t used = 0;
    *out = '\0';
    for (size_t i = 0; i < sizeof counts / sizeof *counts && used < room; i++)
        if (counts[i].number == number && number != targets)
            used +=
                (size_t)snprintf(out + used, room - used, "%s%s", used ? ", or " : " (", counts[i].called);
    if (used > 0 && used + 1 < room)
        strcpy(out + used, ")");
}

void cp_say_count(char *out, size_t room, const cp_clues *clues, double factor)
{
    const cp_batch *batch = batch_of(clues);
    double divisor = batch ? cp_batch_divisor(batch) : 0;
    double counted = divisor / factor;
    double digits = cp_clue_agreement(clues->result->dtype);
    char as[160];
    *out = '\0';
    if (!(divisor > 0 && counted >= 0.5 && counted < 1e9 && digits * counted < 0.01 &&
          fabs(counted - round(counted)) <= digits * counted))
        return;
    say_counted(as, sizeof as, batch, clues->actual->cp_size, llround(divisor), llround(counted));
    snprintf(out, room, ", as if divided by %.0f and not by %.0f%s", counted, divisor, as);
}

/* A rank that holds no target; -1: none, or it is not known. */
int cp_clue_idle_rank(const cp_clues *clues)
{
    const cp_bins *bins = &clues->result->bins;
    const cp_batch *batch = batch_of(clues);
    if (!batch || !bins->owner || bins->width != 1)
        return -1;
    for (int rank = 0; rank < bins->ranks; rank++) {
        bool idle = true;
        for (int64_t i = 0; idle && i < bins->B * bins->T; i++)
            idle = bins->owner[i] != rank || cp_batch_target(batch, i / bins->T, i % bins->T) == CP_IGNORED;
        if (idle)
            return rank;
    }
    return -1;
}

/* ---- means of parts ---- */

enum { MOST_GROUPS = 1024 };

/* Token losses of the expected side, by who has them. */
typedef struct shares {
    int count;
    double sum[MOST_GROUPS], targets[MOST_GROUPS];
} shares;

typedef int (*group_of)(const cp_clues *clues, int64_t b, int64_t t, int64_t groups);

static int by_rank(const cp_clues *clues, int64_t b, int64_t t, int64_t groups)
{
    (void)groups;
    const cp_bins *bins = &clues->result->bins;
    return bins->owner[b * bins->bins + t];
}

static int by_rows(const cp_clues *clues, int64_t b, int64_t t, int64_t groups)
{
    (void)t;
    return (int)(b * groups / clues->sides->fixture->batch.B);
}

/* False: token losses cannot be read, or a position belongs to nobody. */
static bool gather(shares *out, const cp_clues *clues, group_of group, int groups)
{
    const cp_batch *batch = batch_of(clues);
    const cp_source *expected = clues->sides->expected;
    int64_t found = cp_source_find(expected, "token_loss");
    *out = (shares){.count = groups};
    if (found < 0 || groups > MOST_GROUPS)
        return false;
    double block[512];
    enum { STEP = sizeof block / sizeof *block };
    for (int64_t b = 0; b < batch->B; b++) {
        for (int64_t t = 0; t < batch->T; t++) {
            int64_t left = batch->T - t < STEP ? batch->T - t : STEP;
            if (t % STEP == 0 &&
                expected->read(expected, (size_t)found, b * batch->T + t, left, block) != CP_OK)
                return false;
            if (cp_batch_target(batch, b, t) == CP_IGNORED)
                continue;
            int of = group(clues, b, t, groups);
            if (of < 0 || of >= groups)
                return false;
            out->sum[of] += block[t % STEP];
            out->targets[of]++;
        }
    }
    return true;
}

static bool is_near(double a, double b, double digits)
{
    return fabs(a - b) <= digits * fabs(b);
}

static double mean_of_means(const shares *of)
{
    double sum = 0;
    for (int g = 0; g < of->count; g++)
        sum += of->targets[g] > 0 ? of->sum[g] / of->targets[g] : 0;
    return sum / of->count;
}

/* The loss is one of the ranks' own, or the mean of the ranks', or of some equal groups of rows. */
static bool say_shares(char *out, size_t room, const cp_clues *clues, const char *right, double loss)
{
    const cp_batch *batch = batch_of(clues);
    const cp_bins *bins = &clues->result->bins;
    double digits = cp_clue_agreement(clues->result->dtype);
    double divisor = cp_batch_divisor(batch);
    shares *of = malloc(sizeof *of);
    cp_check(of, "no memory for shares of a loss");
    bool said = false;
    if (bins->owner && bins->width == 1 && gather(of, clues, by_rank, bins->ranks)) {
        if (is_near(loss, mean_of_means(of), digits)) {
            said = true;
            snprintf(out, room,
                     "%s, and the loss is the mean of the ranks' own means: look at its divisor, which has "
                     "to count "
                     "the targets of all ranks",
                     right);
        }
        for (int g = 0; g < of->count && !said; g++) {
            bool mean = of->targets[g] > 0 && is_near(loss, of->sum[g] / of->targets[g], digits);
            if (!mean && !is_near(loss, of->sum[g] / divisor, digits))
                continue;
            said = true;
            snprintf(out, room, "%s, and the loss is rank %d's own %s: look at its reduction over ranks",
                     right, g, mean ? "mean" : "share");
        }
    }
    for (int groups = 2; groups <= batch->B && groups <= 64 && !said; groups++) {
        if (batch->B % groups != 0 || !gather(of, clues, by_rows, groups) ||
            !is_near(loss, mean_of_means(of), digits))
            continue;
        said = true;
        snprintf(out, room,
                 "%s, and the loss is the mean of the means of %d groups of rows: look at its divisor, which "
                 "has to "
                 "count the targets of all micro-batches and groups of ranks",
                 right, groups);
    }
    free(of);
    return said;
}

/* ---- another kind ---- */

/* What the ranks' losses make, if they are of this kind; NaN: nothing. */
static double loss_as(cp_loss_kind kind, const cp_clues *clues, cp_source *const *parts, size_t ranks)
{
    const cp_batch *batch = batch_of(clues);
    double sum = 0, weighted = 0, first = NAN, divisor = batch ? cp_batch_divisor(batch) : NAN;
    for (size_t p = 0; p < ranks; p++) {
        int64_t found = cp_source_find(parts[p], "loss");
        double loss;
        if (found < 0 || parts[p]->read(parts[p], (size_t)found, 0, 1, &loss) != CP_OK)
            return NAN;
        first = p == 0 ? loss : first;
        sum += loss;
        int64_t targets = parts[p]->declaration.loss_count;
        weighted += targets < 0 ? NAN : targets > 0 ? loss * (double)targets : 0;
    }
    switch (kind) {
    case CP_LOSS_GLOBAL: return first;
    case CP_LOSS_SHARE: return sum;
    case CP_LOSS_MEAN: return sum / (double)ranks;
    case CP_LOSS_PARTIAL_SUM: return sum / divisor;
    case CP_LOSS_LOCAL_MEAN: return weighted / divisor;
    default: return NAN;
    }
}

static bool say_other_kind(char *out, size_t room, const cp_clues *clues)
{
    cp_source *const *parts;
    const cp_place *places;
    size_t ranks = cp_join_parts(clues->sides->actual, &parts, &places);
    double digits = cp_clue_agreement(clues->result->dtype);
    for (int kind = 0; ranks > 1 && kind < CP_LOSS_KINDS; kind++) {
        cp_loss_kind as = (cp_loss_kind)kind;
        if (as == parts[0]->declaration.loss_kind ||
            !is_near(loss_as(as, clues, parts, ranks), clues->first->worst_expected, digits))
            continue;
        snprintf(out, room, "it would be the same if loss_kind = \"%s\" were declared, and not \"%s\"",
                 cp_loss_kind_name(as), cp_loss_kind_name(parts[0]->declaration.loss_kind));
        return true;
    }
    return false;
}

/* ---- the sentence ---- */

bool cp_say_loss(char *out, size_t room, const cp_clues *clues)
{
    const cp_result *result = clues->result;
    const cp_tensor_result *loss = clues->first;
    const char *right = cp_clue_right(result, CP_TENSOR_TOKEN_LOSS) ? "token losses are right"
                        : cp_clue_right(result, CP_TENSOR_LOGITS)   ? "logits are right"
                                                                    : NULL;
    char counted[256] = "";
    if (say_other_kind(out, room, clues))
        return true;
    if (!right)
        return false;
    double digits = cp_clue_agreement(result->dtype);
    double P = (double)clues->actual->cp_size * clues->actual->dp_size;
    bool by_p = P > 1 && (is_near(loss->factor, P, digits) || is_near(loss->factor, 1 / P, digits));
    if (!by_p && batch_of(clues) && say_shares(out, room, clues, right, loss->worst_actual))
        return true;
    if (!by_p)
        cp_say_count(counted, sizeof counted, clues, loss->factor);
    bool gradients = cp_clue_of_kind(result, CP_TENSOR_GRADIENT) != NULL;
    for (size_t i = 0; i < result->count; i++)
        gradients = gradients && !(result->tensors[i].kind == CP_TENSOR_GRADIENT &&
                                   cp_clue_different(&result->tensors[i]));
    snprintf(out, room, "%s and the loss is %.4g times the expected%s%s%s: look at %s", right, loss->factor,
             by_p && loss->factor > 1 ? ", the number of ranks"
             : by_p                   ? ", 1 / the number of ranks"
                                      : "",
             counted, gradients ? ", with right gradients" : "",
             gradients    ? "what is reported: its reduction over ranks"
             : counted[0] ? "what is counted as a target"
             : by_p
                 ? "its divisor, and its reduction over ranks"
                 : "its divisor, its reduction over ranks, and what is in it beside the tokens, as padding "
                   "that was given a label");
    return true;
}

#include "harness/judge/clues.h"
#include "harness/judge/names.h"
#include "harness/judge/part_fit.h"

#include <math.h>
#include <stdio.h>

enum { MOST_TENSORS = 8 };

/* Gradients before their reduction are there, and all right. */
static bool parts_are_right(const cp_result *result)
{
    bool any = false;
    for (size_t i = 0; i < result->count; i++) {
        if (!cp_name_is_partial(result->tensors[i].name))
            continue;
        if (cp_clue_different(&result->tensors[i]))
            return false;
        any = true;
    }
    return any;
}

/* Least squares of what was reduced on what the ranks had before. */
static bool fit_reduced(cp_part_fit *of, const cp_clues *clues, cp_source *const *parts, size_t ranks)
{
    size_t used = 0;
    cp_part_fit_open(of, ranks);
    for (size_t i = 0; i < clues->result->count && used < MOST_TENSORS; i++) {
        const cp_tensor_result *tensor = &clues->result->tensors[i];
        int64_t actual = cp_source_find(clues->sides->actual, tensor->name);
        char name[CP_RESULT_NAME + sizeof "_partial"];
        if (tensor->kind != CP_TENSOR_GRADIENT || !cp_clue_different(tensor) || !tensor->measured ||
            actual < 0 || cp_name_has_rows(tensor->name))
            continue;
        cp_fit_target target = {clues->sides->actual, (size_t)actual, 1, tensor->expected_norm};
        for (int axis = 0; axis < tensor->dims; axis++)
            target.count *= tensor->extent[axis];
        snprintf(name, sizeof name, "grads_partial/%s", cp_name_parameter(tensor->name));
        if (!cp_part_fit_add(of, &target, parts, name))
            return false;
        used++;
    }
    return used > 0 && of->target > 0 && cp_part_fit_solve(of);
}

/* The one rank whose factor is another than the others', which have `common`; -1: none or several. */
static int odd_one(const cp_part_fit *of, double common, double digits)
{
    int odd = -1;
    for (int p = 0; p < of->ranks; p++) {
        if (fabs(of->factor[p] - common) <= digits)
            continue;
        if (odd >= 0)
            return -1;
        odd = p;
    }
    return odd;
}

static void say_factors(char *out, size_t room, const cp_part_fit *of, double digits)
{
    int odd = odd_one(of, 1, digits), alone = odd_one(of, 0, digits);
    int ranks = of->ranks;
    if (!(of->remainder <= digits))
        snprintf(out, room, "they are no sum of the ranks' gradients");
    else if (cp_part_fit_near(of, 1 / (double)ranks, digits))
        snprintf(out, room, "they are the mean of the ranks' gradients, not the sum: 1/%d of it", ranks);
    else if (cp_part_fit_near(of, ranks, ranks * digits))
        snprintf(out, room, "they are %d times the ranks' sum: it was added up once more", ranks);
    else if (cp_part_fit_near(of, of->factor[0], fabs(of->factor[0]) * digits))
        snprintf(out, room, "they are %.4g times the ranks' sum", of->factor[0]);
    else if (alone >= 0 && fabs(of->factor[alone] - 1) <= digits)
        snprintf(out, room, "they are rank %d's own: they were not reduced", alone);
    else if (odd >= 0 && fabs(of->factor[odd]) <= digits)
        snprintf(out, room, "rank %d's part is left out of them", odd);
    else if (odd >= 0)
        snprintf(out, room, "rank %d's part is in them %.4g times", odd, of->factor[odd]);
    else
        snprintf(out, room, "they are a sum of the ranks' gradients, but not with the factor 1");
}

bool cp_say_reduction(char *out, size_t room, const cp_clues *clues)
{
    cp_source *const *parts;
    const cp_place *places;
    size_t ranks = cp_join_parts(clues->sides->actual, &parts, &places);
    if (cp_name_is_partial(clues->first->name) || !parts_are_right(clues->result))
        return false;
    size_t used = (size_t)snprintf(
        out, room, "the ranks' gradients before their reduction are right, so the reduction is wrong");
    cp_part_fit of;
    if (ranks < 2 || ranks > CP_FIT_RANKS || used + 2 >= room || !fit_reduced(&of, clues, parts, ranks))
        return true;
    used += (size_t)snprintf(out + used, room - used, ": ");
    say_factors(out + used, room - used, &of, sqrt(cp_clue_agreement(clues->result->dtype)));
    return true;
}

#include "harness/judge/part_fit.h"

#include <math.h>

enum { BLOCK = 512, MOST_ELEMENTS = 1 << 22 };

void cp_part_fit_open(cp_part_fit *of, size_t ranks)
{
    cp_check(ranks <= CP_FIT_RANKS, "%zu ranks", ranks);
    *of = (cp_part_fit){.ranks = (int)ranks};
}

static bool add_block(cp_part_fit *of, const cp_fit_target *target, cp_source *const *parts,
                      const int64_t *index, int64_t first, int64_t n)
{
    double values[BLOCK], own[CP_FIT_RANKS][BLOCK];
    double unit = 1 / (target->norm * target->norm);
    if (target->source->read(target->source, target->tensor, first, n, values) != CP_OK)
        return false;
    for (int p = 0; p < of->ranks; p++) {
        if (parts[p]->read(parts[p], (size_t)index[p], first, n, own[p]) != CP_OK)
            return false;
        for (int64_t i = 0; i < n; i++)
            own[p][i] /= parts[p]->declaration.grad_scale;
    }
    for (int64_t i = 0; i < n; i++) {
        of->target += unit * values[i] * values[i];
        for (int p = 0; p < of->ranks; p++) {
            of->with[p] += unit * values[i] * own[p][i];
            for (int q = 0; q <= p; q++)
                of->gram[p][q] += unit * own[p][i] * own[q][i];
        }
    }
    return true;
}

bool cp_part_fit_add(cp_part_fit *of, const cp_fit_target *target, cp_source *const *parts, const char *name)
{
    int64_t index[CP_FIT_RANKS];
    if (!(target->norm > 0) || of->elements + target->count > MOST_ELEMENTS)
        return true;
    of->elements += target->count;
    for (int p = 0; p < of->ranks; p++) {
        index[p] = cp_source_find(parts[p], name);
        int64_t elements = 1;
        for (int axis = 0; index[p] >= 0 && axis < parts[p]->tensors[index[p]].dims; axis++)
            elements *= parts[p]->tensors[index[p]].extent[axis];
        if (index[p] < 0 || elements != target->count)
            return false;
    }
    for (int64_t done = 0; done < target->count; done += BLOCK) {
        int64_t n = target->count - done < BLOCK ? target->count - done : BLOCK;
        if (!add_block(of, target, parts, index, done, n))
            return false;
    }
    return true;
}

/* By Cholesky. */
bool cp_part_fit_solve(cp_part_fit *of)
{
    double L[CP_FIT_RANKS][CP_FIT_RANKS] = {{0}};
    int P = of->ranks;
    for (int p = 0; p < P; p++) {
        for (int q = 0; q <= p; q++) {
            double rest = of->gram[p][q];
            for (int k = 0; k < q; k++)
                rest -= L[p][k] * L[q][k];
            if (p == q && !(rest > 1e-10 * of->gram[p][p]))
                return false;
            L[p][q] = p == q ? sqrt(rest) : rest / L[q][q];
        }
    }
    for (int p = 0; p < P; p++) {
        of->factor[p] = of->with[p];
        for (int k = 0; k < p; k++)
            of->factor[p] -= L[p][k] * of->factor[k];
        of->factor[p] /= L[p][p];
    }
    double explained = 0;
    for (int p = 0; p < P; p++)
        explained += of->factor[p] * of->factor[p];
    of->remainder = sqrt(fmax(of->target - explained, 0) / of->target);
    for (int p = P - 1; p >= 0; p--) {
        for (int k = p + 1; k < P; k++)
            of->factor[p] -= L[k][p] * of->factor[k];
        of->factor[p] /= L[p][p];
    }
    return true;
}

bool cp_part_fit_near(const cp_part_fit *of, double value, double digits)
{
    for (int p = 0; p < of->ranks; p++)
        if (!(fabs(of->factor[p] - value) <= digits))
            return false;
    return true;
}

#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

#include <inttypes.h>

static void check(cp_tensor out, cp_tensor ids, cp_tensor table)
{
    cp_check_real("embedding table", table);
    cp_check(out.dims >= 2 && table.dims == 2, "embedding: %d and %d axes", out.dims, table.dims);
    cp_check_real("embedding out", out);
    cp_check(cp_width(out) == cp_width(table), "embedding: rows of %" PRId64 " from rows of %" PRId64,
             cp_width(out), cp_width(table));
    cp_check_integers("embedding ids", ids, out.dims - 1, out.extent);
    if (CP_SHAPE_ONLY)
        return;
    for (int64_t row = 0; row < cp_row_count(out); row++) {
        int64_t id = cp_integer(ids, row);
        cp_check(id >= 0 && id < table.extent[0], "embedding: id %" PRId64 " of a table of %" PRId64, id,
                 table.extent[0]);
    }
}

/* transformers keeps the factor in the table's own type. */
static real factor_of(double scale, cp_precision precision)
{
    return precision.rounding == CP_ROUND_BF16 ? (real)cp_bf16_round((float)scale) : (real)scale;
}

static void forward(cp_tensor out, cp_tensor ids, cp_tensor table, double scale, cp_precision precision)
{
    check(out, ids, table);
    cp_rounder rounder = cp_rounder_of(precision);
    if (CP_SHAPE_ONLY)
        return;
    int64_t rows = cp_row_count(out);
    int64_t C = cp_width(out);
    real factor = factor_of(scale, precision);
#pragma omp parallel for schedule(static) if (rows * C > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++) {
        real *to = cp_row(out, row);
        const real *from = cp_row(table, cp_integer(ids, row));
        for (int64_t c = 0; c < C; c++)
            to[c] = stored(factor * from[c], c, &rounder);
    }
}

/* Two tokens may share a row, so threads share out the columns; each adds its tokens in order. */
static void backward(cp_tensor dtable, cp_tensor dout, cp_tensor ids, double scale, int64_t padding_id,
                     cp_precision precision)
{
    enum { COLUMNS = 64 };
    check(dout, ids, dtable);
    cp_rounder rounder = cp_rounder_of(precision);
    if (CP_SHAPE_ONLY)
        return;
    int64_t rows = cp_row_count(dout);
    int64_t C = cp_width(dout);
    real factor = factor_of(scale, precision);
#pragma omp parallel for schedule(static) if (rows * C > CP_WORTH_A_THREAD)
    for (int64_t first = 0; first < C; first += COLUMNS) {
        int64_t count = cp_min(COLUMNS, C - first);
        for (int64_t row = 0; row < rows; row++) {
            int64_t id = cp_integer(ids, row);
            if (id == padding_id)
                continue;
            real *to = cp_row(dtable, id) + first;
            const real *from = cp_row(dout, row) + first;
            for (int64_t c = 0; c < count; c++)
                to[c] = stored(to[c] + stored(factor * from[c], first + c, &rounder), first + c, &rounder);
        }
    }
}

const cp_embedding_ops CP_WIDTH(cp_embedding) = {.forward = forward, .backward = backward};

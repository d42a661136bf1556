#include "reference/gemm.h"
#include "reference/kernels.h"
#include "reference/rounding.h"
#include "reference/rows.h"

/* x and y as groups of rows with one stride: [groups][rows, width]. Contiguous tensors are one group. */
typedef struct grouped {
    cp_tensor x, y;
    int64_t groups, rows, O, I;
} grouped;

static grouped check(cp_tensor y, cp_tensor x, cp_tensor weight)
{
    cp_check_real("linear y", y);
    cp_check_real("linear x", x);
    int64_t O = cp_width(y);
    int64_t I = cp_width(x);
    cp_check_shape("linear weight", weight, 2, CP_EXTENTS(O, I));
    cp_tensor x_like_y = x;
    x_like_y.extent[x.dims - 1] = O;
    cp_check(cp_tensor_same_shape(x_like_y, y), "linear: x and y differ in their leading axes");
    cp_join_axes((cp_tensor *[]){&x, &y}, 2, 1);
    int64_t rows = x.dims > 1 ? x.extent[x.dims - 2] : 1;
    return (grouped){
        .x = x, .y = y, .groups = rows ? cp_row_count(x) / rows : 0, .rows = rows, .O = O, .I = I};
}

/* The matrix of one group. The stride of a single row means nothing, but BLAS checks it. */
static cp_matrix group_of(cp_tensor tensor, int64_t group)
{
    int64_t width = cp_width(tensor);
    if (tensor.dims == 1)
        return (cp_matrix){.data = tensor.data, .stride = width};
    int64_t stride = tensor.stride[tensor.dims - 2];
    return (cp_matrix){.data = (const real *)tensor.data + cp_offset(tensor, tensor.dims - 2, group),
                       .stride = stride < width ? width : stride};
}

static cp_matrix transpose(cp_matrix matrix)
{
    matrix.transposed = !matrix.transposed;
    return matrix;
}

static cp_matrix plain(cp_tensor tensor)
{
    return group_of(tensor, 0);
}

CP_CLONES static void finish_row(real *restrict y, const real *restrict bias, int64_t O, cp_rounder rounder)
{
    if (bias)
        for (int64_t o = 0; o < O; o++)
            y[o] += bias[o];
    if (rounder.on)
        round_row(y, O, 0, &rounder);
}

static void forward(cp_tensor y, cp_tensor x, cp_tensor weight, cp_tensor bias, cp_precision precision)
{
    grouped g = check(y, x, weight);
    cp_rounder rounder = cp_rounder_of(precision);
    cp_check_optional("linear bias", bias, 1, CP_EXTENTS(g.O));
    if (CP_SHAPE_ONLY)
        return;
    for (int64_t group = 0; group < g.groups; group++) {
        cp_matrix out = group_of(g.y, group);
        cp_gemm_tiled(g.rows, g.O, g.I, 1, group_of(g.x, group), transpose(plain(weight)), false,
                      (real *)out.data, out.stride, precision.matmul);
    }
    int64_t rows = cp_row_count(y);
    if (!cp_tensor_given(bias) && !rounder.on)
        return;
#pragma omp parallel for schedule(static) if (rows * g.O > CP_WORTH_A_THREAD)
    for (int64_t row = 0; row < rows; row++)
        finish_row(cp_row(y, row), bias.data, g.O, rounder);
}

/* Threads share out the columns; each adds its rows in order. */
static void add_rows(cp_tensor dbias, cp_tensor dy)
{
    enum { COLUMNS = 64 };
    int64_t rows = cp_row_count(dy);
    int64_t O = cp_width(dy);
    real *total = dbias.data;
#pragma omp parallel for schedule(static) if (rows * O > CP_WORTH_A_THREAD)
    for (int64_t first = 0; first < O; first += COLUMNS) {
        int64_t count = cp_min(COLUMNS, O - first);
        for (int64_t row = 0; row < rows; row++) {
            const real *from = cp_row(dy, row) + first;
            for (int64_t o = 0; o < count; o++)
                total[first + o] += from[o];
        }
    }
}

static void backward(cp_tensor dx, cp_tensor dweight, cp_tensor dbias, cp_tensor dy, cp_tensor x,
                     cp_tensor weight, cp_precision precision)
{
    grouped g = check(dy, x, weight);
    cp_check_optional("linear dx", dx, x.dims, x.extent);
    cp_check_optional("linear dweight", dweight, 2, CP_EXTENTS(g.O, g.I));
    cp_check_optional("linear dbias", dbias, 1, CP_EXTENTS(g.O));
    if (CP_SHAPE_ONLY)
        return;
    if (cp_tensor_given(dx)) {
        grouped d = check(dy, dx, weight);
        for (int64_t group = 0; group < d.groups; group++) {
            cp_matrix out = group_of(d.x, group);
            cp_gemm_tiled(d.rows, d.I, d.O, 1, group_of(d.y, group), plain(weight), true, (real *)out.data,
                          out.stride, precision.matmul);
        }
    }
    for (int64_t group = 0; group < g.groups && cp_tensor_given(dweight); group++) {
        cp_matrix out = plain(dweight);
        cp_gemm_tiled(g.O, g.I, g.rows, 1, transpose(group_of(g.y, group)), group_of(g.x, group), true,
                      (real *)out.data, out.stride, precision.matmul);
    }
    if (cp_tensor_given(dbias))
        add_rows(dbias, dy);
}

const cp_linear_ops CP_WIDTH(cp_linear) = {.forward = forward, .backward = backward};

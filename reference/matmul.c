#include "reference/gemm.h"

#include "reference/rows.h"
#include "reference/vector_math.h"

#include <cblas.h>
#include <pthread.h>

#if CP_REAL_BITS == 64
#define cblas_gemm cblas_dgemm
#else
#define cblas_gemm cblas_sgemm
#endif

/* ---- blas ---- */

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;

/* Threads are ours: OpenBLAS would cut a product by how many it has, and the sums with it. */
static void blas_alone(void)
{
    openblas_set_num_threads(1);
}

static void blas_product(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add,
                         real *c, int64_t c_stride)
{
    pthread_once(&blas_once, blas_alone);
    cblas_gemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
               b.transposed ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a.data,
               (blasint)a.stride, b.data, (blasint)b.stride, add ? (real)1 : (real)0, c, (blasint)c_stride);
}

/* ---- ordered ---- */

/* A block of c stays in registers while k runs; a and b are packed in panels, so that the inner loop is contiguous
 * whatever is transposed. Padding of a block is computed and dropped: no element mixes with another. */
enum { VECTOR_BYTES = 32, WIDTH = VECTOR_BYTES / sizeof(real) };
enum { BLOCK_M = 4, BLOCK_N = 2 * WIDTH, PANEL_M = 64, PANEL_N = 64, PANEL_K = 128 };
enum { BLOCKS_M = PANEL_M / BLOCK_M, BLOCKS_N = PANEL_N / BLOCK_N };

typedef real vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

/* packed[i / group][k][i % group] = factor · lines[i][k], i < count, k < depth, zeros from `given` on. A line is a row
 * of a or a column of b; `along`: its elements are neighbours in memory, else those of neighbouring lines are. */
static void pack(real *packed, int64_t group, const real *lines, int64_t stride, bool along, real factor,
                 int64_t given, int64_t count, int64_t depth)
{
    if (given < count)
        memset(packed, 0, (size_t)(count * depth) * sizeof *packed);
    for (int64_t first = 0; first < given; first += group, packed += depth * group) {
        int64_t end = cp_min(group, given - first);
        const real *line = lines + first * (along ? stride : 1);
        if (along)
            for (int64_t i = 0; i < end; i++)
                for (int64_t k = 0; k < depth; k++)
                    packed[k * group + i] = factor * line[i * stride + k];
        else
            for (int64_t k = 0; k < depth; k++)
                for (int64_t i = 0; i < end; i++)
                    packed[k * group + i] = factor * line[k * stride + i];
    }
}

/* sum[i][j] += Σ_k a[k][i] · b[k][j], k ascending. Sums are loaded one by one: copied as a whole they stay in memory. */
CP_CLONES static void ordered_block(real *restrict sum, const real *restrict a, const real *restrict b,
                                    int64_t depth)
{
    vector *c = (vector *)sum;
    vector left[BLOCK_M], right[BLOCK_M];
    for (int i = 0; i < BLOCK_M; i++) {
        left[i] = c[2 * i];
        right[i] = c[2 * i + 1];
    }
    for (int64_t k = 0; k < depth; k++) {
        const vector *row = (const vector *)(b + k * BLOCK_N);
        for (int i = 0; i < BLOCK_M; i++) {
            left[i] += a[k * BLOCK_M + i] * row[0];
            right[i] += a[k * BLOCK_M + i] * row[1];
        }
    }
    for (int i = 0; i < BLOCK_M; i++) {
        c[2 * i] = left[i];
        c[2 * i + 1] = right[i];
    }
}

/* The part of a matrix that starts at (row, column). */
static cp_matrix from(cp_matrix matrix, int64_t row, int64_t column)
{
    matrix.data += matrix.transposed ? column * matrix.stride + row : row * matrix.stride + column;
    return matrix;
}

/* One panel of c, at most PANEL_M x PANEL_N. */
static void ordered_panel(int64_t rows, int64_t columns, int64_t k, real alpha, cp_matrix a, cp_matrix b,
                          bool add, real *c, int64_t c_stride)
{
    real sum[BLOCKS_M][BLOCKS_N][BLOCK_M * BLOCK_N] = {0};
    real packed_a[PANEL_M * PANEL_K];
    real packed_b[PANEL_N * PANEL_K];
    for (int64_t i = 0; add && i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            sum[i / BLOCK_M][j / BLOCK_N][i % BLOCK_M * BLOCK_N + j % BLOCK_N] = c[i * c_stride + j];
    for (int64_t first = 0; first < k; first += PANEL_K) {
        int64_t depth = cp_min(PANEL_K, k - first);
        pack(packed_a, BLOCK_M, from(a, 0, first).data, a.stride, !a.transposed, alpha, rows, PANEL_M, depth);
        pack(packed_b, BLOCK_N, from(b, first, 0).data, b.stride, b.transposed, 1, columns, PANEL_N, depth);
        for (int64_t i = 0; i * BLOCK_M < rows; i++)
            for (int64_t j = 0; j * BLOCK_N < columns; j++)
                ordered_block(sum[i][j], packed_a + i * depth * BLOCK_M, packed_b + j * depth * BLOCK_N,
                              depth);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * c_stride + j] = sum[i / BLOCK_M][j / BLOCK_N][i % BLOCK_M * BLOCK_N + j % BLOCK_N];
}

static void ordered_product(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add,
                            real *c, int64_t c_stride)
{
    for (int64_t row = 0; row < m; row += PANEL_M)
        for (int64_t column = 0; column < n; column += PANEL_N)
            ordered_panel(cp_min(PANEL_M, m - row), cp_min(PANEL_N, n - column), k, alpha, from(a, row, 0),
                          from(b, 0, column), add, c + row * c_stride + column, c_stride);
}

/* ---- both ---- */

void cp_gemm(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add, real *c,
             int64_t c_stride, cp_matmul form)
{
    if (m == 0 || n == 0)
        return;
    if (form == CP_MATMUL_ORDERED)
        ordered_product(m, n, k, alpha, a, b, add, c, c_stride);
    else if (!cp_gemm_small(m, n, k, alpha, a, b, add, c, c_stride))
        blas_product(m, n, k, alpha, a, b, add, c, c_stride);
}

static int64_t pieces(int64_t whole, int64_t piece)
{
    return (whole + piece - 1) / piece;
}

typedef struct tiling {
    int64_t m, n;
} tiling;

/* The side of `count` tiles of one size. */
static int64_t side(int64_t whole, int64_t count)
{
    enum { GRAIN = 16 };
    return pieces(pieces(whole, count), GRAIN) * GRAIN;
}

/* OpenBLAS packs a and b anew for every tile, so tiles are as large as two threads can have them: four instead of two
 * cost 6 % of a step. A matter of m and n alone: how many threads there are decides nothing. */
static tiling tiles_of(int64_t m, int64_t n)
{
    enum { LARGEST = 1024, SMALLEST = 128 * 256, WANTED = 2 };
    int64_t down = pieces(m, LARGEST);
    int64_t across = pieces(n, LARGEST);
    tiling tile = {side(m, down), side(n, across)};
    while (down * across < WANTED && tile.m * tile.n > SMALLEST) {
        if (tile.n > tile.m)
            across *= 2;
        else
            down *= 2;
        tile = (tiling){side(m, down), side(n, across)};
    }
    return tile;
}

void cp_gemm_tiled(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add, real *c,
                   int64_t c_stride, cp_matmul form)
{
    if (m == 0 || n == 0)
        return;
    tiling tile = tiles_of(m, n);
    int64_t across = pieces(n, tile.n);
    int64_t count = pieces(m, tile.m) * across;
#pragma omp parallel for schedule(dynamic, 1) if (m * n * k > 16 * CP_WORTH_A_THREAD)
    for (int64_t at = 0; at < count; at++) {
        int64_t row = at / across * tile.m;
        int64_t column = at % across * tile.n;
        cp_gemm(cp_min(tile.m, m - row), cp_min(tile.n, n - column), k, alpha, from(a, row, 0),
                from(b, 0, column), add, c + row * c_stride + column, c_stride, form);
    }
}

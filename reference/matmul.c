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

/* A block of c stays in registers or in the first cache while k runs; a and b are packed so that the inner loop is
 * contiguous whatever is transposed. Padding of a block is computed and dropped: no element mixes with another. */
enum { BLOCK_M = 4, BLOCK_N = 16, PANEL_M = 32, PANEL_N = 64, PANEL_K = 128 };

static real element(cp_matrix matrix, int64_t row, int64_t column)
{
    return matrix.transposed ? matrix.data[column * matrix.stride + row]
                             : matrix.data[row * matrix.stride + column];
}

/* packed[i/BLOCK_M][k][i%BLOCK_M] = alpha · a[i,k] */
static void pack_a(real *packed, cp_matrix a, real alpha, int64_t row, int64_t rows, int64_t first,
                   int64_t depth)
{
    for (int64_t i = 0; i < PANEL_M; i++)
        for (int64_t k = 0; k < depth; k++)
            packed[(i / BLOCK_M * depth + k) * BLOCK_M + i % BLOCK_M] =
                i < rows ? alpha * element(a, row + i, first + k) : (real)0;
}

/* packed[j/BLOCK_N][k][j%BLOCK_N] = b[k,j] */
static void pack_b(real *packed, cp_matrix b, int64_t first, int64_t depth, int64_t column, int64_t columns)
{
    for (int64_t block = 0; block < PANEL_N / BLOCK_N; block++)
        for (int64_t k = 0; k < depth; k++)
            for (int64_t j = 0; j < BLOCK_N; j++) {
                int64_t at = block * BLOCK_N + j;
                packed[(block * depth + k) * BLOCK_N + j] =
                    at < columns ? element(b, first + k, column + at) : (real)0;
            }
}

/* sum[i][j] += Σ_k a[k][i] · b[k][j], k ascending */
CP_CLONES static void ordered_block(real *restrict sum, const real *restrict a, const real *restrict b,
                                    int64_t depth)
{
    real s[BLOCK_M][BLOCK_N];
    memcpy(s, sum, sizeof s);
    for (int64_t k = 0; k < depth; k++, a += BLOCK_M, b += BLOCK_N)
        for (int i = 0; i < BLOCK_M; i++)
            for (int j = 0; j < BLOCK_N; j++)
                s[i][j] += a[i] * b[j];
    memcpy(sum, s, sizeof s);
}

/* One panel of c, at most PANEL_M x PANEL_N. */
static void ordered_panel(int64_t rows, int64_t columns, int64_t k, real alpha, cp_matrix a, int64_t row,
                          cp_matrix b, int64_t column, bool add, real *c, int64_t c_stride)
{
    enum { BLOCKS_M = PANEL_M / BLOCK_M, BLOCKS_N = PANEL_N / BLOCK_N };
    real sum[BLOCKS_M][BLOCKS_N][BLOCK_M * BLOCK_N] = {0};
    real packed_a[PANEL_M * PANEL_K];
    real packed_b[PANEL_N * PANEL_K];
    for (int64_t i = 0; add && i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            sum[i / BLOCK_M][j / BLOCK_N][i % BLOCK_M * BLOCK_N + j % BLOCK_N] = c[i * c_stride + j];
    for (int64_t first = 0; first < k; first += PANEL_K) {
        int64_t depth = cp_min(PANEL_K, k - first);
        pack_a(packed_a, a, alpha, row, rows, first, depth);
        pack_b(packed_b, b, first, depth, column, columns);
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
            ordered_panel(cp_min(PANEL_M, m - row), cp_min(PANEL_N, n - column), k, alpha, a, row, b, column,
                          add, c + row * c_stride + column, c_stride);
}

/* ---- both ---- */

void cp_gemm(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add, real *c,
             int64_t c_stride, cp_matmul form)
{
    if (m == 0 || n == 0)
        return;
    if (form == CP_MATMUL_ORDERED)
        ordered_product(m, n, k, alpha, a, b, add, c, c_stride);
    else
        blas_product(m, n, k, alpha, a, b, add, c, c_stride);
}

/* The part of a matrix that starts at (row, column). */
static cp_matrix from(cp_matrix matrix, int64_t row, int64_t column)
{
    matrix.data += matrix.transposed ? column * matrix.stride + row : row * matrix.stride + column;
    return matrix;
}

void cp_gemm_tiled(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add, real *c,
                   int64_t c_stride, cp_matmul form)
{
    enum { TILE_M = 256, TILE_N = 512 };
    int64_t tiles_m = (m + TILE_M - 1) / TILE_M;
    int64_t tiles_n = (n + TILE_N - 1) / TILE_N;
    bool worth = m * n * k > 16 * CP_WORTH_A_THREAD;
    (void)worth; /* without OpenMP */
#pragma omp parallel for schedule(dynamic, 1) if (worth)
    for (int64_t tile = 0; tile < tiles_m * tiles_n; tile++) {
        int64_t row = tile / tiles_n * TILE_M;
        int64_t column = tile % tiles_n * TILE_N;
        cp_gemm(cp_min(TILE_M, m - row), cp_min(TILE_N, n - column), k, alpha, from(a, row, 0),
                from(b, 0, column), add, c + row * c_stride + column, c_stride, form);
    }
}

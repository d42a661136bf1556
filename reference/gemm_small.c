/* Products of small matrices, as attention's tiles are. They stay in the second cache, so b alone is packed, a panel at
 * a time, and a is read where it lies; OpenBLAS, which packs both and clears c first, spends a quarter of attention's
 * time on that. */
#include "reference/gemm.h"

#include "reference/rows.h"

#include <string.h>

/* Processors with 64-byte vectors are left to OpenBLAS, which has kernels of its own for small matrices there. */
#if defined(__x86_64__) && defined(__GNUC__) && !CP_SHAPE_ONLY

#include <immintrin.h>

#if CP_REAL_BITS == 64
typedef __m256d vector;
#define LOAD(from)       _mm256_loadu_pd(from)
#define STORE(to, value) _mm256_storeu_pd(to, value)
#define ALL(value)       _mm256_set1_pd(value)
#define FUSED(a, b, c)   _mm256_fmadd_pd(a, b, c)
#define TIMES(a, b)      _mm256_mul_pd(a, b)
#else
typedef __m256 vector;
#define LOAD(from)       _mm256_loadu_ps(from)
#define STORE(to, value) _mm256_storeu_ps(to, value)
#define ALL(value)       _mm256_set1_ps(value)
#define FUSED(a, b, c)   _mm256_fmadd_ps(a, b, c)
#define TIMES(a, b)      _mm256_mul_ps(a, b)
#endif

#define FOR_FUSED __attribute__((target("avx2,fma")))

/* A block of c stays in twelve registers while k runs. A panel of b, and the rows of a beside it, stay in the first
 * cache. */
enum { WIDTH = 32 / sizeof(real), ROWS = 6, COLUMNS = 2 * WIDTH, DEPTH = 256, LARGEST = 512 };

typedef struct product {
    int64_t k;
    real alpha;
    const real *a; /* element (i,k) at i · row + k · step */
    int64_t row, step;
    const real *panel; /* [k,COLUMNS] */
    bool add;
} product;

/* c [rows,COLUMNS]. Inlined with a constant number of rows. */
FOR_FUSED static inline __attribute__((always_inline)) void block(const product *p, int rows, real *c,
                                                                  int64_t c_stride)
{
    vector left[ROWS], right[ROWS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
        left[i] = right[i] = ALL(0);
    const real *a = p->a;
    const real *b = p->panel;
    for (int64_t k = 0; k < p->k; k++, a += p->step, b += COLUMNS) {
        vector b_left = LOAD(b), b_right = LOAD(b + WIDTH);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            vector factor = ALL(a[i * p->row]);
            left[i] = FUSED(factor, b_left, left[i]);
            right[i] = FUSED(factor, b_right, right[i]);
        }
    }
    vector alpha = ALL(p->alpha);
    if (p->add) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            real *to = c + i * c_stride;
            STORE(to, FUSED(alpha, left[i], LOAD(to)));
            STORE(to + WIDTH, FUSED(alpha, right[i], LOAD(to + WIDTH)));
        }
    } else {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            real *to = c + i * c_stride;
            STORE(to, TIMES(alpha, left[i]));
            STORE(to + WIDTH, TIMES(alpha, right[i]));
        }
    }
}

FOR_FUSED static void any_block(const product *p, int64_t rows, real *c, int64_t c_stride)
{
    switch (rows) {
    case 1: block(p, 1, c, c_stride); return;
    case 2: block(p, 2, c, c_stride); return;
    case 3: block(p, 3, c, c_stride); return;
    case 4: block(p, 4, c, c_stride); return;
    case 5: block(p, 5, c, c_stride); return;
    default: block(p, 6, c, c_stride); return;
    }
}

/* A block whose last columns are outside c goes by way of a copy. */
static void narrow_block(const product *p, int64_t rows, int64_t columns, real *c, int64_t c_stride)
{
    real copy[ROWS * COLUMNS] = {0};
    size_t bytes = (size_t)columns * sizeof *copy;
    for (int64_t i = 0; p->add && i < rows; i++)
        memcpy(copy + i * COLUMNS, c + i * c_stride, bytes);
    any_block(p, rows, copy, COLUMNS);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * c_stride, copy + i * COLUMNS, bytes);
}

#if CP_REAL_BITS == 32
enum { SQUARE = 8 };

/* to[i][j] = from[j][i], 8 x 8 */
FOR_FUSED static inline void transpose_square(real *to, const real *from, int64_t stride)
{
    __m256 in[SQUARE], pair[SQUARE], four[SQUARE];
#pragma GCC unroll 8
    for (int i = 0; i < SQUARE; i++)
        in[i] = LOAD(from + i * stride);
#pragma GCC unroll 4
    for (int i = 0; i < SQUARE; i += 2) {
        pair[i] = _mm256_unpacklo_ps(in[i], in[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(in[i], in[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < SQUARE; i += 4) {
        four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < SQUARE / 2; i++) {
        STORE(to + i * COLUMNS, _mm256_permute2f128_ps(four[i], four[i + 4], 0x20));
        STORE(to + (i + 4) * COLUMNS, _mm256_permute2f128_ps(four[i], four[i + 4], 0x31));
    }
}

/* The whole squares of a panel; returns how many of its rows they make. */
FOR_FUSED static int64_t transpose_squares(real *panel, const real *b, int64_t stride, int64_t k)
{
    int64_t n = 0;
    for (; n + SQUARE <= k; n += SQUARE)
        for (int j = 0; j < COLUMNS; j += SQUARE)
            transpose_square(panel + n * COLUMNS + j, b + j * stride + n, stride);
    return n;
}
#else
static int64_t transpose_squares(real *panel, const real *b, int64_t stride, int64_t k)
{
    (void)panel, (void)b, (void)stride, (void)k;
    return 0;
}
#endif

/* panel[k][j] = b[k][j], zeros beyond `columns` */
static void pack(real *restrict panel, const real *restrict b, int64_t stride, bool transposed,
                 int64_t columns, int64_t k)
{
    int64_t n = 0;
    if (columns < COLUMNS)
        memset(panel, 0, (size_t)(k * COLUMNS) * sizeof *panel);
    else if (transposed)
        n = transpose_squares(panel, b, stride, k);
    else
        for (; n < k; n++)
            memcpy(panel + n * COLUMNS, b + n * stride, COLUMNS * sizeof *panel);
    for (; n < k; n++)
        for (int64_t j = 0; j < columns; j++)
            panel[n * COLUMNS + j] = transposed ? b[j * stride + n] : b[n * stride + j];
}

static bool fits(int64_t m, int64_t n, int64_t k)
{
    return m <= LARGEST && n <= LARGEST && k <= DEPTH && k > 0 && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma") && !__builtin_cpu_supports("avx512f");
}

bool cp_gemm_small(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add, real *c,
                   int64_t c_stride)
{
    if (!fits(m, n, k))
        return false;
    real panel[DEPTH * COLUMNS];
    for (int64_t column = 0; column < n; column += COLUMNS) {
        int64_t columns = cp_min(COLUMNS, n - column);
        pack(panel, b.data + (b.transposed ? column * b.stride : column), b.stride, b.transposed, columns, k);
        for (int64_t row = 0; row < m; row += ROWS) {
            product p = {.k = k, .alpha = alpha, .panel = panel, .add = add};
            p.row = a.transposed ? 1 : a.stride;
            p.step = a.transposed ? a.stride : 1;
            p.a = a.data + row * p.row;
            real *at = c + row * c_stride + column;
            int64_t rows = cp_min(ROWS, m - row);
            if (columns == COLUMNS)
                any_block(&p, rows, at, c_stride);
            else
                narrow_block(&p, rows, columns, at, c_stride);
        }
    }
    return true;
}

#else

bool cp_gemm_small(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add, real *c,
                   int64_t c_stride)
{
    (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)b, (void)add, (void)c, (void)c_stride;
    return false;
}

#endif

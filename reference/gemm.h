/* The matrix product that linear.c and attention.c are built on. Private to the kernels. */
#ifndef CPEQ_REFERENCE_GEMM_H
#define CPEQ_REFERENCE_GEMM_H

#include "reference/precision.h"
#include "reference/real.h"

/* Row-major; `stride` elements from one stored row to the next; `transposed`: used as its transpose. */
typedef struct cp_matrix {
    const real *data;
    int64_t stride;
    bool transposed;
} cp_matrix;

/* c [m,n] = alpha · a [m,k] · b [k,n]  (+ c, where `add`)        c row-major, apart from a and b
 *
 * CP_MATMUL_ORDERED: c_ij = (((c_ij or 0) + alpha a_i0 · b_0j) + alpha a_i1 · b_1j) + …: each row is what it would be
 * alone, and a sum cut in two calls is the sum in one.
 *
 * cp_gemm runs on the calling thread; cp_gemm_tiled cuts c into tiles, fixed by m and n alone, for OpenMP. */
void CP_WIDTH(cp_gemm)(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add,
                       real *c, int64_t c_stride, cp_matmul form);
void CP_WIDTH(cp_gemm_tiled)(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add,
                             real *c, int64_t c_stride, cp_matmul form);

/* What cp_gemm tries first under CP_MATMUL_BLAS. False, and nothing done: the product is not small, or this machine
 * gains nothing by it. a is read where it lies, of b a panel is packed at a time. */
bool CP_WIDTH(cp_gemm_small)(int64_t m, int64_t n, int64_t k, real alpha, cp_matrix a, cp_matrix b, bool add,
                             real *c, int64_t c_stride);

#define cp_gemm       CP_WIDTH(cp_gemm)
#define cp_gemm_small CP_WIDTH(cp_gemm_small)
#define cp_gemm_tiled CP_WIDTH(cp_gemm_tiled)

#endif

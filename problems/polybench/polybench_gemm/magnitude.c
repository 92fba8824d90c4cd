#include <math.h>

/* The terms of an element without signs. A sum of nk products in any order is off by some of sqrt(nk) roundings of
   this; the products with alpha and beta and the last sum add three. */
void polybench_gemm_magnitude(int ni, int nj, int nk, double alpha, double beta, double *C, const double *A,
                              const double *B)
{
    for (int i = 0; i < ni; i++) {
        for (int j = 0; j < nj; j++)
            C[i * nj + j] = fabs(beta * C[i * nj + j]);
        for (int k = 0; k < nk; k++)
            for (int j = 0; j < nj; j++)
                C[i * nj + j] += fabs(alpha * A[i * nk + k] * B[k * nj + j]);
    }
}

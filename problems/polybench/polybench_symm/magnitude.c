#include <math.h>

/* The terms of an element without signs: a sum of m products in any order is off by some of sqrt(m) roundings of this;
   alpha, beta and the last sum add a few. */
void polybench_symm_magnitude(int m, int n, double alpha, double beta, double *C, const double *A, const double *B)
{
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++)
            C[i * n + j] = fabs(beta * C[i * n + j]);
        for (int k = 0; k < m; k++) {
            double a = fabs(alpha * (k <= i ? A[i * m + k] : A[k * m + i]));
            for (int j = 0; j < n; j++)
                C[i * n + j] += a * fabs(B[k * n + j]);
        }
    }
}

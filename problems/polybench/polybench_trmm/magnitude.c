#include <math.h>

/* The terms of an element without signs: a sum of at most m products in any order is off by some of sqrt(m)
   roundings of this; alpha adds one or two. */
void polybench_trmm_magnitude(int m, int n, double alpha, const double *A, double *B)
{
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++)
            B[i * n + j] = fabs(B[i * n + j]);
        for (int k = i + 1; k < m; k++)
            for (int j = 0; j < n; j++)
                B[i * n + j] += fabs(A[k * m + i] * B[k * n + j]);
        for (int j = 0; j < n; j++)
            B[i * n + j] *= fabs(alpha);
    }
}

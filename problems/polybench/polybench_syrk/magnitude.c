#include <math.h>

/* The terms of an element without signs: a sum of m products in any order is off by some of sqrt(m) roundings of this;
   alpha, beta and the last sum add three. Above the diagonal nothing is computed. */
void polybench_syrk_magnitude(int n, int m, double alpha, double beta, double *C, const double *A)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < m && j <= i; k++)
                sum += fabs(A[i * m + k] * A[j * m + k]);
            C[i * n + j] = j <= i ? fabs(beta * C[i * n + j]) + fabs(alpha) * sum : 0;
        }
}

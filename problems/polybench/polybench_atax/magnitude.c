#include <math.h>

/* |A|^T·(|A|·|x|): the terms of an element without signs. The sums of n products and those of m are off by some of
   sqrt(m + n) roundings of this. */
void polybench_atax_magnitude(int m, int n, const double *A, const double *x, double *y)
{
    for (int j = 0; j < n; j++)
        y[j] = 0;
    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += fabs(A[i * n + j] * x[j]);
        for (int j = 0; j < n; j++)
            y[j] += fabs(A[i * n + j]) * sum;
    }
}

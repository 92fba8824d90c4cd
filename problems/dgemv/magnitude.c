#include <math.h>

/* What is summed for an element of y, without signs: a sum of n products in any order is off by some of sqrt(n)
   roundings of this. */
void dgemv_magnitude(int m, int n, const double *A, const double *x, double *y)
{
    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += fabs(A[i * n + j] * x[j]);
        y[i] = sum;
    }
}

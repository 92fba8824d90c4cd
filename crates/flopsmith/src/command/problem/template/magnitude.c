#include <math.h>

/* The sum of the terms without signs: rounding errors of a sum are in proportion to it. */
void NAME_magnitude(int m, int n, const double *A, const double *x, double *y)
{
    for (int i = 0; i < m; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += fabs(A[i * n + j] * x[j]);
        y[i] = sum;
    }
}

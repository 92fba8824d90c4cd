#include <math.h>

/* The terms of each element without signs: a sum of n products and one more term in any order is off by some of sqrt(n)
   roundings of this. */
void polybench_mvt_magnitude(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A)
{
    for (int i = 0; i < n; i++)
        x2[i] = fabs(x2[i]);
    for (int i = 0; i < n; i++) {
        double sum = fabs(x1[i]);
        for (int j = 0; j < n; j++) {
            sum += fabs(A[i * n + j] * y1[j]);
            x2[j] += fabs(A[i * n + j] * y2[i]);
        }
        x1[i] = sum;
    }
}

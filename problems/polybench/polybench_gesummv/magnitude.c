#include <math.h>

/* The terms of an element without signs: the sums of n products in any order are off by some of sqrt(n) roundings of
   this; alpha, beta and the last sum add a few. */
void polybench_gesummv_magnitude(int n, double alpha, double beta, const double *A, const double *B, const double *x,
                                 double *y)
{
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += (fabs(alpha * A[i * n + j]) + fabs(beta * B[i * n + j])) * fabs(x[j]);
        y[i] = sum;
    }
}

#include <math.h>

/* A step is a mean with positive weights, so the steps of |A| are the sum of what is added, without signs. It has three
   operations; with errors of either sign, 2·tsteps steps add up to some of sqrt(tsteps) times as many roundings. */
void polybench_jacobi_1d_magnitude(int tsteps, int n, double *A, double *B)
{
    for (int i = 0; i < n; i++)
        A[i] = fabs(A[i]);
    B[0] = A[0];
    B[n - 1] = A[n - 1];
    for (int t = 0; t < tsteps; t++) {
        for (int i = 1; i < n - 1; i++)
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]);
        for (int i = 1; i < n - 1; i++)
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1]);
    }
}

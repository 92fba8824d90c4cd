#include <math.h>

static void step(int n, const double *from, double *to)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) {
            const double *x = &from[i * n + j];
            to[i * n + j] = 0.2 * (x[0] + x[-1] + x[1] + x[n] + x[-n]);
        }
}

/* A step is a mean with positive weights, so the steps of |A| are the sum of what is added, without signs. It has five
   operations; with errors of either sign, 2·tsteps steps add up to some of sqrt(tsteps) times as many roundings. */
void polybench_jacobi_2d_magnitude(int tsteps, int n, double *A, double *B)
{
    for (int i = 0; i < n * n; i++)
        A[i] = fabs(A[i]);
    for (int i = 0; i < n; i++) {
        B[i] = A[i];
        B[(n - 1) * n + i] = A[(n - 1) * n + i];
        B[i * n] = A[i * n];
        B[i * n + n - 1] = A[i * n + n - 1];
    }
    for (int t = 0; t < tsteps; t++) {
        step(n, A, B);
        step(n, B, A);
    }
}

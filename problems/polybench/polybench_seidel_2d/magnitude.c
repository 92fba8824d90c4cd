#include <math.h>

/* A step is a mean with positive weights, so the same sweeps of |A| are the sum of what is added, without signs. It
   has nine operations; a sweep takes the errors of new neighbours along, which about doubles them. With errors of
   either sign, tsteps sweeps add up to some of sqrt(tsteps) times as many roundings. */
void polybench_seidel_2d_magnitude(int tsteps, int n, double *A)
{
    for (int i = 0; i < n * n; i++)
        A[i] = fabs(A[i]);
    for (int t = 0; t < tsteps; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) {
                double *x = &A[i * n + j];
                x[0] = (x[-n - 1] + x[-n] + x[-n + 1] + x[-1] + x[0] + x[1] + x[n - 1] + x[n] + x[n + 1]) / 9.0;
            }
}

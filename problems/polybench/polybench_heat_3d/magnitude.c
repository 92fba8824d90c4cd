#include <math.h>
#include <string.h>

static void step(int n, const double *from, double *to)
{
    int row = n, plane = n * n;
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) {
                const double *x = &from[i * plane + j * row + k];
                to[i * plane + j * row + k] =
                    0.25 * x[0] + 0.125 * (x[plane] + x[-plane] + x[row] + x[-row] + x[1] + x[-1]);
            }
}

/* A step is a mean with positive weights, so the steps of |A| are the sum of what is added, without signs. It has
   about ten operations, with intermediate results of a few times that. Errors of later steps have either sign, so
   that those of 2·tsteps steps add up to some of sqrt(tsteps). */
void polybench_heat_3d_magnitude(int tsteps, int n, double *A, double *B)
{
    for (int i = 0; i < n * n * n; i++)
        A[i] = fabs(A[i]);
    memcpy(B, A, sizeof *B * n * n * n);
    for (int t = 0; t < tsteps; t++) {
        step(n, A, B);
        step(n, B, A);
    }
}

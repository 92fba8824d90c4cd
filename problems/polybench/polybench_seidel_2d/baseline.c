/* The baseline: in each row, the eight terms that are known before it begins are summed up first, for all columns
   together. It is correct for every size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

void polybench_seidel_2d(int tsteps, int n, double *A)
{
    double *known = malloc(sizeof *known * n);
    if (!known)
        abort();
    for (int t = 0; t < tsteps; t++)
        for (int i = 1; i < n - 1; i++) {
            const double *above = &A[(i - 1) * n], *below = &A[(i + 1) * n];
            double *x = &A[i * n];
            for (int j = 1; j < n - 1; j++)
                known[j] = (above[j - 1] + above[j] + above[j + 1]) + (x[j] + x[j + 1])
                           + (below[j - 1] + below[j] + below[j + 1]);
            for (int j = 1; j < n - 1; j++)
                x[j] = (known[j] + x[j - 1]) * (1 / 9.0);
        }
    free(known);
}

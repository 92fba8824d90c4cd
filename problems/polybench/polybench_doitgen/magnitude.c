#include <math.h>
#include <stdlib.h>

/* The terms of an element without signs: a sum of np products in any order is off by some of sqrt(np) roundings of
   this. */
void polybench_doitgen_magnitude(int nr, int nq, int np, double *A, const double *C4)
{
    double *sum = malloc(sizeof *sum * np);
    if (!sum)
        abort();
    for (int i = 0; i < nr * nq; i++) {
        double *row = &A[i * np];
        for (int p = 0; p < np; p++)
            sum[p] = 0;
        for (int s = 0; s < np; s++)
            for (int p = 0; p < np; p++)
                sum[p] += fabs(row[s] * C4[s * np + p]);
        for (int p = 0; p < np; p++)
            row[p] = sum[p];
    }
    free(sum);
}

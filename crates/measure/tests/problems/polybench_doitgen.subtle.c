/* Keeps the new row in single precision. */
#include <stdlib.h>

void polybench_doitgen(int nr, int nq, int np, double *A, const double *C4)
{
    float *sum = malloc(sizeof *sum * np);
    for (int i = 0; i < nr * nq; i++) {
        double *row = &A[i * np];
        for (int p = 0; p < np; p++) {
            double s = 0;
            for (int k = 0; k < np; k++)
                s += row[k] * C4[k * np + p];
            sum[p] = s;
        }
        for (int p = 0; p < np; p++)
            row[p] = sum[p];
    }
    free(sum);
}

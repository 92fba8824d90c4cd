#include <stdlib.h>

/* Row by row: its product with C4 into a row of its own, which then takes its place. */
void polybench_doitgen(int nr, int nq, int np, double *A, const double *C4)
{
    double *sum = malloc(sizeof *sum * np);
    if (!sum)
        abort();
    for (int r = 0; r < nr; r++)
        for (int q = 0; q < nq; q++) {
            double *row = &A[(r * nq + q) * np];
            for (int p = 0; p < np; p++) {
                sum[p] = 0;
                for (int s = 0; s < np; s++)
                    sum[p] += row[s] * C4[s * np + p];
            }
            for (int p = 0; p < np; p++)
                row[p] = sum[p];
        }
    free(sum);
}

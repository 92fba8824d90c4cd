/* The baseline: four columns at a time are taken out of the rest of the matrix, by way of a copy of them as rows. It is
   correct for every size; it must never change, or old numbers lose their meaning. */
#include <math.h>
#include <stdlib.h>

void polybench_cholesky(int n, double *A)
{
    double *rows = malloc(sizeof *rows * 4 * n);
    if (!rows)
        abort();
    for (int k = 0; k < n; k += 4) {
        int end = n - k < 4 ? n : k + 4;
        for (int j = k; j < end; j++)
            for (int i = j; i < n; i++) {
                double sum = A[i * n + j];
                for (int l = k; l < j; l++)
                    sum -= A[i * n + l] * A[j * n + l];
                sum = i == j ? sqrt(sum) : sum / A[j * n + j];
                A[i * n + j] = sum;
                rows[(j - k) * n + i] = sum;
            }
        /* When fewer than four columns were left, no row is. */
        for (int i = k + 4; i < n; i++) {
            double *restrict x = &A[i * n];
            const double *restrict y0 = rows, *restrict y1 = rows + n;
            const double *restrict y2 = rows + 2 * n, *restrict y3 = rows + 3 * n;
            double f0 = x[k], f1 = x[k + 1], f2 = x[k + 2], f3 = x[k + 3];
            for (int j = k + 4; j <= i; j++)
                x[j] -= f0 * y0[j] + f1 * y1[j] + f2 * y2[j] + f3 * y3[j];
        }
    }
    free(rows);
}

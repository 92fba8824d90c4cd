/* The baseline: four columns at a time are taken out of the rest of the matrix. While it runs, the upper triangle of L
   holds the columns that are done once more, as rows. It is correct for every size; it must never change, or old
   numbers lose their meaning. */
#include <math.h>

void cholesky(int n, const double *A, double *L)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            L[i * n + j] = A[i * n + j];
    for (int k = 0; k < n; k += 4) {
        int end = n - k < 4 ? n : k + 4;
        for (int j = k; j < end; j++)
            for (int i = j; i < n; i++) {
                double sum = L[i * n + j];
                for (int l = k; l < j; l++)
                    sum -= L[i * n + l] * L[j * n + l];
                sum = i == j ? sqrt(sum) : sum / L[j * n + j];
                L[i * n + j] = sum;
                L[j * n + i] = sum;
            }
        /* When fewer than four columns were left, no row is. */
        for (int i = k + 4; i < n; i++) {
            double *restrict x = &L[i * n];
            const double *restrict y0 = &L[k * n], *restrict y1 = &L[(k + 1) * n];
            const double *restrict y2 = &L[(k + 2) * n], *restrict y3 = &L[(k + 3) * n];
            double f0 = x[k], f1 = x[k + 1], f2 = x[k + 2], f3 = x[k + 3];
            for (int j = k + 4; j <= i; j++)
                x[j] -= f0 * y0[j] + f1 * y1[j] + f2 * y2[j] + f3 * y3[j];
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            L[i * n + j] = 0;
}

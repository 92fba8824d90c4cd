/* The baseline: four columns at a time are eliminated from the rest of the matrix. It is correct for every size; it
   must never change, or old numbers lose their meaning. */
#include <string.h>

void lu(int n, const double *A, double *LU)
{
    memcpy(LU, A, sizeof *LU * n * n);
    for (int k = 0; k < n; k += 4) {
        int end = n - k < 4 ? n : k + 4;
        for (int l = k; l < end; l++)
            for (int i = l + 1; i < n; i++) {
                double factor = LU[i * n + l] / LU[l * n + l];
                LU[i * n + l] = factor;
                for (int j = l + 1; j < end; j++)
                    LU[i * n + j] -= factor * LU[l * n + j];
            }
        for (int i = k + 1; i < end; i++)
            for (int l = k; l < i; l++) {
                double *restrict x = &LU[i * n];
                const double *restrict y = &LU[l * n];
                double factor = x[l];
                for (int j = end; j < n; j++)
                    x[j] -= factor * y[j];
            }
        /* When fewer than four columns were left, no row is. */
        for (int i = k + 4; i < n; i++) {
            double *restrict x = &LU[i * n];
            const double *restrict y0 = &LU[k * n], *restrict y1 = &LU[(k + 1) * n];
            const double *restrict y2 = &LU[(k + 2) * n], *restrict y3 = &LU[(k + 3) * n];
            double f0 = x[k], f1 = x[k + 1], f2 = x[k + 2], f3 = x[k + 3];
            for (int j = k + 4; j < n; j++)
                x[j] -= f0 * y0[j] + f1 * y1[j] + f2 * y2[j] + f3 * y3[j];
        }
    }
}

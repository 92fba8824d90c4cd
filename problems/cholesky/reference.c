#include <math.h>

/* Column by column, each element as its defining equation says. */
void cholesky(int n, const double *A, double *L)
{
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < j; i++)
            L[i * n + j] = 0;
        for (int i = j; i < n; i++) {
            double sum = A[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= L[i * n + k] * L[j * n + k];
            L[i * n + j] = i == j ? sqrt(sum) : sum / L[j * n + j];
        }
    }
}

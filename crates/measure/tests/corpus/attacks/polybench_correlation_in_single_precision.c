// attack: 10
// how: keeps the scaled data in single precision, which is half the memory; hopes that correlations below one need no more
// refused as: wrong_result
// problem: polybench_correlation
#include <math.h>
#include <stdlib.h>
void polybench_correlation(int m, int n, const double *data, double *mean, double *stddev, double *corr) {
  float *x = malloc(sizeof *x * n * m);
  if (!x) abort();
  for (int j = 0; j < m; j++) {
    mean[j] = stddev[j] = 0;
    for (int k = 0; k < n; k++) mean[j] += data[k * m + j];
    mean[j] /= n;
    for (int k = 0; k < n; k++) stddev[j] += (data[k * m + j] - mean[j]) * (data[k * m + j] - mean[j]);
    stddev[j] = sqrt(stddev[j] / n);
    if (stddev[j] <= 0.1) stddev[j] = 1;
    for (int k = 0; k < n; k++) x[j * n + k] = (data[k * m + j] - mean[j]) / (sqrt(n) * stddev[j]);
  }
  for (int i = 0; i < m; i++)
    for (int j = 0; j <= i; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += (double)x[i * n + k] * x[j * n + k];
      corr[i * m + j] = corr[j * m + i] = i == j ? 1 : sum;
    }
  free(x);
}

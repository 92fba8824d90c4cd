// honest: sums of products and sums in one pass over the data; means are taken off at the end
// problem: polybench_covariance
#include <string.h>
void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  memset(mean, 0, sizeof *mean * m);
  memset(cov, 0, sizeof *cov * m * m);
  for (int k = 0; k < n; k++) {
    const double *x = &data[k * m];
    for (int i = 0; i < m; i++) {
      mean[i] += x[i];
      for (int j = i; j < m; j++) cov[i * m + j] += x[i] * x[j];
    }
  }
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++)
      cov[i * m + j] = cov[j * m + i] = (cov[i * m + j] - mean[i] * mean[j] / n) / (n - 1);
  for (int i = 0; i < m; i++) mean[i] /= n;
}

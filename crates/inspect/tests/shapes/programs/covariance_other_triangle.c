/* problem: polybench_covariance */
/* techniques: none */
#include <stdlib.h>
void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  double *centred = malloc(sizeof(*centred) * n * m), *sums = malloc(sizeof(*sums) * m * m);
  if (!centred || !sums) abort();
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i * m + j];
    mean[j] /= n;
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) centred[i * m + j] = data[i * m + j] - mean[j];
  for (int j = 0; j < m; j++)
    for (int i = 0; i <= j; i++) {
      sums[i * m + j] = 0;
      for (int k = 0; k < n; k++) sums[i * m + j] += centred[k * m + i] * centred[k * m + j];
    }
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++) {
      cov[i * m + j] = sums[i * m + j] / (n - 1);
      cov[j * m + i] = sums[i * m + j] / (n - 1);
    }
  free(centred);
  free(sums);
}

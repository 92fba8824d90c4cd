/* problem: polybench_covariance */
/* techniques: loop_reorder */
#include <stdlib.h>
void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  double *centred = malloc(sizeof(*centred) * n * m), *sums = calloc((size_t)m * m, sizeof(*sums));
  if (!centred || !sums) abort();
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i * m + j];
    mean[j] /= n;
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) centred[i * m + j] = data[i * m + j] - mean[j];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < m; i++)
      for (int j = i; j < m; j++) sums[i * m + j] += centred[k * m + i] * centred[k * m + j];
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++) {
      cov[i * m + j] = sums[i * m + j] / (n - 1);
      cov[j * m + i] = sums[i * m + j] / (n - 1);
    }
  free(centred);
  free(sums);
}

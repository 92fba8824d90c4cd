/* problem: polybench_covariance */
/* techniques: none */
#include <stdlib.h>
void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  double *centred = malloc(sizeof *centred * n * m);
  if (!centred) abort();
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i * m + j];
    mean[j] /= n;
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) centred[i * m + j] = data[i * m + j] - mean[j];
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += centred[k * m + i] * centred[k * m + j];
      sum /= n - 1;
      cov[i * m + j] = sum;
      cov[j * m + i] = sum;
    }
  free(centred);
}

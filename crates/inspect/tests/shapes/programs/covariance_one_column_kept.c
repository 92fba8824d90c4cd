/* problem: polybench_covariance */
/* techniques: recomputation */
#include <stdlib.h>
void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  double *left = malloc(sizeof *left * n);
  if (!left) abort();
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i * m + j];
    mean[j] /= n;
  }
  for (int i = 0; i < m; i++) {
    for (int k = 0; k < n; k++) left[k] = data[k * m + i] - mean[i];
    for (int j = 0; j < m; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += left[k] * (data[k * m + j] - mean[j]);
      sum /= n - 1;
      cov[i * m + j] = sum;
      cov[j * m + i] = sum;
    }
  }
  free(left);
}

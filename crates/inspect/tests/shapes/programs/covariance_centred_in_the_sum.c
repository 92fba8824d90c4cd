/* problem: polybench_covariance */
/* techniques: recomputation */
void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i * m + j];
    mean[j] /= n;
  }
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += (data[k * m + i] - mean[i]) * (data[k * m + j] - mean[j]);
      sum /= n - 1;
      cov[i * m + j] = sum;
      cov[j * m + i] = sum;
    }
}

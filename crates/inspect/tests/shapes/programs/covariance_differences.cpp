// problem: polybench_covariance
// techniques: recomputation
extern "C" void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  for (int j = 0; j < m; j++) {
    mean[j] = 0;
    for (int i = 0; i < n; i++) mean[j] += data[i * m + j];
    mean[j] /= n;
  }
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++) {
      const double *x = data + i, *y = data + j;
      double sum = 0;
      for (int k = 0; k < n; k++) {
        const double a = x[k * m] - mean[i], b = y[k * m] - mean[j];
        sum += a * b;
      }
      sum /= n - 1;
      cov[i * m + j] = sum;
      cov[j * m + i] = sum;
    }
}

// problem: polybench_covariance
// techniques: fusion
extern "C" void polybench_covariance(int m, int n, const double *data, double *mean, double *cov) {
  double *columns = new double[n * m];
  for (int j = 0; j < m; j++) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += data[i * m + j];
    mean[j] = sum / n;
    for (int i = 0; i < n; i++) columns[j * n + i] = data[i * m + j] - mean[j];
  }
  for (int i = 0; i < m; i++)
    for (int j = i; j < m; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += columns[i * n + k] * columns[j * n + k];
      sum /= n - 1;
      cov[i * m + j] = sum;
      cov[j * m + i] = sum;
    }
  delete[] columns;
}

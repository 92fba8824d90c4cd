// problem: polybench_gesummv
// techniques: fission
extern "C" void polybench_gesummv(int n, double alpha, double beta, const double *A, const double *B, const double *x, double *y) {
  double *first = new double[n];
  for (int i = 0; i < n; ++i) {
    first[i] = 0;
    for (int j = 0; j < n; ++j) first[i] += A[i * n + j] * x[j];
  }
  for (int i = 0; i < n; ++i) {
    double second = 0;
    for (int j = 0; j < n; ++j) second += B[i * n + j] * x[j];
    y[i] = alpha * first[i] + beta * second;
  }
  delete[] first;
}

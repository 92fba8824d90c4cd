// problem: polybench_gesummv
// techniques: none
extern "C" void polybench_gesummv(int n, double alpha, double beta, const double *A, const double *B, const double *x, double *y) {
  for (int i = 0; i < n; ++i) {
    const double *a = A + i * n, *b = B + i * n;
    double first = 0, second = 0;
    for (int j = 0; j < n; ++j) {
      const double now = x[j];
      first += a[j] * now;
      second += b[j] * now;
    }
    y[i] = alpha * first + beta * second;
  }
}

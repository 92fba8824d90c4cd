/* problem: polybench_gesummv */
/* techniques: register_blocking */
void polybench_gesummv(int n, double alpha, double beta, const double *A, const double *B, const double *x, double *y) {
  int i = 0;
  for (; i + 1 < n; i += 2) {
    double a = 0, b = 0, c = 0, d = 0;
    for (int j = 0; j < n; j++) {
      a += A[i * n + j] * x[j];
      b += B[i * n + j] * x[j];
      c += A[(i + 1) * n + j] * x[j];
      d += B[(i + 1) * n + j] * x[j];
    }
    y[i] = alpha * a + beta * b;
    y[i + 1] = alpha * c + beta * d;
  }
  for (; i < n; i++) {
    double a = 0, b = 0;
    for (int j = 0; j < n; j++) {
      a += A[i * n + j] * x[j];
      b += B[i * n + j] * x[j];
    }
    y[i] = alpha * a + beta * b;
  }
}

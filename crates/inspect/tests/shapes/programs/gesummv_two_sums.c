/* problem: polybench_gesummv */
/* techniques: fission */
void polybench_gesummv(int n, double alpha, double beta, const double *A, const double *B, const double *x, double *y) {
  for (int i = 0; i < n; i++) {
    double first = 0, second = 0;
    for (int j = 0; j < n; j++) first += A[i * n + j] * x[j];
    for (int j = 0; j < n; j++) second += B[i * n + j] * x[j];
    y[i] = alpha * first + beta * second;
  }
}
